// SPDX-License-Identifier: BSD-3-Clause
// What clusterprof's programs understand, as data: read from the definitions that they parse their command
// lines with.
#pragma once

#include <string>
#include <vector>

namespace clusterprof::cli {

struct OptionText {
  std::vector<std::string> names;   // "-o", "--output"; of an argument its name, "RUN"
  std::string type;                 // of the value, "DIR"; empty: it takes none
  std::vector<std::string> values;  // all there are; empty: any
  std::string help, group, default_value;
  std::string variable;               // of the environment; empty: none
  std::vector<std::string> excludes;  // names of options
  bool required = false;
  bool many = false;       // takes all words up to the next option
  bool separable = false;  // or several in one word, with commas
  bool repeatable = false;

  // The first of several; of what has none the only name.
  [[nodiscard]] const std::string& long_name() const;
};

struct CommandText {
  std::string name;  // "report", "query rank"
  std::string summary;
  std::vector<OptionText> options, arguments;  // without hidden ones
  std::vector<CommandText> questions;          // verbs of a verb; those of `query`
};

struct ProgramText {
  CommandText record;
  std::vector<CommandText> verbs;
};

ProgramText read_definitions();

// Why this command line (without "clusterprof") is invalid; empty if it is valid.
std::string problem_of(const std::vector<std::string>& words);

}  // namespace clusterprof::cli
