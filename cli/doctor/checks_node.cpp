// SPDX-License-Identifier: BSD-3-Clause
// What a node is. Nothing of it is right or wrong by itself, but nodes of one job should not differ in it.
#include <charconv>

#include "base/version.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/directory_trial.hpp"
#include "formats/wire/site_switch.h"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kGroup = "node";

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
  Check check{"node.system", kGroup, "system", Status::kOk, "", "", "", {}};
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
  check = {"node.clusterprof", kGroup, "clusterprof", Status::kOk, "", "", "", {}};
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
  check = {"node.file_systems", kGroup, "file systems", Status::kOk, "", "", "", {}};
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

}  // namespace clusterprof::cli::doctor
