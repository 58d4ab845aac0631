// SPDX-License-Identifier: BSD-3-Clause
// Who holds memory: lines, which open to the ranks that held it at the peaks of their nodes; below them what
// the program names, by space, which open to their labels, and the ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

constexpr std::size_t kAmount = 10, kDomain = 7;
constexpr std::size_t kLineNumbers = 4 * kAmount + kDomain;
constexpr std::size_t kRankNumbers = 5 * kAmount;
constexpr std::size_t kSpaceNumbers = 4 * kAmount;
constexpr std::size_t kCopiesNumbers = 3 * kAmount;

struct Sort {
  const char* title;
  std::uint64_t MemoryLine::*amount;
};
constexpr std::array kSorts = {
    Sort{"on node", &MemoryLine::node_peak_bytes}, Sort{"on rank", &MemoryLine::rank_peak_bytes},
    Sort{"at end", &MemoryLine::live_end_bytes}, Sort{"alloc.", &MemoryLine::alloc_bytes}};

class MemoryView final : public View {
 public:
  explicit MemoryView(const Run& run) : run_(run) {}

  std::string title() const override { return "Memory"; }
  std::string keys() const override {
    return has_lines() ? "s sort  Right Left open and close  Enter the line"
                       : "Right Left open and close  Enter the rank";
  }

  void refresh(std::string_view filter) override {
    items_.clear();
    if (has_lines()) list_lines(filter);
    list_spaces(filter);
    list_copies(filter);
    if (has_lines()) list_ranks(filter);
  }
  std::size_t size() const override { return items_.size(); }
  bool selectable(std::size_t item) const override { return items_[item].kind != Item::Kind::kText; }

