// SPDX-License-Identifier: BSD-3-Clause
#include "agent/discovery/module_table.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/sigsafe/modules.h"

namespace clusterprof::agent {
namespace {

struct Described {
  wire::ModuleEntry entry;
  std::string path;
};

// A segment with nothing but a module arena.
class Segment {
 public:
  explicit Segment(std::uint64_t arena_bytes)
      : memory_(std::calloc(1, sizeof(wire::SegmentHeader) + arena_bytes), std::free) {
    header()->module_arena_offset = sizeof(wire::SegmentHeader);
    header()->module_arena_bytes = arena_bytes;
  }
  wire::SegmentHeader* header() { return static_cast<wire::SegmentHeader*>(memory_.get()); }
  std::uint64_t drops() {
    return header()->drops[static_cast<std::uint32_t>(wire::DropReason::kModuleArenaFull)].load();
  }
  std::vector<Described> entries() {
    std::vector<Described> result;
    const char* const arena = static_cast<const char*>(memory_.get()) + header()->module_arena_offset;
    std::uint64_t at = 0;
    for (; at < header()->module_arena_used.load();) {
      Described one;
      std::memcpy(&one.entry, arena + at, sizeof(one.entry));
      one.path.assign(arena + at + sizeof(one.entry), one.entry.path_bytes);
      EXPECT_EQ(one.entry.entry_bytes % 8, 0u);
      EXPECT_GE(one.entry.entry_bytes, sizeof(one.entry) + one.entry.path_bytes);
      at += one.entry.entry_bytes;
      result.push_back(one);
    }
    EXPECT_EQ(at, header()->module_arena_used.load());
    return result;
  }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
};

const Described* covering(const std::vector<Described>& entries, const void* address) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const Described* found = nullptr;
  for (const Described& one : entries)
    if (at >= one.entry.start && at < one.entry.end) found = &one;
  return found;
}

TEST(ModuleTableTest, DescribesProgramLibrariesAndVdso) {
  module_table_refresh(nullptr);
  Segment segment(1 << 20);
  module_table_describe_all(segment.header());
  const auto entries = segment.entries();
  EXPECT_EQ(segment.header()->module_epoch.load(), module_table()->epoch);

  const Described* const program = covering(entries, reinterpret_cast<const void*>(&module_table));
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->path, std::filesystem::read_symlink("/proc/self/exe"));

  const Described* const libc = covering(entries, reinterpret_cast<const void*>(&::write));
  ASSERT_NE(libc, nullptr);
  EXPECT_EQ(libc->path.front(), '/');
  EXPECT_NE(libc->path.find("libc.so"), std::string::npos);
  EXPECT_EQ(libc->entry.build_id_bytes, 20u);
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&::write), &info), 0);
  EXPECT_EQ(libc->entry.load_bias, reinterpret_cast<std::uint64_t>(info.dli_fbase));

  const Described* const vdso = covering(entries, reinterpret_cast<const void*>(getauxval(AT_SYSINFO_EHDR)));
  ASSERT_NE(vdso, nullptr);
  EXPECT_EQ(vdso->path, "[vdso]");
  EXPECT_GT(vdso->entry.build_id_bytes, 0u);
}

TEST(ModuleTableTest, IsSortedAndFindsCode) {
  module_table_refresh(nullptr);
  const ModuleTable* const table = module_table();
  ASSERT_GT(table->count, 3u);
  for (std::uint32_t i = 1; i < table->count; ++i)
    EXPECT_LE(table->modules[i - 1].end, table->modules[i].start);
  Module module;
  const auto pc = reinterpret_cast<std::uint64_t>(&find_module);
  ASSERT_TRUE(find_module(table, pc, module));
  EXPECT_LE(module.start, pc);
  EXPECT_GT(module.end, pc);
  EXPECT_GE(reinterpret_cast<std::uint64_t>(module.eh_frame_hdr), module.cfi_start);
  EXPECT_LT(reinterpret_cast<std::uint64_t>(module.eh_frame_hdr), module.cfi_end);
  EXPECT_FALSE(find_module(table, 16, module));
  EXPECT_FALSE(find_module(table, reinterpret_cast<std::uint64_t>(&module), module));
}

TEST(ModuleTableTest, LoadingAndUnloadingLibrariesDoesNotFillTheArena) {
  module_table_refresh(nullptr);
  Segment segment(1 << 20);
  module_table_describe_all(segment.header());
  const std::size_t before = segment.entries().size();
  std::uint64_t places = 0;
  std::uint64_t last_bias = 0;
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t epoch = segment.header()->module_epoch.load();
    void* const library = dlopen(UNWIND_PLUGIN, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    ASSERT_TRUE(module_table_refresh(segment.header()));
    EXPECT_EQ(segment.header()->module_epoch.load(), epoch + 1);
    const auto entries = segment.entries();
    const Described* const plugin = covering(entries, dlsym(library, "unwind_plugin_call"));
    ASSERT_NE(plugin, nullptr);
    EXPECT_EQ(plugin->path, UNWIND_PLUGIN);
    if (plugin->entry.load_bias != last_bias) ++places;
    last_bias = plugin->entry.load_bias;
    dlclose(library);
    ASSERT_TRUE(module_table_refresh(segment.header()));
    ASSERT_FALSE(module_table_refresh(segment.header()));
  }
  EXPECT_LE(segment.entries().size(), before + places);
  EXPECT_EQ(segment.drops(), 0u);
}

TEST(ModuleTableTest, GivesAbsolutePaths) {
  module_table_refresh(nullptr);
  Segment segment(1 << 20);
  const std::filesystem::path plugin = UNWIND_PLUGIN;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(plugin.parent_path());
  void* const library = dlopen(("./" + plugin.filename().string()).c_str(), RTLD_NOW);
  std::filesystem::current_path(before);
  ASSERT_NE(library, nullptr) << dlerror();
  module_table_refresh(segment.header());
  const auto entries = segment.entries();
  ASSERT_EQ(entries.size(), 1u);  // only what is new
  EXPECT_EQ(entries[0].path, std::filesystem::canonical(plugin));
  EXPECT_EQ(entries[0].entry.epoch, module_table()->epoch);
  dlclose(library);
  module_table_refresh(nullptr);
}

TEST(ModuleTableTest, CountsWhatDoesNotFit) {
  module_table_refresh(nullptr);
  Segment segment(2 * (sizeof(wire::ModuleEntry) + 256));
  module_table_describe_all(segment.header());
  EXPECT_GT(segment.entries().size(), 0u);
  EXPECT_GT(segment.drops(), 0u);
  EXPECT_EQ(segment.entries().size() + segment.drops(), module_table()->count);
}

TEST(ModuleTableTest, OverwrittenTablesFindNothing) {
  module_table_refresh(nullptr);
  const ModuleTable* const old = module_table();
  const std::uint32_t epoch = old->epoch;
  Module module;
  const auto pc = reinterpret_cast<std::uint64_t>(&find_module);
  ASSERT_TRUE(find_module(old, pc, module));
  for (int round = 0; round < 20; ++round) {
    void* const library = dlopen(UNWIND_PLUGIN, RTLD_NOW);
    ASSERT_NE(library, nullptr);
    module_table_refresh(nullptr);
    dlclose(library);
    module_table_refresh(nullptr);
  }
  EXPECT_NE(old->epoch, epoch);  // in use again
  EXPECT_TRUE(find_module(module_table(), pc, module));
}

}  // namespace
}  // namespace clusterprof::agent
