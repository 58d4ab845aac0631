// SPDX-License-Identifier: BSD-3-Clause
// Builds the call tree of the reports: merges paths through the same functions, folds library code, and
// keeps the largest rows.
#include "report/analysis/call_tree.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/analysis/activities.hpp"
#include "report/analysis/rank_input.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::FrameKind;
using shard::kCategories;
using shard::kNone;

constexpr std::string_view kModuleCode = "<module>";  // what an import runs

// Rows of all call paths that agree in what functions they go through.
struct TreeNode {
  std::uint32_t parent = kNone;
  std::uint32_t path = 0;   // one of them
  Fold fold = Fold::kNone;  // else `path` names the library's function or package
  std::uint64_t total_ns = 0, self_ns = 0;
  std::array<std::uint64_t, kCategories> category_ns{};  // of total
};

struct Charge {
  std::uint32_t path = 0;
  Category category = Category::kPython;
  std::uint64_t ns = 0;
};

std::vector<Charge> charges_of(const PathTime& time, const CallPaths& paths) {
  std::vector<Charge> charges;
  for (std::uint32_t path = 0; path < paths.size(); ++path)
    for (std::size_t c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      const std::uint32_t cell = time.cell(path, category);
      std::uint64_t ns = time.observed_main_ns(cell);
      // As for functions: helper threads that are idle spend no time, unless it is for the GIL.
      if (const std::uint64_t helper_ns = time.observed_helper_ns(cell);
          helper_ns != 0 &&
          (category != Category::kIdle || activity_of(paths, path, category) == Activity::kGilWait))
        ns += helper_ns;
      if (ns != 0) charges.push_back({paths.counted(path, category), category, ns});
    }
  return charges;
}

class Tree {
 public:
  Tree(std::vector<Charge> charges, const CallPaths& paths) : charges_(std::move(charges)), paths_(paths) {
    sum_paths();
    find_hidden();
    make_nodes();
    sum_nodes();
  }

  void give(std::uint64_t whole_ns, std::vector<CallTreeRow>& rows) const;
  [[nodiscard]] std::uint64_t whole_ns() const { return total_[0]; }

 private:
  void sum_paths() {
    total_.assign(paths_.size(), 0);
    if (paths_.size() == 0) total_.assign(1, 0);
    for (const Charge& charge : charges_) total_[charge.path] += charge.ns;
    for (auto path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;)
      total_[paths_.parent(path)] += total_[path];
  }

  // Code of the interpreter, the C library, the loader and MPI, and Python's that imports or starts other
  // code, where it lies between functions which say more.
  void find_hidden() {
    hidden_.assign(paths_.size(), false);
    std::vector<bool> more_below(paths_.size(), false);
    for (auto path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;) {
      const shard::Frame* const frame = paths_.frame(path);
      const bool native = frame != nullptr && frame->kind == FrameKind::kNative;
      const bool runtime = folds() && ((native && is_runtime_module(paths_.text(frame->module)) &&
                                        paths_.text(frame->name) != shard::kGarbageName) ||
                                       paths_.is_machinery(path));
      const bool start = folds() && native && paths_.text(frame->name) == "_start";
      // What the interpreter does in its own functions counts for the Python function that it runs.
      const bool of_python = native && folds() && paths_.counted(path, Category::kNative) != path;
      hidden_[path] = frame == nullptr || of_python || ((runtime || start) && more_below[path]);
      if (total_[path] != 0 && (more_below[path] || (frame != nullptr && !runtime)))
        more_below[paths_.parent(path)] = true;
    }
  }

  [[nodiscard]] bool folds() const { return paths_.frames() == FrameMode::kFolded; }
  [[nodiscard]] bool is_library_code(std::uint32_t path) const {
    const shard::Frame* const frame = paths_.frame(path);
    return folds() && frame != nullptr && paths_.owner(path) == Owner::kLibrary &&
           (frame->kind == FrameKind::kPython || frame->kind == FrameKind::kNative);
  }

  // Library code that was called from library code is in one node with it, which the first function of it
  // names that somebody would call by its name.
  void make_nodes() {
    node_of_.assign(paths_.size(), kNone);
    std::vector<std::uint32_t> named_by(paths_.size(), 0);  // by path in library code
    std::unordered_map<std::uint64_t, std::uint32_t> known;
    std::unordered_map<std::string, std::uint32_t> labels;
    constexpr std::uint32_t kRegionBit = 0x8000'0000u, kFoldBit = 0x4000'0000u;
    for (std::uint32_t path = 1; path < paths_.size(); ++path) {
      const std::uint32_t above = paths_.parent(path);
      std::uint32_t parent = node_of_[above];
      node_of_[path] = parent;
      named_by[path] = named_by[above];
      if (total_[path] == 0 || hidden_[path]) continue;
      TreeNode made{parent, path, Fold::kNone, 0, 0, {}};
      std::uint32_t what =
          paths_.function(path) != kNone ? paths_.function(path) : paths_.frame(path)->name | kRegionBit;
      if (!is_library_code(path)) {
        named_by[path] = 0;
      } else {
        const std::uint32_t so_far = named_by[above];
        if (so_far != 0) made.parent = parent = nodes_[parent].parent;
        const bool names =
            so_far == 0 || (says_little(so_far) && name_of(so_far) != kModuleCode && !says_little(path) &&
                            paths_.package(so_far) == paths_.package(path));
        made.path = named_by[path] = names ? path : so_far;
        made.fold = name_of(made.path) == kModuleCode ? Fold::kImport : Fold::kCalls;
        const auto label =
            labels.try_emplace(fold_name(made), static_cast<std::uint32_t>(labels.size())).first;
        what = label->second | kFoldBit;
      }
      const auto [node, is_new] =
          known.try_emplace(std::uint64_t{parent} << 32 | what, static_cast<std::uint32_t>(nodes_.size()));
      if (is_new) nodes_.push_back(made);
      node_of_[path] = node->second;
    }
  }

