// SPDX-License-Identifier: BSD-3-Clause
// Encodes and decodes the rows of one node as a block of a profile: columns, split into chunks,
// compressed. FORMATS.md, "Matrix blocks".
#include "formats/profile/node_matrix.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "formats/profile/block_layout.hpp"
#include "formats/shard/row_order.hpp"

namespace clusterprof::profile {
namespace {

// --- rows ----------------------------------------------------------------------------------

template <typename Row>
void unite_equal(std::vector<Row>& rows) {
  const auto equal = [](const Row& a, const Row& b) { return place_of(a) == place_of(b); };
  auto out = std::adjacent_find(rows.begin(), rows.end(), equal);
  if (out == rows.end()) return;
  for (auto row = out + 1; row != rows.end(); ++row) {
    if (equal(*out, *row))
      unite(*out, *row);
    else
      *++out = *row;
  }
  rows.erase(out + 1, rows.end());
}

// --- numbers -------------------------------------------------------------------------------

// Collects the different numbers that occur in some rows, in ascending order, and numbers them.
class Numbers {
 public:
  void add(std::uint32_t number) {
    if (number == last_) return;
    last_ = number;
    if (number >= seen_.size())
      seen_.resize(std::max<std::size_t>(number + std::size_t{1}, 2 * seen_.size()));
    seen_[number] = 1;
  }
  std::vector<std::uint32_t> finish() {
    std::vector<std::uint32_t> list;
    for (std::size_t number = 0; number < seen_.size(); ++number)
      if (seen_[number] != 0) {
        seen_[number] = static_cast<std::uint32_t>(list.size());
        list.push_back(static_cast<std::uint32_t>(number));
      }
    return list;
  }
  // After finish().
  [[nodiscard]] std::uint32_t index_of(std::uint32_t number) const { return seen_[number]; }

 private:
  std::vector<std::uint32_t> seen_;  // tables of ranks and counters are small
  std::uint32_t last_ = shard::kNone;
};

// --- columns -------------------------------------------------------------------------------

template <typename Field>
struct StoredAs {
  using type = Field;
};
template <>
struct StoredAs<bool> {
  using type = std::uint8_t;
};
template <>
struct StoredAs<shard::Category> {
  using type = std::uint8_t;
};

class ColumnEncoder {
 public:
  explicit ColumnEncoder(EncodedColumn& out) : out_(out) { XXH3_64bits_reset(&state_); }
  ~ColumnEncoder() { out_.xxh3 = XXH3_64bits_digest(&state_); }
  ColumnEncoder(const ColumnEncoder&) = delete;
  ColumnEncoder& operator=(const ColumnEncoder&) = delete;

  // `chunk`: of kBlockChunkRows; its first `bytes` are rows, the rest fills it up.
  void add(std::span<const std::byte> chunk, std::size_t bytes, std::size_t item_bytes) {
    XXH3_64bits_update(&state_, chunk.data(), bytes);
    out_.chunks.push_back(h5::compress_chunk(chunk, item_bytes, h5::RandomPlanes::kStored));
  }

