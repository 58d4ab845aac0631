// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/gains.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <future>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "aggregator/shard_files.hpp"
#include "base/meminfo.hpp"
#include "formats/shard/shard_reader.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using aggregator::whatif::Change;
using aggregator::whatif::parse_change;
using aggregator::whatif::Prediction;
using aggregator::whatif::WhatIf;

// What is done beside a merge: reading so much once more, and replaying so many events, over all candidates.
constexpr std::uint64_t kMostShardBytes = 16 << 20;  // ten times as much memory
constexpr std::uint64_t kMostReplayedEvents = 16'000'000;
// Preparing a replay takes as long as replaying the events so often.
constexpr std::uint64_t kReplaysToPrepare = 8;

const char* const kTooLong =
    "the run is too long to be replayed while it is merged; clusterprof whatif RUN takes longer ones";

// Why the run is not replayed, as far as that is known before its shards are read again; empty: it may be.
std::string refusal(const fs::path& run) {
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(run);
  if (!shards || shards.value().empty()) return "the run has no shards any more";
  std::uintmax_t bytes = 0;
  for (const fs::path& shard : shards.value()) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(shard, error);
    if (!error) bytes += size;
  }
  return bytes > kMostShardBytes ? kTooLong : "";
}

// Without what a view says itself.
std::string reason_of(const Error& error, std::string_view change = {}) {
  std::string_view reason = error.message;
  for (const std::string& said : {"'" + std::string(change) + "': ", "'" + std::string(change) + "' ",
                                  std::string("nothing is predicted: ")})
    if (reason.starts_with(said)) reason.remove_prefix(said.size());
  return std::string(reason);
}

Result<void> read_and_prepare(const fs::path& run, WhatIf& whatif) {
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(run);
  if (!shards) return shards.error();
  // While one is taken, the next ones are read.
  const std::size_t threads = whatif.threads();
  const auto when = threads > 1 ? std::launch::async | std::launch::deferred : std::launch::deferred;
  std::deque<std::future<Result<shard::ShardData>>> read;
  for (std::size_t taken = 0, next = 0; taken < shards.value().size(); ++taken) {
    for (; next < std::min(taken + threads, shards.value().size()); ++next)
      read.push_back(std::async(when, [&path = shards.value()[next]] { return shard::read_shard(path); }));
    Result<shard::ShardData> shard = read.front().get();
    read.pop_front();
    if (!shard) return shard.error();
    whatif.add(std::move(shard).value());
  }
  return whatif.prepare();
}

}  // namespace

std::uint64_t most_events_in(std::string_view meminfo) {
  const std::optional<std::uint64_t> kilobytes = kilobytes_of(meminfo, "MemAvailable:");
  if (!kilobytes) return kUsualMostEvents;
  return std::min(*kilobytes, UINT64_MAX / 4096) * 1024 / 5 * 4 / kEventBytes;
}

std::uint64_t most_events() {
  std::ifstream file("/proc/meminfo");
  return most_events_in(std::string(std::istreambuf_iterator<char>(file), {}));
}

Result<std::uint64_t> events_of(const fs::path& run) {
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(run);
  if (!shards) return shards.error();
  if (shards.value().empty())
    return Error{run.string() + ": it has no shards (node-*.h5), which a replay needs", ErrorKind::kNotFound};
  std::uint64_t events = 0;
  for (const fs::path& path : shards.value()) {
    const Result<shard::LargeTables> sizes = shard::read_large_table_sizes(path);
    if (!sizes) return sizes.error();
    events += sizes.value().mpi_events;
  }
  return events;
}

Result<void> read_shards_of(const fs::path& run, std::uint64_t most_events, WhatIf& whatif) {
  const Result<std::uint64_t> events = events_of(run);
  if (!events) return events.error();
  if (events.value() > most_events)
    return Error{run.string() + ": it has " + std::to_string(events.value()) +
                     " MPI events, and a replay takes " + std::to_string(most_events) +
                     " at most, as each needs about " + std::to_string(kEventBytes) +
                     " bytes of the memory that is available: --max-events sets another limit",
                 ErrorKind::kNotFound};
  return read_and_prepare(run, whatif);
}

