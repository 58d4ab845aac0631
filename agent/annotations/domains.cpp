// SPDX-License-Identifier: BSD-3-Clause
#include "agent/annotations/domains.h"

#include <sys/syscall.h>

#include <atomic>
#include <cstring>

#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/spin_wait.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint32_t kDomains = 128;
constinit RegionDomain g_domains[kDomains] = {};
constinit std::atomic<std::uint32_t> g_domain_count = 0;

// Names are cut out of pages that are never given back.
constexpr std::size_t kPageNames = 64;
constinit KeptName* g_names = nullptr;
constinit std::size_t g_names_left = 0;

constinit std::atomic<std::int32_t> g_lock = 0;  // the process of the thread that has it

// A handler of the program may come here, too. In the child of a fork, a lock that another thread of the
// parent had is free.
class Locked {
 public:
  Locked() noexcept : mask_(block_all_signals()) {
    const auto own = static_cast<std::int32_t>(raw_syscall(SYS_getpid));
    wait_until([own] {
      std::int32_t holder = g_lock.load(std::memory_order_relaxed);
      return holder != own && g_lock.compare_exchange_strong(holder, own, std::memory_order_acquire);
    });
  }
  ~Locked() {
    g_lock.store(0, std::memory_order_release);
    restore_signals(mask_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::uint64_t mask_;
};

const RegionDomain* find_domain(std::uint64_t hash) noexcept {
  const std::uint32_t count = g_domain_count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i)
    if (g_domains[i].hash == hash) return &g_domains[i];
  return nullptr;
}

}  // namespace

const RegionDomain& domain_named(const char* name, const RegionDomain& otherwise) noexcept {
  if (name == nullptr || name[0] == 0) return otherwise;
  const RegionDomain domain = region_domain(name);
  if (const RegionDomain* const known = find_domain(domain.hash); known != nullptr) return *known;
  const Locked locked;
  if (const RegionDomain* const known = find_domain(domain.hash); known != nullptr) return *known;
  const std::uint32_t index = g_domain_count.load(std::memory_order_relaxed);
  if (index == kDomains) return otherwise;
  g_domains[index] = domain;
  g_domain_count.store(index + 1, std::memory_order_release);
  return g_domains[index];
}

KeptName* keep_name(const char* text) noexcept {
  const RegionName name = region_name(text != nullptr ? text : "");
  const Locked locked;
  if (g_names_left == 0) {
    g_names = static_cast<KeptName*>(map_memory(kPageNames * sizeof(KeptName)));
    if (g_names == nullptr) return nullptr;
    g_names_left = kPageNames;
  }
  --g_names_left;
  KeptName* const kept = g_names++;
  kept->hash = name.hash;
  memcpy(kept->text, name.text, strnlen(name.text, sizeof kept->text - 1));
  return kept;
}

const char* narrow(const wchar_t* text, char (&to)[wire::kRegionNameBytes]) noexcept {
  std::size_t length = 0;
  for (; text != nullptr && *text != 0 && length + 4 < sizeof to; ++text) {
    const auto code = static_cast<std::uint32_t>(*text);
    const auto put = [&](std::uint32_t byte) { to[length++] = static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | (code >> 18 & 7)), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)),
          put(0x80 | (code & 0x3f));
    }
  }
  to[length] = 0;
  return to;
}

}  // namespace clusterprof::agent
