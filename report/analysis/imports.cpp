// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/imports.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/base_name.hpp"
#include "report/analysis/frame_owner.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::FrameKind;

// What a frame says about imports.
enum class Role : std::uint8_t {
  kNative = 0,
  kPython,
  kImporter,   // of importlib's frozen modules, which do every import
  kHelper,     // of importlib's functions that programs call: import_module(), and lazy modules
  kModule,     // the code of a module
  kExtension,  // native code of an extension module
};

Role role_of(const CallPaths& paths, const shard::Frame& frame) {
  const std::string_view name = paths.text(frame.name);
  if (frame.kind == FrameKind::kNative) {
    const std::string_view module = paths.text(frame.module);
    const std::string_view file = base_name(module);
    const bool is_extension = file.find(".cpython-") != std::string_view::npos ||
                              file.find(".abi3.so") != std::string_view::npos ||
                              (name.starts_with("PyInit_") && !is_interpreter_module(module));
    return is_extension ? Role::kExtension : Role::kNative;
  }
  if (frame.kind != FrameKind::kPython) return Role::kNative;
  const std::string_view file = paths.text(frame.file);
  if (imports_modules(file)) return Role::kImporter;
  if (name == "<module>") return Role::kModule;
  return file.ends_with("/importlib/__init__.py") || file.ends_with("/importlib/util.py") ? Role::kHelper
                                                                                          : Role::kPython;
}

constexpr std::string_view kInit = "/__init__.py";  // of a package

std::string_view directory_of(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : file.substr(0, slash);
}

std::string_view without_extension(std::string_view name) { return name.substr(0, name.find('.')); }

// Finds the top-level package of a module's file.
class PackageNames {
 public:
  PackageNames(const shard::ShardData& head, const CallPaths& paths) : head_(head) {
    for (const shard::Frame& frame : head.frames)
      if (const std::string_view file = paths.text(frame.file);
          frame.kind == FrameKind::kPython && file.ends_with(kInit) && file.size() > kInit.size())
        directories_.insert(directory_of(file));
  }

  [[nodiscard]] std::string_view of(std::string_view file) const {
    if (file.starts_with("<frozen ")) return without_extension(file.substr(8, file.size() - 9));
    if (file.empty() || file.starts_with('<')) return {};
    if (const std::string_view package = installed_package(file); !package.empty()) return package;
    // The outermost one of the directories around it that are known to be packages.
    std::string_view module = file.ends_with(kInit) ? directory_of(file) : file;
    while (directories_.contains(directory_of(module))) module = directory_of(module);
    if (module.size() == file.size()) module = below_own(file);
    return without_extension(base_name(module));
  }

 private:
  // Up to the first directory below one of the user's own.
  [[nodiscard]] std::string_view below_own(std::string_view file) const {
    std::size_t longest = 0;
    for (const std::string_view own : head_.run.own)
      if (own.size() > longest && file.starts_with(own) && file.substr(own.size()).starts_with('/'))
        longest = own.size();
    return longest == 0 ? file : file.substr(0, file.find('/', longest + 1));
  }

  const shard::ShardData& head_;
  std::unordered_set<std::string_view> directories_;
};

}  // namespace

class ImportTime::Finder {
 public:
  Finder(const shard::ShardData& head, ImportTime& to)
      : head_(head), paths_(to.paths_), names_(head, to.paths_), to_(to) {
    roles_.reserve(head.frames.size());
    for (const shard::Frame& frame : head.frames) roles_.push_back(role_of(paths_, frame));
    python_.assign(paths_.size(), 0);
  }

  void find() {
    for (std::uint32_t path = 1; path < paths_.size(); ++path) enter(path);
    name_what_was_only_looked_for();
    for (std::uint32_t i = 1; i < to_.imports_.size(); ++i) describe(i);
  }

 private:
  [[nodiscard]] Role role(std::uint32_t path) const {
    return paths_.frame(path) == nullptr ? Role::kNative : roles_[head_.paths[path].frame];
  }

  void enter(std::uint32_t path) {
    const std::uint32_t above = paths_.parent(path);
    const Role here = role(path);
    std::uint32_t& innermost = to_.import_of_[path];
    innermost = to_.import_of_[above];
    python_[path] = here == Role::kNative || here == Role::kExtension ? python_[above] : path;
    const bool finds = to_.imports_[innermost].finds;
    if (here == Role::kImporter) {
      // Importers call each other, and functions of hooks. What a hook imports itself is another import.
      const Role caller = role(python_[above]);
      if (!finds || (caller != Role::kImporter && caller != Role::kHelper))
        innermost = statement(statement_above(above), innermost);
    } else if (finds && (here == Role::kModule || here == Role::kExtension)) {
      innermost = module(innermost, path);
    }
  }

