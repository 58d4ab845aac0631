// SPDX-License-Identifier: BSD-3-Clause
#include "agent/pyabi/asyncio_offsets.h"

#include <cstring>

namespace clusterprof::agent {
namespace {

// In the order of the table; all are 64 bits.
enum Word : std::uint8_t {
  kTaskBytes,
  kTaskName,
  kAwaitedBy,
  kIsTask,
  kAwaitedByIsSet,
  kCoroutine,
  kTaskNode,
  kInterpreterBytes,
  kInterpreterTasks,
  kThreadBytes,
  kRunningLoop,
  kRunningTask,
  kThreadTasks,
  kWords,
};
static_assert(kWords * sizeof(std::uint64_t) == kAsyncioOffsetsBytes);

}  // namespace

bool read_asyncio_offsets(const void* table, AsyncioOffsets& offsets) noexcept {
  constexpr std::uint64_t kMostTaskBytes = 1024, kMostThreadBytes = 1 << 16;
  std::uint64_t words[kWords];
  std::memcpy(words, table, sizeof words);
  if (words[kTaskBytes] < 64 || words[kTaskBytes] > kMostTaskBytes || words[kThreadBytes] < 64 ||
      words[kThreadBytes] > kMostThreadBytes)
    return false;
  const auto is_pointer = [&](Word word, Word bytes) {
    return words[word] >= 16 && words[word] % 8 == 0 && words[word] <= words[bytes] - 8;
  };
  const auto is_flag = [&](Word word) { return words[word] >= 16 && words[word] < words[kTaskBytes]; };
  if (!is_pointer(kTaskName, kTaskBytes) || !is_pointer(kAwaitedBy, kTaskBytes) ||
      !is_pointer(kCoroutine, kTaskBytes) || !is_flag(kIsTask) || !is_flag(kAwaitedByIsSet) ||
      !is_pointer(kRunningLoop, kThreadBytes) || !is_pointer(kRunningTask, kThreadBytes))
    return false;
  offsets.task_bytes = static_cast<std::uint16_t>(words[kTaskBytes]);
  offsets.task_name = static_cast<std::uint16_t>(words[kTaskName]);
  offsets.task_coroutine = static_cast<std::uint16_t>(words[kCoroutine]);
  offsets.awaited_by = static_cast<std::uint16_t>(words[kAwaitedBy]);
  offsets.is_task = static_cast<std::uint16_t>(words[kIsTask]);
  offsets.awaited_by_is_set = static_cast<std::uint16_t>(words[kAwaitedByIsSet]);
  offsets.running_task = static_cast<std::uint16_t>(words[kRunningTask]);
  return true;
}

}  // namespace clusterprof::agent
