// SPDX-License-Identifier: BSD-3-Clause
// Builds the call trees of the reports, of time, tasks and memory: merges paths through the same functions,
// folds library code, and keeps the largest rows.
#include "report/analysis/call_tree.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <unordered_map>
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
  std::uint32_t path = 0;                       // one of them
  Fold fold = Fold::kNone;                      // else `path` names the library's function or package
  std::uint64_t total = 0, self = 0;            // weights
  std::uint64_t main_total = 0;                 // of main threads, where weights are nanoseconds
  std::array<std::uint64_t, kCategories> of{};  // amounts, by column
};

// What a call path is charged with: `weight` decides which rows there are and in what order, `amount` is
// added to a column.
struct Charge {
  std::uint32_t path = 0;
  std::size_t column = 0;  // below kCategories
  std::uint64_t weight = 0, amount = 0;
  std::uint64_t main = 0;  // of `weight`, of main threads; 0 where that has no meaning
};
// Calls its argument with all charges.
using EachCharge = std::function<void(const std::function<void(const Charge&)>&)>;

class Tree {
 public:
  Tree(EachCharge each_charge, const CallPaths& paths) : each_charge_(std::move(each_charge)), paths_(paths) {
    sum_paths();
    find_hidden();
    make_nodes();
    sum_nodes();
  }

  // Calls add(node, row of the parent) for the nodes that are kept, depth first; it returns nothing.
  template <typename Add>
  void give(const Add& add) const;
  // Sets what says which function or library a node is.
  template <typename Row>
  void describe(const TreeNode& node, Row& row) const;
  // Where weights and amounts are nanoseconds.
  void give_times(std::vector<CallTreeRow>& rows) const;
  [[nodiscard]] std::uint64_t whole() const { return total_[0]; }

 private:
  void sum_paths() {
    total_.assign(paths_.size(), 0);
    if (paths_.size() == 0) total_.assign(1, 0);
    each_charge_([this](const Charge& charge) { total_[charge.path] += charge.weight; });
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
    each_charge_([this](const Charge& charge) {
      if (node_of_[charge.path] == kNone) return;
      TreeNode& node = nodes_[node_of_[charge.path]];
      node.self += charge.weight;
      node.total += charge.weight;
      node.main_total += charge.main;
      node.of[charge.column] += charge.amount;
    });
    for (std::size_t n = nodes_.size(); n-- > 0;) {
      const TreeNode& node = nodes_[n];
      if (node.parent == kNone) continue;
      TreeNode& parent = nodes_[node.parent];
      parent.total += node.total;
      parent.main_total += node.main_total;
      for (std::size_t c = 0; c < kCategories; ++c) parent.of[c] += node.of[c];
    }
  }

  const EachCharge each_charge_;
  const CallPaths& paths_;
  std::vector<std::uint64_t> total_;    // by path, weights of it and of what is below
  std::vector<bool> hidden_;            // by path
  std::vector<std::uint32_t> node_of_;  // by path: its own, where it is hidden the one around it
  std::vector<TreeNode> nodes_;         // parents first
};

template <typename Row>
void Tree::describe(const TreeNode& node, Row& row) const {
  const std::uint32_t id = paths_.function(node.path);
  const shard::Frame* const frame = id != kNone ? paths_.functions()[id] : paths_.frame(node.path);
  row.fold = node.fold;
  row.kind = frame->kind;
  if (node.fold != Fold::kNone) {
    row.name = fold_name(node);
    return;
  }
  row.name = id != kNone ? paths_.function_name(id) : paths_.text(frame->name);
  row.file = paths_.text(frame->file);
  row.module = paths_.text(frame->module);
  row.line = frame->function_line;
}

