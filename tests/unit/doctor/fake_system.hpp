// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <elf.h>
#include <errno.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {

inline const std::string kLibexec = "/opt/cp/libexec/clusterprof/";

// A simulated machine that tests can change. At first nothing is wrong with it.
class FakeSystem : public System {
 public:
  std::map<std::string, std::string> files;  // contents
  std::map<std::string, FileFacts> facts;    // wins over `files`
  std::map<std::string, std::string> links;  // where they lead
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> libraries;  // name: path
  std::map<std::string, std::vector<std::string>> needed;
  std::map<std::string, ElfFacts> elfs;
  std::map<std::string, std::uint32_t> numbers;    // plugin_version of a path
  std::map<std::string, CommandOutcome> commands;  // words with blanks between
  std::map<int, Limit> limits;
  std::map<std::string, Space> spaces;
  std::function<int(uid_t, const EventProbe&)> event = [](uid_t, const EventProbe&) { return 0; };
  CallProbes calls;
  ClockSync clock = {true, true, 500};
  PapiFacts papi_facts;
  DirectoryFacts directory;
  uid_t uid = 1000;
  std::string release = "6.16.1";
  unsigned cpus = 4;
  mutable std::vector<std::string> ran;

  // A program or library that everybody may use.
  void add(const std::string& path, mode_t mode = 0755) {
    FileFacts file;
    file.mode = mode;
    file.may_read = (mode & 04) != 0;
    file.may_execute = (mode & 01) != 0;
    facts[path] = file;
  }
  void says(const std::string& command, const std::string& out, int status = 0, const std::string& err = "") {
    commands[command] = {CommandOutcome::End::kExited, status, out, err};
  }
  void hangs(const std::string& command) { commands[command] = {CommandOutcome::End::kTimedOut, 0, "", ""}; }

  [[nodiscard]] std::optional<std::string> read(const std::string& path) const override {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::vector<std::string> list(const std::string& directory_path) const override {
    std::set<std::string> names;
    const auto look_at = [&](const std::string& path) {
      if (!path.starts_with(directory_path + "/")) return;
      const std::string rest = path.substr(directory_path.size() + 1);
      names.insert(rest.substr(0, rest.find('/')));
    };
    for (const auto& [path, text] : files) look_at(path);
    for (const auto& [path, file] : facts) look_at(path);
    for (const auto& [path, number] : numbers) look_at(path);
    return {names.begin(), names.end()};
  }
  [[nodiscard]] FileFacts look(const std::string& path) const override {
    if (const auto found = facts.find(path); found != facts.end()) return found->second;
    FileFacts file;
    if (files.contains(path)) {
      file.mode = 0644;
      file.may_read = true;
      return file;
    }
    file.error = ENOENT;
    return file;
  }
  [[nodiscard]] std::string resolve(const std::string& path) const override {
    const auto found = links.find(path);
    return found == links.end() ? path : found->second;
  }
  [[nodiscard]] std::optional<Space> space(const std::string& path) const override {
    const auto found = spaces.find(path);
    return found == spaces.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] Environment environment() const override {
    return [this](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
  }
  [[nodiscard]] uid_t user() const override { return uid; }
  [[nodiscard]] std::string host() const override { return "n1"; }
  [[nodiscard]] std::string kernel_release() const override { return release; }
  [[nodiscard]] std::string libc_version() const override { return "2.36"; }
  [[nodiscard]] unsigned processors() const override { return cpus; }
  [[nodiscard]] Limit limit(int resource) const override {
    const auto found = limits.find(resource);
    return found == limits.end() ? Limit{RLIM_INFINITY, RLIM_INFINITY} : found->second;
  }
  [[nodiscard]] std::optional<ElfDependencies> needed_by(const std::string& path) const override {
    const auto found = needed.find(path);
    if (found == needed.end()) return {};
    ElfDependencies object;
    object.needed = found->second;
    return object;
  }
  [[nodiscard]] std::optional<ElfFacts> elf(const std::string& path) const override {
    const auto found = elfs.find(path);
    return found == elfs.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::optional<std::uint32_t> exported_number(const std::string& path,
                                                             const std::string& symbol) const override {
    const auto found = numbers.find(path);
    return found == numbers.end() || symbol != "plugin_version" ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::string find_library(const std::string& name, const std::string&,
                                         const ElfDependencies&) const override {
    const auto found = libraries.find(name);
    return found == libraries.end() ? std::string() : found->second;
  }
  [[nodiscard]] std::vector<int> try_events(uid_t as, const std::vector<EventProbe>& probes) const override {
    std::vector<int> errors;
    for (const EventProbe& probe : probes) errors.push_back(event(as, probe));
    return errors;
  }
  [[nodiscard]] CallProbes try_calls() const override { return calls; }
  [[nodiscard]] ClockSync clock_sync() const override { return clock; }
  [[nodiscard]] CommandOutcome run(const std::vector<std::string>& command,
                                   std::chrono::milliseconds) const override {
    // Texts of programs do not matter.
    const std::string line =
        command.size() == 3 && command[1] == "-c" ? command[0] + " -c" : joined(command, " ");
    ran.push_back(line);
    const auto found = commands.find(line);
    return found == commands.end() ? CommandOutcome() : found->second;
  }
  [[nodiscard]] PapiFacts papi() const override { return papi_facts; }
  [[nodiscard]] DirectoryFacts try_directory(const std::string&) const override { return directory; }
};

inline const InstallLayout kLayout = {"/opt/cp/bin/clusterprof", "/opt/cp/libexec/clusterprof/collector",
                                      "/opt/cp/libexec/clusterprof/analyze", "/opt/cp/lib/clusterprof"};

// What a function finds, by id.
inline std::map<std::string, Check> found_by(CheckFunction check, const System& system,
                                             const Request& request = {}) {
  Checks checks;
  check({system, kLayout, request}, checks);
  std::map<std::string, Check> by_id;
  for (const Check& one : checks) by_id[one.id] = one;
  return by_id;
}

}  // namespace clusterprof::cli::doctor
