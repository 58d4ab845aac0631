// SPDX-License-Identifier: BSD-3-Clause
// Records programs that measure their own times, and compares these with what their profile says.
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kSelfTestGroup = "self_test";
constexpr std::chrono::milliseconds kRunPatience{60'000}, kVersionPatience{10'000};
// 3 s of CPU time at 1000 Hz: a function's share is known to 0.8 points (one standard deviation) if samples
// fall at random. A difference beyond these limits is not chance.
constexpr const char* kRate = "1000";
constexpr double kWarnPoints = 2.5, kFailPoints = 5;
// Waits are timed, not sampled.
constexpr double kWarnWait = 0.03, kFailWait = 0.1;
constexpr double kFailBlame =
    0.3;  // what the late rank did is known from samples, and from when it was switched out
constexpr double kWarnIdle_s = 0.02, kFailIdle_s = 0.1;  // a thread's last moments before and after a sleep
// The extra cost of one call from which it is reported. An idle machine has 0.02 to 0.15 µs.
constexpr double kWarnCall_s = 1e-6;
constexpr double kDefaultRate_hz = 100, kWarnSample = 0.01;  // of the time, at the default rate

constexpr const char* kAgain =
    "you: try again while nothing else runs here; if the result is the same, tell whoever looks after "
    "clusterprof";

std::string text_of(const char* format, double a) {
  char text[128];
  std::snprintf(text, sizeof text, format, a);
  return text;
}
std::string text_of(const char* format, double a, double b) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}
std::string text_of(const char* format, double a, double b, double c) {
  char text[192];
  std::snprintf(text, sizeof text, format, a, b, c);
  return text;
}

// Lines "NAME NUMBER" that the programs print.
std::map<std::string, double> own_numbers(const std::string& printed) {
  std::map<std::string, double> numbers;
  for (std::size_t at = 0; at < printed.size();) {
    const std::size_t end = std::min(printed.find('\n', at), printed.size());
    const std::string line = printed.substr(at, end - at);
    at = end + 1;
    const std::size_t blank = line.find(' ');
    char* rest = nullptr;
    const double value = blank == std::string::npos ? 0 : std::strtod(line.c_str() + blank + 1, &rest);
    if (rest != nullptr && *rest == '\0') numbers[line.substr(0, blank)] = value;
  }
  return numbers;
}

std::string problem_of(const std::string& what, const CommandOutcome& outcome) {
  if (outcome.end == CommandOutcome::End::kTimedOut) return what + " did not end within a minute";
  const std::string said = first_line(outcome.err);
  return what + " failed" + (said.empty() ? "" : ": " + said);
}

// A recorded run: the program's own numbers, and its report.
struct Recorded {
  std::string problem;  // why there is none
  std::map<std::string, double> own;
  rapidjson::Document report;
};

Recorded record(const Context& context, const std::vector<std::string>& launcher, const std::string& name,
                const std::vector<std::string>& program) {
  Recorded recorded;
  const std::string run = context.request.scratch + "/" + name;
  std::vector<std::string> command = launcher;
  command.insert(command.end(), {context.layout.launcher, "--quiet", "--rate", kRate, "--output", run, "--"});
  command.insert(command.end(), program.begin(), program.end());
  const CommandOutcome outcome = context.system.run(command, kRunPatience);
  if (!outcome.succeeded()) {
    recorded.problem = problem_of("recording it", outcome);
    return recorded;
  }
  recorded.own = own_numbers(outcome.out);
  const CommandOutcome said =
      context.system.run({context.layout.launcher, "report", "--json", run}, kRunPatience);
  if (!said.succeeded()) {
    recorded.problem = problem_of("clusterprof report", said);
    return recorded;
  }
  recorded.report.Parse(said.out.c_str(), said.out.size());
  if (recorded.report.HasParseError() || !recorded.report.IsObject())
    recorded.problem = "the report is no JSON";
  return recorded;
}

const rapidjson::Value* member(const rapidjson::Value* object, const char* name) {
  if (object == nullptr || !object->IsObject()) return nullptr;
  const auto found = object->FindMember(name);
  return found == object->MemberEnd() ? nullptr : &found->value;
}
std::optional<double> number(const rapidjson::Value* object, const char* name) {
  const rapidjson::Value* const value = member(object, name);
  return value != nullptr && value->IsNumber() ? std::optional(value->GetDouble()) : std::nullopt;
}
bool is_text(const rapidjson::Value* object, const char* name, std::string_view text) {
  const rapidjson::Value* const value = member(object, name);
  return value != nullptr && value->IsString() && value->GetString() == text;
}
// The first row of an array of objects for which `wanted` is true.
template <typename Wanted>
const rapidjson::Value* row(const rapidjson::Value* array, Wanted&& wanted) {
  if (array == nullptr || !array->IsArray()) return nullptr;
  const auto found =
      std::find_if(array->Begin(), array->End(), [&](const auto& value) { return wanted(&value); });
  return found == array->End() ? nullptr : &*found;
}
const rapidjson::Value* of_rank(const rapidjson::Value* array, double rank) {
  return row(array, [&](const rapidjson::Value* value) { return number(value, "rank") == rank; });
}

