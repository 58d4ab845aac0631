// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/change.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

namespace clusterprof::aggregator::whatif {
namespace {

constexpr double kMostFactor = 1e6;
constexpr double kMostThreads = 1 << 16;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, at - begin));
  }
  return words;
}

template <typename T>
std::optional<T> number_of(std::string_view word) {
  T number{};
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || read.ec != std::errc() || read.ptr != word.data() + word.size()) return {};
  return number;
}

// "x0.5"
std::optional<double> factor_of(std::string_view word) {
  if (!word.starts_with('x')) return {};
  const std::optional<double> factor = number_of<double>(word.substr(1));
  if (!factor || !std::isfinite(*factor) || *factor < 0 || *factor > kMostFactor) return {};
  return factor;
}

// "train.py:36"
bool read_place(std::string_view word, Change& change) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::optional<std::uint32_t> line = number_of<std::uint32_t>(word.substr(colon + 1));
  if (!line || *line == 0) return false;
  change.file = word.substr(0, colon);
  change.line = *line;
  return true;
}

// From the beginning of one word to the end of another: names may have blanks.
std::string between(std::string_view first, std::string_view last) {
  std::string name(first.data(), static_cast<std::size_t>(last.data() + last.size() - first.data()));
  if (name.ends_with("()")) name.resize(name.size() - 2);
  return name;
}

Error misunderstood(std::string_view text, const char* form) {
  return {"'" + std::string(text) + "' is no change: " + form, ErrorKind::kBadArgument};
}

}  // namespace

Result<Change> parse_change(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  Change change;
  change.text = text;
  const std::string_view what = words.empty() ? std::string_view() : words.front();
  const std::optional<double> factor = words.size() < 2 ? std::nullopt : factor_of(words.back());
  change.factor = factor.value_or(1);
  if (what == "line") {
    change.kind = ChangeKind::kLine;
    // The name of a file may have blanks, too.
    if (words.size() < 3 || !factor || !read_place(between(words[1], words[words.size() - 2]), change))
      return misunderstood(text, "line FILE:N xF");
    return change;
  }
  if (what == "function" || what == "region") {
    change.kind = what == "region" ? ChangeKind::kRegion : ChangeKind::kFunction;
    if (words.size() < 3 || !factor)
      return misunderstood(text, what == "region" ? "region NAME xF" : "function NAME xF");
    change.name = between(words[1], words[words.size() - 2]);
    return change;
  }
  if (what == "rank") {
    const std::optional<std::int32_t> rank =
        words.size() == 4 ? number_of<std::int32_t>(words[1]) : std::nullopt;
    if (!rank || *rank < 0 || words[2] != "=" || words[3] != "mean")
      return misunderstood(text, "rank R = mean");
    change.kind = ChangeKind::kRankMean;
    change.rank = *rank;
    return change;
  }
  if (what == "balance") {
    if (words.size() < 3 || words[1] != "function") return misunderstood(text, "balance function NAME");
    change.kind = ChangeKind::kBalance;
    change.name = between(words[2], words.back());
    return change;
  }
  if (what == "call") {
    change.kind = ChangeKind::kCallRemoved;
    if (words.size() < 4 || words.back() != "removed" ||
        !read_place(between(words[2], words[words.size() - 2]), change))
      return misunderstood(text, "call OP FILE:N removed");
    change.name = words[1];
    return change;
  }
  if (what == "latency" || what == "bandwidth" || what == "io") {
    change.kind = what == "latency"     ? ChangeKind::kLatency
                  : what == "bandwidth" ? ChangeKind::kBandwidth
                                        : ChangeKind::kIo;
    if (words.size() != 2 || !factor || (what == "bandwidth" && *factor == 0))
      return misunderstood(text, what == "latency"     ? "latency xF"
                                 : what == "bandwidth" ? "bandwidth xF, F above 0"
                                                       : "io xF");
    return change;
  }
  if (what == "threads") {
    const std::optional<std::uint32_t> threads =
        words.size() == 2 ? number_of<std::uint32_t>(words[1]) : std::nullopt;
    if (!threads || *threads == 0 || *threads > kMostThreads) return misunderstood(text, "threads N");
    change.kind = ChangeKind::kThreads;
    change.factor = *threads;
    return change;
  }
  return misunderstood(
      text,
      "it begins with line, function, region, rank, balance, call, latency, bandwidth, io or "
      "threads");
}

}  // namespace clusterprof::aggregator::whatif
