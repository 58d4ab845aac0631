// SPDX-License-Identifier: BSD-3-Clause
// Does what HDF5's filters shuffle, deflate and fletcher32 do to a chunk, but without HDF5. That is several
// times as fast as its pipeline (libdeflate in place of zlib, shuffling 16 bytes at a time) and works on any
// thread.
#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "formats/h5/h5.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace clusterprof::h5 {
namespace {

// Columns of `values` and `path_counters`: level 6 takes 2.5 times as long for 2 % less, 8 5 times for 2 %.
constexpr int kLevel = 1;
constexpr std::size_t kChecksumBytes = 4;

struct FreeCompressor {
  void operator()(libdeflate_compressor* compressor) const noexcept {
    libdeflate_free_compressor(compressor);
  }
};
struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const noexcept {
    libdeflate_free_decompressor(decompressor);
  }
};

libdeflate_compressor* compressor() {
  thread_local std::unique_ptr<libdeflate_compressor, FreeCompressor> instance;
  if (!instance) instance.reset(libdeflate_alloc_compressor(kLevel));
  if (!instance) throw std::bad_alloc();
  return instance.get();
}

libdeflate_decompressor* decompressor() {
  thread_local std::unique_ptr<libdeflate_decompressor, FreeDecompressor> instance;
  if (!instance) instance.reset(libdeflate_alloc_decompressor());
  if (!instance) throw std::bad_alloc();
  return instance.get();
}

// --- fletcher32 ----------------------------------------------------------------------------

// To the one representative below 2^16 of a sum modulo 65535; only 0 gives 0.
std::uint32_t fold(std::uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint32_t>(sum);
}

// HDF5's: of big-endian words, an odd last byte being the high one of a word. `second` is the sum of all
// values that `first` had. Eight words at a time, each lane with sums of its own.
std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 8;
  constexpr std::size_t kMaxSteps = 256;  // a lane's second sum fits into 32 bits then
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::uint64_t first = 0, second = 0;
  std::size_t words = bytes.size() / 2;
  while (words >= kLanes) {
    const std::size_t steps = std::min(words / kLanes, kMaxSteps);
    std::array<std::uint32_t, kLanes> lane_first{}, lane_second{};
    for (std::size_t step = 0; step < steps; ++step, data += 2 * kLanes) {
      std::array<std::uint16_t, kLanes> word;
      std::memcpy(word.data(), data, sizeof word);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lane_first[lane] += static_cast<std::uint16_t>(word[lane] << 8 | word[lane] >> 8);
        lane_second[lane] += lane_first[lane];
      }
    }
    second += steps * kLanes * first;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      second += std::uint64_t{kLanes} * lane_second[lane] - lane * lane_first[lane];
      first += lane_first[lane];
    }
    first = fold(first);
    second = fold(second);
    words -= steps * kLanes;
  }
  for (; words > 0; --words, data += 2) {
    first += static_cast<std::uint32_t>(data[0] << 8 | data[1]);
    second += first;
  }
  if (bytes.size() % 2 != 0) {
    first += static_cast<std::uint32_t>(data[0] << 8);
    second += first;
  }
  return fold(second) << 16 | fold(first);
}

// --- shuffle -------------------------------------------------------------------------------

// Byte b of item i moves to b * items + i. kBytes: of an item.
template <std::size_t kBytes>
void shuffle_items(const std::byte* in, std::size_t begin, std::size_t items, std::byte* out) {
  for (std::size_t i = begin; i < items; ++i)
    for (std::size_t b = 0; b < kBytes; ++b) out[b * items + i] = in[i * kBytes + b];
}
template <std::size_t kBytes>
void unshuffle_items(const std::byte* in, std::size_t begin, std::size_t items, std::byte* out) {
  for (std::size_t i = begin; i < items; ++i)
    for (std::size_t b = 0; b < kBytes; ++b) out[i * kBytes + b] = in[b * items + i];
}

#ifdef __SSE2__

__m128i load(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store(std::byte* to, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value); }

// 16 items at a time. Interleaving the first with the second half of kBytes * 16 bytes, seen as an index of
// log2(kBytes) + 4 bits, rotates its bits by one: four times for shuffling, log2(kBytes) times for the way
// back.
template <std::size_t kBytes>
struct Block {
  __m128i rows[kBytes];
};

template <std::size_t kBytes>
void interleave(Block<kBytes>& block) {
  Block<kBytes> next;
  for (std::size_t i = 0; i < kBytes / 2; ++i) {
    next.rows[2 * i] = _mm_unpacklo_epi8(block.rows[i], block.rows[i + kBytes / 2]);
    next.rows[2 * i + 1] = _mm_unpackhi_epi8(block.rows[i], block.rows[i + kBytes / 2]);
  }
  block = next;
}