Check check_of(const char* id, const char* title) {
  return {std::string(kSelfTestGroup) + "." + id, kSelfTestGroup, title, Status::kOk, "", "", "", {}};
}

Check failed(Check check, const std::string& found) {
  check.status = Status::kFail;
  check.found = found;
  check.costs = "what is recorded on this machine cannot be trusted";
  check.fix = kAgain;
  return check;
}

void judge(Check& check, double off, double warn, double fail, const std::string& costs) {
  if (off <= warn) return;
  check.status = off > fail ? Status::kFail : Status::kWarn;
  check.costs = costs;
  check.fix = kAgain;
}

Check not_tried(Check check, const std::string& why) {
  check.found = "not tried: " + why;
  return check;
}

// How MPI programs of a family are started here with two ranks; empty: they cannot be.
std::vector<std::string> launcher_of(const Context& context, MpiFlavour flavour) {
  const System& system = context.system;
  const bool openmpi = flavour == MpiFlavour::kOpenMpi;
  for (const char* name : {"mpirun", "mpiexec", openmpi ? "mpirun.openmpi" : "mpirun.mpich"}) {
    const std::string path = in_path(system, name);
    if (path.empty()) continue;
    const CommandOutcome outcome = system.run({path, "--version"}, kVersionPatience);
    if (!outcome.succeeded() || flavour_of_launcher(outcome.out + outcome.err) != flavour) continue;
    std::vector<std::string> command = {path};
    if (openmpi) command.insert(command.end(), {"--oversubscribe", "--bind-to", "none"});
    if (openmpi && system.user() == 0) command.emplace_back("--allow-run-as-root");
    command.insert(command.end(), {"-n", "2"});
    return command;
  }
  return {};
}

void compare_waits(Recorded& recorded, Check check, Checks& out) {
  const auto own = recorded.own.find("waited_s"), late = recorded.own.find("late_s");
  if (recorded.problem.empty() && (own == recorded.own.end() || late == recorded.own.end()))
    recorded.problem = "the program did not say how long it waited";
  if (!recorded.problem.empty()) {
    out.push_back(failed(std::move(check), recorded.problem));
    return;
  }
  const rapidjson::Value* const waits = member(member(&recorded.report, "mpi"), "waits");
  const rapidjson::Value* const wait = row(waits, [](const rapidjson::Value* value) {
    return is_text(value, "kind", "late_sender") && number(value, "rank") == 0;
  });
  const double expected = own->second, said = number(wait, "wait_s").value_or(0);
  // Rank 1 was late because of its function; on a busy machine, also because it had no processor.
  double by_function = 0, by_processor = 0;
  const rapidjson::Value* const causes = member(wait, "caused_by");
  if (causes != nullptr && causes->IsArray()) {
    for (const rapidjson::Value& cause : causes->GetArray()) {
      if (number(&cause, "rank") != 1) continue;
      if (is_text(&cause, "function", "late_rank")) by_function += number(&cause, "wait_s").value_or(0);
      if (is_text(&cause, "function", "waiting for a processor"))
        by_processor += number(&cause, "wait_s").value_or(0);
    }
  }
  const double charged = by_function + by_processor;
  const double off = std::abs(said - expected) / expected,
               blame_off = std::abs(charged - expected) / expected;
  check.found =
      text_of("rank 0 waited %.3f s for rank 1 by their own clocks, ", expected) +
      text_of("%.3f s in the profile; late_rank() of rank 1 is charged with %.3f s", said, by_function);
  if (by_processor > 0)
    check.found += text_of(", that it had to wait for a processor with %.3f s", by_processor);
  check.found += text_of(": the wait is %.1f %% off, its cause %.1f %%", 100 * off, 100 * blame_off);
  check.details.push_back(text_of("rank 1 computed for %.3f s by its own clock", late->second));
  judge(check, std::max(off / kFailWait, blame_off / kFailBlame), kWarnWait / kFailWait, 1,
        "waiting times, or their causes, are off by this much or more");
  out.push_back(check);
}

}  // namespace

