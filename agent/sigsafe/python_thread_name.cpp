// SPDX-License-Identifier: BSD-3-Clause
// Every pointer is checked before it is followed, and every type that decides how to read on: the interpreter
// may be changing all of this at this instant.
#include "agent/sigsafe/python_thread_name.h"

#include <cstring>

#include "agent/pyabi/instance_layout.h"
#include "agent/sigsafe/code_table.h"
#include "agent/sigsafe/peek.h"
#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {
namespace {

template <std::size_t N>
bool is_text(const PythonRuntime& runtime, std::uint64_t object, const char (&expected)[N]) noexcept {
  char text[32];
  static_assert(N <= sizeof text);
  return copy_text(runtime, object, text, sizeof text) == N - 1 && std::memcmp(text, expected, N - 1) == 0;
}

std::uint64_t type_of(std::uint64_t object) noexcept {
  const std::uint64_t type = is_plausible_object(object) ? peek<std::uint64_t>(object + kObjectType) : 0;
  return is_plausible_object(type) ? type : 0;
}

bool has_flags(std::uint64_t type, std::uint64_t flags) noexcept {
  return type != 0 && (peek<std::uint64_t>(type + kTypeFlags) & flags) == flags;
}

class Attributes {
 public:
  Attributes(const PythonRuntime& runtime, const InstanceLayout& layout) noexcept
      : runtime_(runtime), layout_(layout) {}

  // The value of attribute _name. 0: it was not found.
  std::uint64_t name_of(std::uint64_t object) const noexcept {
    const std::uint64_t type = type_of(object);
    if (!has_flags(type, kTypeOnHeap) || !has_flags(type_of(type), kTypeOfTypes)) return 0;
    if (layout_.dict == InstanceDict::kOfType || !has_flags(type, kTypeHasManagedDict)) {
      const auto offset = peek<std::int64_t>(type + kTypeDictOffset);
      constexpr std::int64_t kMaxOffset = 1 << 16;
      return offset > 0 && offset < kMaxOffset && offset % 8 == 0
                 ? in_dict(peek<std::uint64_t>(object + static_cast<std::uint64_t>(offset)))
                 : 0;
    }
    const auto keys = peek<std::uint64_t>(type + layout_.type_cached_keys);
    const auto dict = peek<std::uint64_t>(object - kDictBefore);
    switch (layout_.dict) {
      case InstanceDict::kValuesOrDict:
        if (const auto values = peek<std::uint64_t>(object - kValuesBefore); values != 0)
          return in_keys(keys, values);
        return in_dict(dict);
      case InstanceDict::kTagged:
        return (dict & 1) != 0 ? in_keys(keys, dict + 1) : in_dict(dict);
      case InstanceDict::kInline:
        if (dict != 0) return in_dict(dict);
        return has_flags(type, kTypeHasInlineValues) ? inline_value(object, type, keys) : 0;
      case InstanceDict::kOfType:
        break;
    }
    return 0;
  }

 private:
  std::uint64_t inline_value(std::uint64_t object, std::uint64_t type, std::uint64_t keys) const noexcept {
    constexpr std::int64_t kMaxSize = 1 << 16;
    const auto size = peek<std::int64_t>(type + kTypeBasicSize);
    if (size < 16 || size > kMaxSize || size % 8 != 0) return 0;
    const std::uint64_t values = object + static_cast<std::uint64_t>(size);
    return peek<std::uint8_t>(values + kValuesValid) == 1 ? in_keys(keys, values) : 0;
  }

  std::uint64_t in_dict(std::uint64_t dict) const noexcept {
    if (!has_flags(type_of(dict), kTypeOfDicts)) return 0;
    return in_keys(peek<std::uint64_t>(dict + kDictKeys), peek<std::uint64_t>(dict + kDictValues));
  }

  struct Entries {
    std::uint64_t first, bytes;  // address; size of one
    std::uint64_t key, value;    // offsets
  };

  Entries entries_of(std::uint64_t keys) const noexcept {
    constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;
    if (layout_.dict == InstanceDict::kOfType) {
      const auto size = peek<std::uint64_t>(keys + layout_.keys_size);
      if (size == 0 || size > kMaxIndexBytes) return {};
      const std::uint64_t each = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
      return {keys + layout_.keys_indices + size * each, 24, 8, 16};
    }
    const auto log2_bytes = peek<std::uint8_t>(keys + layout_.keys_size);
    if (log2_bytes > 30) return {};
    const std::uint64_t first = keys + layout_.keys_indices + (std::uint64_t{1} << log2_bytes);
    return peek<std::uint8_t>(keys + kKeysKind) == 0 ? Entries{first, 24, 8, 16} : Entries{first, 16, 0, 8};
  }

  // `values`: of a table that shares its keys; 0: the entries have the values.
  std::uint64_t in_keys(std::uint64_t keys, std::uint64_t values) const noexcept {
    constexpr std::int64_t kMaxEntries = 64;  // _name is among the first attributes that threading sets
    if (!is_plausible_object(keys) || (values != 0 && !is_plausible_object(values))) return 0;
    const Entries entries = entries_of(keys);
    const auto count = peek<std::int64_t>(keys + layout_.keys_entry_count);
    if (entries.first == 0 || count <= 0) return 0;
    for (std::int64_t i = 0; i < count && i < kMaxEntries; ++i) {
      const std::uint64_t entry = entries.first + static_cast<std::uint64_t>(i) * entries.bytes;
      if (!is_text(runtime_, peek<std::uint64_t>(entry + entries.key), "_name")) continue;
      return values == 0
                 ? peek<std::uint64_t>(entry + entries.value)
                 : peek<std::uint64_t>(values + layout_.values_data + 8 * static_cast<std::uint64_t>(i));
    }
    return 0;
  }

  const PythonRuntime& runtime_;
  const InstanceLayout& layout_;
};

}  // namespace

std::uint64_t find_thread_name(const PythonStack& python) noexcept {
  const PythonRuntime* const runtime = python_runtime();
  if (runtime == nullptr || python.count == 0 || python.truncated) return 0;
  const InstanceLayout* const layout = instance_layout(runtime->layout.minor);
  // Another build than the one that the offsets are of.
  if (layout == nullptr || !runtime->layout_is_compiled_in) return 0;
  const PythonFrame& outermost = python.frames[python.count - 1];
  const auto name = peek<std::uint64_t>(outermost.code_address + runtime->layout.code_name);
  if (!is_text(*runtime, name, "_bootstrap") && !is_text(*runtime, name, "Thread._bootstrap")) return 0;
  const auto thread = peek<std::uint64_t>(outermost.frame_address + layout->frame_locals);
  return Attributes(*runtime, *layout).name_of(thread);
}

void tell_thread_name(std::uint64_t object, wire::ThreadSlot& slot) noexcept {
  const PythonRuntime* const runtime = python_runtime();
  if (runtime == nullptr) return;
  char text[wire::kThreadNameBytes] = {};
  const std::uint32_t bytes = copy_text(*runtime, object, text, sizeof text);
  if (bytes == 0) return;
  slot.python_name_bytes.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::uint32_t i = 0; i < slot.python_name.size(); ++i) {
    std::uint64_t word;
    std::memcpy(&word, text + 8 * i, sizeof word);
    slot.python_name[i].store(word, std::memory_order_relaxed);
  }
  slot.python_name_bytes.store(bytes, std::memory_order_release);
}

}  // namespace clusterprof::agent
