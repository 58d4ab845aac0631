// SPDX-License-Identifier: BSD-3-Clause
// Counts what the program does with files, by file and by call path. The interposed functions (transfers.cpp,
// file_calls.cpp, stdio_calls.cpp) time each call with the classes below. Everything here may be used in the
// program's own handlers, in a child of vfork, and before the agent has started; what cannot be counted there
// is not counted. errno is preserved.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>

#include "agent/sigsafe/process_state.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

void reset_file_io_after_fork() noexcept;  // in the child, whose segment knows no files

// A thread blocks these signals, or may do so. If they include those that faults raise, file operations get
// no call path from now on. Async-signal-safe.
void note_signal_mask(std::uint64_t mask) noexcept;

// True if the calling thread may ask for its call path here.
bool may_walk_stacks() noexcept;

inline constexpr std::uint32_t kNoFile = 0xffff'ffffu;
// Flag added to an index: the table had no room for the file, which is counted with others of its directory,
// or with all others.
inline constexpr std::uint32_t kWithOthers = 0x8000'0000u;

// Index into the segment's table of files, possibly with kWithOthers. kNoFile: not a regular file, directory
// or disk, or not known. The first call for a descriptor asks the kernel what is behind it.
std::uint32_t file_behind(int descriptor) noexcept;

// The directory that holds the name, after a call that took the name. There is none for a null name or for
// one that the kernel may not have been able to read. `folder`: as in openat(2); an empty name means the
// folder itself.
std::uint32_t directory_of(int folder, const char* name, bool failed) noexcept;

// The program has opened the descriptor by that name, duplicated another one to it, or is about to close it.
// forget_descriptor returns what it was. In a child of vfork, which has its own descriptors, it returns
// kNoFile.
std::uint32_t enter_descriptor(int descriptor, int folder, const char* name) noexcept;
void copy_descriptor(int from, int to) noexcept;
std::uint32_t forget_descriptor(int descriptor) noexcept;
// For a file that is counted with others, before `bytes` more bytes are counted: the file gets a row of its
// own once it turns out to be large. What was transferred until then, less than a megabyte, stays with the
// others.
std::uint32_t file_of_its_own(int descriptor, std::uint32_t file, std::uint64_t bytes) noexcept;
void forget_descriptor_range(unsigned first, unsigned last) noexcept;
void forget_directory_names() noexcept;  // the working directory has changed

// Remembers which file is mapped there. Only the latest mappings are kept.
void enter_mapping(const void* address, std::size_t bytes, std::uint32_t file) noexcept;
std::uint32_t file_mapped_at(const void* address) noexcept;

void count_io(std::uint32_t file, wire::IoOperation operation, bool failed, std::uint64_t bytes,
              std::uint64_t time_ns) noexcept;

// For calls that only take characters from a stream's buffer, or put them there: they count for the call path
// that last filled or emptied the buffer. False if there is none, and then nothing was counted. Nothing is
// counted either if the descriptor is not a file.
bool count_buffered(int descriptor, wire::IoOperation operation) noexcept;
void count_and_remember(int descriptor, std::uint32_t file, wire::IoOperation operation, bool failed,
                        std::uint64_t bytes, std::uint64_t time_ns) noexcept;

// True if the calling thread is being recorded and the call is not one of ours. `caller`: its return address.
inline bool is_counted(const void* caller) noexcept {
  return slot_of(t_context) != nullptr && !g_process.attached &&  // it does not know what was opened before
         !is_own_code(reinterpret_cast<std::uintptr_t>(caller)) && is_recording(t_context);
}

// A call on a descriptor.
class FileCall {
 public:
  FileCall(int descriptor, wire::IoOperation operation, const void* caller) noexcept
      : FileCall(is_counted(caller) ? file_behind(descriptor) : kNoFile, operation, descriptor) {}
  FileCall(std::uint32_t file, wire::IoOperation operation, int descriptor = -1) noexcept
      : file_(file),
        descriptor_(descriptor),
        operation_(operation),
        begin_ns_(file != kNoFile ? monotonic_ns() : 0) {}

