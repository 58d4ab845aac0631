// SPDX-License-Identifier: BSD-3-Clause
#include "cli/launcher_words.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace clusterprof::cli {

std::string launcher_name(const std::string& command) {
  const std::string base = command.substr(command.rfind('/') + 1);
  const std::string stem = base.substr(0, base.find('.'));
  for (const std::string_view name :
       {"mpirun", "mpiexec", "srun", "prun", "prterun", "aprun", "orterun", "jsrun", "ibrun"}) {
    if (stem == name) return base;
  }
  return {};
}

std::size_t behind_launcher(const std::vector<std::string>& words) {
  static constexpr std::string_view kOneValue[] = {
      "-n",       "-np",       "--np",      "-N",         "-c",        "-H",           "-host",
      "--host",   "-hosts",    "-ppn",      "--hostfile", "-hostfile", "-machinefile", "-f",
      "-wdir",    "--wdir",    "-x",        "-p",         "-A",        "-t",           "-J",
      "--map-by", "-map-by",   "--bind-to", "-bind-to",   "--rank-by", "-o",           "-e",
      "-w",       "-d",        "-npernode", "--npernode", "-a",        "-r",           "-g",
      "-envlist", "-genvlist", "-launcher", "-iface",     "-perhost"};
  static constexpr std::string_view kTwoValues[] = {"--mca", "-mca", "--gmca", "-genv", "-env"};
  const auto listed = [](const auto& list, const std::string& word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
  };
  std::size_t at = 1;
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-') {
    at += listed(kTwoValues, words[at]) ? 3 : listed(kOneValue, words[at]) ? 2 : 1;
  }
  return std::min(at, words.size());
}

}  // namespace clusterprof::cli
