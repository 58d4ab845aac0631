// SPDX-License-Identifier: BSD-3-Clause
// Computes the statistics of each call path over ranks while the ranks' rows pass by. Sums are integers,
// so the result does not depend on how the ranks were divided among processes.
#include "formats/profile/path_statistics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cereal/archives/binary.hpp>
#include <cereal/types/vector.hpp>
#include <cmath>
#include <istream>
#include <new>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/byte_streams.hpp"

namespace clusterprof::profile {
namespace {

// --- bins ----------------------------------------------------------------------------------

constexpr std::uint64_t kAll = ~std::uint64_t{0};

// What the mantissa of a time, shifted until its highest bit is set, is above in the nth part of its power of
// two and those behind it: 2^(63 + n/8), rounded up, less one. Nothing is in the part behind the last.
constexpr std::array<std::uint64_t, 9> kPartBegins_less_1 = {
    0x7fff'ffff'ffff'ffff, 0x8b95'c1e3'ea8b'd6e6, 0x9837'f051'8db8'a96f,
    0xa5fe'd6a9'b151'38ea, 0xb504'f333'f9de'6484, 0xc567'2a11'5506'dadd,
    0xd744'fcca'd69d'6af4, 0xeac0'c6e7'dd24'392e, kAll};

// The part that the smallest mantissa with these highest eight bits (the first of them 1) lies in. No
// interval of them has the begins of two parts in it.
constexpr std::array<std::uint8_t, 128> kPartAtLeast = [] {
  std::array<std::uint8_t, 128> parts{};
  for (std::uint64_t i = 0; i < parts.size(); ++i)
    while ((128 + i) << 56 > kPartBegins_less_1[parts[i] + 1u]) ++parts[i];
  return parts;
}();

constexpr unsigned bin_of(std::uint64_t time_ns) {
  if (time_ns == 0) return 0;
  const auto zeros = static_cast<unsigned>(std::countl_zero(time_ns));
  const std::uint64_t mantissa = time_ns << zeros;
  unsigned part = kPartAtLeast[mantissa >> 56 & 127];
  part += mantissa > kPartBegins_less_1[part + 1];
  return 1 + 8 * (63 - zeros) + part;
}

constexpr unsigned kBins = 1 + 8 * 64;
static_assert(bin_of(1) == 1 && bin_of(2) == 9 && bin_of(kAll) == kBins - 1);

// --- what is kept of a path ----------------------------------------------------------------

// The counters of the bins that a path's times are in, but for bin 0: a window of all bins in a common pool.
struct Bins {
  std::uint32_t zeros = 0;
  std::uint32_t begin = 0;  // in the pool
  std::uint16_t first = 0, count = 0;
};

// Two cache lines, since a merge spends much of its time waiting for these.
struct alignas(64) Entry {
  Spread inclusive, exclusive;
  std::uint32_t ranks = 0;
  Bins bins[2];  // inclusive, exclusive
};
static_assert(sizeof(Entry) == 128);

class BinPool {
 public:
  void add(Bins& bins, unsigned bin, std::uint32_t ranks) {
    if (bin == 0) {
      bins.zeros += ranks;
      return;
    }
    if (bin - bins.first >= bins.count) widen(bins, bin);
    counts_[bins.begin + (bin - bins.first)] += ranks;
  }
  [[nodiscard]] std::uint32_t count(const Bins& bins, unsigned bin) const {
    if (bin == 0) return bins.zeros;
    return bin - bins.first < bins.count ? counts_[bins.begin + (bin - bins.first)] : 0;
  }
  // How many bins have ranks.
  [[nodiscard]] std::size_t in_use(const Bins& bins) const {
    const auto* const first = counts_.data() + bins.begin;
    return (bins.zeros != 0) + static_cast<std::size_t>(bins.count) -
           static_cast<std::size_t>(std::count(first, first + bins.count, 0u));
  }

 private:
  static constexpr unsigned kFirstCount = 2;  // enough for paths that one rank has