profile::Gains gains_of(const WhatIf& whatif, const std::vector<report::GainCandidate>& candidates,
                        std::size_t most) {
  profile::Gains gains;
  gains.from_sums = whatif.is_from_sums();
  gains.elapsed_s = whatif.elapsed_s();
  gains.replayed_s = whatif.replayed().elapsed_s;
  if (const auto stretches = whatif.stretches()) {
    gains.stretches = static_cast<std::uint32_t>(stretches->count);
    gains.stretches_s = stretches->time_s;
  }
  gains.candidates = static_cast<std::uint32_t>(candidates.size());
  for (const report::GainCandidate& candidate : candidates) {
    if (gains.tried == most) break;
    const auto refuse = [&](const Error& error) {
      gains.refused_changes.push_back({candidate.change, reason_of(error, candidate.change)});
    };
    // Names may make no change when they are written down.
    const Result<Change> change = parse_change(candidate.change);
    if (!change) {
      refuse(change.error());
      continue;
    }
    const Result<Prediction> prediction = whatif.predict({change.value()});
    if (!prediction) {
      refuse(prediction.error());
      continue;
    }
    ++gains.tried;
    profile::PredictedGain row;
    row.change = candidate.change, row.file = candidate.file, row.function = candidate.function;
    row.line = candidate.line, row.rank = candidate.rank.value_or(-1);
    row.predicted_s = prediction.value().outcome.elapsed_s;
    row.gain_s = gains.replayed_s - row.predicted_s;
    row.error_s = prediction.value().error_s;
    gains.rows.push_back(std::move(row));
  }
  std::stable_sort(gains.rows.begin(), gains.rows.end(),
                   [](const profile::PredictedGain& a, const profile::PredictedGain& b) {
                     return a.gain_s != b.gain_s ? a.gain_s > b.gain_s : a.change < b.change;
                   });
  return gains;
}

profile::Gains predict_while_merging(const fs::path& run, const report::Analysis& analysis,
                                     const std::vector<report::GainCandidate>& candidates) {
  profile::Gains gains;
  gains.candidates = static_cast<std::uint32_t>(candidates.size());
  const auto replays_of = [](std::uint64_t events) {
    return events == 0 ? UINT64_MAX : kMostReplayedEvents / events;
  };
  gains.refused = refusal(run);
  if (gains.refused.empty() && analysis.wait_quality &&
      replays_of(analysis.wait_quality->events) <= kReplaysToPrepare)
    gains.refused = kTooLong;
  if (!gains.refused.empty() || candidates.empty()) return gains;
  // Not all of the events need be in the analysis, but all are replayed.
  const Result<std::uint64_t> events = events_of(run);
  if (!events) {
    gains.refused = "a shard cannot be read";
    return gains;
  }
  const std::uint64_t replays = replays_of(events.value());
  if (replays <= kReplaysToPrepare) {
    gains.refused = kTooLong;
    return gains;
  }
  try {
    WhatIf whatif;  // with one thread: the memory that a job has left may be little
    if (const Result<void> read = read_and_prepare(run, whatif); !read) {
      // Messages on files name them, and a run may be moved.
      gains.refused =
          read.error().kind == ErrorKind::kNotFound ? reason_of(read.error()) : "a shard cannot be read";
      return gains;
    }
    const std::uint64_t most = (replays - kReplaysToPrepare) / whatif.replays_per_prediction();
    return gains_of(whatif, candidates, static_cast<std::size_t>(most));
  } catch (const std::bad_alloc&) {  // the profile is more important
    gains.refused = "there is too little memory";
    return gains;
  }
}

}  // namespace clusterprof::cli
