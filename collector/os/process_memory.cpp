// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/process_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/split.hpp"
#include "collector/os/os_node.hpp"
#include "collector/os/os_process.hpp"

namespace clusterprof::collector {
namespace {

std::uint64_t number_after_blanks(std::string_view text) {
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
    if (name == "kernelpagesize_kB") page_kib = number_after_blanks(value);
    if (name == "file") is_of_file = true;
    if (name.size() < 2 || name[0] != 'N' || name[1] < '0' || name[1] > '9') continue;
    const auto node = static_cast<std::uint32_t>(number_after_blanks(name.substr(1)));
    (std::find(near.begin(), near.end(), node) != near.end() ? near_pages : far_pages) +=
        number_after_blanks(value);
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
        memory.*field += number_after_blanks(std::string_view(line).substr(label.size())) * 1024;
  if (numa_nodes.empty()) return memory;
  const std::vector<std::uint32_t> near = parse_number_list(numa_nodes);
  std::ifstream maps(directory + "/numa_maps");
  for (std::string line; std::getline(maps, line);) add_mapping(line, near, memory);
  return memory;
}

bool lock_is_given_up(std::string_view release) {
  constexpr std::pair<std::uint64_t, std::uint64_t> kFirst{5, 10};
  const std::size_t dot = release.find('.');
  if (dot == std::string_view::npos) return false;
  return std::pair(number_after_blanks(release.substr(0, dot)),
                   number_after_blanks(release.substr(dot + 1))) >= kFirst;
}

void MemoryLookTimes::see(std::uint64_t process, Clock::time_point now, std::uint64_t rss_bytes) {
  const auto [place, is_new] = processes_.try_emplace(process);
  if (is_new) place->second.due = now + kFirst;
  place->second.rss_bytes = rss_bytes;
}

MemoryLookTimes::Clock::duration MemoryLookTimes::Process::expected() const {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(rss_bytes) / bytes_per_ns));
}

std::optional<MemoryLookTimes::Due> MemoryLookTimes::due(Clock::time_point now) const {
  if (now < any_due_) return std::nullopt;
  std::optional<Due> first;
  Clock::time_point first_due = now;
  for (const auto& [id, process] : processes_) {
    const Clock::duration takes = process.expected();
    if (process.due > first_due || (first && process.due == first_due) ||
        (!lock_is_given_up_ && takes > kLongest))
      continue;
    first_due = process.due;
    first = Due{id, takes <= kLongestWithNodes};
  }
  return first;
}

void MemoryLookTimes::looked(std::uint64_t process, Clock::time_point now, Clock::duration took) {
  any_due_ = now + took * kShareOfAll;
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;  // it has ended meanwhile
  Process& looked_at = found->second;
  looked_at.due = now + std::max<Clock::duration>(kApart, took * kShare);
  const auto ns = static_cast<double>(std::chrono::nanoseconds(took).count());
  looked_at.bytes_per_ns =
      std::max(kBytesPerNs, static_cast<double>(looked_at.rss_bytes) / std::max(ns, 1.0));
}

}  // namespace clusterprof::collector
