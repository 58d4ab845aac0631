// SPDX-License-Identifier: BSD-3-Clause
// Resolves the event of --sample-on: names of software events and of libpfm4 and PAPI become the type and
// configuration that perf_event_open() takes.
#include "cli/sample_event.hpp"

#include <dlfcn.h>
#include <linux/perf_event.h>
#include <papi.h>
#include <perfmon/pfmlib_perf_event.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>

#include "formats/wire/segment.h"

namespace clusterprof::cli {
namespace {

constexpr std::uint64_t kShortestClock_ns = 10'000;  // the kernel's own limit

struct SoftwareEvent {
  const char* name;
  std::uint64_t config;
};
constexpr SoftwareEvent kSoftwareEvents[] = {
    {"task-clock", PERF_COUNT_SW_TASK_CLOCK},
    {"cpu-clock", PERF_COUNT_SW_CPU_CLOCK},
    {"page-faults", PERF_COUNT_SW_PAGE_FAULTS},
    {"faults", PERF_COUNT_SW_PAGE_FAULTS},
    {"minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cs", PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS},
    {"migrations", PERF_COUNT_SW_CPU_MIGRATIONS},
};

bool starts_with(const std::string& text, const char* prefix) {
  const std::size_t length = std::string_view(prefix).size();
  return ::strncasecmp(text.c_str(), prefix, length) == 0;
}

const SoftwareEvent* find_software_event(const std::string& name) {
  constexpr const char* kPrefix = "perf::";
  const std::string bare = starts_with(name, kPrefix) ? name.substr(6) : name;
  for (const SoftwareEvent& event : kSoftwareEvents)
    if (::strcasecmp(event.name, bare.c_str()) == 0) return &event;
  return nullptr;
}

template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

struct Papi {
  decltype(PAPI_event_name_to_code)* to_code = nullptr;
  decltype(PAPI_get_event_info)* get_info = nullptr;
};

Result<Papi> load_papi() {
  void* library = nullptr;
  for (const char* name : {"libpapi.so.7", "libpapi.so.7.0", "libpapi.so"})
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{"no libpapi.so.7 found: install PAPI 7"};
  const auto init = function_of<decltype(PAPI_library_init)>(library, "PAPI_library_init");
  Papi papi{function_of<decltype(PAPI_event_name_to_code)>(library, "PAPI_event_name_to_code"),
            function_of<decltype(PAPI_get_event_info)>(library, "PAPI_get_event_info")};
  if (init == nullptr || papi.to_code == nullptr || papi.get_info == nullptr ||
      init(PAPI_VER_CURRENT) != static_cast<int>(PAPI_VER_CURRENT))
    return Error{"libpapi has another version"};
  return papi;
}

// The one native event that a preset stands for here.
Result<std::string> native_name(const std::string& preset) {
  const Result<Papi> papi = load_papi();
  if (!papi) return papi.error();
  int code = 0;
  if (papi.value().to_code(preset.c_str(), &code) != PAPI_OK) return Error{"unknown event: see papi_avail"};
  PAPI_event_info_t info = {};
  if (papi.value().get_info(code, &info) != PAPI_OK || info.count == 0)
    return Error{"no hardware counters on this machine, or not of this event"};
  if (info.count != 1) return Error{"made of several events: name one of them (papi_avail -e)"};
  return std::string(info.name[0]);
}

Result<perf_event_attr> encode(const std::string& name) {
  void* const library = ::dlopen("libpfm.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{"no libpfm.so.4 found, which knows the names of events"};
  const auto init = function_of<decltype(pfm_initialize)>(library, "pfm_initialize");
  const auto encoding =
      function_of<decltype(pfm_get_os_event_encoding)>(library, "pfm_get_os_event_encoding");
  if (init == nullptr || encoding == nullptr || init() != PFM_SUCCESS) return Error{"libpfm does not start"};
  perf_event_attr event = {};
  event.size = sizeof event;
  pfm_perf_encode_arg_t argument = {};
  argument.attr = &event;
  argument.size = sizeof argument;
  if (encoding(name.c_str(), PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &argument) != PFM_SUCCESS)
    return Error{"unknown event, or of counters this machine lacks"};
  return event;
}

bool counts_cycles(const std::string& name, const perf_event_attr& event) {
  if (event.type == PERF_TYPE_HARDWARE)
    return event.config == PERF_COUNT_HW_CPU_CYCLES || event.config == PERF_COUNT_HW_REF_CPU_CYCLES;
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper.find("CPU_CLK_UNHALTED") != std::string::npos ||
         upper.find("UNHALTED_CORE_CYCLES") != std::string::npos ||
         upper.find("UNHALTED_REFERENCE_CYCLES") != std::string::npos;
}

std::string paranoid_text() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  std::string level;
  return file >> level ? "not permitted (perf_event_paranoid=" + level + ")" : "not permitted";
}

// Empty: the kernel samples on it; else why not.
std::string try_event(const wire::SampleEvent& from, int rate_hz) {
  perf_event_attr event = {};
  event.size = sizeof event;
  event.type = from.type;
  event.config = from.config;
  event.config1 = from.config1;
  event.config2 = from.config2;
  event.sample_period = from.period;
  if (from.period == 0) {
    event.freq = 1;
    event.sample_freq = static_cast<std::uint64_t>(rate_hz);
  }
  event.disabled = 1;
  event.exclude_hv = 1;
  // Without permission to look at the kernel it would not be counted at all.
  const bool in_kernel = from.type == PERF_TYPE_SOFTWARE && (from.config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
                                                             from.config == PERF_COUNT_SW_CPU_MIGRATIONS);
  for (const bool user_only : {false, true}) {
    if (user_only && in_kernel) break;
    event.exclude_kernel = user_only ? 1 : 0;
    const long fd = ::syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0) {
      ::close(static_cast<int>(fd));
      return "";
    }
    if (errno != EACCES && errno != EPERM) break;
  }
  if (errno == EACCES || errno == EPERM) return paranoid_text();
  if (errno == ENOENT || errno == ENODEV || errno == EOPNOTSUPP || errno == ENXIO)
    return "no hardware counters on this machine";
  if (errno == ENOSYS) return "no performance events in this kernel";
  return "the kernel refuses it as it was asked for";
}

}  // namespace

