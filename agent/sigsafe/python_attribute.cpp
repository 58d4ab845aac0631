// SPDX-License-Identifier: BSD-3-Clause
// Every pointer is checked before it is followed, and every type that decides how to read on: the interpreter
// may be changing all of this at this instant.
#include "agent/sigsafe/python_attribute.h"

#include "agent/sigsafe/code_table.h"
#include "agent/sigsafe/peek.h"

namespace clusterprof::agent {
namespace {

std::uint64_t type_of(std::uint64_t object) noexcept {
  const std::uint64_t type = is_plausible_object(object) ? peek<std::uint64_t>(object + kObjectType) : 0;
  return is_plausible_object(type) ? type : 0;
}

bool has_flags(std::uint64_t type, std::uint64_t flags) noexcept {
  return type != 0 && (peek<std::uint64_t>(type + kTypeFlags) & flags) == flags;
}

class Attributes {
 public:
  Attributes(const PythonRuntime& runtime, const InstanceLayout& layout, const char* name,
             std::uint32_t length) noexcept
      : runtime_(runtime), layout_(layout), name_(name), length_(length) {}

  std::uint64_t value_of(std::uint64_t object) const noexcept {
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
    constexpr std::int64_t kMaxEntries = 64;  // what is looked for is among the first that are set
    if (!is_plausible_object(keys) || (values != 0 && !is_plausible_object(values))) return 0;
    const Entries entries = entries_of(keys);
    const auto count = peek<std::int64_t>(keys + layout_.keys_entry_count);
    if (entries.first == 0 || count <= 0) return 0;
    for (std::int64_t i = 0; i < count && i < kMaxEntries; ++i) {
      const std::uint64_t entry = entries.first + static_cast<std::uint64_t>(i) * entries.bytes;
      if (!has_text(runtime_, peek<std::uint64_t>(entry + entries.key), name_, length_, true)) continue;
      return values == 0
                 ? peek<std::uint64_t>(entry + entries.value)
                 : peek<std::uint64_t>(values + layout_.values_data + 8 * static_cast<std::uint64_t>(i));
    }
    return 0;
  }

  const PythonRuntime& runtime_;
  const InstanceLayout& layout_;
  const char* name_;
  std::uint32_t length_;
};

}  // namespace

std::uint64_t find_attribute(const PythonRuntime& runtime, const InstanceLayout& layout, std::uint64_t object,
                             const char* name, std::uint32_t length) noexcept {
  return Attributes(runtime, layout, name, length).value_of(object);
}

}  // namespace clusterprof::agent