// A node has at most the weight of its parent and stands behind it: whatever is kept, its parents are too.
// What main threads do counts by itself, too: where others are many, it is little of all time.
template <typename Add>
void Tree::give(const Add& add) const {
  std::vector<std::uint32_t> kept;
  std::uint64_t main = 0;
  for (const TreeNode& node : nodes_)
    if (node.parent == kNone) main += node.main_total;
  const auto least_of = [](std::uint64_t whole) {
    return static_cast<std::uint64_t>(thresholds::kCallTree * static_cast<double>(whole));
  };
  const std::uint64_t least = least_of(whole()), least_main = std::max<std::uint64_t>(1, least_of(main));
  for (std::uint32_t n = 0; n < nodes_.size(); ++n)
    if (nodes_[n].total >= least || nodes_[n].main_total >= least_main) kept.push_back(n);
  const auto larger = [this](std::uint32_t x, std::uint32_t y) {
    return std::tie(nodes_[y].total, x) < std::tie(nodes_[x].total, y);
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
  std::uint32_t rows = 0;
  while (!open.empty()) {
    const auto [node, parent] = open.back();
    open.pop_back();
    add(nodes_[node], parent);
    put_off(node, rows++);
  }
}

void Tree::give_times(std::vector<CallTreeRow>& rows) const {
  give([&](const TreeNode& node, std::uint32_t parent) {
    CallTreeRow& row = rows.emplace_back();
    row.parent = parent;
    describe(node, row);
    row.self_s = to_seconds(node.self);
    row.total_s = to_seconds(node.total);
    row.main_total_s = to_seconds(node.main_total);
    for (std::size_t c = 0; c < kCategories; ++c) row.category_s[c] = to_seconds(node.of[c]);
  });
}

}  // namespace

void find_call_tree(const PathTime& time, const CallPaths& paths, Analysis& analysis) {
  const auto each_charge = [&](const std::function<void(const Charge&)>& use) {
    for (std::uint32_t path = 0; path < paths.size(); ++path)
      for (std::size_t c = 0; c < kCategories; ++c) {
        const auto category = static_cast<Category>(c);
        const std::uint32_t cell = time.cell(path, category);
        const std::uint64_t main_ns = time.observed_main_ns(cell);
        std::uint64_t ns = main_ns;
        // As for functions: helper threads that are idle spend no time, unless it is for the GIL.
        if (const std::uint64_t helper_ns = time.observed_helper_ns(cell);
            helper_ns != 0 &&
            (category != Category::kIdle || activity_of(paths, path, category) == Activity::kGilWait))
          ns += helper_ns;
        if (ns != 0) use({paths.counted(path, category), c, ns, ns, main_ns});
      }
  };
  Tree(each_charge, paths).give_times(analysis.call_tree);
}

void find_task_tree(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  if (data.task_times.empty()) return;
  const auto each_charge = [&](const std::function<void(const Charge&)>& use) {
    for (const shard::TaskTime& task : data.task_times)
      if (task.path < paths.size() && task.wall_ns != 0)
        use({task.path, static_cast<std::size_t>(Category::kPython), task.wall_ns, task.wall_ns});
  };
  const Tree tree(each_charge, paths);
  tree.give_times(analysis.task_tree);
  analysis.tasks_s = to_seconds(tree.whole());
}

void find_memory_tree(const std::vector<shard::MemorySite>& sites, const CallPaths& paths,
                      HeldMemory& memory) {
  constexpr std::array kAmounts = {&shard::MemorySite::alloc_bytes, &shard::MemorySite::live_end_bytes,
                                   &shard::MemorySite::rank_peak_bytes, &shard::MemorySite::node_peak_bytes};
  // A row matters by its share of any of these.
  constexpr double kWhole = 1e12;
  std::array<double, kAmounts.size()> sums{};
  for (const shard::MemorySite& site : sites)
    for (std::size_t i = 0; i < kAmounts.size(); ++i) sums[i] += static_cast<double>(site.*kAmounts[i]);
  const auto each_charge = [&](const std::function<void(const Charge&)>& use) {
    for (const shard::MemorySite& site : sites) {
      if (site.domain == shard::MemoryDomain::kFile || site.path >= paths.size()) continue;
      const std::uint32_t path = paths.counted(site.path, Category::kNative);
      for (std::size_t i = 0; i < kAmounts.size(); ++i)
        if (const std::uint64_t bytes = site.*kAmounts[i]; bytes != 0)
          use({path, i, static_cast<std::uint64_t>(static_cast<double>(bytes) / sums[i] * kWhole), bytes});
    }
  };
  const Tree tree(each_charge, paths);
  tree.give([&](const TreeNode& node, std::uint32_t parent) {
    MemoryTreeRow& row = memory.tree.emplace_back();
    row.parent = parent;
    tree.describe(node, row);
    row.alloc_bytes = node.of[0];
    row.live_end_bytes = node.of[1];
    row.rank_peak_bytes = node.of[2];
    row.node_peak_bytes = node.of[3];
  });
}

}  // namespace clusterprof::report
