// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clusterprof::cli::doctor {

enum class Status { kOk, kWarn, kFail };

// One check, as people and docs/doctor.md see it.
struct Check {
  std::string id;     // "mpi.launcher": stable, for programs
  std::string group;  // "mpi"
  std::string title;  // "mpirun and mpiexec"
  Status status = Status::kOk;
  std::string found;
  std::string costs;                 // what a profile lacks or what takes longer; empty: nothing
  std::string fix;                   // "you: ..." or "admin: ..."; empty: nothing to be done
  std::vector<std::string> details;  // a list that belongs to it: events, interpreters, libraries
  // Names and values that should be the same on all nodes of a site. Empty: `found` should.
  std::vector<std::pair<std::string, std::string>> facts = {};
  // Names and numbers that are added up over nodes.
  std::vector<std::pair<std::string, std::uint64_t>> counts = {};
};

std::string_view name_of(Status status);

// The worst of them.
Status verdict_of(const std::vector<Check>& checks);

}  // namespace clusterprof::cli::doctor