  Spans heading(std::size_t columns) const override {
    static_cast<void>(columns);
    if (!has_lines()) return {{labelled().spaces.empty() ? "" : space_titles(), Style::kDim}};
    std::string line;
    for (std::size_t i = 0; i < kSorts.size(); ++i)
      line += cell(fmt::format("{}{}", i == sort_ ? "v" : "", kSorts[i].title), kAmount);
    return {{line + pad_right("kind", kDomain) + "line; held at the peaks of nodes and ranks", Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const Item& at = items_[item];
    switch (at.kind) {
      case Item::Kind::kLine:
        return line_spans(at.index, columns);
      case Item::Kind::kPart:
        return part_spans(at, columns);
      case Item::Kind::kRank:
        return rank_spans(memory().ranks[at.index], columns);
      case Item::Kind::kSpace:
        return space_spans(at.index, columns);
      case Item::Kind::kLabel:
        return label_spans(label_of(at), columns);
      case Item::Kind::kCopies:
        return copies_spans(labelled().copies[at.index], columns);
      case Item::Kind::kText:
        break;
    }
    return at.text;
  }

  ViewRequest open(std::size_t item) override {
    const Item& at = items_[item];
    if (at.kind == Item::Kind::kRank) return of_rank(memory().ranks[at.index].rank);
    if (at.kind == Item::Kind::kPart) return of_rank(part_of(at).rank);
    if (at.kind == Item::Kind::kSpace) return of_rank(fullest(labelled().spaces[at.index]).rank);
    if (at.kind == Item::Kind::kLabel) return of_rank(label_of(at).max_rank);
    if (at.kind == Item::Kind::kCopies) return of_rank(labelled().copies[at.index].max_rank);
    if (at.kind != Item::Kind::kLine) return {};
    const MemoryLine& line = memory().lines[at.index];
    if (line.file.empty() || line.line == 0) return {};
    return {ViewRequest::Kind::kSource, 0, line.file, line.line, {}};
  }
  bool right(std::size_t& item) override {
    std::set<std::uint32_t>* const opened = open_of(items_[item]);
    return opened != nullptr && opened->insert(items_[item].index).second;
  }
  bool left(std::size_t& item) override {
    const auto is_within = [&] {
      return items_[item].kind == Item::Kind::kPart || items_[item].kind == Item::Kind::kLabel;
    };
    while (is_within() && item > 0) --item;
    std::set<std::uint32_t>* const opened = open_of(items_[item]);
    return opened != nullptr && opened->erase(items_[item].index) != 0;
  }
  bool letter(std::string_view text, std::size_t& item) override {
    if (text != "s" || !has_lines()) return false;
    sort_ = (sort_ + 1) % kSorts.size();
    item = 0;
    return true;
  }

 private:
  struct Item {
    enum class Kind { kLine, kPart, kText, kRank, kSpace, kLabel, kCopies };
    Kind kind = Kind::kText;
    // Into the table of the kind; kPart: into HeldMemory::nodes; kLabel: into LabelledMemory::spaces.
    std::uint32_t index = 0;
    std::size_t part = 0;  // kPart: of HeldNode::held; kLabel: of MemorySpaceRow::labels
    Spans text = {};       // kText
  };

  [[nodiscard]] bool has_lines() const { return run_.analysis.memory.has_value(); }
  [[nodiscard]] const HeldMemory& memory() const { return *run_.analysis.memory; }
  [[nodiscard]] const LabelledMemory& labelled() const { return run_.analysis.labelled_memory; }
  [[nodiscard]] const MemoryLabelRow& label_of(const Item& item) const {
    return labelled().spaces[item.index].labels[item.part];
  }
  static MemorySpaceRank fullest(const MemorySpaceRow& space) {
    return space.ranks.empty() ? MemorySpaceRank() : space.ranks.front();
  }
  // Null: the item does not open.
  std::set<std::uint32_t>* open_of(const Item& item) {
    return item.kind == Item::Kind::kLine    ? &open_
           : item.kind == Item::Kind::kSpace ? &open_spaces_
                                             : nullptr;
  }
  [[nodiscard]] const HeldPart& part_of(const Item& item) const {
    return memory().nodes[item.index].held[item.part];
  }
  [[nodiscard]] ViewRequest of_rank(std::int32_t rank) const {
    for (std::uint32_t row = 0; row < run_.analysis.ranks.size(); ++row)
      if (run_.analysis.ranks[row].rank == rank) return {ViewRequest::Kind::kRanks, 0, {}, 0, row};
    return {};
  }
  [[nodiscard]] std::string place(const MemoryLine& line, std::size_t room) const {
    return with_called(place_of(line.function, line.kind, line.file, line.line, run_.names, room),
                       line.called, room);
  }

  void list_lines(std::string_view filter) {
    std::vector<std::uint32_t> lines;
    for (std::uint32_t i = 0; i < memory().lines.size(); ++i) {
      const MemoryLine& line = memory().lines[i];
      if (line.alloc_bytes == 0) continue;
      if (matches(printable(line.function), filter) || matches(printable(line.file), filter))
        lines.push_back(i);
    }
    const auto amount = kSorts[sort_].amount;
    std::stable_sort(lines.begin(), lines.end(), [&](std::uint32_t x, std::uint32_t y) {
      return memory().lines[x].*amount > memory().lines[y].*amount;
    });
    for (const std::uint32_t line : lines) {
      items_.push_back({Item::Kind::kLine, line});
      if (!open_.contains(line)) continue;
      const std::size_t first = items_.size();
      for (std::uint32_t node = 0; node < memory().nodes.size(); ++node)
        for (std::size_t part = 0; part < memory().nodes[node].held.size(); ++part) {
          const HeldPart& held = memory().nodes[node].held[part];
          if (held.line == line && run_.is_chosen(held.rank))
            items_.push_back({Item::Kind::kPart, node, part});
        }
      std::stable_sort(items_.begin() + static_cast<std::ptrdiff_t>(first), items_.end(),
                       [&](const Item& x, const Item& y) { return part_of(x).bytes > part_of(y).bytes; });
    }
  }

  void add_text(Spans spans) { items_.push_back({Item::Kind::kText, 0, 0, std::move(spans)}); }

  static std::string label_name(const MemoryLabelRow& label) {
    return label.name.empty() ? "(no label)" : printable(label.name);
  }
  static std::string space_titles() {
    return cell("peak", kAmount) + cell("at peaks", kAmount) + cell("at end", kAmount) +
           cell("alloc.", kAmount) + "space, label; peak: of one rank";
  }

  // Labels that the filter finds are shown in closed spaces, too.
  void list_spaces(std::string_view filter) {
    const std::vector<MemorySpaceRow>& spaces = labelled().spaces;
    std::vector<Item> found;
    for (std::uint32_t i = 0; i < spaces.size(); ++i) {
      const bool whole = matches(printable(spaces[i].name), filter), is_open = open_spaces_.contains(i);
      std::vector<Item> labels;
      for (std::size_t part = 0; part < spaces[i].labels.size(); ++part)
        if ((whole && is_open) || (!filter.empty() && matches(label_name(spaces[i].labels[part]), filter)))
          labels.push_back({Item::Kind::kLabel, i, part});
      if (!whole && labels.empty()) continue;
      found.push_back({Item::Kind::kSpace, i});
      found.insert(found.end(), labels.begin(), labels.end());
    }
    if (found.empty()) return;
    if (has_lines()) {
      add_text({});
      add_text({{"Memory by label", Style::kTitle}, {"  as the program names it", Style::kDim}});
      add_text({{space_titles(), Style::kDim}});
    }
    items_.insert(items_.end(), found.begin(), found.end());
  }

  void list_copies(std::string_view filter) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < labelled().copies.size(); ++i)
      if (matches(copies_name(labelled().copies[i]), filter)) found.push_back(i);
    if (found.empty()) return;
    if (!items_.empty()) add_text({});
    add_text({{"Deep copies", Style::kTitle}});
    add_text({{cell("copied", kAmount) + cell("times", kAmount) + cell("most", kAmount) +
                   "from, to; most: of one rank",
               Style::kDim}});
    for (const std::uint32_t i : found) items_.push_back({Item::Kind::kCopies, i});
  }

