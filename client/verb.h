// One verb of the command line: what it is called, what it takes, what it does. Verbs know neither the parser nor the wire: they declare what
// they take to a VerbBuilder and act through a Context. That keeps each in a small file of its own, and lets tests run them against a fake.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "client/api.h"
#include "client/connection.h"
#include "client/render.h"

namespace spillway::client {

// Everything outside of the verb itself.
struct Context {
  std::istream* in = nullptr;
  std::ostream* out = nullptr;  // results
  std::ostream* err = nullptr;  // everything said to a person
  bool out_is_terminal = false;
  bool in_is_terminal = false;
  bool colours = false;
  int terminal_columns = 100;
  Clock* clock = nullptr;
  std::function<void(int64_t)> sleep_ms;
  Environment environment;
  std::function<bool(const char*)> environment_has;  // set, be it to an empty text
  std::string home;                                  // SPILLWAY_HOME, absolute
  std::string server_flag;                           // --server, or empty
  std::function<absl::StatusOr<Api*>()> connect;     // the same Api each time
  // Another scheduler than the one the environment names: the one `up` has just started. An Api that fails at once where nothing answers.
  std::function<absl::StatusOr<std::unique_ptr<Api>>(const std::string& server, const std::string& token, int64_t call_timeout_ms)> dial;
  bool json = false;  // -o json
  bool yes = false;   // --yes: never ask

  // Prints the error as people should see it and gives the program's exit code.
  int Fail(const absl::Status& status) const;
  // One message as JSON to `out`.
  int PrintJson(const google::protobuf::Message& message) const;
  std::string Painted(absl::string_view text, Colour colour) const { return Paint(text, colour, colours); }
  // Asks on a terminal; without one, and without --yes, refuses with INVALID_ARGUMENT.
  absl::Status Confirm(const std::string& question) const;
};

class VerbBuilder {
 public:
  virtual ~VerbBuilder() = default;
  virtual void Flag(const std::string& names, bool* into, const std::string& help) = 0;
  virtual void Option(const std::string& names, std::string* into, const std::string& value, const std::string& help) = 0;
  virtual void Option(const std::string& names, int64_t* into, const std::string& value, const std::string& help) = 0;
  // For a number whose every value means something: nullopt where the option is absent.
  virtual void Option(const std::string& names, std::optional<int64_t>* into, const std::string& value, const std::string& help) = 0;
  virtual void Options(const std::string& names, std::vector<std::string>* into, const std::string& value, const std::string& help) = 0;  // may be repeated
  virtual void Positional(const std::string& name, std::string* into, const std::string& help, bool required) = 0;
  virtual void Positionals(const std::string& name, std::vector<std::string>* into, const std::string& help, bool required) = 0;
  virtual void Files(const std::string& name, std::vector<std::string>* into, const std::string& help) = 0;  // at least one; names of files may hold any bytes
  virtual void Rest(const std::string& name, std::vector<std::string>* into, const std::string& help) = 0;   // what follows `--`
  virtual void Output() = 0;                                                                                 // -o table|json, into Context::json
};

class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string Name() const = 0;
  virtual std::string Summary() const = 0;
  virtual std::vector<std::string> Aliases() const { return {}; }
  // What to say to somebody who gave a verb without Rest a command after `--`.
  virtual std::string WhereCommandsGo() const { return ""; }
  // Command lines with what they do: {"spillway submit train.yaml", "submit one job"}.
  virtual std::vector<std::pair<std::string, std::string>> Examples() const = 0;
  virtual void Define(VerbBuilder& builder) = 0;
  virtual int Run(Context& context) = 0;  // the program's exit code
};

// Returns from a verb's Run with the right exit code when `expr` is an error.
#define OR_FAIL(context, expr)                                                                                   \
  do {                                                                                                           \
    if (const absl::Status or_fail_status = (expr); !or_fail_status.ok()) return (context).Fail(or_fail_status); \
  } while (false)
#define ASSIGN_OR_FAIL(context, lhs, expr) ASSIGN_OR_FAIL_IMPL_(SPILLWAY_CONCAT_(or_fail_, __LINE__), context, lhs, expr)
#define ASSIGN_OR_FAIL_IMPL_(tmp, context, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return (context).Fail(tmp.status()); \
  lhs = std::move(tmp).value()

}  // namespace spillway::client
