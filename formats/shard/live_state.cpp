// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/live_state.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "formats/shard/tables.hpp"

namespace clusterprof::shard {
namespace {

constexpr std::array<char, 8> kLiveMagic = {'C', 'P', 'L', 'I', 'V', 'E', '0', '1'};

// Rows are stored as they are in memory.
constexpr std::uint64_t layout() {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  for (const std::size_t size :
       {sizeof(Frame), sizeof(Path), sizeof(Rank), sizeof(CallUnderWay), sizeof(PendingRequest),
        sizeof(CollectiveCount), sizeof(LiveTime), kCategories, kThreadKinds})
    hash = (hash ^ size) * 0x100'0000'01b3;
  return hash;
}

struct LiveHeader {
  std::array<char, 8> magic = kLiveMagic;
  std::uint64_t layout = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0, checksum = 0;  // of what follows
  std::uint64_t header_checksum = 0;      // of the fields above
};
static_assert(std::has_unique_object_representations_v<LiveHeader>);

std::uint64_t checksum_of(const LiveHeader& header) {
  return XXH3_64bits(&header, offsetof(LiveHeader, header_checksum));
}

class Packer {
 public:
  explicit Packer(std::vector<std::byte>& out) : out_(out) {}

  template <typename T>
  void one(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(&value, sizeof value);
  }
  void text(const std::string& value) {
    one(static_cast<std::uint64_t>(value.size()));
    raw(value.data(), value.size());
  }
  template <typename Row>
  void rows(const std::vector<Row>& rows) {
    static_assert(std::is_trivially_copyable_v<Row>);
    one(static_cast<std::uint64_t>(rows.size()));
    raw(rows.data(), rows.size() * sizeof(Row));
  }
  template <typename Row, typename Fields>
  void each(const std::vector<Row>& rows, Fields fields) {
    one(static_cast<std::uint64_t>(rows.size()));
    for (const Row& row : rows) fields(row);
  }

 private:
  void raw(const void* from, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), begin, begin + bytes);
  }
  std::vector<std::byte>& out_;
};

struct Damaged : std::runtime_error {
  explicit Damaged(const char* how = "it does not fit its length") : std::runtime_error(how) {}
};

// Where a row that is stored as it is has its bools.
template <typename Row>
constexpr std::array<std::size_t, 0> kBoolsAt = {};
template <>
constexpr std::array<std::size_t, 2> kBoolsAt<Frame> = {offsetof(Frame, inlined),
                                                        offsetof(Frame, line_approximate)};
template <>
constexpr std::array<std::size_t, 1> kBoolsAt<CallUnderWay> = {offsetof(CallUnderWay, main_thread)};

// Other bytes than 0 and 1 are no bool, and must not get into one.
void require_bool(std::byte stored) {
  if (std::to_integer<unsigned>(stored) > 1) throw Damaged("a truth value is neither 0 nor 1");
}

// Throws Damaged.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  void one(T& value) {
    raw(&value, sizeof value);
  }
  void one(bool& value) {
    std::byte stored{};
    raw(&stored, sizeof stored);
    require_bool(stored);
    value = stored != std::byte{0};
  }
  void text(std::string& value) {
    value.resize(count(1));
    raw(value.data(), value.size());
  }
  template <typename Row>
  void rows(std::vector<Row>& rows) {
    const std::size_t number = count(sizeof(Row));
    for (const std::size_t at : kBoolsAt<Row>)
      for (std::size_t row = 0; row < number; ++row) require_bool(left_[row * sizeof(Row) + at]);
    rows.resize(number);
    raw(rows.data(), rows.size() * sizeof(Row));
  }
  template <typename Row, typename Fields>
  void each(std::vector<Row>& rows, Fields fields) {
    rows.clear();
    // One by one: a number that is too large takes no more memory than there are bytes for.
    for (std::size_t left = count(1); left > 0; --left) fields(rows.emplace_back());
  }
  void finish() const {
    if (!left_.empty()) throw Damaged();
  }

 private:
  // Of elements that take at least that much room.
  std::size_t count(std::size_t bytes_each) {
    std::uint64_t count = 0;
    one(count);
    if (count > left_.size() / bytes_each) throw Damaged();
    return count;
  }
  void raw(void* to, std::size_t bytes) {
    if (bytes > left_.size()) throw Damaged();
    if (bytes != 0) std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }
  std::span<const std::byte> left_;
};