  // Windows only grow, to about twice the size: what they leave behind is less than what they have.
  void widen(Bins& bins, unsigned bin) {
    unsigned first = bin > kFirstCount / 2 ? bin - kFirstCount / 2 : 1;
    unsigned end = first + kFirstCount;
    if (bins.count != 0) {
      const unsigned old_end = bins.first + bins.count;
      first = bin < bins.first ? std::min(bin, bins.first - std::min<unsigned>(bins.first - 1, bins.count))
                               : bins.first;
      end = bin >= old_end ? std::max(bin + 1, old_end + bins.count) : old_end;
    }
    end = std::min(end, kBins);
    const std::size_t begin = counts_.size();
    if (begin + (end - first) > shard::kNone) throw std::length_error("too many call paths for statistics");
    counts_.resize(begin + (end - first));
    for (unsigned i = 0; i < bins.count; ++i)
      counts_[begin + (bins.first - first) + i] = counts_[bins.begin + i];
    bins.begin = static_cast<std::uint32_t>(begin);
    bins.first = static_cast<std::uint16_t>(first);
    bins.count = static_cast<std::uint16_t>(end - first);
  }

  std::vector<std::uint32_t> counts_;
};

inline void add_time(Spread& spread, bool first, std::int32_t rank, std::uint64_t ns) {
  spread.sum_ns += ns;
  spread.sum_squares_ns2 += static_cast<Squares>(ns) * ns;
  if (first || ns < spread.min_ns || (ns == spread.min_ns && rank < spread.min_rank)) {
    spread.min_ns = ns;
    spread.min_rank = rank;
  }
  if (first || ns > spread.max_ns || (ns == spread.max_ns && rank < spread.max_rank)) {
    spread.max_ns = ns;
    spread.max_rank = rank;
  }
}

void unite(Spread& spread, bool first, const Spread& other) {
  spread.sum_ns += other.sum_ns;
  spread.sum_squares_ns2 += other.sum_squares_ns2;
  if (first || std::pair(other.min_ns, other.min_rank) < std::pair(spread.min_ns, spread.min_rank)) {
    spread.min_ns = other.min_ns;
    spread.min_rank = other.min_rank;
  }
  if (first || other.max_ns > spread.max_ns ||
      (other.max_ns == spread.max_ns && other.max_rank < spread.max_rank)) {
    spread.max_ns = other.max_ns;
    spread.max_rank = other.max_rank;
  }
}

// One behind the last path of each one's subtree; empty when they are not in preorder.
std::vector<std::uint32_t> subtree_ends(const std::vector<std::uint32_t>& parents) {
  std::vector<std::uint32_t> ends(parents.size());
  std::vector<std::uint32_t> open;
  for (std::uint32_t path = 0; path < parents.size(); ++path) {
    while (!open.empty() && open.back() != parents[path]) {
      ends[open.back()] = path;
      open.pop_back();
    }
    if (open.empty() && path != 0) return {};
    open.push_back(path);
  }
  for (const std::uint32_t path : open) ends[path] = static_cast<std::uint32_t>(parents.size());
  return ends;
}

}  // namespace

std::uint16_t quantile_bin(std::uint64_t time_ns) { return static_cast<std::uint16_t>(bin_of(time_ns)); }

std::uint64_t quantile_bin_lower_ns(std::uint16_t bin) {
  if (bin == 0) return 0;
  if (bin >= kBins) return kAll;
  const unsigned exponent = (bin - 1u) / 8, part = (bin - 1u) % 8;
  if (part == 0) return std::uint64_t{1} << exponent;
  // The smallest number that is above the limit when shifted; of small powers of two it belongs to a later
  // bin.
  const std::uint64_t limit = kPartBegins_less_1[part];
  return (limit >> (63 - exponent)) + 1;
}

std::optional<double> PathStatisticsTable::quantile_ns(std::uint32_t path, bool exclusive,
                                                       double share) const {
  const auto before = [](const QuantileBin& row, std::pair<std::uint32_t, bool> key) {
    return std::pair(row.path, row.exclusive) < key;
  };
  const auto begin =
      std::lower_bound(quantile_bins.begin(), quantile_bins.end(), std::pair(path, exclusive), before);
  auto end = begin;
  std::uint64_t ranks = 0;
  for (; end != quantile_bins.end() && end->path == path && end->exclusive == exclusive; ++end)
    ranks += end->ranks;
  if (ranks == 0) return std::nullopt;
  const double wanted =
      std::clamp(std::ceil(share * static_cast<double>(ranks)), 1.0, static_cast<double>(ranks));
  std::uint64_t at_or_below = 0;
  for (auto row = begin; row != end; ++row) {
    at_or_below += row->ranks;
    if (static_cast<double>(at_or_below) < wanted) continue;
    if (row->bin == 0) return 0.0;
    const std::uint64_t first = quantile_bin_lower_ns(row->bin);
    // Whole nanoseconds: the last that is in the bin, not the first that is not.
    const std::uint64_t next = quantile_bin_lower_ns(static_cast<std::uint16_t>(row->bin + 1));
    const std::uint64_t last = row->bin + 1u == kBins ? kAll : std::max(next, first + 1) - 1;
    const double middle = std::sqrt(static_cast<double>(first)) * std::sqrt(static_cast<double>(last));
    if (path >= paths.size()) return middle;
    const Spread& spread = exclusive ? paths[path].exclusive : paths[path].inclusive;
    return std::max(static_cast<double>(spread.min_ns), std::min(middle, static_cast<double>(spread.max_ns)));
  }
  return std::nullopt;  // not reached: at_or_below becomes ranks
}

// --- builder -------------------------------------------------------------------------------

// Ranks are collected until there are some tens of them and then taken path by path: to touch the entries of
// all of a rank's paths for each rank costs ten times as much, most of it waiting for memory.
struct PathStatisticsBuilder::State {
  explicit State(const std::vector<shard::Path>& paths) : entries(paths.size()) {
    parents.reserve(paths.size());
    for (const shard::Path& path : paths) parents.push_back(path.parent);
    ends = subtree_ends(parents);
  }

