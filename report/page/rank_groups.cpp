// SPDX-License-Identifier: BSD-3-Clause
// Groups ranks so that the page's size does not grow with their number: rows of heat maps, and groups with
// times per call path. Outliers stay on their own.
#include "report/page/rank_groups.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace clusterprof::report {
namespace {

constexpr std::size_t kFewest = 8;  // ranks that say what is usual

double middle(std::vector<double>& values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Raises the `score` of ranks by their distance from the median.
template <typename Of>
void score_by(const std::vector<RankInfo>& ranks, double least_scale, std::vector<double>& score,
              const Of& of) {
  std::vector<double> values;
  for (const RankInfo& rank : ranks)
    if (const std::optional<double> value = of(rank)) values.push_back(*value);
  if (values.size() < kFewest) return;
  const double median = middle(values);
  for (double& value : values) value = std::abs(value - median);
  const double scale = std::max({1.4826 * middle(values), median / 100, least_scale});
  if (!(scale > 0)) return;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (const std::optional<double> value = of(ranks[i]))
      score[i] = std::max(score[i], std::abs(*value - median) / scale);
}

}  // namespace

std::vector<std::uint32_t> find_outliers(const Analysis& analysis, std::size_t most) {
  const std::vector<RankInfo>& ranks = analysis.ranks;
  std::vector<double> score(ranks.size(), 0);
  // A difference of a few samples is chance.
  const double least_s = ranks.empty() ? 0 : analysis.rank_seconds / static_cast<double>(ranks.size()) / 100;
  score_by(ranks, least_s, score, [](const RankInfo& rank) { return std::optional(rank.elapsed_s); });
  for (const auto time :
       {&RankInfo::cpu_s, &RankInfo::useful_s, &RankInfo::mpi_wait_s, &RankInfo::mpi_transfer_s})
    score_by(ranks, least_s, score, [&](const RankInfo& rank) { return rank.*time; });
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    score_by(ranks, least_s, score, [&](const RankInfo& rank) { return rank.category_s[c]; });
  score_by(ranks, 0, score, [](const RankInfo& rank) {
    return rank.max_rss_bytes ? std::optional(static_cast<double>(*rank.max_rss_bytes)) : std::nullopt;
  });

  constexpr double kNamed = std::numeric_limits<double>::infinity(),
                   kLost = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].lost) score[i] = kLost;
  const auto named = [&](const std::optional<std::int32_t>& number) {
    if (!number) return;
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), *number,
                                     [](const RankInfo& rank, std::int32_t n) { return rank.rank < n; });
    if (at != ranks.end() && at->rank == *number)
      score[static_cast<std::size_t>(at - ranks.begin())] = kNamed;
  };
  named(analysis.slowest_rank);
  for (const Finding& finding : analysis.findings) named(finding.rank);

  std::vector<std::uint32_t> outliers;
  for (std::uint32_t i = 0; i < ranks.size(); ++i)
    if (score[i] > kOutlier) outliers.push_back(i);
  std::stable_sort(outliers.begin(), outliers.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return score[a] > score[b]; });
  outliers.resize(std::min(outliers.size(), most));
  return outliers;
}

void divide_into_rows(const Analysis& analysis, const std::vector<std::uint32_t>& outliers, std::size_t most,
                      PageData& page) {
  const std::vector<RankInfo>& ranks = analysis.ranks;
  std::vector<bool> alone(ranks.size(), ranks.size() <= most);
  if (ranks.size() > most)
    for (const std::uint32_t rank : outliers) alone[rank] = true;
  std::size_t width = 1;  // a power of two, as numbers of ranks per node often are
  while ((ranks.size() + width - 1) / width > std::max<std::size_t>(most, 1)) width *= 2;

  struct Row {
    PageRow row;
    std::vector<std::uint32_t> ranks;
  };
  std::vector<Row> rows;
  for (std::uint32_t begin = 0; begin < ranks.size(); begin += static_cast<std::uint32_t>(width)) {
    const auto end = static_cast<std::uint32_t>(std::min(begin + width, ranks.size()));
    Row together;
    const std::size_t first = rows.size();
    for (std::uint32_t rank = begin; rank < end; ++rank) {
      if (alone[rank])
        rows.push_back({{}, {rank}});
      else
        together.ranks.push_back(rank);
    }
    if (!together.ranks.empty()) rows.push_back(std::move(together));
    std::sort(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end(),
              [](const Row& a, const Row& b) { return a.ranks.front() < b.ranks.front(); });
  }
  page.row_of_rank.assign(ranks.size(), 0);
  for (Row& row : rows) {
    row.row.first_rank = ranks[row.ranks.front()].rank;
    row.row.last_rank = ranks[row.ranks.back()].rank;
    row.row.ranks = static_cast<std::uint32_t>(row.ranks.size());
    row.row.node = ranks[row.ranks.front()].node;
    for (const std::uint32_t rank : row.ranks) {
      page.row_of_rank[rank] = static_cast<std::uint32_t>(page.rows.size());
      if (ranks[rank].node != row.row.node) row.row.node = shard::kNone;
    }
    if (row.row.node >= analysis.nodes.size()) row.row.node = shard::kNone;
    page.rows.push_back(row.row);
  }
}

