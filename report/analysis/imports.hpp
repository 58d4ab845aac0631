// SPDX-License-Identifier: BSD-3-Clause
// What the imports of Python packages take: docs/metrics.md, "Imports".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// Time during imports by top-level package. Which package a call path imports is found from its frames alone:
// those of importlib, and the <module> frames of files below them.
class ImportTime {
 public:
  // Refers to `paths`.
  ImportTime(const shard::ShardData& head, const CallPaths& paths);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.sums_, self.causes_.size());
    table(self.of_ranks_, self.packages_.size());
    table(self.all_, 1);
  }

  // Fills in Analysis::imports and import_sum.
  void finish(const RankOrder& ranks, Analysis& analysis) const;

 private:
  // An import statement together with what it loads. While a module is looked for and loaded, only the
  // statement is known; its package is that of the module which is executed then.
  struct Import {
    std::uint32_t above = 0;      // the import whose module has the statement; 0: none
    std::uint32_t statement = 0;  // path; 0: the interpreter itself imports
    std::uint32_t package = 0;    // index into packages_
    std::uint32_t cause = 0;      // index into causes_
    bool finds = false;           // no code of the module runs yet
    bool is_outermost = false;    // no import above it is of the same package
    bool costs = false;           // its time is not only that of the user's own code
  };
  struct Package {
    std::string name;        // empty: not known
    bool own = false;        // the user's own code
    bool is_direct = false;  // a statement of the user's own code imports it
  };
  // A package, and the statement of the program that causes its import.
  struct Cause {
    std::uint32_t package = 0, statement = 0;  // path; 0: there is none
  };
  struct Sum {
    std::uint64_t total_ns = 0, self_ns = 0, main_ns = 0;  // main: of total
    friend void unite(Sum& into, const Sum& from) {
      into.total_ns += from.total_ns;
      into.self_ns += from.self_ns;
      into.main_ns += from.main_ns;
    }
  };
  struct AllImports {
    std::uint64_t time_ns = 0, main_ns = 0, main_io_ns = 0;
    Extremes main_of_rank;
    friend void unite(AllImports& into, const AllImports& from) {
      into.time_ns += from.time_ns;
      into.main_ns += from.main_ns;
      into.main_io_ns += from.main_io_ns;
      into.main_of_rank.unite_with(from.main_of_rank);
    }
  };
  class Finder;

  const CallPaths& paths_;
  std::vector<std::uint32_t> import_of_;  // by path: the innermost import; 0: none
  std::vector<Import> imports_;           // those above have lower numbers; the first one is none
  std::vector<Package> packages_;         // the first one is not known
  std::vector<Cause> causes_;
  std::vector<Sum> sums_;           // by cause
  std::vector<Extremes> of_ranks_;  // by package, of total
  std::vector<AllImports> all_;     // one

  // Of the rank at hand; 0 between ranks.
  std::vector<std::uint64_t> here_ns_;  // by package
  std::vector<std::uint32_t> touched_;
};

}  // namespace clusterprof::report
