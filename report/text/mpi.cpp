// SPDX-License-Identifier: BSD-3-Clause
// The sections on MPI: time by call site, message sizes, and who sends to whom.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kCallSitesInAnyCase = 8;
constexpr std::size_t kWideCallSites = 100;  // columns of the page
constexpr double kSmallCallSite = 0.001;  // of the time in MPI; left out beyond the first ones

class MpiSections : private Section {
 public:
  using Section::Section;

  // False: there are none.
  bool call_sites() {
    if (!worth(!a_.mpi_calls.empty(), "MPI by call site", "No MPI calls were recorded.")) return false;
    double total = 0, calls = 0, longest = 0, longest_of_rank = 0;
    for (const MpiCallRow& row : a_.mpi_calls) {
      total += row.time_s;
      calls += static_cast<double>(row.count);
      longest = std::max(longest, row.time_s);
      longest_of_rank = std::max(longest_of_rank, row.spread.max_s);
    }
    const TimeScale scale(longest), of_ranks = scale_of_ranks(scale, longest_of_rank);
    page_.section("MPI by call site", fmt::format("in {}; {} in {} calls, all ranks", scale.unit(),
                                                  seconds(total), count(calls)));
    const bool waits = a_.wait_quality.has_value();
    const bool narrow = waits && page_.width() < kWideCallSites, tight = page_.width() < kUsualColumns;
    // Columns: 2, 3 with known waiting; 7, 8 where there is room.
    const auto numbers = [&](const std::vector<std::string>& cells, Style style) {
      static constexpr std::size_t kWidths[] = {10, 7, 9, 9, 9, 10, 10, 9, 9, 9, 6};
      std::string out;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if ((!waits && (i == 2 || i == 3)) || (narrow && (i == 7 || i == 8)) || (tight && (i == 5 || i == 6)))
          continue;
        out += pad_left(cells[i], kWidths[i] - (narrow && i == 1 ? 1 : 0));
      }
      page_.line(out, style);
    };
    numbers({"time", "%", "wait", "transfer", "calls", "sent", "received", "min", "mean", "max", "@rank"},
            Style::kDim);
    std::size_t shown = std::min(rows_, a_.mpi_calls.size());  // largest first
    while (shown > kCallSitesInAnyCase && a_.mpi_calls[shown - 1].time_s < kSmallCallSite * total) --shown;
    for (std::size_t i = 0; i < shown; ++i) {
      const MpiCallRow& row = a_.mpi_calls[i];
      const std::string mark =
          row.unfinished == 0 ? "" : fmt::format("  ({} not returned)", plural(row.unfinished, "call"));
      page_.line(fmt::format("  {}{}", describe(row, paths_, page_.width() - 2 - mark.size()), mark),
                 Style::kMpi);
      numbers({scale(row.time_s), fmt::format("{:.1f}", 100 * share_of(row.time_s, total)),
               seconds_cell(row.wait_s, scale), seconds_cell(row.transfer_s, scale),
               count(static_cast<double>(row.count)), bytes(static_cast<double>(row.sent_bytes)),
               bytes(static_cast<double>(row.recv_bytes)), of_ranks(row.spread.min_s),
               of_ranks(row.spread.mean_s), of_ranks(row.spread.max_s), std::to_string(row.spread.max_rank)},
              Style::kPlain);
    }
    note_the_rest(shown, a_.mpi_calls.size());
    page_.line(
        fmt::format("  {}{}max, @rank: of time, per rank{}", waits ? "transfer: time without wait; " : "",
                    narrow ? "" : "min, mean, ", other_unit(scale, of_ranks)),
        Style::kDim);
    message_sizes();
    return true;
  }

  void matrix() {
    if (!worth(!a_.matrix.empty(), "Heaviest pairs", "No messages between ranks were recorded.")) {
      note_collectives();
      return;
    }
    double total_bytes = 0, total_messages = 0;
    for (const shard::MatrixCell& cell : a_.matrix) {
      total_bytes += static_cast<double>(cell.bytes);
      total_messages += static_cast<double>(cell.messages);
    }
    page_.section("Heaviest pairs", fmt::format("{} in {} messages between {}", bytes(total_bytes),
                                                count(total_messages), plural(a_.matrix.size(), "pair")));
    pairs(
        a_.matrix, [](std::int32_t rank) { return rank < 0 ? "?" : std::to_string(rank); }, total_bytes);
    note_collectives();
    if (a_.nodes.size() < 2) return;
    page_.blank();
    page_.line("  between nodes", Style::kDim);
    const auto node_name = [this](const std::optional<std::uint32_t>& node) {
      return node && *node < a_.nodes.size() ? printable(a_.nodes[*node].name) : "?";
    };
    pairs(a_.node_matrix, node_name, total_bytes);
  }

  // What MPI knew of mistakes. Nothing where there is none.
  void problems() {
    if (!a_.mpi_errors.empty()) {
      std::uint64_t all = 0;
      for (const MpiErrorRow& row : a_.mpi_errors) all += row.count;
      page_.section("Errors that MPI calls returned", count(static_cast<double>(all)));
      Table table({{"count"}, {"rank"}, {"from/to"}, {"tag"}, {"first"}, {"error", Align::kLeft}});
      const std::size_t shown = std::min(rows_, a_.mpi_errors.size());
      for (std::size_t i = 0; i < shown; ++i) {
        const MpiErrorRow& row = a_.mpi_errors[i];
        const std::string error =
            row.name.empty() ? fmt::format("class {}", row.error_class) : printable(row.name);
        table.row({count(static_cast<double>(row.count)), std::to_string(row.rank), peer_cell(row.peer),
                   tag_cell(row), seconds(row.first_s),
                   fmt::format("{} in {}", error, describe(row.place, paths_))});
      }
      table.print(page_);
      note_the_rest(shown, a_.mpi_errors.size());
    }
    if (!a_.open_requests.empty()) {
      std::uint64_t all = 0;
      for (const OpenRequestRow& row : a_.open_requests) all += row.count;
      page_.section("Requests not complete at MPI_Finalize", count(static_cast<double>(all)));
      Table table({{"count"}, {"rank"}, {"from/to"}, {"tag"}, {"started in", Align::kLeft}});
      const std::size_t shown = std::min(rows_, a_.open_requests.size());
      for (std::size_t i = 0; i < shown; ++i) {
        const OpenRequestRow& row = a_.open_requests[i];
        table.row({count(static_cast<double>(row.count)), std::to_string(row.rank), peer_cell(row.peer),
                   tag_cell(row), row.place.op.empty() ? "others" : describe(row.place, paths_)});
      }
      table.print(page_);
      note_the_rest(shown, a_.open_requests.size());
    }
    if (a_.unmatched_messages.empty()) return;
    page_.section("Messages that nobody received",
                  count(static_cast<double>(a_.wait_quality ? a_.wait_quality->unreceived_messages : 0)));
    Table table({{"count"}, {"from"}, {"to"}, {"tag"}, {"sent in", Align::kLeft}});
    const std::size_t shown = std::min(rows_, a_.unmatched_messages.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const UnmatchedRow& row = a_.unmatched_messages[i];
      table.row({count(static_cast<double>(row.count)), std::to_string(row.rank),
                 std::to_string(row.receiver), std::to_string(row.tag), describe(row.place, paths_)});
    }
    table.print(page_);
    note_the_rest(shown, a_.unmatched_messages.size());
  }

 private:
  static std::string peer_cell(const PendingPeer& peer) {
    return peer.any ? "any" : peer.rank ? std::to_string(*peer.rank) : "-";
  }
  template <typename Row>
  static std::string tag_cell(const Row& row) {
    return row.any_tag ? "any" : row.tag ? std::to_string(*row.tag) : "-";
  }

  void message_sizes() {
    if (a_.mpi_sizes.empty()) return;
    page_.blank();
    page_.line("  Message sizes: upper bound x messages", Style::kDim);
    std::size_t op_width = 18;
    for (const MpiSizeRow& row : a_.mpi_sizes) op_width = std::max(op_width, columns(printable(row.op)) + 2);
    for (std::size_t i = 0; i < a_.mpi_sizes.size();) {
      const std::string& op = a_.mpi_sizes[i].op;
      std::string bins;
      for (; i < a_.mpi_sizes.size() && a_.mpi_sizes[i].op == op; ++i)
        bins += fmt::format("{}{} x {}", bins.empty() ? "" : ", ", bin_bytes(a_.mpi_sizes[i].le_bytes),
                            count(static_cast<double>(a_.mpi_sizes[i].count)));
      page_.paragraph({fmt::format("  {:<{}}", printable(op), op_width)}, bins);
    }
  }

  // Collective operations are in no pair, because they are addressed to no single rank.
  void note_collectives() {
    constexpr std::size_t kNamed = 4;
    double total_bytes = 0;
    std::string named;
    for (std::size_t i = 0; i < a_.collectives.size(); ++i) {
      const CollectiveRow& row = a_.collectives[i];
      total_bytes += static_cast<double>(row.bytes);
      if (i < kNamed)
        named += fmt::format("{}{} {} in {} calls", i == 0 ? "" : ", ", printable(row.op),
                             bytes(static_cast<double>(row.bytes)), count(static_cast<double>(row.count)));
    }
    if (a_.collectives.empty()) return;
    page_.paragraph({"  not in it: ", Style::kDim},
                    fmt::format("{} of collective operations, which address no rank ({}{})",
                                bytes(total_bytes), named, a_.collectives.size() > kNamed ? ", ..." : ""));
  }

  struct Pair {
    std::string from, to;
    std::uint64_t messages = 0, bytes = 0;
  };

  // The heaviest cells; of equally heavy ones the first. There may be many cells, so only those that are
  // shown get names.
  template <typename Cell, typename NameOf>
  void pairs(const std::vector<Cell>& cells, const NameOf& name_of, double total_bytes) {
    const std::size_t shown = std::min(rows_, cells.size());
    std::vector<const Cell*> order;
    order.reserve(cells.size());
    for (const Cell& cell : cells) order.push_back(&cell);
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(shown);
    std::partial_sort(order.begin(), middle, order.end(), [](const Cell* x, const Cell* y) {
      return std::tie(y->bytes, y->messages, x) < std::tie(x->bytes, x->messages, y);
    });
    std::vector<Pair> all;
    for (auto cell = order.begin(); cell != middle; ++cell)
      all.push_back(
          {name_of((*cell)->source), name_of((*cell)->destination), (*cell)->messages, (*cell)->bytes});
    const double heaviest = shown > 0 ? static_cast<double>(all[0].bytes) : 0;
    std::size_t longest = 4;
    for (std::size_t i = 0; i < shown; ++i)
      longest = std::max({longest, columns(all[i].from), columns(all[i].to)});
    const std::size_t name_width = std::min<std::size_t>(longest, 16);
    const auto build = [&](std::size_t bar_width) {
      Table table({{"from"}, {"to"}, {"bytes"}, {"%"}, {"messages"}, {"mean size"}, {"", Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const auto size = static_cast<double>(all[i].bytes);
        const auto messages = static_cast<double>(all[i].messages);
        table.row({shorten_middle(all[i].from, name_width), shorten_middle(all[i].to, name_width),
                   bytes(size), fmt::format("{:.1f}", 100 * share_of(size, total_bytes)), count(messages),
                   bytes(share_of(size, messages)), bar(share_of(size, heaviest), bar_width)});
      }
      return table;
    };
    build(std::min<std::size_t>(build(0).room(page_.width()), 24)).print(page_);
    note_the_rest(shown, cells.size());
  }
};

}  // namespace

// Asked for by name, it comes with the efficiencies before it and the heaviest pairs behind it, unless these
// were asked for themselves.
void print_mpi(Report& report) {
  const std::vector<std::string>& asked = report.options.sections;
  const auto is_missing = [&](std::string_view section) {
    return !asked.empty() && std::find(asked.begin(), asked.end(), section) == asked.end();
  };
  const Analysis& analysis = report.analysis;
  if (is_missing("efficiency") && analysis.efficiency.parallel) print_efficiency(report);
  if (!MpiSections(report).call_sites()) return;
  MpiSections(report).problems();
  if (is_missing("matrix") && !(analysis.matrix.empty() && analysis.collectives.empty()))
    print_matrix(report);
}

void print_matrix(Report& report) { MpiSections(report).matrix(); }

}  // namespace clusterprof::report::text
