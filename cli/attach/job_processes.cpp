// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/job_processes.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/stat_fields.hpp"
#include "cli/attach/read_text.hpp"
#include "cli/attach/target.hpp"

namespace clusterprof::cli::attach {
namespace {

// Of a text with NAME=VALUE and a NUL each; empty: it has no such variable.
std::string variable(const std::string& environment, const std::string& name) {
  const std::string text = std::string(1, '\0') + environment, start = std::string(1, '\0') + name + "=";
  const std::size_t at = text.find(start);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + start.size();
  return text.substr(begin, text.find('\0', begin) - begin);
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Of mpirun and the like first: below srun they have set their own.
int rank_in(const std::string& environment) {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK", "SLURM_PROCID"})
    if (const auto rank = number(variable(environment, name)); rank && *rank >= 0) return *rank;
  return -1;
}

// utime and stime: the 14th and 15th field.
std::uint64_t cpu_ticks_in(const std::string& stat) {
  const std::vector<std::string> fields = stat_fields(stat);
  constexpr std::size_t kUser = 14 - 3, kSystem = 15 - 3;
  if (fields.size() <= kSystem) return 0;
  return std::strtoull(fields[kUser].c_str(), nullptr, 10) +
         std::strtoull(fields[kSystem].c_str(), nullptr, 10);
}

// The folder of the program that runs; empty: not known.
std::string folder_of_program(const std::string& directory) {
  std::error_code error;
  return std::filesystem::read_symlink(directory + "/exe", error).parent_path().string();
}

}  // namespace

std::vector<JobProcess> choose_ranks(std::vector<JobProcess> processes) {
  std::erase_if(processes, [](const JobProcess& process) { return process.rank < 0; });
  std::sort(processes.begin(), processes.end(), [](const JobProcess& a, const JobProcess& b) {
    return std::tuple(a.rank, !a.uses_mpi, ~a.cpu_ticks, a.pid) <
           std::tuple(b.rank, !b.uses_mpi, ~b.cpu_ticks, b.pid);
  });
  const auto same_rank = [](const JobProcess& a, const JobProcess& b) { return a.rank == b.rank; };
  processes.erase(std::unique(processes.begin(), processes.end(), same_rank), processes.end());
  return processes;
}

std::vector<JobProcess> find_job_processes(const std::string& job, const std::string& proc) {
  std::vector<JobProcess> processes;
  // This process and collectors are in steps of the job, too.
  const std::string own_folder = folder_of_program(proc + "/self");
  std::error_code error;
  std::filesystem::directory_iterator entry(proc, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::optional<int> pid = number(entry->path().filename().string());
    if (!pid) continue;
    const std::string directory = entry->path().string(), environment = read_text(directory + "/environ");
    if (variable(environment, "SLURM_JOB_ID") != job) continue;
    if (!own_folder.empty() && folder_of_program(directory) == own_folder) continue;
    const TargetFacts target = read_target(*pid, proc);
    if (refusal_of(target, read_own(proc))) continue;
    processes.push_back({*pid, rank_in(environment), flavour_of(target) != MpiFlavour::kNone,
                         cpu_ticks_in(read_text(directory + "/stat"))});
  }
  return processes;
}

}  // namespace clusterprof::cli::attach
