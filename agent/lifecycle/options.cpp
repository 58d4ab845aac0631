// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/options.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/lifecycle/annotation_variables.h"
#include "agent/lifecycle/proc_files.h"
#include "formats/wire/attach.h"
#include "formats/wire/hello.h"
#include "formats/wire/launchers.h"
#include "formats/wire/preload_entry.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

constinit Options g_options = {};

namespace {

constexpr int kMaxOwnPreloads = 64;
constinit const char* g_own_preloads[kMaxOwnPreloads] = {};
constinit char g_own_preload_text[sizeof Options::preload] = {};  // each ends with a null

constexpr std::uint32_t kDefaultRateHz = 100, kMaxRateHz = 20'000;

// What `clusterprof attach` has handed over in place of the environment; null: nothing.
constinit const char* g_given = nullptr;
constinit std::size_t g_given_bytes = 0;

const char* setting(const char* name) noexcept {
  if (g_given == nullptr) return getenv(name);
  const std::size_t length = strlen(name);
  for (std::size_t at = 0; at < g_given_bytes;) {
    const char* const entry = g_given + at;
    const std::size_t bytes = strnlen(entry, g_given_bytes - at);
    if (at + bytes == g_given_bytes) break;  // it has no end
    if (bytes > length && entry[length] == '=' && memcmp(entry, name, length) == 0) return entry + length + 1;
    at += bytes + 1;
  }
  return nullptr;
}

template <std::size_t kBytes>
bool copy_variable(const char* name, char (&to)[kBytes]) noexcept {
  to[0] = 0;
  const char* value = setting(name);
  if (value == nullptr) return true;
  const std::size_t length = strlen(value);
  if (length >= kBytes) return false;
  memcpy(to, value, length + 1);
  return true;
}

std::int32_t number_variable(const char* name, std::int32_t otherwise) noexcept {
  const char* value = setting(name);
  if (value == nullptr || *value == 0) return otherwise;
  char* end = nullptr;
  const long number = strtol(value, &end, 10);
  return *end == 0 && number >= 0 && number <= 0x7fff'ffff ? static_cast<std::int32_t>(number) : otherwise;
}

bool switch_variable(const char* name) noexcept {
  const char* value = setting(name);
  return value != nullptr && *value != 0 && strcmp(value, "0") != 0;
}

// Reads the numbers of the launcher's wire::SampleEvent. False if the text is not one.
bool read_sample_event(const char* text, wire::SampleEvent& event) noexcept {
  std::uint64_t numbers[6] = {};
  for (std::uint64_t& number : numbers) {
    char* end = nullptr;
    number = strtoull(text, &end, 16);
    const bool is_last = &number == numbers + 5;
    if (end == text || *end != (is_last ? 0 : ',')) return false;
    text = end + 1;
  }
  event = {static_cast<std::uint32_t>(numbers[0]),        numbers[1], numbers[2], numbers[3], numbers[4],
           static_cast<wire::SampleEventKind>(numbers[5])};
  return event.kind <= wire::SampleEventKind::kOther;
}

void read_sample_on() noexcept {
  SampleOn& on = g_options.sample_on;
  const char* const name = getenv(wire::kSampleOnVariable);
  const char* const event = getenv(wire::kSampleEventVariable);
  if (name == nullptr || *name == 0 || event == nullptr) return;
  // Without the period behind the last colon.
  std::size_t length = strlen(name);
  const char* const colon = strrchr(name, ':');
  if (colon != nullptr && colon[1] != 0 && strspn(colon + 1, "0123456789") == strlen(colon + 1))
    length = static_cast<std::size_t>(colon - name);
  if (length >= sizeof on.name) length = sizeof on.name - 1;
  memcpy(on.name, name, length);
  on.resolved = *event != '!' && read_sample_event(event, on.event);
  if (!on.resolved) strncpy(on.reason, *event == '!' ? event + 1 : "not understood", sizeof on.reason - 1);
}

// Removes our entries from LD_PRELOAD, in place. Separators are those of ld.so: blanks and colons.
void shorten_preload(char* value) noexcept {
  char* to = value;
  const char* from = value;
  while (*from != 0) {
    const std::size_t length = strcspn(from, ": ");
    if (length != 0 && own_preload(from, length) < 0) {
      if (to != value) *to++ = ':';
      memmove(to, from, length);
      to += length;
    }
    from += length;
    if (*from != 0) ++from;
  }
  *to = 0;
}

bool is_below_torch_launcher() noexcept {
  pid_t pid = getppid();
  for (int level = 0; level < 8 && pid > 1; ++level) {
    char path[48], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", static_cast<int>(pid));
    const std::uint32_t bytes = read_small_file(path, text, sizeof text);
    if (wire::starts_torch_workers(text, bytes)) return true;
    snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
    if (read_small_file(path, text, sizeof text) == 0) return false;
    const char* const close = strrchr(text, ')');  // the name before may hold anything
    if (close == nullptr || strlen(close) < 4) return false;
    pid = static_cast<pid_t>(strtol(close + 4, nullptr, 10));
  }
  return false;
}

// Whether a launcher below clusterprof has given this process a rank ("clusterprof torchrun ..."). A process
// that such a rank starts inherits its variables, and comes to the same answer; the collector tells them
// apart.
void read_rank_of_own() noexcept {
  const char* const text = getenv(wire::kLaunchVariable);
  if (text == nullptr) return;
  const auto environment = [](const char* name) { return static_cast<const char*>(getenv(name)); };
  const wire::WorkerRank own = wire::find_worker_rank(environment, is_below_torch_launcher);
  if (own.launcher == nullptr) return;
  char* end = nullptr;
  const std::uint64_t launch = strtoull(text, &end, 16);
  if (*end != ':') return;
  const long rank = strtol(end + 1, &end, 10);
  if (*end != ':' || (launch == own.launch && rank == own.rank)) return;
  // MPI scripts set RANK, too.
  if (strtoull(end + 1, &end, 16) != wire::mpi_rank_evidence(environment) || *end != 0) return;
  g_options.rank = own.rank;
  g_options.world_size = own.size;
  g_options.launcher = static_cast<std::uint32_t>(own.launcher - wire::kLaunchers) + 1;
  g_options.launch = own.launch;
}

void divide_own_preloads() noexcept {
  memcpy(g_own_preload_text, g_options.preload, sizeof g_own_preload_text);
  char* next = g_own_preload_text;
  for (int place = 0; place < kMaxOwnPreloads && *next != 0;) {
    const std::size_t length = strcspn(next, ":");
    const bool last = next[length] == 0;
    next[length] = 0;
    if (length != 0) g_own_preloads[place++] = next;
    next += length + (last ? 0 : 1);
  }
}

}  // namespace

