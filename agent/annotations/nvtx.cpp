// SPDX-License-Identifier: BSD-3-Clause
// Ranges of NVTX (NVIDIA's annotations) as regions. Every object that has been compiled with NVTX's header
// asks the library that NVTX_INJECTION64_PATH names for its functions, and that is this one, when it names
// its first range. Prototypes after the header of version 3; they have been the same since version 2.
#include <cstddef>
#include <iterator>

#include "agent/annotations/domains.h"
#include "agent/lifecycle/start.h"

namespace clusterprof::agent {
namespace {

struct Attributes {
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t colour_type;
  std::uint32_t colour;
  std::int32_t payload_type, reserved;
  union {
    std::uint64_t u64;
    std::int64_t i64;
    std::uint32_t u32;
    std::int32_t i32;
  } payload;
  std::int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* wide;
    const KeptName* registered;
  } message;
};
static_assert(sizeof(Attributes) == 48);
enum MessageType : std::int32_t { kAscii = 1, kWide = 2, kRegistered = 3 };
enum PayloadType : std::int32_t { kUnsigned64 = 1, kSigned64 = 2, kUnsigned32 = 4, kSigned32 = 5 };

constexpr int kNoLevel = -2;  // what push and pop return where levels are not kept

using Function = void (*)();
using GetExportTable = const void* (*)(std::uint32_t table);
struct Callbacks {
  std::size_t size;
  int (*module_functions)(int module, Function*** table, unsigned* size);
};
enum ExportTable : std::uint32_t { kCallbacks = 1 };
enum Module : int { kCore = 1, kDomains = 5 };

const RegionDomain& domain_of(const RegionDomain* domain) noexcept {
  return domain != nullptr ? *domain : kNvtx;
}

RegionName plain(const char* text) noexcept { return region_name(text != nullptr ? text : ""); }

struct Described {
  char buffer[wire::kRegionNameBytes];
  RegionName name = {"", 0};
  std::int64_t n = kNoNumber;

  explicit Described(const Attributes* from) noexcept {
    if (from == nullptr || from->size < sizeof *from) {
      name = region_name("");
      return;
    }
    if (from->message_type == kRegistered && from->message.registered != nullptr)
      name = from->message.registered->name();
    else if (from->message_type == kWide)
      name = region_name(narrow(from->message.wide, buffer));
    else
      name = plain(from->message_type == kAscii ? from->message.ascii : nullptr);
    if (from->payload_type == kUnsigned64 || from->payload_type == kSigned64) n = from->payload.i64;
    if (from->payload_type == kUnsigned32) n = from->payload.u32;
    if (from->payload_type == kSigned32) n = from->payload.i32;
    if (n < 0) n = kNoNumber;
  }
};

// --- on the calling thread ---

int push_text(const char* text) {
  begin_region(kNvtx, plain(text), kNoNumber);
  return kNoLevel;
}
int push_wide(const wchar_t* text) {
  char buffer[wire::kRegionNameBytes];
  return push_text(narrow(text, buffer));
}
int push_in(const RegionDomain* domain, const Attributes* attributes) {
  const Described range(attributes);
  begin_region(domain_of(domain), range.name, range.n);
  return kNoLevel;
}
int push(const Attributes* attributes) { return push_in(nullptr, attributes); }
int pop_in(const RegionDomain* domain) {
  end_region(domain_of(domain));
  return kNoLevel;
}
int pop() { return pop_in(nullptr); }

// --- of the process: another thread may end it ---

std::uint64_t start_in(const RegionDomain* domain, const Attributes* attributes) {
  const Described range(attributes);
  return start_range(domain_of(domain), range.name, range.n);
}
std::uint64_t start(const Attributes* attributes) { return start_in(nullptr, attributes); }
std::uint64_t start_text(const char* text) { return start_range(kNvtx, plain(text), kNoNumber); }
std::uint64_t start_wide(const wchar_t* text) {
  char buffer[wire::kRegionNameBytes];
  return start_text(narrow(text, buffer));
}
void end(std::uint64_t range) { stop_range(range); }
void end_in(const RegionDomain*, std::uint64_t range) { stop_range(range); }

// --- names ---

const KeptName* register_text(const RegionDomain*, const char* text) { return keep_name(text); }
const KeptName* register_wide(const RegionDomain*, const wchar_t* text) {
  char buffer[wire::kRegionNameBytes];
  return keep_name(narrow(text, buffer));
}
const RegionDomain* create_domain(const char* name) { return &domain_named(name, kNvtx); }
const RegionDomain* create_domain_wide(const wchar_t* name) {
  char buffer[wire::kRegionNameBytes];
  return create_domain(narrow(name, buffer));
}

struct Entry {
  unsigned number;
  Function function;
};
template <typename F>
Function any(F* function) noexcept {
  return reinterpret_cast<Function>(function);
}

bool replace(const Callbacks& callbacks, Module module, const Entry* first, const Entry* last) noexcept {
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks.module_functions(module, &table, &size) == 0 || table == nullptr) return false;
  for (const Entry* entry = first; entry != last; ++entry)
    if (entry->number < size && table[entry->number] != nullptr) *table[entry->number] = entry->function;
  return true;
}

}  // namespace
}  // namespace clusterprof::agent

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    clusterprof::agent::GetExportTable get_export_table) {
  using namespace clusterprof::agent;
  ensure_started();
  const auto* const callbacks = static_cast<const Callbacks*>(get_export_table(kCallbacks));
  if (callbacks == nullptr || callbacks->size < sizeof *callbacks) return 0;
  const Entry core[] = {{4, any(start)}, {5, any(start_text)}, {6, any(start_wide)}, {7, any(end)},
                        {8, any(push)},  {9, any(push_text)},  {10, any(push_wide)}, {11, any(pop)}};
  const Entry domains[] = {{2, any(start_in)},       {3, any(end_in)},
                           {4, any(push_in)},        {5, any(pop_in)},
                           {10, any(register_text)}, {11, any(register_wide)},
                           {12, any(create_domain)}, {13, any(create_domain_wide)}};
  const bool has_core = replace(*callbacks, kCore, std::begin(core), std::end(core));
  const bool has_domains = replace(*callbacks, kDomains, std::begin(domains), std::end(domains));
  return has_core || has_domains ? 1 : 0;
}