  // Values by path, paths in preorder.
  void collect(std::int32_t rank, std::span<const shard::Value> values) {
    if (values.empty()) return;
    if (collected_ranks == kTogether || collected.size() >= kMaxCollected) take_collected();
    const auto slot = static_cast<std::uint8_t>(collected_ranks++);
    rank_of_slot[slot] = rank;
    for (std::size_t i = 0; i < values.size();) {
      const std::uint32_t path = values[i].path;
      std::uint64_t wall_ns = 0;
      for (; i < values.size() && values[i].path == path; ++i) wall_ns += values[i].wall_ns;
      collected.push_back({wall_ns, path, slot});
    }
  }

  void take_collected() {
    if (collected.empty()) return;
    first_of_path.assign(parents.size() + 1, 0);
    for (const Collected& row : collected) ++first_of_path[row.path + 1];
    std::partial_sum(first_of_path.begin(), first_of_path.end(), first_of_path.begin());
    by_path.resize(collected.size());
    for (const Collected& row : collected) by_path[first_of_path[row.path]++] = row;
    for (std::size_t i = 0; i < by_path.size();) {
      const std::uint32_t path = by_path[i].path;
      open_with_parents(path);
      Open& own = open[opened - 1];
      for (; i < by_path.size() && by_path[i].path == path; ++i) {
        const Collected& row = by_path[i];
        own.slots |= std::uint64_t{1} << row.slot;
        own.inclusive[row.slot] = own.exclusive[row.slot] = row.wall_ns;
      }
    }
    while (opened != 0) close();
    collected.clear();
    collected_ranks = 0;
  }

  void add_in_any_order(std::int32_t rank, std::span<const shard::Value> values) {
    if (touched.empty()) {
      touched.resize(parents.size());
      inclusive_ns.resize(parents.size());
      exclusive_ns.resize(parents.size());
    }
    missing.clear();
    for (const shard::Value& value : values) {
      exclusive_ns[value.path] += value.wall_ns;
      for (std::uint32_t path = value.path; !touched[path]; path = parents[path]) {
        touched[path] = true;
        missing.push_back(path);
      }
    }
    // A parent has a smaller index than its children: from the end, each is complete when met.
    std::sort(missing.begin(), missing.end(), std::greater<>());
    for (const std::uint32_t path : missing) {
      inclusive_ns[path] += exclusive_ns[path];
      if (path != 0) inclusive_ns[parents[path]] += inclusive_ns[path];
      put(entries[path], rank, inclusive_ns[path], exclusive_ns[path]);
      inclusive_ns[path] = exclusive_ns[path] = 0;
      touched[path] = false;
    }
  }

  std::vector<std::uint32_t> parents, ends;  // ends: empty when paths are not in preorder
  std::vector<Entry> entries;
  BinPool pool;

 private:
  static constexpr std::size_t kTogether = 64;                        // ranks; bits of Open::slots
  static constexpr std::size_t kMaxCollected = std::size_t{1} << 20;  // values, but for the last rank's

