// SPDX-License-Identifier: BSD-3-Clause
#include "agent/annotations/torch_layout.h"

namespace clusterprof::agent::torch {
namespace {

// Releases whose headers were read; those between them are like one or the other. With the C++ ABI of before
// C++11 the name is shorter.
constexpr std::uint16_t kName = 40, kOldName = 16, kNoKeywords = 0, kKeywords = 56;
constexpr Layout kLayouts[] = {
    layout_of(kName, kNoKeywords), layout_of(kOldName, kNoKeywords),  // 1.13.1
    layout_of(kName, kKeywords), layout_of(kOldName, kKeywords),      // 2.6.0, 2.14.1
};

constexpr std::size_t kMostBytes = 1024;
struct Image {
  alignas(16) unsigned char bytes[kMostBytes];
  [[nodiscard]] std::uint64_t word(std::size_t offset) const noexcept {
    return read<std::uint64_t>(bytes, static_cast<std::uint16_t>(offset));
  }
};
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

// What the object is like in memory that was filled with `fill`.
void look_at(const Functions& functions, Scope scope, unsigned char fill, Image& image) noexcept {
  alignas(16) static constinit unsigned char place[kMostBytes] = {};  // of all, since parts point to others
  memset(place, fill, sizeof place);
  functions.construct(place, scope);
  memcpy(image.bytes, place, sizeof place);
  functions.destroy(place);
}

// `user` and `same`: of one scope in memory with two fills; a byte that was not written differs. `other`: of
// another scope.
bool is_like(const Layout& layout, const Image& user, const Image& same, const Image& other,
             std::uint64_t thread) noexcept {
  const auto was_written = [&](std::size_t at) { return user.bytes[at] == same.bytes[at]; };
  const auto is_word = [&](std::size_t at, std::uint64_t value) {
    return user.word(at) == value && same.word(at) == value && other.word(at) == value;
  };
  for (std::size_t at = layout.bytes; at < kMostBytes; ++at)
    if (was_written(at)) return false;
  bool has_end = false;
  for (std::size_t at = layout.bytes - sizeof(std::uint64_t); at < layout.bytes; ++at)
    has_end = has_end || was_written(at);
  if (!has_end) return false;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= layout.bytes; at += sizeof(std::uint64_t))
    if (is_word(at, kMinusOne) != (at == layout.sequence || at == layout.debug_handle)) return false;
  return user.bytes[layout.scope] == static_cast<unsigned char>(Scope::kUser) && was_written(layout.scope) &&
         other.bytes[layout.scope] == static_cast<unsigned char>(Scope::kFunction) &&
         is_word(layout.thread(), thread) && is_word(layout.forward_thread, 0);
}

}  // namespace

const Layout* find_layout(const Functions& functions) noexcept {
  constexpr unsigned char kFill = 0xa5, kOtherFill = 0x5a;
  Image user, same, other;
  look_at(functions, Scope::kUser, kFill, user);
  look_at(functions, Scope::kUser, kOtherFill, same);
  look_at(functions, Scope::kFunction, kFill, other);
  const std::uint64_t thread = functions.current_thread();
  for (const Layout& layout : kLayouts)
    if (is_like(layout, user, same, other, thread)) return &layout;
  return nullptr;
}

}  // namespace clusterprof::agent::torch
