// SPDX-License-Identifier: BSD-3-Clause
// Hardware counters, files and memory as JSON.
#include <algorithm>
#include <optional>

#include "report/json/report_document.hpp"

namespace clusterprof::report {
namespace {

const char* domain_name(const MemoryLine& line) {
  return shard::kMemoryDomainNames[static_cast<std::size_t>(line.domain)];
}

}  // namespace

void ReportDocument::counters() {
  out_.object("counters", [&] {
    out_("available", a_.counters);
    out_.object("unavailable", [&] {
      for (const auto& [name, reason] : a_.unavailable_counters) out_(name, reason);
    });
    out_("multiplexed", a_.counters_multiplexed);
    derived(a_.derived);
    out_.rows("ranks", a_.rank_counters, [&](const RankCounters& row) {
      out_("rank", row.rank);
      for (const auto& [name, value] : row.values) out_(name, value);
    });
  });
}

void ReportDocument::io() {
  if (!a_.io) {
    out_("io", nullptr);
    return;
  }
  const auto amounts_and_times = [&](const auto& row) {
    out_("read_bytes", row.read_bytes)("written_bytes", row.written_bytes);
    out_("read_s", row.read_s)("write_s", row.write_s)("sync_s", row.sync_s)("meta_s", row.meta_s);
  };
  const auto group = [&](const IoGroupRow& row) {
    out_("path", row.path)("file_system", text_or_null(row.file_system))("files", row.files);
    out_("opens", row.opens)("reads", row.reads)("writes", row.writes)("meta_calls", row.meta_calls);
    amounts_and_times(row);
  };
  out_.object("io", [&] {
    out_.rows("files", a_.io->files, [&](const IoFileRow& row) {
      out_("path", text_or_null(row.path))("file_system", text_or_null(row.file_system));
      out_("ranks", row.ranks)("opens", row.opens)("reads", row.reads)("writes", row.writes);
      out_("meta_calls", row.meta_calls);
      amounts_and_times(row);
    });
    out_.rows("directories", a_.io->directories, group);
    out_.rows("patterns", a_.io->patterns, group);
    out_.rows("calls", a_.io->calls, [&](const IoCallRow& row) {
      out_("operation", shard::kIoOperationNames[static_cast<std::size_t>(row.operation)]);
      out_("file", text_or_null(row.file))("line", or_null(row.line));
      out_("function", text_or_null(row.function))("path", text_or_null(row.path));
      out_("library_function", text_or_null(row.called));
      out_("mpi", text_or_null(row.mpi))("background", row.in_background);
      out_("count", row.count)("failed", row.failed)("bytes", row.bytes);
      out_("time_s", row.time_s)("max_s", row.max_s)("longest_rank", row.longest_rank);
      out_("rank_max", row.max_rank);
    });
    out_.rows("file_systems", a_.io->file_systems, [&](const FileSystemRow& row) {
      out_("name", text_or_null(row.name))("kernel", row.of_kernel)("calls", row.calls);
      amounts_and_times(row);
    });
    out_.object("by_file_only", [&] {
      const IoIncomplete& some = a_.io->by_file_only;
      out_("operations", some.operations)("bytes", some.bytes)("time_s", some.time_s);
    });
  });
}

// The names of a line of the table of lines.
void ReportDocument::memory_line(std::uint32_t index) {
  const MemoryLine& line = a_.memory->lines[index];
  out_("file", text_or_null(line.file))("line", or_null(line.line))("function", text_or_null(line.function));
}

void ReportDocument::memory() {
  if (!a_.memory) return;  // recorded without --memory
  const HeldMemory& memory = *a_.memory;
  out_.object("memory", [&] {
    out_("interval_bytes", memory.interval_bytes);
    out_.rows("ranks", memory.ranks, [&](const HeldRank& row) {
      const auto rank = std::ranges::lower_bound(a_.ranks, row.rank, {}, &RankInfo::rank);
      const bool is_known = rank != a_.ranks.end() && rank->rank == row.rank;
      out_("rank", row.rank)("peak_bytes", row.peak_bytes)("peak_at_s", row.peak_at_s);
      out_("live_end_bytes", row.live_end_bytes);
      out_("max_rss_bytes", is_known ? rank->max_rss_bytes : std::nullopt);
      out_("untracked_bytes", row.untracked_bytes);
      out_("static_bytes", row.static_bytes);
      out_("max_anonymous_bytes", row.max_anon_bytes);
      out_("live_at_max_anonymous_bytes", row.live_at_max_anon_bytes);
      out_("mean_anonymous_bytes", row.mean_anon_bytes)("mean_live_bytes", row.mean_live_bytes);
      out_("pss_bytes", row.pss_bytes)("private_dirty_bytes", row.private_dirty_bytes);
      out_("huge_page_bytes", row.huge_bytes)("swap_bytes", row.swap_bytes);
      out_("near_bytes", row.near_bytes)("far_bytes", row.far_bytes);
    });
    out_.rows("nodes", memory.nodes, [&](const HeldNode& row) {
      const NodeInfo& node = a_.nodes[row.node];
      const shard::GroupMemory& group = node.group;
      const bool known = group.limit_bytes != 0;
      const auto of_group = [&](std::uint64_t bytes) { return known ? std::optional(bytes) : std::nullopt; };
      out_("name", node.name)("peak_bytes", row.peak_bytes)("peak_at_s", row.peak_at_s);
      out_("limit_bytes", or_null(group.limit_bytes));
      out_("requested_bytes", or_null(node.requested_memory_bytes));
      out_("used_bytes", of_group(group.used_bytes))("max_used_bytes", of_group(group.max_used_bytes));
      out_("limit_hits", of_group(group.limit_hits))("anonymous_bytes", of_group(group.anon_bytes));
      out_("file_bytes", of_group(group.file_bytes))("shared_bytes", of_group(group.shared_bytes));
      out_("kernel_bytes", of_group(group.kernel_bytes))("swap_bytes", of_group(group.swap_bytes));
      out_("growth_bytes_per_s", row.growth_bytes_per_s);
      out_.rows("held", row.held, [&](const HeldPart& part) {
        memory_line(part.line);
        out_("domain", domain_name(memory.lines[part.line]))("rank", part.rank)("bytes", part.bytes);
      });
    });
    out_.rows("lines", memory.lines, [&](const MemoryLine& line) {
      out_("file", text_or_null(line.file))("line", or_null(line.line))("function",
                                                                        text_or_null(line.function));
      out_("domain", domain_name(line))("library_function", text_or_null(line.called));
      out_("alloc_bytes", line.alloc_bytes)("alloc_count", line.alloc_count)("error_bytes", line.error_bytes);
      out_("freed_soon_bytes", line.soon_bytes)("freed_soon_count", line.soon_count)("live_end_bytes",
                                                                                     line.live_end_bytes);
      out_("copy_bytes", line.copy_bytes)("copy_count", line.copy_count);
      out_("rank_peak_bytes", line.rank_peak_bytes)("node_peak_bytes", line.node_peak_bytes);
      out_("mapped_file_bytes", line.file_bytes);
      out_("rank_max", line.max_rank)("rank_max_bytes", line.max_rank_bytes);
      out_("leak", line.leak);
      out_("leak_confidence", line.leak ? Seconds(line.leak_confidence) : Seconds());
      out_("growth_bytes_per_s", line.leak ? Seconds(line.growth_bytes_per_s) : Seconds());
    });
    const HeldOverTime& time = memory.over_time;
    out_.object("over_time", [&] {
      out_("bin_s", time.bin_s)("begin_s", time.begin_s)("bins", time.bins);
      out_.rows("lines", time.rows, [&](const HeldOverTime::Row& row) {
        memory_line(row.line);
        out_("bytes", row.values);
      });
    });
  });
}

void ReportDocument::labelled_memory() {
  const LabelledMemory& memory = a_.labelled_memory;
  if (memory.spaces.empty() && memory.copies.empty()) return;
  out_.object("labelled_memory", [&] {
    out_.rows("spaces", memory.spaces, [&](const MemorySpaceRow& row) {
      const MemorySpaceRank most = row.ranks.empty() ? MemorySpaceRank() : row.ranks.front();
      const bool held = !row.ranks.empty();
      out_("name", row.name)("ranks", row.rank_count)("processes", row.processes);
      out_("allocations", row.allocations)("frees", row.frees)("alloc_bytes", row.alloc_bytes);
      out_("live_end_bytes", row.live_end_bytes);
      out_("unknown_frees", row.unknown_frees)("unknown_bytes", row.unknown_bytes);
      out_("rank_max", held ? std::optional(most.rank) : std::nullopt)("rank_max_bytes", most.peak_bytes);
      out_("rank_max_at_s", held ? Seconds(most.peak_at_s) : Seconds());
      out_("peaks_bytes", row.peaks_bytes);
      out_("node_max", row.node < a_.nodes.size() ? std::optional(a_.nodes[row.node].name) : std::nullopt);
      out_("node_max_bytes", row.node_peaks_bytes);
      out_.rows("by_rank", row.ranks, [&](const MemorySpaceRank& rank) {
        out_("rank", rank.rank)("peak_bytes", rank.peak_bytes)("peak_at_s", rank.peak_at_s);
      });
      out_.rows("labels", row.labels, [&](const MemoryLabelRow& label) {
        out_("label", text_or_null(label.name))("ranks", label.ranks);
        out_("allocations", label.allocations)("frees", label.frees)("alloc_bytes", label.alloc_bytes);
        out_("live_end_bytes", label.live_end_bytes)("peak_bytes", label.peak_bytes);
        out_("space_peak_bytes", label.space_peak_bytes);
        out_("rank_max", label.max_rank)("rank_max_bytes", label.max_rank_bytes);
      });
    });
    out_.rows("copies", memory.copies, [&](const MemoryCopiesRow& row) {
      out_("to", row.to)("from", row.from)("count", row.count)("bytes", row.bytes);
      out_("rank_max", row.max_rank)("rank_max_bytes", row.max_rank_bytes);
    });
  });
}

// Keys as in memory.over_time and memory.ranks.
void ReportDocument::write(const HeldAt& held) {
  out_.object([&] {
    out_("schema", "clusterprof.report_at/1")("at_s", held.at_s);
    out_("begin_s", held.begin_s)("end_s", held.end_s)("bytes", held.bytes);
    out_.rows("lines", held.lines, [&](const HeldAt::Line& row) {
      memory_line(row.line);
      out_("bytes", row.bytes);
    });
    out_.rows("ranks", held.ranks,
              [&](const HeldAt::Rank& row) { out_("rank", row.rank)("bytes", row.bytes); });
  });
  out_.finish();
}

void render_json(const Analysis& analysis, const HeldAt& held, const JsonSink& sink) {
  ReportDocument(analysis, sink).write(held);
}

}  // namespace clusterprof::report
