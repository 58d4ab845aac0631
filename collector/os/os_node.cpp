// SPDX-License-Identifier: BSD-3-Clause
// Reads /proc and /sys of the machine. Called by the server about once a second, one thread.
#include "collector/os/os_node.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/meminfo.hpp"
#include "collector/os/os_process.hpp"
#include "collector/os/processors.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::uint32_t kMaxCpus = 8192;     // of Linux
constexpr std::uint64_t kSectorBytes = 512;  // whatever the disk's own are

// Cuts the first line, or the first word, off a text.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}
std::string_view next_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}
std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
std::string first_line(const std::string& path) {
  const std::optional<std::string> text = read_text(path);
  if (!text) return {};
  std::string_view rest = *text;
  return std::string(next_line(rest));
}
// "32768K"
std::uint64_t cache_size(std::string_view text) {
  const std::uint64_t value = number(text);
  if (text.ends_with('K')) return value << 10;
  if (text.ends_with('M')) return value << 20;
  return value;
}

}  // namespace

std::string number_list(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last != i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::vector<std::uint32_t> parse_number_list(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint32_t from = 0;
    std::from_chars_result parsed = std::from_chars(at, end, from);
    std::uint32_t to = from;
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-')
      parsed = std::from_chars(parsed.ptr + 1, end, to);
    if (parsed.ec != std::errc() || from > to || to >= kMaxCpus) break;
    for (std::uint32_t i = from; i <= to; ++i) numbers.push_back(i);
    at = parsed.ptr;
    if (at == end || *at != ',') break;
    ++at;
  }
  return numbers;
}

bool is_whole_disk(std::string_view name) {
  const auto digits = [&](std::size_t& at) {
    const std::size_t begin = at;
    while (at < name.size() && name[at] >= '0' && name[at] <= '9') ++at;
    return at != begin;
  };
  for (const std::string_view prefix : {"sd", "vd", "xvd", "hd", "dasd"}) {
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    const std::string_view letters = name.substr(prefix.size());
    return std::all_of(letters.begin(), letters.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  }
  for (const std::string_view prefix : {"nvme", "mmcblk", "pmem"}) {
    if (!name.starts_with(prefix)) continue;
    std::size_t at = prefix.size();
    if (!digits(at)) return false;
    if (prefix != "nvme") return at == name.size();
    if (at == name.size() || name[at++] != 'n') return false;
    return digits(at) && at == name.size();
  }
  return false;
}

Machine::Machine(std::string root) : root_(std::move(root)) {
  const std::string cpu = root_ + "/sys/devices/system/cpu", node = root_ + "/sys/devices/system/node";
  const std::vector<std::uint32_t> online = parse_number_list(first_line(cpu + "/online"));
  facts_.cpus = static_cast<std::uint32_t>(online.size());
  if (facts_.cpus == 0 && root_.empty())
    facts_.cpus = static_cast<std::uint32_t>(std::max(0L, sysconf(_SC_NPROCESSORS_ONLN)));
  for (const std::uint32_t number : parse_number_list(first_line(node + "/online"))) {
    numa_nodes_.push_back(number);
    cpus_of_numa_node_.push_back(
        parse_number_list(first_line(node + "/node" + std::to_string(number) + "/cpulist")));
  }
  facts_.numa_nodes = static_cast<std::uint32_t>(numa_nodes_.size());
  if (!online.empty()) {
    const std::string caches = cpu + "/cpu" + std::to_string(online[0]) + "/cache/index";
    for (int index = 0; index < 8; ++index) {
      const std::string size = first_line(caches + std::to_string(index) + "/size");
      if (!size.empty()) facts_.cache_bytes = std::max(facts_.cache_bytes, cache_size(size));
    }
  }
  if (const auto memory = read_text(root_ + "/proc/meminfo"))
    facts_.memory_bytes = kilobytes_of(*memory, "MemTotal:").value_or(0) * 1024;
  if (const auto info = read_text(root_ + "/proc/cpuinfo")) {
    std::string_view text = *info;
    while (!text.empty()) {
      const std::string_view line = next_line(text);
      const std::size_t colon = line.find(": ");
      if (!line.starts_with("model name") || colon == std::string_view::npos) continue;
      facts_.cpu_model = line.substr(colon + 2);
      break;
    }
  }
}

std::string Machine::numa_nodes_of(const std::vector<std::uint32_t>& cpus) const {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < numa_nodes_.size(); ++i) {
    const std::vector<std::uint32_t>& of_node = cpus_of_numa_node_[i];
    if (std::any_of(cpus.begin(), cpus.end(), [&](std::uint32_t cpu) {
          return std::binary_search(of_node.begin(), of_node.end(), cpu);
        }))
      found.push_back(numa_nodes_[i]);
  }
  return number_list(found);
}

