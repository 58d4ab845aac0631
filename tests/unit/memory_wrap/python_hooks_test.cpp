// SPDX-License-Identifier: BSD-3-Clause
// The hooks in front of an interpreter's allocator, which is made up here: pools for what is small, and a
// malloc for the rest, as pymalloc has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "memory-wrap/python.hpp"
#include "memory-wrap/slow_path.hpp"

using clusterprof::agent::Keeping;
using clusterprof::agent::KeptBlock;
using clusterprof::agent::MemoryPhase;
using clusterprof::agent::MemoryRecorder;
using clusterprof::agent::ObjectRecording;
using clusterprof::agent::SampledBlock;

namespace {

constexpr std::size_t kLargestOfPools = 512;
constexpr std::uint64_t kEveryByte = 1;  // every object is recorded

struct PythonRow {
  std::uint64_t bytes;
  clusterprof::wire::MemoryDomain domain;
  bool freed;
};
struct PythonRecords {
  std::map<const void*, KeptBlock> live;
  std::vector<PythonRow> rows;  // KeptBlock::site is their index
};
PythonRecords g_python_records;

Keeping allocated(const SampledBlock& block, const void*) {
  const auto site = static_cast<std::uint32_t>(g_python_records.rows.size());
  g_python_records.rows.push_back({block.bytes, block.domain, false});
  g_python_records.live[block.address] = {reinterpret_cast<std::uint64_t>(block.address), block.bytes,
                                          block.weight_bytes, 0, site};
  return Keeping::kNew;
}
bool take(const void* address, KeptBlock& block) {
  const auto found = g_python_records.live.find(address);
  if (found == g_python_records.live.end()) return false;
  block = found->second;
  g_python_records.live.erase(found);
  return true;
}
void put_back(const KeptBlock& block) {
  g_python_records.live[reinterpret_cast<void*>(block.address)] = block;
}
void freed(const KeptBlock& block) { g_python_records.rows.at(block.site).freed = true; }

const MemoryRecorder kTestRecorder = {allocated, take,    put_back, freed,   nullptr, nullptr,
                                      nullptr,   nullptr, nullptr,  nullptr, nullptr};

struct MadeUpAllocator {
  void* context;
  void* (*allocate)(void*, std::size_t);
  void* (*allocate_zeroed)(void*, std::size_t, std::size_t);
  void* (*reallocate)(void*, void*, std::size_t);
  void (*free)(void*, void*);
};
struct MadeUpArenas {
  void* context;
  void* (*allocate)(void*, std::size_t);
  void (*free)(void*, void*, std::size_t);
};

// Calls that came to the pools, with the sizes that were asked for.
std::vector<std::size_t> g_of_pools, g_of_malloc;
bool g_fails = false;
constexpr std::size_t kHeader = 16;  // has the size

std::size_t& size_of(void* object) {
  return *reinterpret_cast<std::size_t*>(static_cast<char*>(object) - kHeader);
}
void* pool_allocate(void*, std::size_t bytes) {
  if (g_fails) return nullptr;
  (bytes > kLargestOfPools ? g_of_malloc : g_of_pools).push_back(bytes);
  char* const block = static_cast<char*>(std::calloc(1, bytes + kHeader));
  void* const object = block + kHeader;
  size_of(object) = bytes;
  return object;
}
void* pool_allocate_zeroed(void* context, std::size_t count, std::size_t size) {
  return pool_allocate(context, count * size);
}
void pool_free(void*, void* object) {
  if (object != nullptr) std::free(static_cast<char*>(object) - kHeader);
}
void* pool_reallocate(void* context, void* object, std::size_t bytes) {
  void* const moved = pool_allocate(context, bytes);
  if (moved == nullptr || object == nullptr) return moved;
  std::memcpy(moved, object, std::min(bytes, size_of(object)));
  pool_free(context, object);
  return moved;
}
void* raw_allocate(void*, std::size_t bytes) { return std::malloc(bytes); }
void* arena_allocate(void*, std::size_t bytes) { return std::malloc(bytes); }
void arena_free(void*, void* arena, std::size_t) { std::free(arena); }

constexpr int kRawDomain = 0, kMemDomain = 1, kObjectDomain = 2;
MadeUpAllocator g_allocators[3];
MadeUpArenas g_arenas;

}  // namespace

extern "C" {
void PyMem_GetAllocator(int domain, void* out) { *static_cast<MadeUpAllocator*>(out) = g_allocators[domain]; }
void PyMem_SetAllocator(int domain, void* in) { g_allocators[domain] = *static_cast<MadeUpAllocator*>(in); }
void PyObject_GetArenaAllocator(void* out) { *static_cast<MadeUpArenas*>(out) = g_arenas; }
void PyObject_SetArenaAllocator(void* in) { g_arenas = *static_cast<MadeUpArenas*>(in); }
}

// As in wrap.cpp.
constinit clusterprof::agent::MemoryWrap clusterprof_memory_wrap_v1 = {};

