// SPDX-License-Identifier: BSD-3-Clause
// Communication as JSON: calls, messages, waiting and the critical path.
#include "report/analysis/mpi_calls.hpp"
#include "report/format/names.hpp"
#include "report/json/report_document.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report {

void ReportDocument::peer(const PendingPeer& peer) { out_("peer", peer.rank)("any_peer", peer.any); }

void ReportDocument::under_way(const CallUnderWayRow& row) {
  static constexpr const char* kKinds[] = {"", "send", "receive", "collective"};
  out_("rank", row.rank)("thread", row.tid)("main_thread", row.main_thread)("op", row.place.op);
  out_("file", text_or_null(row.place.file))("line", or_null(row.place.line));
  out_("function", text_or_null(row.place.function))("age_s", row.age_s)("ended", row.ended);
  out_("communicator", text_or_null(row.communicator));
  out_("communicator_size", or_null(row.communicator_size))("sequence", row.sequence);
  peer(row.peer);
  out_("tag", row.tag)("any_tag", row.any_tag)("root", row.root)("requests", row.requests);
  out_.rows("pending", row.pending, [&](const PendingRow& request) {
    out_("kind", kKinds[static_cast<std::size_t>(request.kind)]);
    peer(request.peer);
  });
  out_("waits_for", row.waits_for)("waits_for_count", row.waits_for_count);
  std::vector<std::string> path;
  for (const SourceLocation& frame : a_.call_paths_under_way[row.call_path])
    path.push_back(words::frame(frame));
  out_("call_path", path);
}

template <typename Row>
void ReportDocument::problem(const Row& row) {
  out_("rank", row.rank)("op", text_or_null(row.place.op));
  out_("file", text_or_null(row.place.file))("line", or_null(row.place.line));
  out_("function", text_or_null(row.place.function))("communicator", text_or_null(row.communicator));
  out_("count", row.count);
}

void ReportDocument::problems() {
  static constexpr const char* kKinds[] = {"", "send", "receive", "collective"};
  out_.rows("errors", a_.mpi_errors, [&](const MpiErrorRow& row) {
    problem(row);
    out_("error_class", text_or_null(row.name))("error_class_number", row.error_class);
    out_("text", text_or_null(row.text));
    peer(row.peer);
    out_("tag", row.tag)("any_tag", row.any_tag)("message", row.message)("first_s", row.first_s);
  });
  out_.rows("open_requests", a_.open_requests, [&](const OpenRequestRow& row) {
    problem(row);
    out_("kind", row.kind ? MaybeText(kKinds[static_cast<std::size_t>(*row.kind)]) : MaybeText());
    peer(row.peer);
    out_("tag", row.tag)("any_tag", row.any_tag);
  });
  out_.rows("unmatched", a_.unmatched_messages, [&](const UnmatchedRow& row) {
    problem(row);
    out_("src", row.rank)("dst", row.receiver)("tag", row.tag);
  });
}

void ReportDocument::mpi() {
  out_.object("mpi", [&] {
    if (!a_.mpi_watched) return;
    out_.rows("calls", a_.mpi_calls, [&](const MpiCallRow& row) {
      out_("op", row.op)("file", text_or_null(row.file))("line", or_null(row.line));
      out_("function", text_or_null(row.function))("library", communication_library(row.op));
      out_("count", row.count)("unfinished", row.unfinished);
      out_("time_s", row.time_s)("wait_s", row.wait_s)("sent_bytes", row.sent_bytes)("recv_bytes",
                                                                                     row.recv_bytes);
      spread(row.spread);
    });
    out_.rows("calls_under_way", a_.calls_under_way, [&](const CallUnderWayRow& row) { under_way(row); });
    problems();
    out_.rows("matrix", a_.matrix, [&](const shard::MatrixCell& cell) {
      out_("src", cell.source)("dst", cell.destination)("messages", cell.messages)("bytes", cell.bytes);
    });
    out_.rows("collectives", a_.collectives, [&](const CollectiveRow& row) {
      out_("op", row.op)("count", row.count)("ranks", row.ranks)("communicators", row.communicators);
      out_("sent_bytes", row.sent_bytes)("recv_bytes", row.recv_bytes)("bytes", row.bytes);
    });
    out_.rows("collective_matrix", a_.collective_matrix, [&](const shard::MatrixCell& cell) {
      out_("src", cell.source)("dst", cell.destination)("bytes", cell.bytes);
    });
    const auto name = [&](const std::optional<std::uint32_t>& node) {
      return node && *node < a_.nodes.size() ? MaybeText(a_.nodes[*node].name) : MaybeText();
    };
    out_.rows("collective_node_matrix", a_.collective_node_matrix, [&](const NodeCell& cell) {
      out_("src", cell.source)("dst", cell.destination);
      out_("src_node", name(cell.source))("dst_node", name(cell.destination))("bytes", cell.bytes);
    });
    out_.rows("node_matrix", a_.node_matrix, [&](const NodeCell& cell) {
      out_("src", cell.source)("dst", cell.destination);
      out_("src_node", name(cell.source))("dst_node", name(cell.destination));
      out_("messages", cell.messages)("bytes", cell.bytes);
    });
    out_.rows("sizes", a_.mpi_sizes, [&](const MpiSizeRow& row) {
      out_("op", row.op)("le_bytes", row.le_bytes)("count", row.count);
    });
    if (a_.wait_quality) waits();
  });
}

