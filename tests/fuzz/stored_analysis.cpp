// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/stored_analysis.hpp"

#include <libdeflate.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "report/report.hpp"

namespace clusterprof::fuzz {
namespace {

struct Header {
  std::uint64_t made_by = 0;
  struct Part {
    std::uint64_t bytes = 0, plain_bytes = 0, checksum = 0;
  };
  std::array<Part, kAnalysisParts> parts;
};

struct BlockHead {
  std::uint32_t plain_bytes = 0, stored_bytes = 0;
};

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// Calls use(head, content) for each block that is whole.
template <typename Use>
void for_each_block(std::span<const std::byte> part, const Use& use) {
  while (part.size() >= sizeof(BlockHead)) {
    BlockHead head;
    std::memcpy(&head, part.data(), sizeof head);
    part = part.subspan(sizeof head);
    if (head.stored_bytes > part.size()) return;
    use(head, part.first(head.stored_bytes));
    part = part.subspan(head.stored_bytes);
  }
}

std::vector<std::byte> inflated(std::span<const std::byte> part) {
  libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
  std::vector<std::byte> plain;
  for_each_block(part, [&](const BlockHead& head, std::span<const std::byte> content) {
    const std::size_t before = plain.size();
    plain.resize(before + head.plain_bytes);
    if (libdeflate_deflate_decompress(decompressor, content.data(), content.size(), plain.data() + before,
                                      head.plain_bytes, nullptr) != LIBDEFLATE_SUCCESS) {
      std::fprintf(stderr, "an analysis is not stored as its fuzzer believes\n");
      std::abort();
    }
  });
  libdeflate_free_decompressor(decompressor);
  return plain;
}

// Without compression, which would be most of a run's time.
std::vector<std::byte> deflated(std::span<const std::byte> plain) {
  static libdeflate_compressor* const compressor = libdeflate_alloc_compressor(0);
  std::vector<std::byte> part;
  while (!plain.empty()) {
    const std::span<const std::byte> block = plain.first(std::min(plain.size(), kBlockBytes));
    plain = plain.subspan(block.size());
    const std::size_t at = part.size(), most = libdeflate_deflate_compress_bound(compressor, block.size());
    part.resize(at + sizeof(BlockHead) + most);
    const std::size_t stored = libdeflate_deflate_compress(compressor, block.data(), block.size(),
                                                           part.data() + at + sizeof(BlockHead), most);
    const BlockHead head{static_cast<std::uint32_t>(block.size()), static_cast<std::uint32_t>(stored)};
    std::memcpy(part.data() + at, &head, sizeof head);
    part.resize(at + sizeof head + stored);
  }
  return part;
}

}  // namespace

AnalysisParts stored_parts(std::span<const std::byte> encoded) {
  Header header;
  std::memcpy(&header, encoded.data(), sizeof header);
  encoded = encoded.subspan(sizeof header);
  AnalysisParts parts;
  for (std::size_t i = 0; i < kAnalysisParts; ++i) {
    const auto part = encoded.first(header.parts[i].bytes);
    parts[i].assign(part.begin(), part.end());
    encoded = encoded.subspan(part.size());
  }
  return parts;
}

AnalysisParts plain_parts(std::span<const std::byte> encoded) {
  AnalysisParts parts = stored_parts(encoded);
  for (std::vector<std::byte>& part : parts) part = inflated(part);
  return parts;
}

std::vector<std::byte> of_stored_parts(const AnalysisParts& parts) {
  static const std::vector<std::byte> empty = report::encode(report::Analysis{});
  Header header;
  std::memcpy(&header.made_by, empty.data(), sizeof header.made_by);
  std::vector<std::byte> encoded(sizeof header);
  for (std::size_t i = 0; i < kAnalysisParts; ++i) {
    header.parts[i] = {parts[i].size(), 0, XXH3_64bits(parts[i].data(), parts[i].size())};
    for_each_block(parts[i], [&](const BlockHead& head, std::span<const std::byte>) {
      header.parts[i].plain_bytes += head.plain_bytes;
    });
    encoded.insert(encoded.end(), parts[i].begin(), parts[i].end());
  }
  std::memcpy(encoded.data(), &header, sizeof header);
  return encoded;
}

std::vector<std::byte> of_plain_parts(const AnalysisParts& parts) {
  AnalysisParts stored;
  for (std::size_t i = 0; i < kAnalysisParts; ++i) stored[i] = deflated(parts[i]);
  return of_stored_parts(stored);
}

}  // namespace clusterprof::fuzz
