// SPDX-License-Identifier: BSD-3-Clause
// Hardware counters and files as JSON.
#include "report/json/report_document.hpp"

namespace clusterprof::report {

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
      out_("time_s", row.time_s)("max_s", row.max_s)("rank_max", row.max_rank);
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

}  // namespace clusterprof::report