int own_preload(const char* entry, std::size_t length) noexcept {
  for (int place = 0; place < kMaxOwnPreloads && g_own_preloads[place] != nullptr; ++place)
    if (wire::is_entry_of(entry, length, g_own_preloads[place])) return place;
  return -1;
}

const char* own_preload_path(int place) noexcept { return g_own_preloads[place]; }

void read_options() noexcept {
  const char* socket = setting(wire::kSocketVariable);
  if (socket == nullptr || *socket == 0) return;
  if (!copy_variable(wire::kSocketVariable, g_options.socket) ||
      !copy_variable("CLUSTERPROF_EVENT", g_options.events) ||
      !copy_variable(wire::kPreloadVariable, g_options.preload))
    return;
  divide_own_preloads();
  g_options.rank = number_variable(wire::kRankVariable, -1);
  g_options.world_size = number_variable(wire::kWorldSizeVariable, -1);
  const std::int32_t rate = number_variable("CLUSTERPROF_RATE", kDefaultRateHz);
  g_options.rate_hz = rate < 1                                       ? 1u
                      : rate > static_cast<std::int32_t>(kMaxRateHz) ? kMaxRateHz
                                                                     : static_cast<std::uint32_t>(rate);
  const char* mode = setting("CLUSTERPROF_MODE");
  g_options.standby = switch_variable("CLUSTERPROF_STANDBY");
  g_options.light = !g_options.standby && mode != nullptr && strcmp(mode, "light") == 0;
  g_options.window_rate_hz =
      g_options.light && g_options.rate_hz < kDefaultRateHz ? kDefaultRateHz : g_options.rate_hz;
  const char* clock = setting("CLUSTERPROF_CLOCK");
  g_options.cpu_clock = clock != nullptr && strcmp(clock, "cpu") == 0;
  g_options.no_python = switch_variable("CLUSTERPROF_NO_PYTHON");
  g_options.no_native = switch_variable("CLUSTERPROF_NO_NATIVE");
  g_options.no_children = switch_variable("CLUSTERPROF_NO_CHILDREN");
  g_options.no_stderr = switch_variable("CLUSTERPROF_NO_STDERR");
  g_options.only_regions = switch_variable("CLUSTERPROF_ONLY_REGIONS");
  g_options.torch_ops = switch_variable("CLUSTERPROF_TORCH_OPS");
  g_options.check_paths = switch_variable("CLUSTERPROF_CHECK_PATHS");
  g_options.memory_interval_bytes = static_cast<std::uint64_t>(number_variable("CLUSTERPROF_MEMORY", 0));
  if (g_given == nullptr) {
    read_sample_on();
    read_rank_of_own();
    g_options.annotations_elsewhere = annotations_elsewhere();
  }
  g_options.record = true;
}

void read_options_of_attach(const char* given, std::size_t bytes) noexcept {
  g_options = {};
  g_given = given;
  g_given_bytes = bytes;
  read_options();
  if (!copy_variable(wire::kMpiWrapVariable, g_options.mpi_wrap)) g_options.mpi_wrap[0] = 0;
  // Programs that it executes are not recorded, and nothing of them may be in the process's own table of
  // descriptors.
  g_options.no_children = g_options.no_stderr = true;
  g_given = nullptr;
}

void hide_from_children() noexcept {
  if (char* preload = getenv("LD_PRELOAD")) {
    shorten_preload(preload);
    if (*preload == 0) unsetenv("LD_PRELOAD");
  }
  unsetenv(wire::kSocketVariable);
  unsetenv(wire::kRankVariable);
  unsetenv(wire::kWorldSizeVariable);
  unsetenv(wire::kPreloadVariable);
  unsetenv(wire::kSampleEventVariable);
  unsetenv(wire::kLaunchVariable);
  unsetenv(wire::kCreationVariable);
}

}  // namespace clusterprof::agent