template <std::size_t kBytes>
void shuffle(const std::byte* in, std::size_t items, std::byte* out) {
  const std::size_t whole = items / 16 * 16;
  for (std::size_t i = 0; i < whole; i += 16) {
    Block<kBytes> block;
    for (std::size_t b = 0; b < kBytes; ++b) block.rows[b] = load(in + i * kBytes + b * 16);
    for (int turn = 0; turn < 4; ++turn) interleave(block);
    for (std::size_t b = 0; b < kBytes; ++b) store(out + b * items + i, block.rows[b]);
  }
  shuffle_items<kBytes>(in, whole, items, out);
}

template <std::size_t kBytes>
void unshuffle(const std::byte* in, std::size_t items, std::byte* out) {
  const std::size_t whole = items / 16 * 16;
  for (std::size_t i = 0; i < whole; i += 16) {
    Block<kBytes> block;
    for (std::size_t b = 0; b < kBytes; ++b) block.rows[b] = load(in + b * items + i);
    for (std::size_t bytes = 1; bytes < kBytes; bytes *= 2) interleave(block);
    for (std::size_t b = 0; b < kBytes; ++b) store(out + i * kBytes + b * 16, block.rows[b]);
  }
  unshuffle_items<kBytes>(in, whole, items, out);
}

#else

template <std::size_t kBytes>
void shuffle(const std::byte* in, std::size_t items, std::byte* out) {
  shuffle_items<kBytes>(in, 0, items, out);
}
template <std::size_t kBytes>
void unshuffle(const std::byte* in, std::size_t items, std::byte* out) {
  unshuffle_items<kBytes>(in, 0, items, out);
}

#endif

// Contents do not outlive the call that asked for it.
std::span<std::byte> scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return {buffer.data(), bytes};
}

[[noreturn]] void damaged(const char* how) { throw H5Error(std::string("a chunk is damaged: ") + how); }

std::span<const std::byte> without_checksum(std::span<const std::byte> stored) {
  if (stored.size() < kChecksumBytes) damaged("it is too short");
  const std::span<const std::byte> sum = stored.last(kChecksumBytes);
  stored = stored.first(stored.size() - kChecksumBytes);
  std::uint32_t checksum = 0;
  for (std::size_t i = 0; i < kChecksumBytes; ++i)
    checksum |= std::to_integer<std::uint32_t>(sum[i]) << 8 * i;
  if (checksum != fletcher32(stored)) damaged("wrong checksum");
  return stored;
}

// Exactly `inflated.size()` bytes.
void inflate(std::span<const std::byte> deflated, std::span<std::byte> inflated) {
  std::size_t used = 0;
  const libdeflate_result result = libdeflate_zlib_decompress_ex(
      decompressor(), deflated.data(), deflated.size(), inflated.data(), inflated.size(), &used, nullptr);
  if (result != LIBDEFLATE_SUCCESS || used != deflated.size()) damaged("it cannot be inflated");
}

void unshuffle(std::span<const std::byte> content, std::size_t item_bytes, std::byte* to) {
  if (item_bytes == 4)
    unshuffle<4>(content.data(), content.size() / 4, to);
  else
    unshuffle<8>(content.data(), content.size() / 8, to);
}

void check_item(std::size_t bytes, std::size_t item_bytes) {
  if ((item_bytes != 1 && item_bytes != 4 && item_bytes != 8) || bytes % item_bytes != 0)
    throw H5Error("a chunk cannot have items of that size");
}

// True if a Huffman code would gain little, judged by the collision entropy (6.7 bits per byte or more, which
// is about 7.2 bits of Shannon's), and if steps between neighbours do not repeat, as they do in numbers that
// count up.
bool looks_random(std::span<const std::byte> plane) {
  constexpr std::size_t kMin = 4096;  // below that the estimate is itself random
  if (plane.size() < kMin) return false;
  std::array<std::uint32_t, 256> bytes{}, steps{};
  std::uint8_t last = 0;
  for (const std::byte item : plane) {
    const auto byte = std::to_integer<std::uint8_t>(item);
    ++bytes[byte];
    ++steps[static_cast<std::uint8_t>(byte - last)];
    last = byte;
  }
  const auto size = static_cast<double>(plane.size());
  const double limit = 2.5 * (size + size * (size - 1) / 256);
  for (const std::array<std::uint32_t, 256>& counts : {bytes, steps}) {
    double squares = 0;
    for (const std::uint32_t count : counts) squares += static_cast<double>(count) * count;
    if (squares >= limit) return false;
  }
  return true;
}

constexpr std::size_t kStoredHeader = 5, kMaxStored = 65535;  // RFC 1951, 3.2.4