void check_shares(const Context& context, Checks& out) {
  Check shares = check_of("shares", "shares of a program's time");
  const std::string program = context.layout.self_test_program(MpiFlavour::kNone);
  Recorded recorded = record(context, {}, "shares", {program});
  const auto own = [&](const char* name) {
    const auto found = recorded.own.find(name);
    if (found == recorded.own.end() && recorded.problem.empty())
      recorded.problem = "the program did not say what it did";
    return found == recorded.own.end() ? 0 : found->second;
  };
  const double three = own("three_quarters_s"), one = own("one_quarter_s"), slept = own("sleeps_s");
  if (!recorded.problem.empty()) {
    out.push_back(failed(std::move(shares), recorded.problem));
    return;
  }
  const auto cpu = [&](std::string_view function) {
    const rapidjson::Value* const found =
        row(member(&recorded.report, "functions"),
            [&](const rapidjson::Value* value) { return is_text(value, "name", function); });
    return number(found, "cpu_s").value_or(0);
  };
  const double said_three = cpu("three_quarters"), said_one = cpu("one_quarter");
  if (said_three + said_one <= 0) {
    out.push_back(failed(std::move(shares), "none of the program's functions is in the profile"));
    return;
  }
  const double expected = 100 * three / (three + one), said = 100 * said_three / (said_three + said_one);
  const double points = std::abs(said - expected);
  // Also compares all of the CPU time, in percentage points.
  const double lost = 100 * std::abs(said_three + said_one - three - one) / (three + one);
  shares.found = text_of(
                     "three_quarters() has %.1f %% of the CPU time by the program's own clock, %.1f %% in "
                     "the profile: %.1f points off",
                     expected, said, points) +
                 text_of("; both functions together %.3f s and %.3f s", three + one, said_three + said_one);
  judge(shares, std::max(points, lost), kWarnPoints, kFailPoints,
        "shares of functions and lines are off by this much or more");
  out.push_back(shares);

  Check idle = check_of("idle", "time asleep");
  const std::optional<double> said_idle = number(of_rank(member(&recorded.report, "ranks"), 0), "idle_s");
  const double idle_off = std::abs(said_idle.value_or(0) - slept);
  idle.found =
      text_of("slept for %.3f s by its own clock, %.3f s in the profile: ", slept, said_idle.value_or(0)) +
      text_of("%.0f ms off", 1000 * idle_off);
  judge(idle, idle_off, kWarnIdle_s, kFailIdle_s, "idle time is off by this much or more");
  out.push_back(idle);

  Check cost = check_of("sample_cost", "cost of a sample");
  const rapidjson::Value* const quality = member(&recorded.report, "quality");
  const std::optional<double> median = number(quality, "handler_median_s");
  if (!median) {
    cost.status = Status::kWarn;
    cost.found = "the profile does not say what its samples cost";
    cost.costs = "that cost is not known";
    cost.fix = kAgain;
  } else {
    const double part = *median * kDefaultRate_hz;
    cost.found = text_of(
        "%.1f µs (median, by the handler's own clock): %.2f %% of the program's time at the "
        "default rate of 100 Hz",
        1e6 * *median, 100 * part);
    judge(cost, part, kWarnSample, 1, "programs take this much longer");
    const auto dropped = member(member(&recorded.report, "run"), "dropped");
    const double full = number(dropped, "ring_full").value_or(0);
    if (full > 0)
      cost.details.push_back(text_of("%.0f samples were lost at 1000 Hz: the collector was too slow", full));
  }
  out.push_back(cost);
}

void check_waits(const Context& context, Checks& out) {
  const System& system = context.system;
  bool any = false;
  for (const MpiFlavour flavour : {MpiFlavour::kOpenMpi, MpiFlavour::kMpich}) {
    const std::string program = context.layout.self_test_program(flavour);
    if (system.look(program).error != 0) continue;
    const std::vector<std::string> launcher = launcher_of(context, flavour);
    if (launcher.empty()) continue;
    any = true;
    const char* const family = flavour == MpiFlavour::kOpenMpi ? "Open MPI" : "MPICH";
    const std::string suffix = flavour == MpiFlavour::kOpenMpi ? "_openmpi" : "_mpich";
    Check waits = check_of(("waits" + suffix).c_str(), "");
    waits.title = std::string("waiting for a late rank, ") + family;
    Check cost = check_of(("call_cost" + suffix).c_str(), "");
    cost.title = std::string("cost of an MPI call, ") + family;
    if (system.processors() < 2) {
      out.push_back(not_tried(std::move(waits), "two ranks need two processors"));
    } else {
      Recorded recorded = record(context, launcher, "waits" + suffix, {program, "waits"});
      compare_waits(recorded, std::move(waits), out);
    }
    std::vector<std::string> bare = launcher;
    bare.insert(bare.end(), {program, "calls"});
    const CommandOutcome without = system.run(bare, kRunPatience);
    const Recorded with = record(context, launcher, "calls" + suffix, {program, "calls"});
    const std::map<std::string, double> before = own_numbers(without.out);
    if (!without.succeeded() || !with.problem.empty() || !before.contains("call_s") ||
        !with.own.contains("call_s")) {
      out.push_back(
          failed(std::move(cost), !without.succeeded()    ? problem_of("the program without us", without)
                                  : !with.problem.empty() ? with.problem
                                                          : "the program did not say what a call takes"));
      continue;
    }
    const double more = with.own.at("call_s") - before.at("call_s");
    cost.found = text_of("MPI_Iprobe takes %.0f ns alone and %.0f ns recorded: %.0f ns more",
                         1e9 * before.at("call_s"), 1e9 * with.own.at("call_s"), 1e9 * more);
    judge(cost, more, kWarnCall_s, 1, "programs with very many small MPI calls take longer");
    out.push_back(cost);
  }
  if (!any)
    out.push_back(not_tried(check_of("waits", "waiting for a late rank"),
                            "no mpirun of an MPI that this installation was built with is in PATH"));
}

}  // namespace clusterprof::cli::doctor
