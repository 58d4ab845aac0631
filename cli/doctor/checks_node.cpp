// SPDX-License-Identifier: BSD-3-Clause
// What a node is. Nothing of it is right or wrong by itself, but nodes of one job should not differ in it.
#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "base/version.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/directory_trial.hpp"
#include "formats/wire/site_counts.h"
#include "formats/wire/site_switch.h"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kNodeGroup = "node";

std::uint64_t kilobytes_of(const std::string& meminfo, const char* key) {
  const std::string text = field_of(meminfo, key);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void check_node(const Context& context, Checks& out) {
  const System& system = context.system;
  const std::string model = field_of(system.read("/proc/cpuinfo").value_or(""), "model name");
  const std::uint64_t memory = kilobytes_of(system.read("/proc/meminfo").value_or(""), "MemTotal") * 1024;
  Check check{"node.system", kNodeGroup, "system", Status::kOk, "", "", "", {}};
  check.facts = {{"kernel", system.kernel_release()},
                 {"glibc", system.libc_version()},
                 {"processor", model.empty() ? "not known" : model},
                 {"processors", std::to_string(system.processors())},
                 {"memory", memory == 0 ? "not known" : bytes_text(memory)}};
  check.found = "Linux " + system.kernel_release() + ", glibc " + system.libc_version() + ", " +
                std::to_string(system.processors()) + " processors, " + check.facts.back().second +
                " of memory";
  out.push_back(check);

  const auto is_there = [&system](const char* path) { return system.look(path).error == 0; };
  const char* const off = wire::off_file(is_there);
  check = {"node.clusterprof", kNodeGroup, "clusterprof", Status::kOk, "", "", "", {}};
  check.found = std::string(kVersion) + " in " + context.layout.prefix();
  check.facts = {{"version", std::string(kVersion)},
                 {"prefix", context.layout.prefix()},
                 {"recording", off == nullptr ? "on" : "turned off"}};
  if (off != nullptr) {
    check.status = Status::kWarn;
    check.costs = std::string("nothing is recorded on this node: ") + off + " is there";
    check.fix = std::string("admin: rm ") + off;
  }
  out.push_back(check);

  const std::string mounts = system.read("/proc/self/mountinfo").value_or("");
  std::string directory = context.request.directory;
  if (directory.empty()) directory = variable(system, "CLUSTERPROF_ROOT");
  if (directory.empty()) directory = variable(system, "PWD");
  check = {"node.file_systems", kNodeGroup, "file systems", Status::kOk, "", "", "", {}};
  for (const auto& [what, path] : {std::pair<std::string, std::string>("prefix", context.layout.prefix()),
                                   std::pair<std::string, std::string>("runs", directory),
                                   std::pair<std::string, std::string>("/tmp", "/tmp")}) {
    if (!path.starts_with('/')) continue;
    const std::string type = mount_of(mounts, path).type;
    check.facts.emplace_back(what, type.empty() ? "not known" : type);
    check.found += (check.found.empty() ? "" : ", ") + what + " on " + check.facts.back().second;
  }
  out.push_back(check);
}

// Only what each user's own file says of that user is counted.
void check_counts(const Context& context, Checks& out) {
  const System& system = context.system;
  constexpr std::string_view kStem = "counts-";
  constexpr std::size_t kDayCharacters = 10;
  std::map<std::string, std::map<std::string, std::uint64_t>> days;
  std::map<std::string, std::uint64_t> all;
  for (const std::string& name : system.list(wire::kCountsDirectory)) {
    const std::size_t at = kStem.size() + kDayCharacters;
    if (!name.starts_with(kStem) || name.size() < at + 2 || name[at] != '.') continue;
    const std::string path = std::string(wire::kCountsDirectory) + "/" + name;
    if (std::to_string(system.look(path).owner) != name.substr(at + 1)) continue;
    const std::string text = system.read(path).value_or("");
    auto& day = days[name.substr(kStem.size(), kDayCharacters)];
    for (std::size_t from = 0; from < text.size();) {
      const std::size_t end = std::min(text.find('\n', from), text.size());
      // "17:03:55 4711.0 unrecorded prefix-hangs"
      const std::size_t job = text.find(' ', from), what = text.find(' ', job + 1),
                        why = text.find(' ', what + 1);
      if (why < end && what < why && job < what) {
        std::string word = text.substr(what + 1, why - what - 1);
        const std::string reason = text.substr(why + 1, end - why - 1);
        if (reason != "-") word += " " + reason;
        ++day[word];
        ++all[word];
      }
      from = end + 1;
    }
  }
  if (days.empty()) return;
  const auto listed = [](const std::map<std::string, std::uint64_t>& counts) {
    std::vector<std::string> parts;
    for (const auto& [word, count] : counts) parts.push_back(std::to_string(count) + " " + word);
    return parts.empty() ? std::string("nothing") : joined(parts);
  };
  Check check{"node.counts", kNodeGroup, "recordings", Status::kOk, "", "", "", {}};
  check.found = listed(all) + " since " + days.begin()->first;
  check.facts = {{"counted", "yes"}};
  for (const auto& [day, counts] : days) check.details.push_back(day + ": " + listed(counts));
  check.counts.assign(all.begin(), all.end());
  out.push_back(check);
}

}  // namespace clusterprof::cli::doctor
