// SPDX-License-Identifier: BSD-3-Clause
#include "report/stacks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/words/hang.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report {
namespace {

// Which classes are below a node, and what is printed of it.
class StackTree {
 public:
  StackTree(const StacksReport& report, const format::ShortPaths& names)
      : stacks_(report.stacks), names_(names), children_(stacks_.nodes.size()), ends_(stacks_.nodes.size()) {
    std::vector<bool> has_parent(stacks_.nodes.size());
    // Classes are in the order in which their branches are to come.
    for (std::size_t i = 0; i < stacks_.classes.size(); ++i) {
      std::uint32_t node = stacks_.classes[i].node;
      ends_[node] = i + 1;
      for (; node != 0 && !has_parent[node]; node = stacks_.nodes[node].parent) {
        children_[stacks_.nodes[node].parent].push_back(node);
        has_parent[node] = true;
      }
    }
  }

  std::string text() {
    if (ends_[0] != 0) line(0, "code that is not known", ends_[0]);
    // Call paths may be deep, so this does not recurse.
    std::vector<std::pair<std::uint32_t, std::size_t>> left;  // node, indentation
    const auto add_children = [&](std::uint32_t node, std::size_t depth) {
      for (auto child = children_[node].rbegin(); child != children_[node].rend(); ++child)
        left.emplace_back(*child, depth);
    };
    add_children(0, 0);
    while (!left.empty()) {
      const auto [node, depth] = left.back();
      left.pop_back();
      line(depth, format::describe(place_of(node), names_), ends_[node]);
      // A chain of callers is not indented: the tree shows where ranks part.
      const bool parts = children_[node].size() > 1 || ends_[node] != 0;
      add_children(node, parts ? depth + 1 : depth);
    }
    return std::move(text_);
  }

 private:
  [[nodiscard]] SourceLocation place_of(std::uint32_t node) const {
    SourceLocation place = stacks_.nodes[node].place;
    place.op.clear();  // its caller is the line above
    return place;
  }

  void line(std::size_t depth, const std::string& what, std::size_t end) {
    std::string out(2 * depth, ' ');
    out += what;
    if (end != 0) {
      const StackClass& row = stacks_.classes[end - 1];
      out +=
          fmt::format("  [{} {}", row.ranks.size() == 1 ? "rank" : "ranks", format::rank_ranges(row.ranks));
      if (row.threads != row.ranks.size()) out += fmt::format(", {}", format::plural(row.threads, "thread"));
      if (row.unmoved_s) out += fmt::format(", for {}", format::seconds(*row.unmoved_s));
      out += "]";
    }
    text_ += out + "\n";
  }

  const Stacks& stacks_;
  const format::ShortPaths& names_;
  std::vector<std::vector<std::uint32_t>> children_;
  std::vector<std::size_t> ends_;  // by node: the number of its class, plus one
  std::string text_;
};

}  // namespace

std::string render_stacks_text(const StacksReport& report) {
  const format::ShortPaths names(report.run);
  const Stacks& stacks = report.stacks;
  std::string text = fmt::format(
      "{}, {}: {}, {}, {}\n\n", format::printable(report.run.run.id), words::state(report.run.run),
      format::plural(stacks.ranks, "rank"), format::plural(stacks.threads, "thread"),
      stacks.classes.size() == 1 ? "at one place" : fmt::format("at {} places", stacks.classes.size()));
  text += StackTree(report, names).text();
  if (const std::string wrong = words::what_is_wrong(report.run, names); !wrong.empty())
    text += "\n" + wrong + "\n";
  return text;
}

std::string render_standstill(const StacksReport& report, double for_s, std::string_view run_dir, bool ends) {
  const format::ShortPaths names(report.run);
  std::string text = fmt::format("clusterprof: {}\n", words::no_progress(for_s, report.run.hang, names));
  text += fmt::format("clusterprof: where all ranks are: clusterprof stacks {}\n",
                      format::shell_word(std::string(run_dir)));
  if (ends) text += "clusterprof: the ranks are ended by SIGABRT, as --hang-abort asks\n";
  return text;
}

}  // namespace clusterprof::report
