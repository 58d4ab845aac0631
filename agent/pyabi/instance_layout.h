// SPDX-License-Identifier: BSD-3-Clause
// Where CPython keeps the attributes of an instance of a Python class, and the first local variable of a
// frame. As in layout.h: offsets in bytes of the regular x86-64 Linux build with the GIL, which do not change
// within a minor version. layouts_test.py compares them with the headers, but for the keys of dicts up
// to 3.10, which are in no header.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// Where the attributes are.
enum class InstanceDict : std::uint8_t {
  kOfType,        // <= 3.10: a dict, at an offset that the type has
  kValuesOrDict,  // 3.11: before the object, values or a dict, a pointer for each
  kTagged,        // 3.12: before the object, one pointer: to a dict, or with the lowest bit to values
  kInline,        // 3.13: before the object a pointer to a dict; where that is null, values behind the object
};

struct InstanceLayout {
  std::uint8_t minor;
  InstanceDict dict;
  std::uint16_t frame_locals;      // PyFrameObject.f_localsplus or _PyInterpreterFrame.localsplus
  std::uint16_t type_cached_keys;  // PyHeapTypeObject.ht_cached_keys
  std::uint16_t values_data;       // the first value, from what a dict or an object calls its values
  std::uint16_t keys_entry_count;  // PyDictKeysObject.dk_nentries; Py_ssize_t
  std::uint16_t keys_size;         // dk_size (Py_ssize_t) or dk_log2_index_bytes (char)
  std::uint16_t keys_indices;      // dk_indices; the entries follow them
};

inline constexpr InstanceLayout kInstanceLayouts[] = {
    {8, InstanceDict::kOfType, 360, 0, 0, 32, 8, 40},
    {9, InstanceDict::kOfType, 360, 0, 0, 32, 8, 40},
    {10, InstanceDict::kOfType, 352, 0, 0, 32, 8, 40},
    {11, InstanceDict::kValuesOrDict, 72, 872, 0, 24, 9, 32},
    {12, InstanceDict::kTagged, 72, 880, 0, 24, 9, 32},
    {13, InstanceDict::kInline, 72, 880, 8, 24, 9, 32},
};

// Null: not known. From 3.14 on the interpreter gives the kernel the name of a thread itself.
constexpr const InstanceLayout* instance_layout(std::uint8_t minor) noexcept {
  for (const InstanceLayout& layout : kInstanceLayouts)
    if (layout.minor == minor) return &layout;
  return nullptr;
}

// The same in all these versions.
inline constexpr std::uint16_t kTypeBasicSize = 32, kTypeFlags = 168, kTypeDictOffset = 288;  // PyTypeObject
inline constexpr std::uint16_t kDictKeys = 32, kDictValues = 40;                              // PyDictObject
inline constexpr std::uint16_t kKeysKind = 10;                        // dk_kind; from 3.11 on, 0: general
inline constexpr std::uint16_t kValuesValid = 3;                      // _dictvalues.valid; 3.13
inline constexpr std::uint16_t kDictBefore = 24, kValuesBefore = 32;  // the object: pointers to these

// PyTypeObject.tp_flags
inline constexpr std::uint64_t kTypeHasInlineValues = 1u << 2;  // 3.13
inline constexpr std::uint64_t kTypeHasManagedDict = 1u << 4;   // from 3.11 on
inline constexpr std::uint64_t kTypeOnHeap = 1u << 9;
inline constexpr std::uint64_t kTypeOfDicts = 1u << 29, kTypeOfTypes = std::uint64_t{1} << 31;

}  // namespace clusterprof::agent