  [[nodiscard]] bool says_little(std::uint32_t path) const {
    const std::string& name = name_of(path);
    return is_wrapper(name) || has_no_name(name, paths_.text(paths_.frame(path)->module));
  }
  [[nodiscard]] const std::string& name_of(std::uint32_t path) const {
    return paths_.text(paths_.frame(path)->name);
  }
  [[nodiscard]] std::string fold_name(const TreeNode& node) const {
    if (node.fold == Fold::kImport || is_wrapper(name_of(node.path))) {
      const std::string_view package = paths_.package(node.path);
      if (!package.empty()) return std::string(package);
    }
    return paths_.library_name(node.path);
  }

  void sum_nodes() {
    for (const auto& [path, category, ns] : charges_) {
      if (node_of_[path] == kNone) continue;
      TreeNode& node = nodes_[node_of_[path]];
      node.self_ns += ns;
      node.total_ns += ns;
      node.category_ns[static_cast<std::size_t>(category)] += ns;
    }
    for (std::size_t n = nodes_.size(); n-- > 0;) {
      const TreeNode& node = nodes_[n];
      if (node.parent == kNone) continue;
      TreeNode& parent = nodes_[node.parent];
      parent.total_ns += node.total_ns;
      for (std::size_t c = 0; c < kCategories; ++c) parent.category_ns[c] += node.category_ns[c];
    }
  }

  [[nodiscard]] CallTreeRow row(const TreeNode& node, std::uint32_t parent) const {
    const shard::Frame* frame = paths_.frame(node.path);
    if (const std::uint32_t function = paths_.function(node.path); function != kNone)
      frame = paths_.functions()[function];
    CallTreeRow row;
    row.parent = parent;
    row.fold = node.fold;
    if (node.fold != Fold::kNone) {
      row.name = fold_name(node);
      row.kind = frame->kind;
      row.self_s = to_seconds(node.self_ns);
      row.total_s = to_seconds(node.total_ns);
      for (std::size_t c = 0; c < kCategories; ++c) row.category_s[c] = to_seconds(node.category_ns[c]);
      return row;
    }
    const std::uint32_t id = paths_.function(node.path);
    row.name = id != kNone ? paths_.function_name(id) : paths_.text(frame->name);
    row.file = paths_.text(frame->file);
    row.module = paths_.text(frame->module);
    row.line = frame->function_line;
    row.kind = frame->kind;
    row.self_s = to_seconds(node.self_ns);
    row.total_s = to_seconds(node.total_ns);
    for (std::size_t c = 0; c < kCategories; ++c) row.category_s[c] = to_seconds(node.category_ns[c]);
    return row;
  }

  const std::vector<Charge> charges_;
  const CallPaths& paths_;
  std::vector<std::uint64_t> total_;    // by path, of it and what is below
  std::vector<bool> hidden_;            // by path
  std::vector<std::uint32_t> node_of_;  // by path: its own, where it is hidden the one around it
  std::vector<TreeNode> nodes_;         // parents first
};

// A node has at most the time of its parent and stands behind it: whatever is kept, its parents are too.
void Tree::give(std::uint64_t whole_ns, std::vector<CallTreeRow>& rows) const {
  std::vector<std::uint32_t> kept;
  const auto least_ns = static_cast<std::uint64_t>(thresholds::kCallTree * static_cast<double>(whole_ns));
  for (std::uint32_t n = 0; n < nodes_.size(); ++n)
    if (nodes_[n].total_ns >= least_ns) kept.push_back(n);
  const auto larger = [this](std::uint32_t x, std::uint32_t y) {
    return std::tie(nodes_[y].total_ns, x) < std::tie(nodes_[x].total_ns, y);
  };
  std::sort(kept.begin(), kept.end(), larger);
  kept.resize(std::min(kept.size(), thresholds::kMaxCallTree));

  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> children;
  for (const std::uint32_t n : kept) children[nodes_[n].parent].push_back(n);
  // Depth first, the largest child first.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> open;  // node, row of its parent
  const auto put_off = [&](std::uint32_t node, std::uint32_t row) {
    const auto found = children.find(node);
    if (found == children.end()) return;
    for (auto child = found->second.rbegin(); child != found->second.rend(); ++child)
      open.emplace_back(*child, row);
  };
  put_off(kNone, kNone);
  while (!open.empty()) {
    const auto [node, parent] = open.back();
    open.pop_back();
    rows.push_back(row(nodes_[node], parent));
    put_off(node, static_cast<std::uint32_t>(rows.size() - 1));
  }
}

}  // namespace

void find_call_tree(const PathTime& time, const CallPaths& paths, Analysis& analysis) {
  const Tree tree(charges_of(time, paths), paths);
  tree.give(tree.whole_ns(), analysis.call_tree);
}

void find_task_tree(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  std::vector<Charge> charges;
  for (const shard::TaskTime& task : data.task_times)
    if (task.path < paths.size() && task.wall_ns != 0)
      charges.push_back({task.path, Category::kPython, task.wall_ns});
  if (charges.empty()) return;
  const Tree tree(std::move(charges), paths);
  tree.give(tree.whole_ns(), analysis.task_tree);
  analysis.tasks_s = to_seconds(tree.whole_ns());
}

}  // namespace clusterprof::report
