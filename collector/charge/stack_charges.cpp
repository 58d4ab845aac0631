// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/stack_charges.hpp"

#include <xxhash.h>

#include "collector/names/syscalls.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMinRemembered = 1024, kMaxRemembered = 16384;  // powers of two

shard::Category category_of(const Stack& stack, const StackContext& context) {
  if (context.mpi_op != 0) return shard::Category::kMpi;
  if (context.openmp > wire::OmpActivity::kWork) return shard::Category::kIdle;
  if (context.waiting_for_gil) return shard::Category::kIdle;
  if (context.in_syscall) return syscall_category(context.syscall_nr);
  if (context.collecting_garbage) return shard::Category::kPython;
  return stack.in_interpreter ? shard::Category::kPython : shard::Category::kNative;
}

}  // namespace

StackCharges::StackCharges(StackResolver& stacks, ProcessCharges& charges)
    : stacks_(stacks), charges_(charges), remembered_(kMinRemembered) {}

ChargeTarget StackCharges::target(std::span<const std::uint64_t> words, const StackContext& context,
                                  bool main_thread) {
  const std::uint64_t bits =
      (std::uint64_t{context.epoch} << 32) | (std::uint64_t{context.mpi_op} << 16) |
      (context.in_syscall ? 1u : 0u) | (context.waiting_for_gil ? 2u : 0u) |
      (context.collecting_garbage ? 4u : 0u) | (main_thread ? 8u : 0u) |
      (context.descriptor ? 16u + (static_cast<std::uint32_t>(*context.descriptor) << 5) : 0u) |
      (static_cast<std::uint32_t>(context.openmp) << 8);
  const std::uint64_t seed = bits ^ mix(static_cast<std::uint32_t>(context.syscall_nr)) ^
                             seed_of_pool(context) ^ mix(stacks_.changes());
  const std::uint64_t hash = XXH3_64bits_withSeed(words.data(), words.size_bytes(), seed) | 1;
  if (const Remembered& found = slot_of(hash); found.hash == hash) return charges_.target_of_row(found.row);

  const Stack stack = stacks_.resolve(words, context);
  const ChargeTarget target = charges_.target({stack.path, category_of(stack, context), main_thread});
  if (stack.settled) remember(hash, target.row);
  return target;
}

void StackCharges::remember(std::uint64_t hash, std::uint32_t row) {
  if (slot_of(hash).hash != 0 && ++replaced_ > remembered_.size() && remembered_.size() < kMaxRemembered) {
    std::vector<Remembered> old(2 * remembered_.size());
    old.swap(remembered_);
    for (const Remembered& entry : old)
      if (entry.hash != 0) slot_of(entry.hash) = entry;
    replaced_ = 0;
  }
  slot_of(hash) = {hash, row};
}

}  // namespace clusterprof::collector