Result<SampleOn> parse_sample_on(const std::string& text) {
  SampleOn parsed{text, 0};
  const std::size_t colon = text.rfind(':');
  const bool has_period = colon != std::string::npos && colon + 1 < text.size() &&
                          text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (has_period) {
    parsed.event = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data() + colon + 1, end, parsed.period).ec != std::errc{} ||
        parsed.period == 0 || parsed.period > INT64_MAX)
      return Error{"a period from 1 to 2^63, not '" + text.substr(colon + 1) + "'"};
  }
  if (parsed.event.empty()) return Error{"EVENT or EVENT:PERIOD, not '" + text + "'"};
  if (parsed.event.find(',') != std::string::npos) return Error{"one event, not '" + text + "'"};
  if (parsed.event.size() >= wire::kCounterNameBytes)
    return Error{"the name of an event is shorter than that"};
  const SoftwareEvent* const software = find_software_event(parsed.event);
  const bool is_clock = software != nullptr && (software->config == PERF_COUNT_SW_TASK_CLOCK ||
                                                software->config == PERF_COUNT_SW_CPU_CLOCK);
  if (is_clock && has_period && parsed.period < kShortestClock_ns)
    return Error{"nanoseconds, at least " + std::to_string(kShortestClock_ns) + ", not '" +
                 std::to_string(parsed.period) + "'"};
  return parsed;
}

Result<wire::SampleEvent> resolve_sample_event(const SampleOn& sample_on, int rate_hz) {
  wire::SampleEvent event = {};
  event.period = sample_on.period;
  event.kind = wire::SampleEventKind::kOther;
  if (const SoftwareEvent* const software = find_software_event(sample_on.event)) {
    event.type = PERF_TYPE_SOFTWARE;
    event.config = software->config;
    if (event.config == PERF_COUNT_SW_TASK_CLOCK || event.config == PERF_COUNT_SW_CPU_CLOCK)
      event.kind = wire::SampleEventKind::kNanoseconds;
  } else {
    std::string name = sample_on.event;
    if (starts_with(name, "PAPI_")) {
      auto native = native_name(name);
      if (!native) return native.error();
      name = std::move(native).value();
    }
    const auto encoded = encode(name);
    if (!encoded) return encoded.error();
    event.type = encoded.value().type;
    event.config = encoded.value().config;
    event.config1 = encoded.value().config1;
    event.config2 = encoded.value().config2;
    if (counts_cycles(name, encoded.value())) event.kind = wire::SampleEventKind::kCycles;
  }
  if (const std::string problem = try_event(event, rate_hz); !problem.empty()) return Error{problem};
  return event;
}

std::string unknown_counters(const std::vector<std::string>& events) {
  std::string unknown;
  std::optional<Result<Papi>> papi;  // none of our own events needs it
  for (const std::string& event : events) {
    if (event == "none" || find_software_event(event) != nullptr) continue;
    if (!papi) papi = load_papi();
    if (!*papi) return events.size() == 1 ? event + ": " + papi->error().message : papi->error().message;
    int code = 0;
    if (papi->value().to_code(event.c_str(), &code) == PAPI_OK) continue;
    unknown += (unknown.empty() ? "" : ", ") + event;
  }
  if (unknown.empty()) return unknown;
  return unknown + ": unknown event" + (unknown.find(',') != std::string::npos ? "s" : "") +
         " (papi_avail and papi_native_avail list those there are)";
}

std::string sample_event_text(const wire::SampleEvent& event) {
  char text[128];
  std::snprintf(text, sizeof text, "%" PRIx32 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%x",
                event.type, event.config, event.config1, event.config2, event.period,
                static_cast<unsigned>(event.kind));
  return text;
}

}  // namespace clusterprof::cli
