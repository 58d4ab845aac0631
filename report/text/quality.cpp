// SPDX-License-Identifier: BSD-3-Clause
// The section on the quality of the measurement: what was lost, what recording cost, and notes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/split.hpp"
#include "report/analysis/drops.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"
#include "report/words/drops.hpp"
#include "report/words/notes.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

class QualitySection : private Section {
 public:
  using Section::Section;

  void print() {
    const RunInfo& run = a_.run;
    page_.section("Quality of this measurement", fmt::format("clusterprof {}", run.version));
    const Quality& quality = a_.quality;
    std::size_t threads = 0;
    std::vector<std::int32_t> lost;
    for (const RankInfo& rank : a_.ranks) {
      threads += rank.threads;
      if (rank.lost) lost.push_back(rank.rank);
    }
    const auto part = [](std::uint64_t some, std::uint64_t all) {
      return fmt::format("{} of {} ({})", count(static_cast<double>(some)), count(static_cast<double>(all)),
                         percent(share_of(static_cast<double>(some), static_cast<double>(all))));
    };
    fact("samples",
         fmt::format("{} on {}{}", count(static_cast<double>(run.samples)), plural(threads, "thread"),
                     quality.rate_reached_hz ? fmt::format("; {:.0f} Hz reached of {} Hz asked",
                                                           *quality.rate_reached_hz, run.rate_hz)
                                             : ""));
    drops();
    unsampled_threads();
    fact("call paths cut", part(quality.truncated, run.samples));
    if (quality.merge_success)
      fact("merges failed",
           fmt::format("{} of {} ({:.2f} %)", count(static_cast<double>(quality.merges_failed)),
                       count(static_cast<double>(quality.merges_tried)), 100 * (1 - *quality.merge_success)));
    if (!lost.empty())
      fact("ranks lost", fmt::format("{} of {}: {}", lost.size(), a_.ranks.size(), rank_list(lost)),
           Style::kBad);
    last_call_paths();
    stderr_tail();
    if (!run.missing_ranks.empty())
      fact("ranks missing", fmt::format("{} of {}: {}", run.missing, run.world_size, missing_ranks(run)),
           Style::kBad);
    if (quality.recording_s > 0)
      fact("recording cost", quality.recording_share
                                 ? fmt::format("{} ({} of the ranks' CPU time)", seconds(quality.recording_s),
                                               percent(*quality.recording_share))
                                 : seconds(quality.recording_s));
    if (quality.handler_median_s)
      fact("", fmt::format("per sample: median {}, 99th percentile {}", seconds(*quality.handler_median_s),
                           seconds(*quality.handler_p99_s)));
    collectors();
    for (const NoteRecord& note : run.notes) fact("note", words::sentence(note));
  }

 private:
  void fact(std::string_view name, std::string_view value, Style style = Style::kPlain) {
    page_.paragraph({fmt::format("  {:<18}", name), style}, value);
  }

  // What was dropped, by reason; reasons with few samples in one line.
  void drops() {
    const RunInfo& run = a_.run;
    if (run.dropped.empty()) fact("dropped", "nothing");
    std::string few;
    for (const auto& [reason, number] : run.dropped) {
      if (!drop_matters(reason, number, run.samples)) {
        few += fmt::format("{}{} x {}", few.empty() ? "" : ", ", number, printable(reason));
        continue;
      }
      const std::string_view meaning = words::meaning_of_drop(reason);
      fact("dropped",
           fmt::format("{} x {}{}{}", count(static_cast<double>(number)), printable(reason),
                       meaning.empty() ? "" : ": ", meaning),
           Style::kWarning);
    }
    if (!few.empty()) fact("dropped", fmt::format("{}: too few samples to matter", few));
  }

  // Threads that ended before a first sample: all, then the ranks with most CPU time in them.
  void unsampled_threads() {
    if (a_.quality.unsampled_threads == 0) return;
    constexpr std::size_t kMost = 3;
    std::vector<const RankInfo*> ranks;
    for (const RankInfo& rank : a_.ranks)
      if (rank.unsampled_threads != 0) ranks.push_back(&rank);
    std::stable_sort(ranks.begin(), ranks.end(), [](const RankInfo* x, const RankInfo* y) {
      return x->unsampled_cpu_s > y->unsampled_cpu_s;
    });
    page_.paragraph(
        {fmt::format("  {:<18}", "short threads")},
        fmt::format("{} ended before a first sample; the {} of CPU time is charged to the functions "
                    "they were started with",
                    plural(a_.quality.unsampled_threads, "thread"), seconds(a_.quality.unsampled_cpu_s)));
    if (a_.ranks.size() == 1) return;
    for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i)
      page_.paragraph(
          {fmt::format("  {:<18}", "")},
          fmt::format("rank {}: {}, {}", ranks[i]->rank, plural(ranks[i]->unsampled_threads, "thread"),
                      seconds(ranks[i]->unsampled_cpu_s)));
  }

  // The last call paths of the first few lost ranks, without the middle of long ones.
  void last_call_paths() {
    constexpr std::size_t kMost = 3, kOutermost = 3, kInnermost = 8;
    std::size_t shown = 0;
    for (const RankInfo& rank : a_.ranks) {
      const std::vector<SourceLocation>& frames = rank.last_call_path;
      if (frames.empty()) continue;
      if (shown++ == kMost) break;
      std::string path;
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const bool is_cut = i == kOutermost && frames.size() > kOutermost + kInnermost + 1;
        if (is_cut) i = frames.size() - kInnermost - 1;
        path += (path.empty() ? "" : " > ") +
                (is_cut ? fmt::format(".. {} more", i - kOutermost + 1) : words::frame(frames[i]));
      }
      page_.paragraph({fmt::format("  {:<18}", shown == 1 ? "last call path" : "")},
                      fmt::format("rank {}: {}", rank.rank, printable(path)));
    }
  }

  // The last lines that the rank at fault wrote to stderr.
  void stderr_tail() {
    constexpr std::size_t kMost = 10;
    if (!a_.failure || !a_.failure->stderr_tail) return;
    std::vector<std::string> lines;
    for (const std::string& line : split(*a_.failure->stderr_tail, '\n'))
      if (!line.empty()) lines.push_back(printable(line));
    for (std::size_t i = lines.size() - std::min(lines.size(), kMost); i < lines.size(); ++i)
      fact(i + std::min(lines.size(), kMost) == lines.size()
               ? fmt::format("stderr of rank {}", a_.failure->rank)
               : std::string(),
           lines[i]);
  }

  void collectors() {
    if (a_.nodes.empty()) return;
    const auto load = [](const NodeInfo& node) { return share_of(node.collector_cpu_s, node.elapsed_s); };
    const NodeInfo* busiest = &a_.nodes.front();
    double total = 0;
    for (const NodeInfo& node : a_.nodes) {
      total += node.collector_cpu_s;
      if (load(node) > load(*busiest)) busiest = &node;
    }
    page_.paragraph({fmt::format("  {:<18}", "collectors' CPU")},
                    fmt::format("{} on {}; most on {}: {}, {} of one core, {} of memory", seconds(total),
                                plural(a_.nodes.size(), "node"), printable(busiest->name),
                                seconds(busiest->collector_cpu_s), percent(load(*busiest)),
                                bytes(static_cast<double>(busiest->collector_max_rss_bytes))));
  }
};

}  // namespace

void print_quality(Report& report) { QualitySection(report).print(); }

}  // namespace clusterprof::report::text