namespace clusterprof::memory_wrap {
namespace {

class PythonHooks : public testing::Test {
 protected:
  PythonHooks() {
    g_python_records = {};
    g_of_pools.clear();
    g_of_malloc.clear();
    g_fails = false;
    g_allocators[kRawDomain] = {nullptr, raw_allocate, nullptr, nullptr, nullptr};
    g_allocators[kMemDomain] = g_allocators[kObjectDomain] = {nullptr, pool_allocate, pool_allocate_zeroed,
                                                              pool_reallocate, pool_free};
    g_arenas = {nullptr, arena_allocate, arena_free};
    for (auto& counter : g_filter) counter = 0;
    t_state = {};
    clusterprof_memory_wrap_v1.interval_bytes = kEveryByte;
    clusterprof_memory_wrap_v1.recorder = &kTestRecorder;
    clusterprof_memory_wrap_v1.phase = MemoryPhase::kOn;
    clusterprof_memory_wrap_v1.python_hooked = clusterprof_memory_wrap_v1.python_called = false;
  }
  ~PythonHooks() override { clusterprof_memory_wrap_v1.phase = MemoryPhase::kOff; }

  static void* allocate(std::size_t bytes) { return g_allocators[kObjectDomain].allocate(nullptr, bytes); }
  static void* reallocate(void* object, std::size_t bytes) {
    return g_allocators[kObjectDomain].reallocate(nullptr, object, bytes);
  }
  static void free(void* object) { g_allocators[kObjectDomain].free(nullptr, object); }
  // Of what was recorded, in order: its size, and "-" behind if its end was seen.
  static std::string recorded() {
    std::string all;
    for (const PythonRow& row : g_python_records.rows) {
      EXPECT_EQ(row.domain, wire::MemoryDomain::kPython);
      all += (all.empty() ? "" : " ") + std::to_string(row.bytes) + (row.freed ? "-" : "");
    }
    return all;
  }
};

TEST_F(PythonHooks, ObjectsStayInTheirPool) {
  ASSERT_TRUE(hook_python(nullptr, ObjectRecording::kInPlace));
  EXPECT_TRUE(clusterprof_memory_wrap_v1.python_hooked);
  void* const object = allocate(48);
  EXPECT_EQ(g_of_pools, (std::vector<std::size_t>{48}));  // what was asked for, and nothing else
  EXPECT_TRUE(g_of_malloc.empty());
  EXPECT_EQ(recorded(), "48");
  EXPECT_TRUE(clusterprof_memory_wrap_v1.python_called);
  free(object);
  EXPECT_EQ(recorded(), "48-");
  free(nullptr);

  void* const zeroed = g_allocators[kMemDomain].allocate_zeroed(nullptr, 3, 8);
  EXPECT_EQ(recorded(), "48- 24");
  g_allocators[kObjectDomain].free(nullptr, zeroed);  // one domain's may be given back to the other
  EXPECT_EQ(recorded(), "48- 24-");
}

TEST_F(PythonHooks, SampledObjectsAreDivertedWhereTheVersionAllowsIt) {
  ASSERT_TRUE(hook_python(nullptr, ObjectRecording::kDiverted));
  EXPECT_EQ(g_allocators[kObjectDomain].free, pool_free);
  void* const object = allocate(48);
  EXPECT_EQ(g_of_malloc, (std::vector<std::size_t>{kLargestOfPools + 1}));
  free(object);
}

TEST_F(PythonHooks, ObjectsThatGrowInTheirPoolEndAndBegin) {
  ASSERT_TRUE(hook_python(nullptr, ObjectRecording::kInPlace));
  void* object = reallocate(nullptr, 16);
  object = reallocate(object, 64);
  EXPECT_EQ(recorded(), "16- 64");
  g_fails = true;
  EXPECT_EQ(reallocate(object, 128), nullptr);
  EXPECT_EQ(recorded(), "16- 64");
  EXPECT_EQ(g_python_records.live.count(object), 1u);
  g_fails = false;
  free(object);
  EXPECT_EQ(recorded(), "16- 64-");
}

// malloc records what is large. It is not in front of the allocator that is made up here.
TEST_F(PythonHooks, LargeBlocksAreLeftToMalloc) {
  ASSERT_TRUE(hook_python(nullptr, ObjectRecording::kInPlace));
  void* object = allocate(kLargestOfPools + 1);
  EXPECT_EQ(recorded(), "");
  object = reallocate(object, 2000);
  EXPECT_EQ(recorded(), "");
  // As malloc would.
  t_state.of_python = true;
  record({true, {2000, 1, 0}}, object, 2000, nullptr);
  t_state.of_python = false;
  object = reallocate(object, 1000);
  EXPECT_EQ(recorded(), "2000");  // realloc has to see its end
  free(object);

  object = allocate(100);
  object = reallocate(object, 3000);  // it leaves the pool
  EXPECT_EQ(recorded(), "2000 100-");
  free(object);
}

TEST_F(PythonHooks, CallsThatAreNotSampledPass) {
  ASSERT_TRUE(hook_python(nullptr, ObjectRecording::kInPlace));
  clusterprof_memory_wrap_v1.interval_bytes = std::uint64_t{1} << 40;
  std::vector<void*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(allocate(32));
  for (void*& object : objects) object = reallocate(object, 40);
  for (void* const object : objects) free(object);
  EXPECT_EQ(g_of_pools.size(), 2000u);
  EXPECT_EQ(recorded(), "");
}

TEST_F(PythonHooks, AnInterpreterWithoutPoolsIsLeftAlone) {
  g_allocators[kObjectDomain].allocate = raw_allocate;
  EXPECT_FALSE(hook_python(nullptr, ObjectRecording::kInPlace));
  EXPECT_EQ(g_allocators[kMemDomain].free, pool_free);
}

}  // namespace
}  // namespace clusterprof::memory_wrap
