// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof doctor` reads of a machine: files of the kernel and of the system's set-up, what commands
// say. The input is text, of parts that begin with a line
//
//   @KIND NAME     file, command (with its status before the name), variable, library, program, plugin, elf;
//                  the lines behind it are its content
//   @papi          what the child that asks PAPI says
//   @answer NODE   JSON of a node's checks, which --site compares
//   @said          what srun prints of the answers of several nodes
//
// and the reports have to be text that a terminal can be given.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/papi_facts.hpp"
#include "cli/doctor/report.hpp"
#include "cli/doctor/site.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/doctor/fake_system.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

using namespace clusterprof::cli::doctor;
using clusterprof::fuzz::Input;

void require_no_escapes(const std::string& text) {
  for (const char c : text)
    if ((static_cast<unsigned char>(c) < ' ' && c != '\n') || c == 127) std::abort();
}

void add(FakeSystem& system, std::vector<NodeAnswer>& answers, std::string_view head,
         const std::string& content) {
  const std::string kind(head.substr(0, head.find(' ')));
  const std::string name(kind.size() < head.size() ? head.substr(kind.size() + 1) : std::string_view());
  if (kind == "file") {
    system.files[name] = content;
  } else if (kind == "command") {
    const std::size_t blank = std::min(name.find(' '), name.size() - (name.empty() ? 0 : 1));
    const int status = std::atoi(name.c_str());
    const std::string line = name.empty() ? "" : name.substr(blank + 1);
    if (status == 124)
      system.hangs(line);
    else
      system.says(line, content, status, content);
  } else if (kind == "variable") {
    system.variables[name] = content.substr(0, content.find('\n'));
  } else if (kind == "library") {
    system.libraries[name] = content.substr(0, content.find('\n'));
    system.needed[content].push_back(name);
  } else if (kind == "program") {
    system.add(name);
  } else if (kind == "plugin") {
    system.numbers[name] = static_cast<std::uint32_t>(std::strtoul(content.c_str(), nullptr, 0));
  } else if (kind == "elf") {
    system.elfs[name].build_id = content;
  } else if (kind == "papi") {
    system.papi_facts = papi_facts_of(content);
  } else if (kind == "answer") {
    answers.push_back(parse_answer(name, content));
  } else if (kind == "said") {
    for (const auto& [node, json] : answers_in(content)) answers.push_back(parse_answer(node, json));
  } else if (kind == "kernel") {
    system.release = name;
  } else if (kind == "user") {
    system.uid = static_cast<uid_t>(std::strtoul(name.c_str(), nullptr, 10));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, size);
  FakeSystem system;
  std::vector<NodeAnswer> answers;
  std::string head, content;
  while (!input.empty()) {
    const std::string_view line = input.line();
    if (line.starts_with('@')) {
      if (!head.empty()) add(system, answers, head, content);
      head = line.substr(1);
      content.clear();
    } else {
      content += std::string(line) + "\n";
    }
  }
  if (!head.empty()) add(system, answers, head, content);
  if (!answers.empty()) {
    const SiteReport site = compare(answers, {}, "");
    require_no_escapes(text_of(site));
    if (json_of(site).empty()) std::abort();
  }

  const Request request;
  Checks checks;
  for (const CheckRow& row : all_checks()) row.check({system, kLayout, request}, checks);
  require_no_escapes(text_of(checks, {"n1", true, false, 80}));
  if (json_of(checks, "n1", true).empty()) std::abort();
  for (const Check& check : checks)
    if (note_of(check).size() > kMaxNoteBytes) std::abort();
  return 0;
}
