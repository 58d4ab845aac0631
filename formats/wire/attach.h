// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof attach` leaves in the memory of a process that it loads the agent into
// (docs/design/0025-attach.md). A thread of the process's own starts with first code (cli/attach/first_code.cpp),
// which loads the agent, unless it is there already, and goes on in clusterprof_attach_v1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace clusterprof::wire {

inline constexpr std::uint64_t kAttachMagic = 0x31'54'54'41'46'52'50'43ull;  // "CPRFATT1"
inline constexpr const char* kAttachFunction = "clusterprof_attach_v1";

// The preload object for the process's MPI library; not set: it has none, or MPI is not recorded.
inline constexpr const char* kMpiWrapVariable = "CLUSTERPROF_AGENT_MPI_WRAP";

// Stored by the process, except for the first.
enum class AttachStatus : std::uint32_t {
  kStarting = 0,
  kNotLoaded = 1,         // AttachBlock::error has the loader's message; the mapping stays
  kAttached = 2,          // recording has begun
  kRecordedAlready = 3,   // by clusterprof
  kOtherVersion = 4,      // the agent that is loaded is of another clusterprof
  kNoCollector = 5,       // it cannot be reached from there, or there is no memory
  kNoDescriptorTable = 6  // of the agent's own: the kernel refuses it
};

// While the first code loads the agent, the program's forks wait for it (AttachBlock::loading): in the child
// of a fork the loader's lock would be held for ever.
inline constexpr std::uint32_t kLoading = 1, kLoaded = 2;

struct AttachBlock {
  // For the first code, which knows these places: addresses in the process.
  std::uint64_t path;  // of the agent
  std::uint64_t mode;  // for dlopen
  std::uint64_t dlopen_address;
  std::uint64_t function_name;  // kAttachFunction
  std::uint64_t dlsym_address;
  std::uint64_t dlerror_address;
  std::uint64_t pthread_detach_address;
  std::atomic<std::uint32_t> status;    // AttachStatus
  std::atomic<std::uint32_t> released;  // 1: the thread that was used runs again, outside of this mapping
  std::uint64_t thread;                 // a pthread_t, stored by pthread_create
  std::uint64_t register_atfork_address;
  std::uint64_t finalize_address;
  std::uint64_t function;              // stored by the first code
  std::atomic<std::uint32_t> loading;  // 0: the agent is there already, and `function` is known
  std::int32_t policy;  // of scheduling, which the new thread takes before anything else; below 0: it has it
  std::uint64_t magic;
  char error[400];  // what the loader says

  std::uint32_t wire_major, wire_minor;
  std::uint64_t memory, memory_bytes;  // the whole mapping, which the agent removes
  std::uint32_t options_bytes, reserved_too;
  char options[7536];  // NAME=VALUE, each with a NUL, as in an environment
  char agent_path[4096], name[64];
};
static_assert(offsetof(AttachBlock, path) == 0 && offsetof(AttachBlock, mode) == 8 &&
              offsetof(AttachBlock, dlopen_address) == 16 && offsetof(AttachBlock, function_name) == 24 &&
              offsetof(AttachBlock, dlsym_address) == 32 && offsetof(AttachBlock, dlerror_address) == 40 &&
              offsetof(AttachBlock, pthread_detach_address) == 48 && offsetof(AttachBlock, status) == 56 &&
              offsetof(AttachBlock, released) == 60 && offsetof(AttachBlock, thread) == 64 &&
              offsetof(AttachBlock, register_atfork_address) == 72 &&
              offsetof(AttachBlock, finalize_address) == 80 && offsetof(AttachBlock, function) == 88 &&
              offsetof(AttachBlock, loading) == 96 && offsetof(AttachBlock, policy) == 100 &&
              offsetof(AttachBlock, error) == 112);

}  // namespace clusterprof::wire
