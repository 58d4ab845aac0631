// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/processors.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <system_error>

#include "collector/os/os_process.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxProcessors = 8192;  // of Linux
constexpr int kMaxThreads = 64;               // threads of a process that are looked at

using Mask = std::array<std::uint64_t, kMaxProcessors / 64>;
static_assert(sizeof(Mask) % sizeof(cpu_set_t) == 0);

bool read_mask(pid_t thread, Mask& mask) {
  mask = {};
  return sched_getaffinity(thread, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) == 0;
}

Processors numbers_of(const Mask& mask) {
  Processors numbers;
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1)
      numbers.push_back(static_cast<std::uint32_t>(64 * word) +
                        static_cast<std::uint32_t>(std::countr_zero(bits)));
  return numbers;
}

// The agent's own thread stays where the process was started, even if the program binds itself.
bool is_ours(pid_t pid, pid_t thread) {
  const auto name = read_text("/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread) + "/comm");
  return name && *name == "clusterprof\n";
}

// Calls `visit` with the threads of a process, until it returns false.
template <typename Visit>
void for_each_thread(const std::string& process, Visit&& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/" + process + "/task", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t thread = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), thread);
    if (parsed.ec == std::errc() && thread > 0 && !visit(thread)) return;
  }
}

}  // namespace

Processors processors_of(pid_t pid) {
  Mask mask;
  if (pid <= 0 || !read_mask(pid, mask)) return {};
  return numbers_of(mask);
}

Processors processors_of_threads(pid_t pid) {
  Mask all;
  if (pid <= 0 || !read_mask(pid, all)) return {};
  int left = kMaxThreads;
  for_each_thread(std::to_string(pid), [&](pid_t thread) {
    Mask one;
    if (thread != pid && !is_ours(pid, thread) && read_mask(thread, one))
      std::transform(all.begin(), all.end(), one.begin(), all.begin(), std::bit_or<>());
    return --left > 0;
  });
  return numbers_of(all);
}

Processors choose_processors(const Processors& launcher, const std::vector<Processors>& ranks) {
  Processors of_ranks;
  for (const Processors& rank : ranks) of_ranks.insert(of_ranks.end(), rank.begin(), rank.end());
  std::sort(of_ranks.begin(), of_ranks.end());
  of_ranks.erase(std::unique(of_ranks.begin(), of_ranks.end()), of_ranks.end());
  if (of_ranks.empty()) return {};
  Processors spare;
  std::set_difference(launcher.begin(), launcher.end(), of_ranks.begin(), of_ranks.end(),
                      std::back_inserter(spare));
  return spare.empty() ? of_ranks : spare;
}

bool move_to(const Processors& processors) {
  Mask mask{};
  for (const std::uint32_t processor : processors)
    if (processor < kMaxProcessors) mask[processor / 64] |= std::uint64_t{1} << processor % 64;
  bool moved = true;
  for_each_thread("self", [&](pid_t thread) {
    moved &= sched_setaffinity(thread, sizeof mask, reinterpret_cast<const cpu_set_t*>(mask.data())) == 0;
    return true;
  });
  return moved;
}

std::optional<std::chrono::nanoseconds> idle_time(std::string_view text, const Processors& processors) {
  static const std::uint64_t tick_ns = 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const auto number = [](std::string_view& rest, auto& value) {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (parsed.ec == std::errc()) rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
    return parsed.ec == std::errc();
  };
  std::optional<std::chrono::nanoseconds> sum;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    // cpuN user nice system idle iowait ...
    constexpr std::string_view kPrefix = "cpu";
    std::uint32_t processor = 0;
    if (!line.starts_with(kPrefix)) continue;
    line.remove_prefix(kPrefix.size());
    if (line.starts_with(' ') || !number(line, processor)) continue;  // the sum of all
    if (!std::binary_search(processors.begin(), processors.end(), processor)) continue;
    std::array<std::uint64_t, 5> ticks{};
    for (std::uint64_t& field : ticks)
      if (!number(line, field)) break;
    sum =
        sum.value_or(std::chrono::nanoseconds(0)) + std::chrono::nanoseconds((ticks[3] + ticks[4]) * tick_ns);
  }
  return sum;
}

bool IdleWatch::had_room(std::optional<std::chrono::nanoseconds> idle,
                         std::chrono::nanoseconds now) noexcept {
  constexpr int kPart = 10;
  const bool room = !idle || !idle_ || (*idle - *idle_) * kPart >= now - at_;
  idle_ = idle;
  at_ = now;
  return room;
}

bool set_urgent(bool urgent) {
  const sched_param none{};
  return sched_setscheduler(0, urgent ? SCHED_OTHER : SCHED_BATCH, &none) == 0;
}

}  // namespace clusterprof::collector