  struct Collected {
    std::uint64_t wall_ns = 0;
    std::uint32_t path = 0;
    std::uint8_t slot = 0;  // the rank's among those collected
  };
  // A path between the root and the one at hand, with what the ranks have of it so far.
  struct Open {
    std::uint32_t path = 0;
    std::uint64_t slots = 0;  // ranks that have it
    std::array<std::uint64_t, kTogether> inclusive, exclusive;
  };

  void put(Entry& entry, std::int32_t rank, std::uint64_t inclusive, std::uint64_t exclusive) {
    const bool first = entry.ranks++ == 0;
    add_time(entry.inclusive, first, rank, inclusive);
    add_time(entry.exclusive, first, rank, exclusive);
    const unsigned inclusive_bin = bin_of(inclusive);
    pool.add(entry.bins[0], inclusive_bin, 1);
    pool.add(entry.bins[1], exclusive == inclusive ? inclusive_bin : bin_of(exclusive), 1);
  }

  void open_with_parents(std::uint32_t path) {
    while (opened != 0 && ends[open[opened - 1].path] <= path) close();
    missing.clear();
    for (std::uint32_t above = path; opened == 0 || open[opened - 1].path != above; above = parents[above]) {
      missing.push_back(above);
      if (above == 0) break;
    }
    for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
      if (opened == open.size()) open.emplace_back();
      open[opened].path = *next;
      open[opened].slots = 0;
      ++opened;
    }
  }

  void close() {
    const Open& last = open[--opened];
    Open* const parent = opened != 0 ? &open[opened - 1] : nullptr;
    Entry& entry = entries[last.path];
    for (std::uint64_t slots = last.slots; slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      put(entry, rank_of_slot[slot], last.inclusive[slot], last.exclusive[slot]);
      if (parent == nullptr) continue;
      if ((parent->slots >> slot & 1) != 0) {
        parent->inclusive[slot] += last.inclusive[slot];
      } else {
        parent->inclusive[slot] = last.inclusive[slot];
        parent->exclusive[slot] = 0;
      }
    }
    if (parent != nullptr) parent->slots |= last.slots;
  }

  std::vector<Collected> collected, by_path;
  std::size_t collected_ranks = 0;
  std::array<std::int32_t, kTogether> rank_of_slot{};
  std::vector<std::uint32_t> first_of_path;
  std::vector<Open> open;
  std::size_t opened = 0;  // of them in use
  std::vector<std::uint32_t> missing;
  std::vector<bool> touched;
  std::vector<std::uint64_t> inclusive_ns, exclusive_ns;
};

PathStatisticsBuilder::PathStatisticsBuilder(const std::vector<shard::Path>& paths)
    : state_(std::make_unique<State>(paths)) {}
PathStatisticsBuilder::~PathStatisticsBuilder() = default;
PathStatisticsBuilder::PathStatisticsBuilder(PathStatisticsBuilder&&) noexcept = default;
PathStatisticsBuilder& PathStatisticsBuilder::operator=(PathStatisticsBuilder&&) noexcept = default;

void PathStatisticsBuilder::add(std::int32_t world_rank, std::span<const shard::Value> values) {
  const auto before = [](const shard::Value& a, const shard::Value& b) { return a.path < b.path; };
  if (!state_->ends.empty() && std::is_sorted(values.begin(), values.end(), before))
    state_->collect(world_rank, values);
  else
    state_->add_in_any_order(world_rank, values);
}

void PathStatisticsBuilder::absorb(const PathStatisticsTable& other) {
  if (other.paths.size() != state_->entries.size())
    throw std::invalid_argument("statistics of other call paths cannot be united");
  for (std::size_t path = 0; path < other.paths.size(); ++path) {
    const PathStatistics& theirs = other.paths[path];
    if (theirs.ranks == 0) continue;
    Entry& ours = state_->entries[path];
    const bool first = ours.ranks == 0;
    ours.ranks += theirs.ranks;
    unite(ours.inclusive, first, theirs.inclusive);
    unite(ours.exclusive, first, theirs.exclusive);
  }
  for (const QuantileBin& row : other.quantile_bins) {
    if (row.path >= state_->entries.size() || row.bin >= kBins)
      throw std::invalid_argument("statistics of other call paths cannot be united");
    state_->pool.add(state_->entries[row.path].bins[row.exclusive], row.bin, row.ranks);
  }
}

