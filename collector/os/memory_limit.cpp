// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/memory_limit.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/split.hpp"
#include "collector/os/os_process.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 says 2^63 less a page

constexpr std::string_view kKills = "oom_kill";

// The first number in a text; nullopt for "max".
std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> number_in_file(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_text(file.string());
  return text ? number_in(*text) : std::nullopt;
}

// Of a text with lines "NAME NUMBER".
std::uint64_t entry(const std::string& text, std::string_view name) {
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return number_in(std::string_view(line).substr(name.size() + 1)).value_or(0);
  return 0;
}

}  // namespace

// The recorded processes' shared memory is not in it: that is theirs.
std::uint64_t own_memory_bytes() {
  const std::string text = read_text("/proc/self/status").value_or("");
  const std::size_t at = text.find("RssAnon:");
  if (at == std::string::npos) return 0;
  const std::size_t digits = text.find_first_of("0123456789", at);
  return number_in(std::string_view(text).substr(std::min(digits, text.size()))).value_or(0) * 1024;
}

MemoryLimit::MemoryLimit(const std::string& membership, const std::filesystem::path& root,
                         std::filesystem::path machine)
    : machine_(std::move(machine)) {
  for (const std::string& line : split(membership, '\n')) {
    // "0::/PATH", or of version 1 "7:memory:/PATH"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && controllers != "memory") continue;
    const std::filesystem::path base = is_v2 ? root : root / "memory";
    std::filesystem::path relative = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (;;) {
      const Group group =
          is_v2 ? Group{base / relative, "memory.max", "memory.current", true}
                : Group{base / relative, "memory.limit_in_bytes", "memory.usage_in_bytes", false};
      if (number_in_file(group.directory / group.limit).value_or(kNoLimit) < kNoLimit)
        groups_.push_back(group);
      // In version 1 a group counts its own processes only, in version 2 also those of the groups below.
      const std::filesystem::path kills = group.directory / (is_v2 ? "memory.events" : "memory.oom_control");
      if (("\n" + read_text(kills.string()).value_or("")).find("\noom_kill ") != std::string::npos)
        kill_counts_.push_back(kills);
      if (relative.empty()) break;
      relative = relative.parent_path();
    }
  }
  kills_before_ = all_kills();
}

std::uint64_t MemoryLimit::all_kills() const {
  if (kill_counts_.empty()) return entry(read_text(machine_.string()).value_or(""), kKills);
  std::uint64_t most = 0;
  for (const std::filesystem::path& file : kill_counts_)
    most = std::max(most, entry(read_text(file.string()).value_or(""), kKills));
  return most;
}

std::uint64_t MemoryLimit::kills() const {
  const std::uint64_t now = all_kills();
  return now - std::min(now, kills_before_);
}

std::optional<MemoryLimit::Nearest> MemoryLimit::read(const Group& group) {
  const auto limit = number_in_file(group.directory / group.limit),
             used = number_in_file(group.directory / group.used);
  if (!limit || !used || *limit == 0 || *limit >= kNoLimit) return std::nullopt;
  std::string parts = read_text((group.directory / "memory.stat").string()).value_or("");
  const auto part = [&](const char* v1, const char* v2) { return entry(parts, group.is_v2 ? v2 : v1); };
  // Neither list has what is locked, nor shared memory and files in memory: that is with anonymous memory.
  const std::uint64_t files =
      part("total_active_file", "active_file") + part("total_inactive_file", "inactive_file");
  const std::uint64_t unwritten =
      part("total_dirty", "file_dirty") + part("total_writeback", "file_writeback");
  const std::uint64_t droppable = files - std::min(files, unwritten);
  return Nearest{&group, {*used - std::min(*used, droppable), *limit}, *used, files, std::move(parts)};
}

MemoryLimit::Nearest MemoryLimit::nearest() const {
  Nearest nearest;
  for (const Group& group : groups_) {
    std::optional<Nearest> found = read(group);
    if (found && (nearest.group == nullptr || found->use.share() > nearest.use.share()))
      nearest = std::move(*found);
  }
  return nearest;
}

double MemoryLimit::most_used_share() const {
  double most = 0;
  for (const Group& group : groups_) {
    const auto limit = number_in_file(group.directory / group.limit),
               used = number_in_file(group.directory / group.used);
    if (limit && used) most = std::max(most, MemoryUse{*used, *limit}.share());
  }
  return most;
}

std::optional<MemoryUse> MemoryLimit::look() const {
  const Nearest found = nearest();
  return found.group != nullptr ? std::optional(found.use) : std::nullopt;
}

std::optional<std::uint64_t> MemoryLimit::left_bytes() const {
  std::optional<std::uint64_t> least;
  for (const Group& group : groups_) {
    const std::optional<Nearest> found = read(group);
    if (!found) continue;
    const std::uint64_t used = found->counted_bytes - std::min(found->counted_bytes, found->file_bytes);
    const std::uint64_t left = found->use.limit_bytes - std::min(found->use.limit_bytes, used);
    least = std::min(least.value_or(left), left);
  }
  return least;
}

const shard::GroupMemory& MemoryLimit::follow() {
  const Nearest found = nearest();
  if (found.group == nullptr) return followed_;
  const auto file = [&](const char* name) { return found.group->directory / name; };
  const bool is_v2 = found.group->is_v2;
  followed_.limit_bytes = found.use.limit_bytes;
  followed_.used_bytes = found.counted_bytes;
  const std::uint64_t peak =
      number_in_file(file(is_v2 ? "memory.peak" : "memory.max_usage_in_bytes")).value_or(0);
  followed_.max_used_bytes = std::max({followed_.max_used_bytes, peak, found.counted_bytes});
  followed_.limit_hits = is_v2 ? entry(read_text(file("memory.events").string()).value_or(""), "max")
                               : number_in_file(file("memory.failcnt")).value_or(0);
  if (found.counted_bytes <= fullest_bytes_) return followed_;
  fullest_bytes_ = found.counted_bytes;
  const std::string& parts = found.parts;
  followed_.anon_bytes = entry(parts, is_v2 ? "anon" : "total_rss");
  followed_.shared_bytes = entry(parts, is_v2 ? "shmem" : "total_shmem");
  const std::uint64_t cached = entry(parts, is_v2 ? "file" : "total_cache");
  followed_.file_bytes = cached - std::min(cached, followed_.shared_bytes);
  followed_.kernel_bytes =
      is_v2 ? entry(parts, "kernel_stack") + entry(parts, "pagetables") + entry(parts, "slab")
            : number_in_file(file("memory.kmem.usage_in_bytes")).value_or(0);
  followed_.swap_bytes =
      is_v2 ? number_in_file(file("memory.swap.current")).value_or(0) : entry(parts, "total_swap");
  return followed_;
}

}  // namespace clusterprof::collector