  bool is_counted_call() const noexcept { return file_ != kNoFile; }
  std::uint32_t file() const noexcept { return file_; }

  // result: negative if the call failed, else the number of bytes transferred.
  void end(std::int64_t result) const noexcept {
    if (file_ == kNoFile) return;
    const std::uint64_t time_ns = monotonic_ns() - begin_ns_;
    const std::uint64_t bytes = result < 0 ? 0 : static_cast<std::uint64_t>(result);
    count_io(file_that_counts(bytes), operation_, result < 0, bytes, time_ns);
  }
  // The same. In addition, characters that are next taken from the buffer count for this call path.
  void end_and_remember(int descriptor, std::int64_t result) const noexcept {
    if (file_ == kNoFile) return;
    const std::uint64_t time_ns = monotonic_ns() - begin_ns_;
    const std::uint64_t bytes = result < 0 ? 0 : static_cast<std::uint64_t>(result);
    count_and_remember(descriptor, file_that_counts(bytes), operation_, result < 0, bytes, time_ns);
  }

 private:
  std::uint32_t file_that_counts(std::uint64_t bytes) const noexcept {
    if ((file_ & kWithOthers) == 0 || bytes == 0) [[likely]]
      return file_;
    return file_of_its_own(descriptor_, file_, bytes);
  }

  std::uint32_t file_;
  int descriptor_;
  wire::IoOperation operation_;
  std::uint64_t begin_ns_;
};

// A call on a name.
class NameCall {
 public:
  explicit NameCall(const void* caller) noexcept : begin_ns_(is_counted(caller) ? monotonic_ns() : 0) {}

  bool is_counted_call() const noexcept { return begin_ns_ != 0; }
  // Counts it on the directory that holds the name.
  void end(wire::IoOperation operation, int folder, const char* name, bool failed) const noexcept {
    if (begin_ns_ == 0) return;
    const std::uint64_t time_ns = monotonic_ns() - begin_ns_;
    const std::uint32_t file = directory_of(folder, name, failed);
    if (file != kNoFile) count_io(file, operation, failed, 0, time_ns);
  }
  // The call opened that descriptor, or failed.
  void end_open(int descriptor, int folder, const char* name) const noexcept {
    if (descriptor < 0) return end(wire::IoOperation::kOpen, folder, name, true);
    if (begin_ns_ == 0) return;
    const std::uint64_t time_ns = monotonic_ns() - begin_ns_;
    const std::uint32_t file = enter_descriptor(descriptor, folder, name);
    if (file != kNoFile) count_io(file, wire::IoOperation::kOpen, false, 0, time_ns);
  }

 private:
  std::uint64_t begin_ns_;
};

// Bytes copied from one descriptor to another. If both are files, each gets half of the time.
class FileCopy {
 public:
  FileCopy(int from, int to, const void* caller) noexcept {
    if (!is_counted(caller)) return;
    from_ = file_behind(from);
    to_ = file_behind(to);
    if (from_ != kNoFile || to_ != kNoFile) begin_ns_ = monotonic_ns();
  }
  void end(std::int64_t result) const noexcept {
    if (begin_ns_ == 0) return;
    std::uint64_t time_ns = monotonic_ns() - begin_ns_;
    if (from_ != kNoFile && to_ != kNoFile) time_ns /= 2;
    const std::uint64_t bytes = result < 0 ? 0 : static_cast<std::uint64_t>(result);
    if (from_ != kNoFile) count_io(from_, wire::IoOperation::kRead, result < 0, bytes, time_ns);
    if (to_ != kNoFile) count_io(to_, wire::IoOperation::kWrite, result < 0, bytes, time_ns);
  }

 private:
  std::uint32_t from_ = kNoFile, to_ = kNoFile;
  std::uint64_t begin_ns_ = 0;
};

}  // namespace clusterprof::agent