  // The innermost Python frame that is none of importlib's.
  [[nodiscard]] std::uint32_t statement_above(std::uint32_t path) const {
    std::uint32_t statement = python_[path];
    while (statement != 0 && role(statement) == Role::kHelper) statement = python_[paths_.parent(statement)];
    return statement;
  }

  std::uint32_t statement(std::uint32_t path, std::uint32_t above) {
    const auto [found, is_new] = statements_.try_emplace(std::uint64_t{path} << 32 | above,
                                                         static_cast<std::uint32_t>(to_.imports_.size()));
    if (is_new) {
      Import& added = to_.imports_.emplace_back();
      added.above = above;
      added.statement = path;
      added.finds = added.costs = true;
    }
    return found->second;
  }

  // The module at `path`, which the statement loads.
  std::uint32_t module(std::uint32_t loading, std::uint32_t path) {
    const shard::Frame& frame = *paths_.frame(path);
    const std::uint32_t name =
        package(names_.of(paths_.text(frame.kind == FrameKind::kPython ? frame.file : frame.module)));
    const auto [found, is_new] = modules_.try_emplace(std::uint64_t{loading} << 32 | name,
                                                      static_cast<std::uint32_t>(to_.imports_.size()));
    if (is_new) {
      const bool own = paths_.owner(path) == Owner::kOwn;
      Import added = to_.imports_[loading];
      added.package = name;
      added.finds = false;
      added.costs = !own || to_.imports_[added.above].costs;
      to_.imports_.push_back(added);
      to_.packages_[name].own = to_.packages_[name].own || own;
    }
    return found->second;
  }

  std::uint32_t package(std::string_view name) {
    if (name.empty()) return 0;
    const auto [found, is_new] =
        package_index_.try_emplace(name, static_cast<std::uint32_t>(to_.packages_.size()));
    if (is_new) to_.packages_.emplace_back().name = name;
    return found->second;
  }

  // A statement's package is the one that most call paths of its modules are in. Where none is known, as of
  // modules that are built in, it is that of the module which has the statement.
  void name_what_was_only_looked_for() {
    std::vector<std::uint64_t> paths_in(to_.imports_.size(), 0);
    for (const std::uint32_t innermost : to_.import_of_) ++paths_in[innermost];
    std::vector<std::pair<std::uint32_t, std::uint64_t>> best(to_.imports_.size());  // package, paths
    const auto name_of = [this](std::uint32_t package) -> const std::string& {
      return to_.packages_[package].name;
    };
    for (const auto& [key, loaded] : modules_) {
      const std::uint32_t package = to_.imports_[loaded].package;
      auto& [most, paths] = best[key >> 32];
      const std::uint64_t here = paths_in[loaded];
      if (package != 0 && (here > paths || (here == paths && name_of(package) < name_of(most))))
        most = package, paths = here;
    }
    for (std::uint32_t i = 1; i < to_.imports_.size(); ++i) {
      Import& each = to_.imports_[i];
      if (each.finds) each.package = best[i].first != 0 ? best[i].first : to_.imports_[each.above].package;
    }
  }

  void describe(std::uint32_t i) {
    Import& each = to_.imports_[i];
    const bool by_program = each.statement != 0 && paths_.owner(each.statement) == Owner::kOwn;
    Package& package = to_.packages_[each.package];
    package.is_direct = package.is_direct || by_program;
    each.is_outermost = true;
    for (std::uint32_t at = each.above; at != 0; at = to_.imports_[at].above)
      if (to_.imports_[at].package == each.package) each.is_outermost = false;
    std::uint32_t cause = each.statement;
    if (!by_program)  // where a library imports something later on, the program's line that called it
      cause = each.above != 0 ? to_.causes_[to_.imports_[each.above].cause].statement : paths_.source(cause);
    if (paths_.owner(cause) != Owner::kOwn) cause = 0;
    // Paths that end at one line are one statement.
    const auto [found, is_new] = causes_.try_emplace({each.package, paths_.line(cause)},
                                                     static_cast<std::uint32_t>(to_.causes_.size()));
    if (is_new) to_.causes_.push_back({each.package, cause});
    each.cause = found->second;
  }

