// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/shard_data.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "base/base_name.hpp"

namespace clusterprof::shard {
namespace {

// The hashed bytes are part of the format (FORMATS.md, "Call path ids"): little endian, and
// every string preceded by its length so that ("ab", "c") and ("a", "bc") differ.
static_assert(std::endian::native == std::endian::little, "path ids are defined on little endian bytes");

constexpr std::size_t kFixedBytes = 2 * 8 + 2 * 1 + 2 * 4 + 3 * 4;

char* put(char* out, const void* bytes, std::size_t count) {
  std::memcpy(out, bytes, count);
  return out + count;
}

template <typename T>
char* put(char* out, T value) {
  return put(out, &value, sizeof value);
}

char* put_text(char* out, std::string_view text) {
  out = put(out, static_cast<std::uint32_t>(text.size()));
  return text.empty() ? out : put(out, text.data(), text.size());
}

}  // namespace

ShardData::ShardData() = default;
ShardData::ShardData(const ShardData&) = default;
ShardData::ShardData(ShardData&&) noexcept = default;
ShardData& ShardData::operator=(const ShardData&) = default;
ShardData& ShardData::operator=(ShardData&&) noexcept = default;
ShardData::~ShardData() = default;
bool ShardData::operator==(const ShardData&) const = default;

PathId path_id(const PathId& parent, const Frame& frame, const std::vector<std::string>& strings) {
  const std::string_view name = strings[frame.name];
  const std::string_view file = strings[frame.file];
  const std::string_view module = base_name(strings[frame.module]);
  const std::size_t bytes = kFixedBytes + name.size() + file.size() + module.size();

  char small[1024];
  std::string large;
  char* buffer = small;
  if (bytes > sizeof small) {
    large.resize(bytes);
    buffer = large.data();
  }
  char* out = put(buffer, parent.high);
  out = put(out, parent.low);
  out = put(out, static_cast<std::uint8_t>(frame.kind));
  out = put(out, static_cast<std::uint8_t>((frame.inlined ? 1 : 0) | (frame.line_approximate ? 2 : 0)));
  out = put(out, frame.line);
  out = put(out, frame.function_line);
  out = put_text(out, name);
  out = put_text(out, file);
  put_text(out, module);
  const XXH128_hash_t hash = XXH3_128bits(buffer, bytes);
  return {hash.high64, hash.low64};
}

std::size_t PathInterner::FrameHash::operator()(const Frame& frame) const noexcept {
  const std::uint32_t words[] = {static_cast<std::uint32_t>(frame.kind) | (frame.inlined ? 256u : 0u) |
                                     (frame.line_approximate ? 512u : 0u),
                                 frame.name,
                                 frame.file,
                                 frame.module,
                                 frame.line,
                                 frame.function_line};
  return XXH3_64bits(words, sizeof words);
}

std::size_t PathInterner::ChildHash::operator()(std::uint64_t key) const noexcept {
  return XXH3_64bits(&key, sizeof key);
}

PathInterner::PathInterner(ShardData& data) : data_(data) {
  // emplace keeps the first of equal entries, so the lowest index names each of them.
  for (std::size_t i = 0; i < data.strings.size(); ++i)
    strings_.emplace(data.strings[i], static_cast<StringIndex>(i));
  for (std::size_t i = 0; i < data.frames.size(); ++i)
    frames_.emplace(data.frames[i], static_cast<std::uint32_t>(i));
  for (std::size_t i = 1; i < data.paths.size(); ++i) {
    const Path& path = data.paths[i];
    children_.emplace(std::uint64_t{path.parent} << 32 | path.frame, static_cast<std::uint32_t>(i));
  }
}

StringIndex PathInterner::string(std::string_view text) {
  const auto [entry, added] =
      strings_.try_emplace(std::string(text), static_cast<StringIndex>(data_.strings.size()));
  if (added) data_.strings.emplace_back(text);
  return entry->second;
}

std::uint32_t PathInterner::frame(const Frame& frame) {
  const auto [entry, added] = frames_.try_emplace(frame, static_cast<std::uint32_t>(data_.frames.size()));
  if (added) data_.frames.push_back(frame);
  return entry->second;
}

std::uint32_t PathInterner::path(std::uint32_t parent, std::uint32_t frame) {
  const auto [entry, added] = children_.try_emplace(std::uint64_t{parent} << 32 | frame,
                                                    static_cast<std::uint32_t>(data_.paths.size()));
  if (added)
    data_.paths.push_back(
        {path_id(data_.paths[parent].id, data_.frames[frame], data_.strings), parent, frame});
  return entry->second;
}

}  // namespace clusterprof::shard
