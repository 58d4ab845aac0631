// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/process_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/split.hpp"
#include "collector/os/os_node.hpp"
#include "collector/os/os_process.hpp"

namespace clusterprof::collector {
namespace {

std::uint64_t number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// A line of numa_maps: "7f0 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4". Pages of all kinds count.
void add_mapping(std::string_view line, const std::vector<std::uint32_t>& near, ProcessMemory& memory) {
  std::uint64_t near_pages = 0, far_pages = 0, page_kib = 4;
  bool is_of_file = false;
  for (const std::string& word : split(std::string(line), ' ')) {
    const std::size_t equal = word.find('=');
    if (equal == std::string::npos) continue;
    const std::string_view name = std::string_view(word).substr(0, equal),
                           value = std::string_view(word).substr(equal + 1);
    if (name == "kernelpagesize_kB") page_kib = number(value);
    if (name == "file") is_of_file = true;
    if (name.size() < 2 || name[0] != 'N' || name[1] < '0' || name[1] > '9') continue;
    const auto node = static_cast<std::uint32_t>(number(name.substr(1)));
    (std::find(near.begin(), near.end(), node) != near.end() ? near_pages : far_pages) += number(value);
  }
  if (is_of_file) return;
  memory.near_bytes += near_pages * page_kib * 1024;
  memory.far_bytes += far_pages * page_kib * 1024;
}

}  // namespace

std::optional<ProcessMemory> read_process_memory(pid_t pid, const std::string& numa_nodes,
                                                 const std::string& root) {
  const std::string directory = root + "/proc/" + std::to_string(pid);
  const std::optional<std::string> text = read_text(directory + "/smaps_rollup");
  if (!text || text->empty()) return std::nullopt;
  ProcessMemory memory;
  constexpr std::pair<std::string_view, std::uint64_t ProcessMemory::*> kFields[] = {
      {"Pss:", &ProcessMemory::pss_bytes},
      {"Private_Dirty:", &ProcessMemory::private_dirty_bytes},
      {"AnonHugePages:", &ProcessMemory::huge_bytes},
      {"Private_Hugetlb:", &ProcessMemory::huge_bytes},
      {"Swap:", &ProcessMemory::swap_bytes},
  };
  for (const std::string& line : split(*text, '\n'))
    for (const auto& [label, field] : kFields)
      if (line.starts_with(label))
        memory.*field += number(std::string_view(line).substr(label.size())) * 1024;
  if (numa_nodes.empty()) return memory;
  const std::vector<std::uint32_t> near = parse_number_list(numa_nodes);
  std::ifstream maps(directory + "/numa_maps");
  for (std::string line; std::getline(maps, line);) add_mapping(line, near, memory);
  return memory;
}

}  // namespace clusterprof::collector
