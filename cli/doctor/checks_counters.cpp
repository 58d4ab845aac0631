// SPDX-License-Identifier: BSD-3-Clause
// Checks performance events and PAPI.
#include <errno.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/leading_number.hpp"
#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kCountersGroup = "counters";
constexpr const char* kParanoid = "/proc/sys/kernel/perf_event_paranoid";
constexpr const char* kDefaultEvents[] = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "PAPI_BR_MSP"};

bool is_permission(int error) { return error == EACCES || error == EPERM; }

// The names of those that look at the kernel: CAP_PERFMON is 38, CAP_SYS_ADMIN 21.
std::string capability(const std::string& status) {
  const std::uint64_t effective = std::strtoull(field_of(status, "CapEff").c_str(), nullptr, 16);
  if ((effective >> 38 & 1) != 0) return "CAP_PERFMON";
  return (effective >> 21 & 1) != 0 ? "CAP_SYS_ADMIN" : "";
}

// The reason as the agent writes it in counters.unavailable; empty: there are hardware counters.
std::string why_no_hardware(const System& system) {
  const int error =
      system.try_events(subject(system), {{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false}}).at(0);
  if (error == 0) return "";
  if (!is_permission(error)) return "no hardware counters on this machine";
  const std::string level = first_line(system.read(kParanoid).value_or(""));
  return "not permitted" + (level.empty() ? "" : " (perf_event_paranoid=" + level + ")");
}

// What is lost where PAPI cannot count.
std::string cost_without_papi(const System& system) {
  return why_no_hardware(system).empty()
             ? "cycles, instructions and branches are counted by the kernel's names, no cache misses or "
               "operations"
             : "nothing: this machine has no hardware counters, and software events are counted without PAPI";
}

// What the kernel answers to perf_event_open, and what may be the reason.
struct EventFacts {
  int in_kernel = 0, in_user = 0, hardware = 0;  // errno; 0: works
  std::string setting;                           // "perf_event_paranoid=2"
  std::string as;                                // " for user 1000", " with CAP_PERFMON"
  bool filtered = false;                         // by seccomp
  bool by_filter = false;                        // the user has the right, so it is the filter that refuses
};

EventFacts event_facts(const System& system) {
  const uid_t user = subject(system);
  const std::vector<int> errors =
      system.try_events(user, {{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true},
                               {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false},
                               {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false}});
  EventFacts facts;
  facts.in_kernel = errors.at(0), facts.in_user = errors.at(1), facts.hardware = errors.at(2);
  const std::string level = first_line(system.read(kParanoid).value_or(""));
  const std::string status = system.read("/proc/self/status").value_or("");
  facts.setting = level.empty() ? "no perf_event_paranoid" : "perf_event_paranoid=" + level;
  facts.filtered = field_of(status, "Seccomp") == "2";
  if (acts_for_another(system)) {
    facts.as = " for user " + std::to_string(user);
  } else if (const std::string name = capability(status); !name.empty() && facts.in_kernel == 0) {
    facts.as = " with " + name;
  }
  // If a user has more rights than the setting requires and is still refused, something else is in the way.
  facts.by_filter = is_permission(facts.in_user) && facts.filtered && leading_number(level).value_or(0) <= 2;
  return facts;
}

Check check_permission(const EventFacts& facts) {
  Check permission{"counters.permission", kCountersGroup, "performance events", Status::kOk, "", "", "", {}};
  if (facts.in_user == ENOSYS) {
    permission.status = Status::kWarn;
    permission.found = "this kernel has none";
    permission.costs = "no hardware counters, cpu-migrations or --sample-on; sampling itself needs none";
    permission.fix = "admin: a kernel with CONFIG_PERF_EVENTS";
  } else if (is_permission(facts.in_user)) {
    permission.status = Status::kWarn;
    permission.found =
        "not permitted" + facts.as + " (" + (facts.by_filter ? "a seccomp filter" : facts.setting) + ")";
    permission.costs = "no hardware counters, cpu-migrations or --sample-on; sampling itself needs none";
    permission.fix = facts.by_filter
                         ? "you: allow perf_event_open in the container's seccomp profile (docker run "
                           "--security-opt seccomp=FILE, or --cap-add PERFMON)"
                         : "admin: sysctl -w kernel.perf_event_paranoid=1 (2 permits user mode alone)";
  } else if (facts.in_user != 0) {
    permission.status = Status::kWarn;
    permission.found = std::string("refused: ") + std::strerror(facts.in_user);
    permission.costs = "no hardware counters, cpu-migrations or --sample-on; sampling itself needs none";
    permission.fix = facts.in_user == EMFILE || facts.in_user == ENFILE ? "you: ulimit -n 4096"
                                                                        : "admin: dmesg may say why";
  } else if (is_permission(facts.in_kernel)) {
    permission.status = Status::kWarn;
    permission.found = "in user mode only" + facts.as + " (" + facts.setting + ")";
    permission.costs =
        "no cpu-migrations, no sampling on context switches; hardware counters leave out the kernel";
    permission.fix = "admin: sysctl -w kernel.perf_event_paranoid=1, for good in /etc/sysctl.d";
  } else {
    permission.found = "in user and kernel mode" + facts.as + " (" + facts.setting + ")";
  }
  return permission;
}

