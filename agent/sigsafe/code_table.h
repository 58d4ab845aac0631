// SPDX-License-Identifier: BSD-3-Clause
// Describes Python code objects to the collector, each once, in the segment's code table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/sigsafe/python_runtime.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Distinguishes a code object from another one that is later at the same address.
struct CodeFingerprint {
  std::uint64_t code, name, filename;  // addresses
  std::uint32_t first_line;
};

// Never 0. Equal fingerprints have equal ids, so all threads get the same id without communicating.
inline std::uint64_t code_id_of(const CodeFingerprint& fingerprint) noexcept {
  // Products of 64-bit words folded to 64 bits, as in wyhash; the constants are its own.
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  const std::uint64_t id =
      fold(fingerprint.code ^ 0xa0761d6478bd642full, fingerprint.name ^ 0xe7037ed1a0b428dbull) ^
      fold(fingerprint.filename ^ 0x8ebc6af09c88c6e3ull, fingerprint.first_line ^ 0x589965cc75374cc3ull);
  return id != 0 ? id : 1;
}

// Writes the text of a str object as UTF-8, cut after at most `limit` bytes. Returns the number of bytes; 0
// if the object is no compact str. Reads the object, so run it under a guard. Async-signal-safe.
std::uint32_t copy_text(const PythonRuntime& runtime, std::uint64_t object, char* out,
                        std::uint32_t limit) noexcept;

// Whether the text of a str object ends with these characters (ASCII), or is no more than them if `whole`.
// Conditions as for copy_text.
bool has_text(const PythonRuntime& runtime, std::uint64_t object, const char* expected, std::uint32_t length,
              bool whole) noexcept;
template <std::size_t N>
bool is_text(const PythonRuntime& runtime, std::uint64_t object, const char (&expected)[N]) noexcept {
  return has_text(runtime, object, expected, N - 1, true);
}
template <std::size_t N>
bool ends_with(const PythonRuntime& runtime, std::uint64_t object, const char (&expected)[N]) noexcept {
  return has_text(runtime, object, expected, N - 1, false);
}

inline constexpr std::uint32_t kMaxNameBytes = 4096;             // of UTF-8; longer ones are cut
inline constexpr std::uint32_t kMaxLineTableBytes = 256 * 1024;  // longer ones are left out

// Distinguishes segments: the child of a fork has its own, possibly at the same address.
std::uint64_t segment_generation(const wire::SegmentHeader& segment) noexcept;

// Code ids that are known to be in the table (or known not to fit), so that a frame of a known code object
// costs one load. Any thread may write a word at any time; a lost entry only costs a look-up. The first codes
// have entries at the beginning, so that most processes touch one page of the table.
inline constexpr std::uint32_t kKnownCodes = 8192, kFirstKnownCodes = 512;
extern std::atomic<std::uint64_t> g_known_codes[kKnownCodes];

inline bool is_known_code(std::uint64_t code_id, std::uint64_t generation) noexcept {
  const std::uint64_t word = code_id ^ generation;
  const std::uint64_t first = g_known_codes[code_id % kFirstKnownCodes].load(std::memory_order_relaxed);
  return first == word ||
         (first != 0 && g_known_codes[code_id % kKnownCodes].load(std::memory_order_relaxed) == word);
}

// Code that the interpreter runs for its own purposes (the caller of an inlined __init__ from 3.12 on) and
// does not show in tracebacks either. Nothing in it has a line number. The id of the one seen last.
extern std::atomic<std::uint64_t> g_hidden_code;

// The id of asyncio's Handle._run, which runs every callback of an event loop and every step of a task. 0:
// not seen yet.
extern std::atomic<std::uint64_t> g_handle_run;

// Makes sure that the code object is in the table. If there is no room, counts kCodeTableFull, at most once
// per code object. Reads the code object, so run it under a guard. If a read faults, the slot stays without
// an entry. Async-signal-safe, any thread. False if the code is not to be shown: then it is g_hidden_code and
// has no entry.
bool describe_code(const PythonRuntime& runtime, wire::SegmentHeader& segment, std::uint64_t generation,
                   const CodeFingerprint& fingerprint, std::uint64_t code_id) noexcept;

}  // namespace clusterprof::agent