// RFC 1950, with the first `prefix` bytes in stored blocks. Bytes written to `out`, which has room.
std::size_t deflate_behind(std::span<const std::byte> content, std::size_t prefix, std::span<std::byte> out) {
  std::size_t end = 0;
  const auto put = [&](std::uint32_t byte) { out[end++] = static_cast<std::byte>(byte); };
  put(0x78), put(0x01);
  for (std::size_t at = 0; at < prefix;) {
    const std::size_t bytes = std::min(prefix - at, kMaxStored);
    put(0);  // not the last one; stored
    put(bytes & 0xff), put(static_cast<std::uint32_t>(bytes >> 8));
    put(~bytes & 0xff), put(~bytes >> 8 & 0xff);
    std::memcpy(out.data() + end, content.data() + at, bytes);
    end += bytes;
    at += bytes;
  }
  const std::span<const std::byte> rest = content.subspan(prefix);
  const std::size_t deflated = libdeflate_deflate_compress(compressor(), rest.data(), rest.size(),
                                                           out.data() + end, out.size() - end - 4);
  if (deflated == 0) throw H5Error("a chunk cannot be compressed");
  end += deflated;
  const std::uint32_t checksum = libdeflate_adler32(1, content.data(), content.size());
  for (int shift = 24; shift >= 0; shift -= 8) put(checksum >> shift & 0xff);
  return end;
}

}  // namespace

std::vector<std::byte> compress_chunk(std::span<const std::byte> rows, std::size_t item_bytes,
                                      RandomPlanes random_planes) {
  check_item(rows.size(), item_bytes);
  std::span<const std::byte> content = rows;
  if (item_bytes > 1) {
    const std::span<std::byte> shuffled = scratch(rows.size());
    if (item_bytes == 4)
      shuffle<4>(rows.data(), rows.size() / 4, shuffled.data());
    else
      shuffle<8>(rows.data(), rows.size() / 8, shuffled.data());
    content = shuffled;
  }
  std::size_t prefix = 0;
  if (random_planes == RandomPlanes::kStored && item_bytes > 1) {
    const std::size_t plane = content.size() / item_bytes;
    while (prefix < content.size() && looks_random(content.subspan(prefix, plane))) prefix += plane;
  }
  const std::size_t bound = libdeflate_zlib_compress_bound(compressor(), content.size()) +
                            (prefix / kMaxStored + 1) * kStoredHeader;
  std::vector<std::byte> stored(bound + kChecksumBytes);
  const std::size_t bytes = prefix != 0 ? deflate_behind(content, prefix, {stored.data(), bound})
                                        : libdeflate_zlib_compress(compressor(), content.data(),
                                                                   content.size(), stored.data(), bound);
  if (bytes == 0) throw H5Error("a chunk cannot be compressed");
  const std::uint32_t checksum = fletcher32({stored.data(), bytes});
  for (std::size_t i = 0; i < kChecksumBytes; ++i)
    stored[bytes + i] = static_cast<std::byte>(checksum >> 8 * i);
  stored.resize(bytes + kChecksumBytes);
  return stored;
}

void decompress_chunk(std::span<const std::byte> stored, std::uint32_t filter_mask, std::size_t item_bytes,
                      std::span<std::byte> rows) {
  check_item(rows.size(), item_bytes);
  const bool shuffles = item_bytes > 1;
  const unsigned first = shuffles ? 1 : 0;  // number of deflate in the pipeline
  const bool shuffled = shuffles && (filter_mask & 1u) == 0;
  const bool deflated = (filter_mask >> first & 1u) == 0;
  const bool summed = (filter_mask >> (first + 1) & 1u) == 0;
  if (filter_mask >> (first + 2) != 0) damaged("it is without filters that there are not");
  if (summed) stored = without_checksum(stored);
  std::span<const std::byte> content = stored;
  if (deflated) {
    const std::span<std::byte> inflated = shuffled ? scratch(rows.size()) : rows;
    inflate(stored, inflated);
    content = inflated;
  }
  if (content.size() != rows.size()) damaged("it has another size");
  if (!shuffled) {
    if (!deflated && !rows.empty()) std::memcpy(rows.data(), content.data(), rows.size());
  } else {
    unshuffle(content, item_bytes, rows.data());
  }
}

void decompress_chunk(std::span<const std::byte> stored, std::uint32_t filter_mask,
                      std::span<const Filter> filters, std::size_t item_bytes, std::span<std::byte> rows) {
  check_item(rows.size(), item_bytes);
  if (filter_mask >> filters.size() != 0) damaged("it is without filters that there are not");
  // With the checksum that was there before it was deflated.
  std::size_t inflated_bytes = rows.size();
  for (std::size_t i = 0; i < filters.size() && filters[i] != Filter::kDeflate; ++i)
    if (filters[i] == Filter::kFletcher32 && (filter_mask >> i & 1u) == 0) inflated_bytes += kChecksumBytes;
  std::vector<std::byte> content(stored.begin(), stored.end());
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((filter_mask >> i & 1u) != 0) continue;
    if (filters[i] == Filter::kFletcher32) {
      content.resize(without_checksum(content).size());
    } else if (filters[i] == Filter::kDeflate) {
      std::vector<std::byte> inflated(inflated_bytes);
      inflate(content, inflated);
      content = std::move(inflated);
    } else if (item_bytes > 1) {
      std::vector<std::byte> items = content;  // bytes behind the last whole item are not shuffled
      unshuffle(content, item_bytes, items.data());
      content = std::move(items);
    }
  }
  if (content.size() != rows.size()) damaged("it has another size");
  if (!rows.empty()) std::memcpy(rows.data(), content.data(), rows.size());
}

}  // namespace clusterprof::h5
