// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/discovery/collector_code.h"

#include <link.h>

#include <cstring>

#include "agent/sigsafe/native_stack.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint8_t kStore = 0xc7, kCall = 0xe8, kSibOfStackPointer = 0x24;

const std::uint8_t* at(std::uint64_t address) noexcept {
  return reinterpret_cast<const std::uint8_t*>(address);  // of code that is loaded
}

std::uint32_t number_at(const std::uint8_t* bytes) noexcept {
  std::uint32_t number;
  memcpy(&number, bytes, sizeof number);
  return number;
}

// Finds `mov dword [register + 32-bit displacement], 1`. Returns the address of the displacement, or null.
const std::uint8_t* displacement_of_store(const std::uint8_t* from, const std::uint8_t* end) noexcept {
  constexpr std::ptrdiff_t kLongest = 11;
  constexpr std::uint8_t kRegisterAndDisplacement = 0x80, kFields = 0xf8, kRegister = 7, kHasSib = 4;
  if (end - from < kLongest || from[0] != kStore || (from[1] & kFields) != kRegisterAndDisplacement)
    return nullptr;
  const bool has_sib = (from[1] & kRegister) == kHasSib;
  if (has_sib && from[2] != kSibOfStackPointer) return nullptr;  // r12
  const std::uint8_t* const displacement = from + (has_sib ? 3 : 2);
  return number_at(displacement + sizeof(std::uint32_t)) == 1 ? displacement : nullptr;
}

const std::uint8_t* next_store(const std::uint8_t* from, const std::uint8_t* end) noexcept {
  return from < end
             ? static_cast<const std::uint8_t*>(memchr(from, kStore, static_cast<std::size_t>(end - from)))
             : nullptr;
}

struct CodeQuery {
  std::uint64_t address;
  AddressRange range;
};

int match_code(dl_phdr_info* info, std::size_t, void* data) {
  auto& query = *static_cast<CodeQuery*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    constexpr std::uint32_t kReadableCode = PF_R | PF_X;
    if (header.p_type != PT_LOAD || (header.p_flags & kReadableCode) != kReadableCode) continue;
    const std::uint64_t begin = info->dlpi_addr + header.p_vaddr;
    if (query.address < begin || query.address >= begin + header.p_filesz) continue;
    query.range = {begin, begin + header.p_filesz};
    return 1;
  }
  return 0;
}

// From 3.13 on, the flag is set by compare-and-exchange.
bool exchanges(const AddressRange& function) noexcept {
  constexpr std::uint8_t kLockedExchange[] = {0xf0, 0x0f, 0xb1};
  return memmem(at(function.begin), function.end - function.begin, kLockedExchange, sizeof kLockedExchange) !=
         nullptr;
}

class Found {
 public:
  void add(std::uint64_t pc, const PythonRuntime& runtime) noexcept {
    AddressRange range{0, 0};
    // The eval loop is on the stack of every thread.
    if (count_ == kMaxCollectorRanges || is_eval_code(runtime, pc) ||
        !find_function_range(pc, range.begin, range.end))
      return;
    for (std::uint32_t i = 0; i < count_; ++i)
      if (g_collector_code.ranges[i].begin == range.begin) return;
    g_collector_code.ranges[count_++] = range;
  }
  ~Found() { g_collector_code.count.store(count_, std::memory_order_release); }
  Found() = default;
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;

 private:
  std::uint32_t count_ = 0;
};

}  // namespace

std::uint32_t flag_displacement(const std::uint8_t* code, std::uint64_t bytes) noexcept {
  const std::uint8_t* const end = code + bytes;
  for (const std::uint8_t* store = next_store(code, end); store != nullptr;
       store = next_store(store + 1, end))
    if (const std::uint8_t* const displacement = displacement_of_store(store, end))
      return number_at(displacement);
  return 0;
}

const std::uint8_t* find_flag_set(const std::uint8_t* from, const std::uint8_t* end,
                                  std::uint32_t displacement) noexcept {
  for (const std::uint8_t* store = next_store(from, end); store != nullptr;
       store = next_store(store + 1, end)) {
    const std::uint8_t* const its = displacement_of_store(store, end);
    if (its != nullptr && number_at(its) == displacement) return store;
  }
  return nullptr;
}

void find_collector_code(std::uint64_t gc_collect, const PythonRuntime& runtime) noexcept {
  AddressRange function{0, 0};
  CodeQuery query{gc_collect, {0, 0}};
  if (gc_collect == 0 || !find_function_range(gc_collect, function.begin, function.end) ||
      dl_iterate_phdr(match_code, &query) == 0 || !query.range.contains(function.end - 1) ||
      g_collector_code.count.load(std::memory_order_relaxed) != 0)
    return;
  Found found;
  const std::uint8_t* const end = at(query.range.end);
  if (const std::uint32_t displacement =
          flag_displacement(at(function.begin), function.end - function.begin)) {
    for (const std::uint8_t* store = find_flag_set(at(query.range.begin), end, displacement);
         store != nullptr; store = find_flag_set(store + 1, end, displacement))
      found.add(reinterpret_cast<std::uint64_t>(store), runtime);
    return;
  }
  if (exchanges(function)) found.add(function.begin, runtime);
  constexpr std::uint64_t kCallBytes = 5;
  for (std::uint64_t pc = function.begin; pc + kCallBytes <= function.end; ++pc) {
    if (*at(pc) != kCall) continue;
    const std::uint64_t target = pc + kCallBytes + static_cast<std::int32_t>(number_at(at(pc + 1)));
    AddressRange callee{0, 0};
    if (query.range.contains(target) && find_function_range(target, callee.begin, callee.end) &&
        callee.begin == target && query.range.contains(callee.end - 1) && exchanges(callee))
      found.add(target, runtime);
  }
}

}  // namespace clusterprof::agent
