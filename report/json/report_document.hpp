// SPDX-License-Identifier: BSD-3-Clause
// The JSON document of a report (report.schema.json). Its sections are in several sources: code.cpp,
// mpi.cpp, openmp.cpp, resources.cpp, conclusions.cpp, and the rest in render_json.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/format/names.hpp"
#include "report/json/json_writer.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

class ReportDocument {
 public:
  ReportDocument(const Analysis& analysis, const JsonSink& sink);
  void write();
  void write(const HeldAt& held);

 private:
  // render_json.cpp
  void dropped();
  void run();
  void settings(const std::vector<shard::Setting>& settings);
  void note_record(const NoteRecord& note);
  void nodes();
  void ranks();
  void threads_efficiency();

  // end_of_run.cpp
  void write_end(const EndOfRun& last);

  // code.cpp
  void functions();
  void lines();
  void call_tree();
  // `more` writes what else a row has.
  template <typename More>
  void tree(std::string_view name, const std::vector<CallTreeRow>& rows, const More& more);
  void regions();
  void processes();
  void event_loops();
  void tasks();
  void threads();
  void timeline();
  void off_cpu();
  void mutexes();
  void imports();

  // openmp.cpp
  void openmp();

  // mpi.cpp
  void peer(const PendingPeer& peer);
  void under_way(const CallUnderWayRow& row);
  template <typename Row>
  void problem(const Row& row);
  void problems();
  void mpi();
  void waits();
  void wait_parts(std::string_view name, const std::vector<WaitPart>& parts, bool causes);
  void torch_distributed();
  void wait_analysis();
  void root_causes();
  void critical_path();
  void windows();

  // resources.cpp
  void counters();
  void io();
  void memory();
  void memory_line(std::uint32_t line);
  void labelled_memory();

  // conclusions.cpp
  void quality();
  void bottleneck();
  void numbers(const Evidence& evidence);
  void evidence(const Finding& row);
  void findings();
  void gains();

  // Parts of several sections
  void spread(const RankSpread& spread);
  void active_spread(const RankSpread& active);
  void categories(const CategorySeconds& seconds);
  void activities(const OptionalActivitySeconds& seconds);
  void derived(const std::vector<Derived>& list);
  void amounts(const CounterAmounts& amounts);
  void place(LocationIndex place_index);
  void seconds_by_name(std::string_view name, const std::map<std::string, double>& seconds);
  // Parts of the self time of a function or line: the categories, and those activities that are not one.
  template <typename Row>
  void parts(const Row& row) {
    categories(row.category_s);
    for (const Activity part : {Activity::kGilWait, Activity::kGarbageCollection, Activity::kImport,
                                Activity::kPageFault, Activity::kSleep, Activity::kLock}) {
      const std::size_t i = report::index(part);
      out_(activity_keys_[i], a_.activity_s[i] ? Seconds(row.activity_s[i]) : Seconds());
    }
  }

  const Analysis& a_;
  JsonWriter out_;
  const format::ShortPaths names_;
  const std::array<std::string, kActivities> activity_keys_;
  const std::array<std::string, shard::kCategories> category_keys_;
};

}  // namespace clusterprof::report