GroupTimes::GroupTimes(const Analysis& analysis, const std::vector<std::uint32_t>& alone,
                       std::size_t most_times)
    : places_(analysis.ranks.size()), most_times_(most_times) {
  std::vector<std::uint32_t> on_node(analysis.nodes.size() + 1, 0);
  std::uint32_t most_on_node = 1;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::size_t node = std::min<std::size_t>(analysis.ranks[i].node, analysis.nodes.size());
    places_[i] = {static_cast<std::uint32_t>(node), on_node[node]++, false};
    most_on_node = std::max(most_on_node, on_node[node]);
  }
  for (const std::uint32_t rank : alone) places_[rank].alone = true;
  node_shift_ = static_cast<std::uint32_t>(std::bit_width(most_on_node - 1));
  last_shift_ = node_shift_ + static_cast<std::uint32_t>(std::bit_width(analysis.nodes.size()));
}

GroupTimes::Group GroupTimes::group_of(std::uint32_t rank) const {
  const Place& place = places_[rank];
  if (shift_ == 0) return {place.node, place.at};
  // No node has so many ranks.
  if (place.alone) return {place.node, (1u << 31) + place.at};
  if (shift_ <= node_shift_) return {place.node, place.at >> shift_};
  return {place.node >> (shift_ - node_shift_), 0};
}

GroupTimes::Division GroupTimes::divide(std::span<const std::uint32_t> ranks) const {
  Division division;
  std::map<Group, std::uint32_t> numbers;
  for (const std::uint32_t rank : ranks) {
    const auto [at, is_new] =
        numbers.try_emplace(group_of(rank), static_cast<std::uint32_t>(division.first_rank.size()));
    if (is_new) division.first_rank.push_back(rank);
    division.group_of.push_back(at->second);
  }
  return division;
}

void GroupTimes::unite(Times& into, const Times& from) {
  const auto before = [](const Time& a, const Time& b) { return a.key < b.key; };
  if (!std::includes(into.begin(), into.end(), from.begin(), from.end(), before)) {
    Times keys;
    keys.reserve(into.size() + from.size());
    std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(keys), before);
    for (auto key = keys.begin(), known = into.begin(); key != keys.end(); ++key) {
      if (known != into.end() && known->key == key->key)
        ++known;
      else
        *key = {key->key, 0, 0};
    }
    into = std::move(keys);
  }
  auto at = into.begin();
  for (const Time& time : from) {
    while (at->key != time.key) ++at;
    at->all_ns += time.all_ns;
    at->helper_idle_ns += time.helper_idle_ns;
  }
}

void GroupTimes::add(std::uint32_t rank, const Times& times) {
  Content& content = contents_[group_of(rank)];
  content.rank = rank;
  times_ -= content.times.size();
  unite(content.times, times);
  times_ += content.times.size();
  shrink_to(most_times_);
}

void GroupTimes::shrink_to(std::size_t most_times) {
  while (times_ > most_times && shift_ < last_shift_) {
    ++shift_;
    std::map<Group, Content> wider;
    times_ = 0;
    for (auto& [group, content] : contents_) {
      const auto [at, is_new] = wider.try_emplace(group_of(content.rank));
      if (is_new)
        at->second = std::move(content);
      else
        unite(at->second.times, content.times);
    }
    for (const auto& [group, content] : wider) times_ += content.times.size();
    contents_ = std::move(wider);
  }
}

void GroupTimes::rename(const std::function<std::uint32_t(std::uint32_t)>& new_key, std::size_t most_times) {
  times_ = 0;
  for (auto& [group, content] : contents_) {
    Times& times = content.times;
    for (Time& time : times) time.key = new_key(time.key);
    std::sort(times.begin(), times.end(), [](const Time& a, const Time& b) { return a.key < b.key; });
    std::size_t size = 0;
    for (const Time& time : times) {
      if (size != 0 && times[size - 1].key == time.key) {
        times[size - 1].all_ns += time.all_ns;
        times[size - 1].helper_idle_ns += time.helper_idle_ns;
      } else {
        times[size++] = time;
      }
    }
    times.resize(size);
    times_ += size;
  }
  shrink_to(most_times);
}

std::pair<std::vector<std::uint32_t>, std::vector<const GroupTimes::Times*>> GroupTimes::groups() const {
  static const Times kNone;
  std::map<Group, std::uint32_t> numbers;
  std::vector<std::uint32_t> group_of_rank(places_.size());
  std::vector<const Times*> times;
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank) {
    const Group group = group_of(rank);
    const auto [at, is_new] = numbers.try_emplace(group, static_cast<std::uint32_t>(times.size()));
    group_of_rank[rank] = at->second;
    if (!is_new) continue;
    const auto content = contents_.find(group);
    times.push_back(content == contents_.end() ? &kNone : &content->second.times);
  }
  return {std::move(group_of_rank), std::move(times)};
}

}  // namespace clusterprof::report