Check check_hardware(const System& system, const EventFacts& facts, const Check& permission) {
  Check counters{"counters.hardware", kCountersGroup, "hardware counters", Status::kOk, "", "", "", {}};
  const bool virtual_machine =
      (" " + field_of(system.read("/proc/cpuinfo").value_or(""), "flags") + " ").find(" hypervisor ") !=
      std::string::npos;
  if (facts.hardware == 0) {
    counters.found = "there are some";
  } else if (is_permission(facts.hardware)) {
    counters.status = Status::kWarn;
    counters.found = "not permitted (see performance events)";
    counters.costs = "no cycles, instructions or cache misses";
    counters.fix = permission.fix.empty() ? "admin: sysctl -w kernel.perf_event_paranoid=2" : permission.fix;
  } else {
    counters.status = Status::kWarn;
    counters.found = virtual_machine ? "none in this virtual machine" : "none that this kernel knows";
    counters.costs = "no cycles, instructions or cache misses: counters are those of the kernel";
    counters.fix = virtual_machine ? "admin: give the virtual machine a PMU (libvirt: <pmu state='on'/>), or "
                                     "measure counters on bare metal"
                                   : "admin: a kernel that knows this processor";
  }
  return counters;
}

Check check_filter(const EventFacts& facts, const Check& permission) {
  Check filter{"counters.seccomp", kCountersGroup, "seccomp", Status::kOk, "", "", "", {}};
  if (!facts.filtered) {
    filter.found = "no filter";
  } else if (facts.by_filter) {
    filter.status = Status::kWarn;
    filter.found = "a filter is in force and forbids perf_event_open";
    filter.costs = permission.costs;
    filter.fix = permission.fix;
  } else {
    filter.found = "a filter is in force, and permits what is needed";
  }
  return filter;
}

}  // namespace

void check_events(const Context& context, Checks& out) {
  const EventFacts facts = event_facts(context.system);
  const Check permission = check_permission(facts);
  out.push_back(permission);
  out.push_back(check_hardware(context.system, facts, permission));
  out.push_back(check_filter(facts, permission));
}

void check_papi_library(const Context& context, Checks& out) {
  if (!context.request.quick) return;  // check_papi says more
  Check check{"counters.papi", kCountersGroup, "PAPI", Status::kOk, "", "", "", {}};
  for (const char* name : {"libpapi.so.7", "libpapi.so.7.0", "libpapi.so"})
    if (check.found.empty()) check.found = context.system.find_library(name, "", {});
  if (check.found.empty()) {
    check.status = Status::kWarn;
    check.found = "no libpapi.so.7";
    check.costs = cost_without_papi(context.system);
    check.fix = "admin: install PAPI 7 (Debian: libpapi7.0); you: module load papi";
  }
  out.push_back(check);
}

void check_papi(const Context& context, Checks& out) {
  const PapiFacts facts = context.system.papi();
  Check check{"counters.papi", kCountersGroup, "PAPI", Status::kOk, "", "", "", facts.components};
  if (facts.library.empty()) {
    check.status = Status::kWarn;
    check.found = "no libpapi.so.7";
    check.costs = cost_without_papi(context.system);
    check.fix = "admin: install PAPI 7 (Debian: libpapi7.0); you: module load papi";
  } else if (!facts.problem.empty()) {
    check.status = Status::kWarn;
    check.found = facts.library + ": " + facts.problem;
    check.costs = cost_without_papi(context.system);
    check.fix = "admin: install PAPI 7 (Debian: libpapi7.0)";
  } else {
    std::vector<std::string> enabled;
    for (const std::string& component : facts.components)
      if (component.find(':') == std::string::npos) enabled.push_back(component);
    check.found = facts.version + " (" + facts.library +
                  "), components: " + (enabled.empty() ? "none" : joined(enabled)) + ", " +
                  std::to_string(facts.native_events) + " native events";
    for (const std::string& component : facts.components) {
      if (!component.starts_with("perf_event:")) continue;
      check.status = Status::kWarn;
      check.found = facts.library + ": " + component;
      check.costs = cost_without_papi(context.system);
      check.fix = "admin: a PAPI whose libpfm knows this processor";
    }
  }
  out.push_back(check);
  if (facts.library.empty() || !facts.problem.empty()) return;

  Check events{"counters.events", kCountersGroup, "PAPI's presets", Status::kOk, "", "", "", facts.presets};
  // PAPI cannot distinguish a processor without an event from a machine without counters.
  const std::string no_hardware = why_no_hardware(context.system);
  std::vector<std::string> missing;
  for (const auto& [name, reason] : facts.unavailable) {
    events.details.push_back(name + ": " + (no_hardware.empty() ? reason : no_hardware));
    if (std::find(std::begin(kDefaultEvents), std::end(kDefaultEvents), name) != std::end(kDefaultEvents))
      missing.push_back(name);
  }
  events.found = std::to_string(facts.presets.size()) + " of " +
                 std::to_string(facts.presets.size() + facts.unavailable.size()) + " can be counted";
  if (!missing.empty()) {
    events.status = Status::kWarn;
    events.found += "; of the default ones, these are missing: " + joined(missing);
    events.costs = "a report lists these under counters.unavailable";
    events.fix = facts.presets.empty() ? "see hardware counters above"
                                       : "you: choose among the others with -e (--verbose lists them)";
  }
  out.push_back(events);
}

}  // namespace clusterprof::cli::doctor