void ReportDocument::torch_distributed() {
  const TorchTimes& torch = a_.torch;
  out_.object("torch_distributed", [&] {
    out_("method", torch.source == TorchSource::kNone
                       ? MaybeText()
                       : MaybeText(is_sampled(torch.source) ? "samples" : "calls"));
    out_("why", text_or_null(words::how_torch_is_known(torch.source)));
    out_.rows("rows", torch.rows, [&](const TorchRow& row) {
      out_("op", row.op)("kind", name_of(row.kind));
      out_("file", text_or_null(row.file))("line", or_null(row.line));
      out_("function", text_or_null(row.function))("count", row.count)("samples", row.samples);
      out_("time_s", row.time_s)("wait_s", row.wait_s)("blocked_s", row.blocked_s);
      out_("runnable_s", row.runnable_s)("running_s", row.running_s);
      spread(row.spread);
      out_("rank_min", row.min_rank < 0 ? std::optional<std::int32_t>() : row.min_rank);
      std::vector<std::vector<std::int32_t>> ranges;
      for (const auto& [first, last] : row.ranks) ranges.push_back({first, last});
      out_("ranks", ranges);
      out_("rank_count",
           row.samples ? std::optional<std::uint64_t>(row.rank_count) : std::optional<std::uint64_t>());
      out_("late_ranks", row.late_ranks);
      out_("latest_rank", row.late_ranks.empty() ? std::optional<std::int32_t>() : row.latest_rank);
      out_("late_s", row.late_ranks.empty() ? Seconds() : Seconds(row.late_s));
    });
  });
}

void ReportDocument::waits() {
  out_.rows("waits", a_.waits, [&](const WaitRow& row) {
    out_("kind", shard::kWaitKindNames[static_cast<std::size_t>(row.kind)])("rank", row.rank);
    out_("wait_s", row.wait_s)("count", row.count);
    wait_parts("caused_by", row.causes, true);
    wait_parts("where", row.where, false);
  });
}

void ReportDocument::wait_parts(std::string_view name, const std::vector<WaitPart>& parts, bool causes) {
  out_.rows(name, parts, [&](const WaitPart& part) {
    if (causes) out_("rank", part.rank);
    out_("wait_s", part.wait_s)("count", part.count);
    place(part.place);
    if (part.rest != 0) out_("rest", part.rest);
  });
}

void ReportDocument::wait_analysis() {
  if (!a_.wait_quality) {
    out_("wait_analysis", nullptr);
    return;
  }
  const WaitQuality& q = *a_.wait_quality;
  out_.object("wait_analysis", [&] {
    out_("operations", q.operations)("events", q.events)("event_level", q.event_level);
    out_("messages", q.messages)("unmatched_messages", q.unmatched_messages);
    out_("collectives", q.collectives)("unmatched_collectives", q.unmatched_collectives);
    out_("clock_error_s", q.clock_error_s)("clock_violations", q.clock_violations);
    out_("worst_violation_s", q.worst_violation_s)("ideal_s", q.ideal_s);
  });
}

void ReportDocument::root_causes() {
  if (!a_.wait_quality) {
    out_("root_causes", nullptr);
    return;
  }
  out_.rows("root_causes", a_.root_causes, [&](const RootCauseRow& cause) {
    out_("rank", cause.rank);
    place(cause.place);
    out_("wait_s", cause.wait_s)("share", cause.share)("waiting_ranks", cause.waiting_ranks);
  });
}

void ReportDocument::critical_path() {
  if (a_.critical_path.empty()) {
    out_("critical_path", nullptr);
    return;
  }
  out_.rows("critical_path", a_.critical_path, [&](const CriticalRow& part) {
    const SourceLocation& where = a_.places[part.place];
    const bool known = part.place != 0;
    place(part.place);
    out_("kind",
         !known ? MaybeText() : MaybeText(where.op.empty() ? format::frame_kind_name(where.kind) : "mpi"));
    out_("time_s", part.time_s)("share", part.share)("mean_s", known ? Seconds(part.mean_s) : Seconds());
    out_("imbalance", known && part.mean_s > 0 ? Seconds(part.time_s / part.mean_s) : Seconds());
    out_("rank_max", part.max_rank);
  });
}

void ReportDocument::windows() {
  if (a_.windows.empty()) {
    out_("efficiency_windows", nullptr);
    return;
  }
  out_.rows("efficiency_windows", a_.windows, [&](const WindowRow& row) {
    out_("begin_s", row.begin_s)("end_s", row.end_s)("parallel", row.parallel);
    out_("load_balance", row.load_balance)("communication", row.communication)("wait_s", row.wait_s);
    out_("hybrid_parallel", row.hybrid_parallel)("openmp_parallel", row.openmp_parallel);
  });
}

}  // namespace clusterprof::report
