// From the words of a command line to a verb and its exit code. Owns parsing, help and the list of verbs; the only file that knows the parser.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/verb.h"

namespace spillway::client {

// `arguments` without the program's name.
int RunCli(const std::vector<std::string>& arguments, Context& context);

// Every verb, in the order of the help. client/commands/*.cc make them.
std::vector<std::unique_ptr<Verb>> AllVerbs();

// Words of the product that this version does not build: refused by name, never mistaken for a typing error.
const std::vector<std::string>& VerbsNotBuilt();

// What a verb takes, for completion.
struct VerbWords {
  std::vector<std::string> options;      // every name: {"--wait", "--set", "-o", ...}
  std::vector<std::string> positionals;  // as declared: {"JOB|node", "NODE"}
};
VerbWords WordsOf(Verb& verb);

}  // namespace spillway::client
