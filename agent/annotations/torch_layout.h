// SPDX-License-Identifier: BSD-3-Clause
// What is known of the at::RecordFunction of releases of libtorch, read only. Nothing is guessed: an object
// of the libtorch that is loaded must look like one of a release whose headers were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace clusterprof::agent::torch {

// at::RecordScope
enum class Scope : std::uint8_t { kFunction = 0, kBackward = 1, kTorchScript = 2, kUser = 7 };
inline constexpr std::size_t kScopes = 10;

// std::unique_ptr<at::ObserverContext> without one. As that, it is returned in memory.
struct NoContext {
  void* observer = nullptr;
  NoContext() noexcept = default;
  NoContext(const NoContext&) = delete;
  NoContext& operator=(const NoContext&) = delete;
  ~NoContext() {}  // NOT defaulted: a trivial one would be returned in a register
};
static_assert(!std::is_trivially_copyable_v<NoContext> && sizeof(NoContext) == sizeof(void*));

// at::RecordFunctionCallback, which is passed by value.
struct Callback {
  NoContext (*start)(const void* record);
  void (*end)(const void* record, void* context);
  double sampling_probability;
  bool scopes[kScopes];
  bool needs_inputs, needs_outputs, needs_ids;
};
static_assert(std::is_trivially_copyable_v<Callback> && sizeof(Callback) == 40);

// Functions that libtorch exports, by their mangled names.
struct Functions {
  std::uint64_t (*add_global_callback)(Callback);
  void (*construct)(void* record, Scope scope);  // RecordFunction::RecordFunction(RecordScope)
  void (*destroy)(void* record);
  const char* (*name)(const void* record);
  std::uint64_t (*current_thread)();
  std::uint64_t (*next_sequence)();  // the number that the thread's next autograd node will have
};
inline constexpr const char* kFunctionNames[] = {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
                                                 "_ZN2at14RecordFunctionC1ENS_11RecordScopeE",
                                                 "_ZN2at14RecordFunctionD1Ev",
                                                 "_ZNK2at14RecordFunction4nameEv",
                                                 "_ZN2at14RecordFunction15currentThreadIdEv",
                                                 "_ZN2at15sequence_number4peekEv"};
static_assert(sizeof(Functions) == sizeof kFunctionNames);

// Offsets in a RecordFunction.
struct Layout {
  std::uint16_t scope;           // 1 byte; the number of the thread is in the 8 bytes before it
  std::uint16_t sequence;        // of the autograd node; -1: none
  std::uint16_t forward_thread;  // of a backward function: the number of the thread of the forward one
  std::uint16_t debug_handle;    // -1, like the sequence: no other words are
  std::uint16_t bytes;           // of all

  [[nodiscard]] constexpr std::uint16_t thread() const noexcept {
    return static_cast<std::uint16_t>(scope - sizeof(std::uint64_t));
  }
};
// From the parts that the object consists of, in their order. `name`: a std::variant with a std::string,
// which is shorter with the C++ ABI of before C++11; `keywords`: a std::unordered_map behind the inputs. The
// first part points to the virtual functions, the last one are a few flags.
constexpr Layout layout_of(std::uint16_t name, std::uint16_t keywords) noexcept {
  constexpr std::uint16_t kCallbacks = 16 + 4 * 16, kContexts = 16 + 4 * 8, kWord = 8;
  Layout layout{};
  layout.scope = kWord + kCallbacks + kWord;
  const auto contexts = static_cast<std::uint16_t>(layout.scope + 2 * kWord);
  layout.sequence = static_cast<std::uint16_t>(contexts + kContexts + name);
  constexpr std::uint16_t kInputs = 16, kOutputs = 24;
  layout.forward_thread = static_cast<std::uint16_t>(layout.sequence + kWord + kInputs + keywords + kOutputs);
  layout.debug_handle = static_cast<std::uint16_t>(layout.forward_thread + 3 * kWord);
  layout.bytes = static_cast<std::uint16_t>(layout.debug_handle + 2 * kWord);
  return layout;
}

template <typename Value>
Value read(const void* record, std::uint16_t offset) noexcept {
  Value value;
  memcpy(&value, static_cast<const char*>(record) + offset, sizeof value);
  return value;
}

// The layout of the libtorch with these functions; null: it is none of those that are known. Constructs
// objects that nobody else sees.
const Layout* find_layout(const Functions& functions) noexcept;

}  // namespace clusterprof::agent::torch