bool Machine::is_real_interface(const std::string& name) {
  const auto known = std::find_if(interfaces_.begin(), interfaces_.end(),
                                  [&](const auto& interface) { return interface.first == name; });
  if (known != interfaces_.end()) return known->second;
  std::error_code error;
  const bool real = std::filesystem::exists(root_ + "/sys/class/net/" + name + "/device", error);
  constexpr std::size_t kMaxInterfaces = 4096;  // containers come and go
  if (interfaces_.size() < kMaxInterfaces) interfaces_.emplace_back(name, real);
  return real;
}

NodeUsage Machine::usage() {
  NodeUsage usage;
  if (const auto text = read_text(root_ + "/proc/stat")) {
    std::string_view rest = *text;
    std::string_view line = next_line(rest);
    if (next_word(line) == "cpu") {
      const auto tick_ns = static_cast<std::uint64_t>(1'000'000'000 / std::max(1L, sysconf(_SC_CLK_TCK)));
      // user nice system idle iowait irq softirq steal; guests are in user and nice.
      for (int field = 0; field < 8; ++field) {
        const std::uint64_t ticks = number(next_word(line));
        if (field != 3 && field != 4) usage.cpu_busy_ns += ticks * tick_ns;
      }
    }
  }
  if (const auto text = read_text(root_ + "/proc/meminfo")) {
    const std::uint64_t available = kilobytes_of(*text, "MemAvailable:").value_or(0) * 1024;
    if (available < facts_.memory_bytes) usage.memory_used_bytes = facts_.memory_bytes - available;
  }
  if (const auto text = read_text(root_ + "/proc/net/dev")) {
    struct Traffic {
      std::uint64_t received = 0, sent = 0;
    } real, all;
    bool any_real = false;
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = next_line(rest);
      const std::size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;  // the two head lines
      std::string_view head = line.substr(0, colon);
      const std::string name(next_word(head));
      line.remove_prefix(colon + 1);
      std::array<std::uint64_t, 9> fields{};
      for (std::uint64_t& field : fields) field = number(next_word(line));
      if (name == "lo") continue;
      all.received += fields[0];
      all.sent += fields[8];
      if (!is_real_interface(name)) continue;
      any_real = true;
      real.received += fields[0];
      real.sent += fields[8];
    }
    usage.network_received_bytes = any_real ? real.received : all.received;
    usage.network_sent_bytes = any_real ? real.sent : all.sent;
  }
  if (const auto text = read_text(root_ + "/proc/diskstats")) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = next_line(rest);
      (void)next_word(line);
      (void)next_word(line);
      if (!is_whole_disk(next_word(line))) continue;
      std::array<std::uint64_t, 7> fields{};  // reads, merged, sectors, ms, writes, merged, sectors
      for (std::uint64_t& field : fields) field = number(next_word(line));
      usage.disk_read_bytes += fields[2] * kSectorBytes;
      usage.disk_written_bytes += fields[6] * kSectorBytes;
    }
  }
  return usage;
}

ProcessLook Machine::look_at(pid_t pid) const {
  ProcessLook look;
  if (const auto text = read_text(root_ + "/proc/" + std::to_string(pid) + "/statm")) {
    std::string_view rest = *text;
    (void)next_word(rest);
    const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t pages = number(next_word(rest)), shared = number(next_word(rest));
    look.rss_bytes = pages * page_bytes;
    look.anon_bytes = (pages - std::min(pages, shared)) * page_bytes;
  }
  if (const Processors cpus = processors_of(pid); !cpus.empty()) {
    look.affinity = number_list(cpus);
    look.numa_nodes = numa_nodes_of(cpus);
  }
  return look;
}

}  // namespace clusterprof::collector
