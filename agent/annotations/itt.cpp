// SPDX-License-Identifier: BSD-3-Clause
// Tasks, frames and events of ITT (Intel's annotations) as regions. Objects that have been linked with its
// static part load the library that INTEL_LIBITTNOTIFY64 names and let it fill in a table of functions by
// name. Structures after ittnotify.h and ittnotify_config.h of version 3.
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <iterator>

#include "agent/annotations/domains.h"
#include "agent/lifecycle/start.h"

namespace clusterprof::agent {
namespace {

struct Domain {
  volatile int flags;  // not 0: what is in it is told
  const char* name;
  void* wide_name;
  int extra1;
  void* extra2;  // ours: the RegionDomain
  Domain* next;
};
struct String {
  const char* text;
  void* wide_text;
  int extra1;
  void* extra2;  // ours: the KeptName
  String* next;
};
struct Id {
  std::uint64_t parts[3];
  friend bool operator==(const Id&, const Id&) = default;
};

struct Api {
  const char* name;
  void** function;
  void* initial;
  void* null;
  int group;
};
struct Global {
  unsigned char magic[8];
  unsigned long major, minor, build;
  volatile long initialized, mutex_initialized, counter;
  pthread_mutex_t mutex;
  void* library;
  void* error_handler;
  const char** library_path;
  Api* functions;  // the last one has no name
};
constexpr unsigned char kMagic[8] = {0xed, 0xab, 0xab, 0xec, 0x0d, 0xee, 0xda, 0x30};

// Those that were made before this library was asked have none of ours yet.
const RegionDomain& domain_of(const Domain* domain) noexcept {
  if (domain == nullptr) return kItt;
  auto* const known = static_cast<const RegionDomain*>(__atomic_load_n(&domain->extra2, __ATOMIC_ACQUIRE));
  if (known != nullptr) return *known;
  const RegionDomain& found = domain_named(domain->name, kItt);
  __atomic_store_n(const_cast<void**>(&domain->extra2), const_cast<RegionDomain*>(&found), __ATOMIC_RELEASE);
  return found;
}

RegionName name_of(String* string) noexcept {
  if (string == nullptr) return region_name("");
  auto* known = static_cast<KeptName*>(__atomic_load_n(&string->extra2, __ATOMIC_ACQUIRE));
  if (known == nullptr) {
    known = keep_name(string->text);
    if (known == nullptr) return region_name(string->text != nullptr ? string->text : "");
    __atomic_store_n(&string->extra2, static_cast<void*>(known), __ATOMIC_RELEASE);
  }
  return known->name();
}

// These stay as long as the process.
template <typename Kept, std::uint32_t kMost>
struct Table {
  Kept rows[kMost];
  std::atomic<std::uint32_t> count;
  Kept* add() noexcept {
    const std::uint32_t index = count.fetch_add(1, std::memory_order_relaxed);
    if (index < kMost) return &rows[index];
    count.store(kMost, std::memory_order_relaxed);
    return nullptr;
  }
};
constinit Table<Domain, 128> g_domains = {};
constinit Table<String, 4096> g_strings = {};
constexpr std::uint32_t kStringPlaces = 8192, kStringTries = 16;
constinit std::atomic<std::uint16_t> g_string_places[kStringPlaces] =
    {};  // by name: the row, plus 1; 0: free
constinit Table<KeptName*, 256> g_events = {};
// Stand for those that found no room: callers of old versions look into a domain without a test.
constinit Domain g_other_domain = {1, kItt.name, nullptr, 0, const_cast<RegionDomain*>(&kItt), nullptr};
constinit String g_other_string = {wire::kOtherRegionsName, nullptr, 0, nullptr, nullptr};

Domain* create_domain(const char* name) {
  const RegionDomain& region_domain = domain_named(name, kItt);
  const std::uint32_t used = g_domains.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used && i < std::size(g_domains.rows); ++i)
    if (g_domains.rows[i].extra2 == &region_domain) return &g_domains.rows[i];
  Domain* const made = g_domains.add();
  if (made == nullptr) return &g_other_domain;
  made->flags = 1;
  made->name = region_domain.name;
  made->extra2 = const_cast<RegionDomain*>(&region_domain);
  return made;
}

String* make_string(const char* text) noexcept {
  if (g_strings.count.load(std::memory_order_relaxed) >= std::size(g_strings.rows)) return nullptr;
  KeptName* const name = keep_name(text);
  String* const made = name != nullptr ? g_strings.add() : nullptr;
  if (made == nullptr) return nullptr;
  made->text = name->text;
  __atomic_store_n(&made->extra2, static_cast<void*>(name), __ATOMIC_RELEASE);
  return made;
}

// The same for the same text: programs may ask again each time.
String* create_string(const char* text) {
  const std::uint64_t hash = region_name(text != nullptr ? text : "").hash;
  const auto first = static_cast<std::uint32_t>(hash * 0x9e37'79b9'7f4a'7c15ull >> 40);
  String* made = nullptr;
  for (std::uint32_t i = 0; i < kStringTries; ++i) {
    std::atomic<std::uint16_t>& place = g_string_places[(first + i) % kStringPlaces];
    std::uint16_t there = place.load(std::memory_order_acquire);
    if (there == 0) {
      if (made == nullptr) made = make_string(text);
      if (made == nullptr) return &g_other_string;
      const auto own = static_cast<std::uint16_t>(made - g_strings.rows + 1);
      if (place.compare_exchange_strong(there, own, std::memory_order_acq_rel)) return made;
    }
    String& known = g_strings.rows[there - 1];
    if (static_cast<const KeptName*>(__atomic_load_n(&known.extra2, __ATOMIC_ACQUIRE))->hash == hash)
      return &known;
  }
  return &g_other_string;
}

// --- on the calling thread ---

void begin_task(const Domain* domain, Id, Id, String* name) {
  begin_region(domain_of(domain), name_of(name), kNoNumber);
}
void end_task(const Domain* domain) { end_region(domain_of(domain)); }

int create_event(const char* name, int length) {
  char text[wire::kRegionNameBytes] = {};
  const auto most = static_cast<std::size_t>(length > 0 ? length : 0);
  if (name != nullptr) memcpy(text, name, strnlen(name, most < sizeof text ? most : sizeof text - 1));
  KeptName** const made = g_events.add();
  if (made == nullptr) return 0;
  __atomic_store_n(made, keep_name(text), __ATOMIC_RELEASE);
  return static_cast<int>(made - g_events.rows) + 1;
}
const KeptName* event(int number) noexcept {
  const auto index = static_cast<std::uint32_t>(number - 1);
  return index < std::size(g_events.rows) ? __atomic_load_n(&g_events.rows[index], __ATOMIC_ACQUIRE)
                                          : nullptr;
}
int start_event(int number) {
  if (const KeptName* const name = event(number); name != nullptr)
    begin_region(kItt, name->name(), kNoNumber);
  return 0;
}
int end_event(int number) {
  if (const KeptName* const name = event(number); name != nullptr) end_region(kItt, name->name());
  return 0;
}

// --- that may end on another thread: by their identity ---

struct Open {
  std::atomic<std::uint32_t> state;  // 0: free, 1: being written, 2: open
  const Domain* domain;
  Id id;
  std::uint64_t range;
};
constexpr std::uint32_t kMostOpen = 1024, kTries = 16;
constinit Open g_open[kMostOpen] = {};

std::uint32_t place_of(const Domain* domain, const Id& id) noexcept {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(domain);
  for (const std::uint64_t part : id.parts) hash = (hash ^ part) * 0x9e37'79b9'7f4a'7c15ull;
  return static_cast<std::uint32_t>(hash >> 40) % kMostOpen;
}

void open(const Domain* domain, const Id& id, RegionName name) noexcept {
  const std::uint32_t first = place_of(domain, id);
  for (std::uint32_t i = 0; i < kTries; ++i) {
    Open& place = g_open[(first + i) % kMostOpen];
    std::uint32_t free = 0;
    if (!place.state.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
    place.domain = domain;
    place.id = id;
    place.range = start_range(domain_of(domain), name, kNoNumber);
    place.state.store(2, std::memory_order_release);
    return;
  }
}
void close(const Domain* domain, const Id& id) noexcept {
  const std::uint32_t first = place_of(domain, id);
  for (std::uint32_t i = 0; i < kTries; ++i) {
    Open& place = g_open[(first + i) % kMostOpen];
    std::uint32_t is_open = 2;
    if (place.state.load(std::memory_order_acquire) != 2 || place.domain != domain || !(place.id == id))
      continue;
    if (!place.state.compare_exchange_strong(is_open, 1, std::memory_order_acquire)) continue;
    stop_range(place.range);
    place.state.store(0, std::memory_order_release);
    return;
  }
}

void begin_overlapped(const Domain* domain, Id id, Id, String* name) { open(domain, id, name_of(name)); }
void end_overlapped(const Domain* domain, Id id) { close(domain, id); }

// A frame of a domain has no name of its own.
void begin_frame(const Domain* domain, Id* id) {
  open(domain, id != nullptr ? *id : Id{}, region_name("frame"));
}
void end_frame(const Domain* domain, Id* id) { close(domain, id != nullptr ? *id : Id{}); }

struct Entry {
  const char* name;
  void* function;
};
template <typename F>
void* any(F* function) noexcept {
  return reinterpret_cast<void*>(function);
}

}  // namespace
}  // namespace clusterprof::agent

extern "C" [[gnu::visibility("default")]] void __itt_api_init(clusterprof::agent::Global* global, int) {
  using namespace clusterprof::agent;
  ensure_started();
  constexpr unsigned long kVersion = 3;  // before, the table's rows are shorter
  if (global == nullptr || memcmp(global->magic, kMagic, sizeof kMagic) != 0 || global->major < kVersion)
    return;
  const Entry entries[] = {{"__itt_domain_create", any(create_domain)},
                           {"__itt_string_handle_create", any(create_string)},
                           {"__itt_task_begin", any(begin_task)},
                           {"__itt_task_end", any(end_task)},
                           {"__itt_task_begin_overlapped", any(begin_overlapped)},
                           {"__itt_task_end_overlapped", any(end_overlapped)},
                           {"__itt_region_begin", any(begin_overlapped)},
                           {"__itt_region_end", any(end_overlapped)},
                           {"__itt_frame_begin_v3", any(begin_frame)},
                           {"__itt_frame_end_v3", any(end_frame)},
                           {"__itt_event_create", any(create_event)},
                           {"__itt_event_start", any(start_event)},
                           {"__itt_event_end", any(end_event)}};
  // Callers test the others: those that are null cost nothing.
  for (Api* api = global->functions; api->name != nullptr; ++api) {
    *api->function = nullptr;
    for (const Entry& entry : entries)
      if (strcmp(entry.name, api->name) == 0) *api->function = entry.function;
  }
}