// In both directions.
template <typename Archive, typename State>
void fields(Archive& archive, State& state) {
  archive.one(state.sequence);
  archive.one(state.watch);
  archive.one(state.memory_used_bytes);
  archive.one(state.memory_limit_bytes);
  auto& run = state.data.run;
  const auto text = [&](auto& value) { archive.text(value); };
  for (auto* const value :
       {&run.id, &run.clock, &run.sample_on, &run.launcher, &run.version, &run.mpi_library})
    archive.text(*value);
  archive.each(run.command, text);
  archive.each(run.own, text);
  archive.one(run.start_utc_ns);
  archive.one(run.world_size);
  archive.one(run.rate_hz);
  archive.one(run.only_regions);
  archive.one(run.standby);
  archive.each(state.data.strings, text);
  archive.rows(state.data.frames);
  archive.rows(state.data.paths);
  archive.each(state.data.nodes, [&](auto& node) {
    archive.text(node.name);
    archive.text(node.collector);
    archive.one(node.start_utc_ns);
    archive.one(node.elapsed_ns);
    archive.one(node.cpu_ns);
    archive.one(node.cpus);
    archive.one(node.memory_bytes);
    archive.one(node.as_of_utc_ns);
    archive.one(node.next_within_ns);
  });
  archive.rows(state.data.ranks);
  archive.rows(state.data.calls_under_way);
  archive.rows(state.data.pending_requests);
  archive.rows(state.data.collective_counts);
  archive.each(state.data.communicators, [&](auto& communicator) {
    archive.one(communicator.identity);
    archive.one(communicator.size);
    archive.text(communicator.name);
  });
  archive.each(state.data.threads, [&](auto& thread) {
    archive.one(thread.rank);
    archive.one(thread.last_path);
    archive.one(thread.pid);
    archive.one(thread.tid);
    archive.one(thread.kind);
    archive.one(thread.flags);
    archive.one(thread.count);
    archive.one(thread.start_utc_ns);
    archive.one(thread.elapsed_ns);
    archive.one(thread.cpu_ns);
    archive.one(thread.unmoved_ns);
    archive.one(thread.unmoved_cpu_ns);
    archive.one(thread.last_category);
    archive.text(thread.name);
  });
  archive.rows(state.rss_bytes);
  archive.rows(state.times);
}

Error damaged(const std::string& how) { return {"is damaged (" + how + ")", ErrorKind::kDamaged}; }

Result<void> check(const LiveState& state) {
  if (const Result<void> valid = validate(state.data); !valid) return valid.error();
  if (state.data.nodes.size() != 1) return Error{"it is not of one node"};
  if (state.data.run.world_size > kMaxWorldSize) return Error{"world_size is out of range"};
  if (state.rss_bytes.size() != state.data.ranks.size())
    return Error{"table rss_bytes does not fit the ranks"};
  const auto is_wrong = [&](const LiveTime& row) {
    return row.path >= state.data.paths.size() || static_cast<std::size_t>(row.category) >= kCategories;
  };
  if (std::any_of(state.times.begin(), state.times.end(), is_wrong))
    return Error{"table times: out of range"};
  return {};
}

}  // namespace

std::vector<std::byte> encode_live(const LiveState& state) {
  std::vector<std::byte> bytes(sizeof(LiveHeader));
  Packer packer(bytes);
  fields(packer, state);
  LiveHeader header;
  header.layout = layout();
  header.sequence = state.sequence;
  header.bytes = bytes.size() - sizeof header;
  header.checksum = XXH3_64bits(bytes.data() + sizeof header, header.bytes);
  header.header_checksum = checksum_of(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<LiveState> decode_live(std::span<const std::byte> bytes) {
  LiveHeader header;
  if (bytes.size() < sizeof header) return damaged("too short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kLiveMagic) return damaged("it is no live file");
  if (header.header_checksum != checksum_of(header)) return damaged("the checksum of its header is wrong");
  if (header.layout != layout()) return Error{"was written by another version", ErrorKind::kOtherVersion};
  // What is behind is left from a longer one.
  std::span<const std::byte> content = bytes.subspan(sizeof header);
  if (content.size() < header.bytes) return damaged("too short");
  content = content.first(header.bytes);
  if (header.checksum != XXH3_64bits(content.data(), content.size())) return damaged("its checksum is wrong");
  LiveState state;
  try {
    Unpacker unpacker(content);
    fields(unpacker, state);
    unpacker.finish();
  } catch (const Damaged& error) {
    return damaged(error.what());
  }
  if (const Result<void> right = check(state); !right) return damaged(right.error().message);
  return state;
}

}  // namespace clusterprof::shard