PathStatisticsTable PathStatisticsBuilder::finish() {
  state_->take_collected();
  PathStatisticsTable table;
  table.paths.reserve(state_->entries.size());
  for (const Entry& entry : state_->entries)
    table.paths.push_back({entry.ranks, entry.inclusive, entry.exclusive});
  std::size_t bins_in_use = 0;
  for (const Entry& entry : state_->entries)
    for (const Bins& bins : entry.bins) bins_in_use += state_->pool.in_use(bins);
  table.quantile_bins.reserve(bins_in_use);
  for (std::uint32_t path = 0; path < state_->entries.size(); ++path)
    for (const bool exclusive : {false, true}) {
      const Bins& bins = state_->entries[path].bins[exclusive];
      if (bins.zeros != 0) table.quantile_bins.push_back({path, exclusive, 0, bins.zeros});
      for (unsigned bin = bins.first; bin < bins.first + 0u + bins.count; ++bin)
        if (const std::uint32_t ranks = state_->pool.count(bins, bin); ranks != 0)
          table.quantile_bins.push_back({path, exclusive, static_cast<std::uint16_t>(bin), ranks});
    }
  return table;
}

// --- bytes ---------------------------------------------------------------------------------

template <typename Archive>
void serialize(Archive& archive, Spread& spread) {
  auto low = static_cast<std::uint64_t>(spread.sum_squares_ns2);
  auto high = static_cast<std::uint64_t>(spread.sum_squares_ns2 >> 64);
  archive(spread.sum_ns, spread.min_ns, spread.max_ns, spread.min_rank, spread.max_rank, low, high);
  if constexpr (Archive::is_loading::value) spread.sum_squares_ns2 = static_cast<Squares>(high) << 64 | low;
}
template <typename Archive>
void serialize(Archive& archive, PathStatistics& statistics) {
  archive(statistics.ranks, statistics.inclusive, statistics.exclusive);
}
template <typename Archive>
void serialize(Archive& archive, QuantileBin& row) {
  archive(row.path, row.exclusive, row.bin, row.ranks);
}

std::vector<std::byte> to_bytes(const PathStatisticsTable& table) {
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  std::ostream stream(&writer);
  cereal::BinaryOutputArchive archive(stream);
  archive(table.paths, table.quantile_bins);
  return bytes;
}

Result<PathStatisticsTable> from_bytes(std::span<const std::byte> bytes) {
  constexpr const char* kNoStatistics = "statistics of call paths cannot be read";
  try {
    ByteReader reader(bytes);
    std::istream stream(&reader);
    cereal::BinaryInputArchive archive(stream);
    PathStatisticsTable table;
    const auto read = [&](auto& rows) {
      cereal::size_type count = 0;
      archive(cereal::make_size_tag(count));
      // Each takes more bytes than that.
      if (count > bytes.size() / sizeof(std::uint64_t)) throw cereal::Exception(kNoStatistics);
      rows.resize(count);
      for (auto& row : rows) archive(row);
    };
    read(table.paths);
    read(table.quantile_bins);
    for (const QuantileBin& row : table.quantile_bins)
      if (row.path >= table.paths.size() || row.bin >= kBins) return Error{kNoStatistics};
    return table;
  } catch (const cereal::Exception&) {
    return Error{kNoStatistics};
  } catch (const std::bad_alloc&) {
    return Error{kNoStatistics};
  }
}

// --- all at once ---------------------------------------------------------------------------

PathStatisticsTable path_statistics(const shard::ShardData& data) {
  // Values by rank and path without comparing them.
  std::vector<std::uint64_t> next(data.paths.size() + 1);
  for (const shard::Value& value : data.values) ++next[value.path + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::size_t> by_path(data.values.size());
  for (std::size_t i = 0; i < data.values.size(); ++i) by_path[next[data.values[i].path]++] = i;

  std::vector<std::uint64_t> first(data.ranks.size() + 1);
  for (const shard::Value& value : data.values) ++first[value.rank + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  next.assign(first.begin(), first.end());
  std::vector<shard::Value> sorted(data.values.size());
  for (const std::size_t i : by_path) sorted[next[data.values[i].rank]++] = data.values[i];

  PathStatisticsBuilder builder(data.paths);
  for (std::size_t rank = 0; rank < data.ranks.size(); ++rank)
    builder.add(data.ranks[rank].rank, std::span(sorted).subspan(first[rank], first[rank + 1] - first[rank]));
  return builder.finish();
}

}  // namespace clusterprof::profile