 private:
  EncodedColumn& out_;
  XXH3_state_t state_;
};

// Encodes one chunk of every column before the next chunk of any column, so that the rows stay in the cache.
template <typename Row>
void encode_rows(const std::vector<Row>& rows, const Numbers& ranks, const Numbers& counters,
                 BlockParts& parts) {
  constexpr std::size_t kTable = kTableOf<Row>;
  constexpr std::size_t kColumns = kPathColumn[kTable] - kRankColumn[kTable];
  parts.rows[kTable] = rows.size();
  std::vector<std::uint32_t> paths, first_rows;
  {
    std::vector<std::unique_ptr<ColumnEncoder>> encoders;
    for (std::size_t i = 0; i < kColumns; ++i)
      encoders.push_back(std::make_unique<ColumnEncoder>(parts.columns[kRankColumn[kTable] + i]));
    std::vector<std::uint64_t> buffer(kBlockChunkRows);
    for (std::size_t begin = 0; begin < rows.size(); begin += kBlockChunkRows) {
      const std::span<const Row> part =
          std::span(rows).subspan(begin, std::min<std::size_t>(kBlockChunkRows, rows.size() - begin));
      const auto column = [&]<typename Stored>(std::size_t index, Stored, auto value_of) {
        // The same memory for columns of all widths.
        auto* const out = reinterpret_cast<std::byte*>(buffer.data());
        for (std::size_t i = 0; i < part.size(); ++i) {
          const auto value = static_cast<Stored>(value_of(part[i]));
          std::memcpy(out + i * sizeof value, &value, sizeof value);
        }
        std::memset(out + part.size() * sizeof(Stored), 0, (kBlockChunkRows - part.size()) * sizeof(Stored));
        encoders[index]->add(std::span(out, kBlockChunkRows * sizeof(Stored)), part.size() * sizeof(Stored),
                             sizeof(Stored));
      };
      column(0, std::uint32_t{}, [&](const Row& row) { return ranks.index_of(row.rank); });
      if constexpr (std::is_same_v<Row, shard::PathCounter>)
        column(1, std::uint32_t{}, [&](const Row& row) { return counters.index_of(row.counter); });
      visit_fields(static_cast<const Row*>(nullptr), [&](std::size_t index, auto field) {
        using Field = std::remove_cvref_t<std::invoke_result_t<decltype(field), const Row&>>;
        column(index, typename StoredAs<Field>::type{}, field);
      });
      for (std::size_t i = 0; i < part.size(); ++i)
        if (paths.empty() || part[i].path != paths.back()) {
          paths.push_back(part[i].path);
          first_rows.push_back(static_cast<std::uint32_t>(begin + i));
        }
    }
  }
  parts.paths[kTable] = paths.size();
  if (!paths.empty()) parts.end_path = std::max(parts.end_path, paths.back() + 1);
  parts.columns[kPathColumn[kTable]] = encode_column(paths);
  parts.columns[kPathColumn[kTable] + 1] = encode_column(first_rows);
}

// --- bytes ---------------------------------------------------------------------------------

constexpr std::uint64_t kMagic = 0x314b'4c42'4650'4c43;  // "CLPFBLK1"

class Packer {
 public:
  explicit Packer(std::size_t bytes) { bytes_.reserve(bytes); }
  void put(std::uint64_t value) { put(std::as_bytes(std::span(&value, 1))); }
  void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> finish() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > rest_.size()) throw h5::H5Error("a block of a node is cut off");
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::vector<std::uint32_t> list() {
    const std::uint64_t count = number();
    const std::span<const std::byte> bytes =
        take(count > rest_.size() ? count : count * sizeof(std::uint32_t));
    std::vector<std::uint32_t> values(bytes.size() / sizeof(std::uint32_t));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

std::uint64_t chunks_of(std::uint64_t rows) { return rows / kBlockChunkRows + (rows % kBlockChunkRows != 0); }

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

EncodedColumn encode_column(std::span<const std::uint32_t> rows) {
  EncodedColumn column;
  column.xxh3 = checksum_of(std::as_bytes(rows));
  std::vector<std::uint32_t> chunk(kBlockChunkRows);
  for (std::size_t begin = 0; begin < rows.size(); begin += kBlockChunkRows) {
    const auto part = rows.subspan(begin, std::min<std::size_t>(kBlockChunkRows, rows.size() - begin));
    std::copy(part.begin(), part.end(), chunk.begin());
    std::fill(chunk.begin() + static_cast<std::ptrdiff_t>(part.size()), chunk.end(), 0);
    column.chunks.push_back(h5::compress_chunk(std::as_bytes(std::span(chunk)), sizeof(std::uint32_t)));
  }
  return column;
}

EncodedBlock BlockParts::pack() const {
  std::size_t bytes = 1024 + (ranks.size() + counters.size()) * sizeof(std::uint32_t);
  for (const EncodedColumn& column : columns)
    for (const auto& chunk : column.chunks) bytes += chunk.size() + sizeof(std::uint64_t);
  Packer packer(bytes);
  packer.put(kMagic);
  packer.put(node);
  packer.put(end_path);
  for (const auto* list : {&ranks, &counters}) {
    packer.put(list->size());
    packer.put(std::as_bytes(std::span(*list)));
  }
  for (std::size_t table = 0; table < kMatrixTables; ++table) {
    packer.put(rows[table]);
    packer.put(paths[table]);
  }
  for (const EncodedColumn& column : columns) {
    packer.put(column.xxh3);
    for (const auto& chunk : column.chunks) {
      packer.put(chunk.size());
      packer.put(chunk);
    }
  }
  return {std::move(packer).finish()};
}

BlockParts unpack(const EncodedBlock& block) {
  Unpacker unpacker(block.bytes);
  BlockParts parts;
  if (unpacker.number() != kMagic) throw h5::H5Error("a block of a node is none");
  parts.node = static_cast<std::uint32_t>(unpacker.number());
  parts.end_path = static_cast<std::uint32_t>(unpacker.number());
  parts.ranks = unpacker.list();
  parts.counters = unpacker.list();
  for (std::size_t table = 0; table < kMatrixTables; ++table) {
    parts.rows[table] = unpacker.number();
    parts.paths[table] = unpacker.number();
  }
  for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
    parts.columns[i].xxh3 = unpacker.number();
    for (std::uint64_t chunk = chunks_of(parts.rows_of(kBlockColumns[i])); chunk > 0; --chunk) {
      const std::span<const std::byte> bytes = unpacker.take(unpacker.number());
      parts.columns[i].chunks.emplace_back(bytes.begin(), bytes.end());
    }
  }
  if (!unpacker.at_end()) throw h5::H5Error("a block of a node has more than belongs to it");
  return parts;
}

EncodedBlock encode_block(std::uint32_t node, shard::MatrixRows rows) {
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (std::max({rows.values.size(), rows.path_counters.size(), rows.data_accesses.size()}) > kMax)
    throw std::length_error("a node has more rows than a block can hold");
  shard::sort_rows(rows, shard::RowOrder::kByPath);
  unite_equal(rows.values);
  unite_equal(rows.path_counters);
  unite_equal(rows.data_accesses);

  Numbers ranks, counters;
  for (const shard::Value& row : rows.values) ranks.add(row.rank);
  for (const shard::PathCounter& row : rows.path_counters) ranks.add(row.rank), counters.add(row.counter);
  for (const shard::DataAccess& row : rows.data_accesses) ranks.add(row.rank);
  BlockParts parts;
  parts.node = node;
  parts.ranks = ranks.finish();
  parts.counters = counters.finish();
  encode_rows(rows.values, ranks, counters, parts);
  encode_rows(rows.path_counters, ranks, counters, parts);
  encode_rows(rows.data_accesses, ranks, counters, parts);
  return parts.pack();
}

}  // namespace clusterprof::profile
