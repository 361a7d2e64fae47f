// The tables of the scheduler's database and how an older file becomes a newer one. Migrations run in order, each in its own transaction; a file
// written by a newer version is refused. What stands here was shipped: add a migration, never change one.
#pragma once

#include "absl/status/status.h"
#include "scheduler/store/sqlite.h"

namespace spillway::store {

// Version of the newest migration.
int SchemaVersion();

// Brings `db` up to SchemaVersion(). FAILED_PRECONDITION when the file is newer.
absl::Status Migrate(Database* db);

// The version a file has; 0 for an empty one.
absl::StatusOr<int64_t> StoredSchemaVersion(Database* db);

}  // namespace spillway::store