  const shard::ShardData& head_;
  const CallPaths& paths_;
  const PackageNames names_;
  ImportTime& to_;
  std::vector<Role> roles_;            // by frame
  std::vector<std::uint32_t> python_;  // by path: its innermost Python frame
  std::unordered_map<std::uint64_t, std::uint32_t> statements_, modules_;
  std::unordered_map<std::string_view, std::uint32_t> package_index_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> causes_;
};

ImportTime::ImportTime(const shard::ShardData& head, const CallPaths& paths)
    : paths_(paths), import_of_(paths.size(), 0), imports_(1), packages_(1), all_(1) {
  Finder(head, *this).find();
  sums_.resize(causes_.size());
  of_ranks_.resize(packages_.size());
  here_ns_.resize(packages_.size());
}

void ImportTime::add(const RankInput& rank) {
  if (!rank.sampled) return;
  AllImports all;
  for (const shard::Value& value : rank.values) {
    const std::uint32_t innermost = import_of_[value.path];
    // A package that calls MPI_Init when it is imported does not take the time of MPI_Init.
    if (innermost == 0 || value.category == Category::kMpi || value.wall_ns == 0) continue;
    sums_[imports_[innermost].cause].self_ns += value.wall_ns;
    for (std::uint32_t at = innermost; at != 0; at = imports_[at].above) {
      const Import& around = imports_[at];
      if (!around.is_outermost) continue;
      Sum& sum = sums_[around.cause];
      sum.total_ns += value.wall_ns;
      if (value.main_thread) sum.main_ns += value.wall_ns;
      if (here_ns_[around.package] == 0) touched_.push_back(around.package);
      here_ns_[around.package] += value.wall_ns;
    }
    if (!imports_[innermost].costs) continue;
    all.time_ns += value.wall_ns;
    if (!value.main_thread) continue;
    all.main_ns += value.wall_ns;
    if (value.category == Category::kIo) all.main_io_ns += value.wall_ns;
  }
  for (const std::uint32_t package : touched_) {
    of_ranks_[package].add(here_ns_[package], rank.position);
    here_ns_[package] = 0;
  }
  touched_.clear();
  if (all.main_ns != 0) all.main_of_rank.add(all.main_ns, rank.position);
  unite(all_.front(), all);
}

void ImportTime::finish(const RankOrder& ranks, Analysis& analysis) const {
  std::vector<Sum> of_package(packages_.size());
  std::vector<std::pair<std::uint64_t, std::uint32_t>> most(packages_.size());  // time, cause
  for (std::uint32_t cause = 0; cause < causes_.size(); ++cause) {
    const std::uint32_t package = causes_[cause].package;
    unite(of_package[package], sums_[cause]);
    if (sums_[cause].total_ns > most[package].first) most[package] = {sums_[cause].total_ns, cause};
  }
  for (std::size_t i = 0; i < packages_.size(); ++i) {
    const Sum& sum = of_package[i];
    if (sum.total_ns == 0) continue;
    ImportRow& row = analysis.imports.emplace_back();
    row.package = packages_[i].name;
    row.own = packages_[i].own;
    row.is_direct = packages_[i].is_direct;
    row.time_s = to_seconds(sum.total_ns);
    row.self_s = to_seconds(sum.self_ns);
    row.main_thread_s = to_seconds(sum.main_ns);
    row.ranks = of_ranks_[i].ranks;
    row.spread = ranks.spread(sum.total_ns, of_ranks_[i]);
    if (const shard::Frame* const frame = paths_.frame(causes_[most[i].second].statement)) {
      row.file = paths_.text(frame->file);
      row.line = frame->line;
      row.function = paths_.text(frame->name);
    }
  }
  std::sort(analysis.imports.begin(), analysis.imports.end(), [](const ImportRow& x, const ImportRow& y) {
    return std::tuple(!x.is_direct, -x.time_s, std::string_view(x.package)) <
           std::tuple(!y.is_direct, -y.time_s, std::string_view(y.package));
  });
  const AllImports& all = all_.front();
  analysis.import_sum = {to_seconds(all.time_ns), to_seconds(all.main_ns), to_seconds(all.main_io_ns),
                         ranks.spread(all.main_ns, all.main_of_rank)};
}

}  // namespace clusterprof::report
