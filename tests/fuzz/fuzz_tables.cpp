// SPDX-License-Identifier: BSD-3-Clause
// Small tables that the collector reads: line tables of Python code, maps of code made at run
// time, what the kernel says in /proc and /sys, lists. The first byte says which; words that
// are secrets must not come out again.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secrets.hpp"
#include "collector/names/line_tables.hpp"
#include "collector/names/mount_table.hpp"
#include "collector/names/perf_map.hpp"
#include "collector/os/os_node.hpp"
#include "formats/wire/sample.h"
#include "formats/wire/spawned_world.h"
#include "tests/fuzz/guarded_bytes.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

using namespace clusterprof;
using fuzz::Input;
namespace fs = std::filesystem;

// A place for files, in memory where there is /dev/shm.
class Folder {
 public:
  Folder() {
    const fs::path memory = "/dev/shm";
    path_ = (fs::exists(memory) ? memory : fs::temp_directory_path()) /
            ("clusterprof-fuzz-tables-" + std::to_string(getpid()));
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& name, std::string_view text) {
    const fs::path path = path_ / name;
    if (name.find('/') != std::string::npos) fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    return path.string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

Folder& folder() {
  static Folder the_folder;
  return the_folder;
}

void line_table(Input& input) {
  static fuzz::GuardedBytes memory(1 << 16);
  const std::uint32_t minor = 7 + input.byte() % 10;
  const auto first_line = input.number<std::uint32_t>();
  const auto instruction = input.number<std::uint32_t>();
  const auto table = memory.hold(input.take(input.size()), instruction % 2 == 0);
  for (const std::uint32_t at : {0u, 1u, instruction % 256, instruction, ~1u}) {
    const auto line = collector::python_line(minor, first_line, table, at);
    if (line && *line > 0x7fff'ffff) std::abort();
  }
  if (first_line <= 0x7fff'ffff &&
      collector::python_line(minor, first_line, table, wire::kInstructionNotStarted) != first_line)
    std::abort();
}

void mounts(Input& input) {
  const auto device = input.number<std::uint64_t>(), magic = input.number<std::uint64_t>();
  const std::string path(input.line());
  const collector::MountTable table(input.text());
  (void)table.file_system(path, device, magic);
  (void)table.file_system(path, 0, 0);
}

void perf_map(Input& input) {
  std::vector<std::uint64_t> addresses(1 + input.byte() % 16);
  for (std::uint64_t& address : addresses) address = input.number<std::uint32_t>();
  const auto names = collector::read_perf_map(folder().write("perf.map", input.text()), 0, addresses);
  for (const auto& [address, name] : names)
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end() || name.empty())
      std::abort();
}

// Files in this order, with a 0 behind each.
void machine(Input& input) {
  for (const char* const name :
       {"sys/devices/system/cpu/online", "sys/devices/system/node/online",
        "sys/devices/system/node/node0/cpulist", "sys/devices/system/cpu/cpu0/cache/index0/size",
        "proc/cpuinfo", "proc/meminfo", "proc/stat", "proc/net/dev", "proc/diskstats", "proc/7/status",
        "proc/7/statm"})
    folder().write(name, input.text_until('\0'));
  collector::Machine of(folder().path());
  (void)of.facts();
  (void)of.usage();
  (void)of.look_at(7);
  (void)of.numa_nodes_of({0, 1, 5});
}

void lists(Input& input) {
  const std::string text(input.text());
  const auto numbers = collector::parse_number_list(text);
  if (collector::parse_number_list(collector::number_list(numbers)).size() != numbers.size() &&
      std::is_sorted(numbers.begin(), numbers.end(), std::less_equal<>()))
    std::abort();
  (void)collector::is_whole_disk(text);
  wire::SpawnedWorld world;
  if (!wire::parse_spawned_world(text.c_str(), world)) return;
  char again[128];
  wire::SpawnedWorld second;
  if (!wire::format_spawned_world(world, again, sizeof again) || !wire::parse_spawned_world(again, second) ||
      second.first != world.first || second.callers != world.callers)
    std::abort();
}

// Whatever stands around it.
void secrets(Input& input) {
  static const std::string kSecret = "Zq7hidden";
  const bool is_apart = input.byte() % 2 == 1;
  std::vector<std::string> words = input.lines();
  for (const std::string& word : words)
    if (word.find(kSecret) != std::string::npos) return;  // a fuzzer reads what it runs
  words.insert(words.begin(), "program");
  if (is_apart) {
    words.insert(words.end(), {"--db-password", kSecret});
  } else {
    words.push_back("API_TOKEN=" + kSecret);
    words.push_back("https://me:" + kSecret + "@host/path");
  }
  mask_secrets(words);
  for (const std::string& word : words)
    if (word.find(kSecret) != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, size);
  switch (input.byte() % 6) {
    case 0:
      line_table(input);
      break;
    case 1:
      mounts(input);
      break;
    case 2:
      perf_map(input);
      break;
    case 3:
      machine(input);
      break;
    case 4:
      lists(input);
      break;
    default:
      secrets(input);
      break;
  }
  return 0;
}