  void list_ranks(std::string_view filter) {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t i = 0; i < memory().ranks.size(); ++i)
      if (run_.is_chosen(memory().ranks[i].rank) && matches(node_of(memory().ranks[i]), filter))
        ranks.push_back(i);
    if (ranks.empty()) return;
    std::stable_sort(ranks.begin(), ranks.end(), [&](std::uint32_t x, std::uint32_t y) {
      return memory().ranks[x].peak_bytes > memory().ranks[y].peak_bytes;
    });
    add_text({});
    add_text({{"Ranks", Style::kTitle},
              {"  unseen: anonymous memory in RAM without what was held then", Style::kDim}});
    add_text({{cell("peak", kAmount) + cell("after", kAmount) + cell("at end", kAmount) +
                   cell("unseen", kAmount) + cell("PSS", kAmount) + "rank",
               Style::kDim}});
    for (const std::uint32_t rank : ranks) items_.push_back({Item::Kind::kRank, rank});
  }

  [[nodiscard]] std::string node_of(const HeldRank& rank) const {
    return rank.node < run_.analysis.nodes.size() ? printable(run_.analysis.nodes[rank.node].name) : "";
  }

  Spans line_spans(std::uint32_t index, std::size_t columns) const {
    const MemoryLine& line = memory().lines[index];
    std::string numbers;
    for (const Sort& sort : kSorts)
      numbers += cell(line.*sort.amount == 0 ? "-" : bytes_cell(line.*sort.amount), kAmount);
    numbers += pad_right(shard::kMemoryDomainNames[static_cast<std::size_t>(line.domain)], kDomain);
    const std::string mark =
        fmt::format("{}{}", open_.contains(index) ? "- " : "+ ", line.leak ? "leak " : "");
    return {{numbers},
            {mark + place(line, rest_of(columns, kLineNumbers + mark.size())), kind_style(line.kind)}};
  }

  Spans part_spans(const Item& item, std::size_t columns) const {
    const HeldPart& part = part_of(item);
    const NodeInfo& node = run_.analysis.nodes[memory().nodes[item.index].node];
    return {{cell(bytes_cell(part.bytes), kAmount) + std::string(kLineNumbers - kAmount, ' ')},
            {shorten(fmt::format("    rank {} on {}", part.rank, printable(node.name)),
                     rest_of(columns, kLineNumbers))}};
  }

  Spans rank_spans(const HeldRank& rank, std::size_t columns) const {
    const std::uint64_t anon = rank.max_anon_bytes.value_or(0),
                        live = std::min(rank.live_at_max_anon_bytes.value_or(0), anon);
    return {
        {cell(bytes_cell(rank.peak_bytes), kAmount) +
         cell(rank.peak_at_s ? seconds(*rank.peak_at_s) : "-", kAmount) +
         cell(bytes_cell(rank.live_end_bytes), kAmount) +
         cell(rank.max_anon_bytes ? bytes_cell(anon - live) : "-", kAmount) +
         cell(optional_bytes(rank.pss_bytes), kAmount)},
        {shorten(fmt::format("rank {} on {}", rank.rank, node_of(rank)), rest_of(columns, kRankNumbers))}};
  }

  // The name, and who had most of it where there is room for that.
  static Spans named_spans(std::string numbers, std::size_t used, const std::string& name,
                           const std::string& remark, std::size_t width) {
    constexpr std::size_t kShortestName = 12;
    const std::size_t room = rest_of(width, used);
    const std::size_t least = std::min(columns(name), kShortestName);
    const std::size_t of_remark = least + columns(remark) <= room ? columns(remark) : 0;
    return {{std::move(numbers)},
            {shorten_middle(name, room - of_remark)},
            {of_remark != 0 ? remark : "", Style::kDim}};
  }

  Spans space_spans(std::uint32_t index, std::size_t width) const {
    const MemorySpaceRow& space = labelled().spaces[index];
    const MemorySpaceRank most = fullest(space);
    const std::string numbers =
        cell(bytes_cell(most.peak_bytes), kAmount) + cell(bytes_cell(space.peaks_bytes), kAmount) +
        cell(bytes_cell(space.live_end_bytes), kAmount) + cell(bytes_cell(space.alloc_bytes), kAmount);
    std::string remark;
    if (!space.ranks.empty()) remark = fmt::format("  rank {} after {}", most.rank, seconds(most.peak_at_s));
    return named_spans(numbers, kSpaceNumbers,
                       (open_spaces_.contains(index) ? "- " : "+ ") + printable(space.name), remark, width);
  }

  static Spans label_spans(const MemoryLabelRow& label, std::size_t width) {
    const auto amount = [](std::uint64_t bytes) { return cell(known_bytes(bytes), kAmount); };
    std::string remark;
    if (label.max_rank_bytes != 0)
      remark = fmt::format("  rank {} had {}", label.max_rank, bytes_cell(label.max_rank_bytes));
    return named_spans(amount(label.peak_bytes) + amount(label.space_peak_bytes) +
                           amount(label.live_end_bytes) + amount(label.alloc_bytes),
                       kSpaceNumbers, "    " + label_name(label), remark, width);
  }

  static std::string copies_name(const MemoryCopiesRow& copies) {
    return fmt::format("{} to {}", printable(copies.from), printable(copies.to));
  }

  static Spans copies_spans(const MemoryCopiesRow& copies, std::size_t width) {
    return named_spans(cell(bytes_cell(copies.bytes), kAmount) + cell(count_cell(copies.count), kAmount) +
                           cell(bytes_cell(copies.max_rank_bytes), kAmount),
                       kCopiesNumbers, copies_name(copies), fmt::format("  rank {}", copies.max_rank), width);
  }

  const Run& run_;
  std::vector<Item> items_;
  std::set<std::uint32_t> open_;         // indices into HeldMemory::lines
  std::set<std::uint32_t> open_spaces_;  // into LabelledMemory::spaces
  std::size_t sort_ = 0;
};

}  // namespace

std::unique_ptr<View> memory_view(const Run& run) { return std::make_unique<MemoryView>(run); }

}  // namespace clusterprof::report::tui
