// The tables of the scheduler's database and how an older file becomes a newer one. Migrations run in order, each in its own transaction; a file
// written by a newer version is refused. What stands here was shipped: add a migration, never change one.
// Rows and events that say more need one too, without a statement: a program that does not read it would act against it.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "scheduler/store/sqlite.h"

namespace spillway::store {

struct Migration {
  const char* what;
  const char* sql;
};

// In order: the first makes version 1 of an empty file.
const std::vector<Migration>& Migrations();
// Version of the newest migration.
int SchemaVersion();

// Brings `db` up to SchemaVersion(). FAILED_PRECONDITION when the file is newer.
absl::Status Migrate(Database* db);
// The same with another list (a later version's, in tests): begins with Migrations().
absl::Status MigrateWith(const std::vector<Migration>& migrations, Database* db);

// The version a file has; 0 for an empty one.
absl::StatusOr<int64_t> StoredSchemaVersion(Database* db);

}  // namespace spillway::store
