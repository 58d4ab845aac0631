// SPDX-License-Identifier: BSD-3-Clause
// stdio on files. The program's calls are counted, not the system calls that libc makes for them, which do
// not reach our functions. Bytes are those that the program reads and writes, not those that libc transfers
// earlier or later.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/stdio_calls.h"

#undef _FORTIFY_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cstring>

#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/fork.h"
#include "agent/lifecycle/interpose.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/watcher.h"
#include "agent/sigsafe/last_words.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

using wire::IoOperation;
using Path = const char*;

CLUSTERPROF_REAL(fopen, FILE*(Path, Path));
CLUSTERPROF_REAL(fopen64, FILE*(Path, Path));
CLUSTERPROF_REAL(freopen, FILE*(Path, Path, FILE*));
CLUSTERPROF_REAL(freopen64, FILE*(Path, Path, FILE*));
CLUSTERPROF_REAL(fclose, int(FILE*));
CLUSTERPROF_REAL(pclose, int(FILE*));
CLUSTERPROF_REAL(fflush, int(FILE*));
CLUSTERPROF_REAL(fflush_unlocked, int(FILE*));
CLUSTERPROF_REAL(fseek, int(FILE*, long, int));
CLUSTERPROF_REAL(fseeko, int(FILE*, off_t, int));
CLUSTERPROF_REAL(fseeko64, int(FILE*, off64_t, int));
CLUSTERPROF_REAL(rewind, void(FILE*));
CLUSTERPROF_REAL(fsetpos, int(FILE*, const void*));
CLUSTERPROF_REAL(fsetpos64, int(FILE*, const void*));

CLUSTERPROF_REAL(fread, size_t(void*, size_t, size_t, FILE*));
CLUSTERPROF_REAL(fread_unlocked, size_t(void*, size_t, size_t, FILE*));
CLUSTERPROF_REAL(__fread_chk, size_t(void*, size_t, size_t, size_t, FILE*));
CLUSTERPROF_REAL(__fread_unlocked_chk, size_t(void*, size_t, size_t, size_t, FILE*));
CLUSTERPROF_REAL(fwrite, size_t(const void*, size_t, size_t, FILE*));
CLUSTERPROF_REAL(fwrite_unlocked, size_t(const void*, size_t, size_t, FILE*));
CLUSTERPROF_REAL(fgets, char*(char*, int, FILE*));
CLUSTERPROF_REAL(fgets_unlocked, char*(char*, int, FILE*));
CLUSTERPROF_REAL(__fgets_chk, char*(char*, size_t, int, FILE*));
CLUSTERPROF_REAL(__fgets_unlocked_chk, char*(char*, size_t, int, FILE*));
CLUSTERPROF_REAL(getline, ssize_t(char**, size_t*, FILE*));
CLUSTERPROF_REAL(getdelim, ssize_t(char**, size_t*, int, FILE*));
CLUSTERPROF_REAL(__getdelim, ssize_t(char**, size_t*, int, FILE*));
CLUSTERPROF_REAL(fputs, int(const char*, FILE*));
CLUSTERPROF_REAL(fputs_unlocked, int(const char*, FILE*));
CLUSTERPROF_REAL(puts, int(const char*));
constinit std::atomic<void (*)(const char*)> g_perror = nullptr;

CLUSTERPROF_REAL(fgetc, int(FILE*));
CLUSTERPROF_REAL(fgetc_unlocked, int(FILE*));
CLUSTERPROF_REAL(getc, int(FILE*));
CLUSTERPROF_REAL(getc_unlocked, int(FILE*));
CLUSTERPROF_REAL(_IO_getc, int(FILE*));
CLUSTERPROF_REAL(getchar, int());
CLUSTERPROF_REAL(getchar_unlocked, int());
CLUSTERPROF_REAL(fputc, int(int, FILE*));
CLUSTERPROF_REAL(fputc_unlocked, int(int, FILE*));
CLUSTERPROF_REAL(putc, int(int, FILE*));
CLUSTERPROF_REAL(putc_unlocked, int(int, FILE*));
CLUSTERPROF_REAL(_IO_putc, int(int, FILE*));
CLUSTERPROF_REAL(putchar, int(int));
CLUSTERPROF_REAL(putchar_unlocked, int(int));

CLUSTERPROF_REAL(vprintf, int(const char*, va_list));
CLUSTERPROF_REAL(__vprintf_chk, int(int, const char*, va_list));
CLUSTERPROF_REAL(vfprintf, int(FILE*, const char*, va_list));
CLUSTERPROF_REAL(__vfprintf_chk, int(FILE*, int, const char*, va_list));
CLUSTERPROF_REAL(vdprintf, int(int, const char*, va_list));
CLUSTERPROF_REAL(__vdprintf_chk, int(int, int, const char*, va_list));
CLUSTERPROF_REAL(vscanf, int(const char*, va_list));
CLUSTERPROF_REAL(__isoc99_vscanf, int(const char*, va_list));
CLUSTERPROF_REAL(__isoc23_vscanf, int(const char*, va_list));
CLUSTERPROF_REAL(vfscanf, int(FILE*, const char*, va_list));
CLUSTERPROF_REAL(__isoc99_vfscanf, int(FILE*, const char*, va_list));
CLUSTERPROF_REAL(__isoc23_vfscanf, int(FILE*, const char*, va_list));

// Does not check that the stream is valid: libc's functions do not check either. Streams that are not on a
// descriptor have none: open_memstream leaves in this field what was in memory before.
int descriptor_of(const FILE* stream) noexcept {
  constexpr int kOnDescriptor = 0x2000;  // _IO_IS_FILEBUF, which fileno(3) asks for as well
  return stream != nullptr && (stream->_flags & kOnDescriptor) != 0 ? stream->_fileno : -1;
}

// What the stream holds for the program to read. If another thread uses it at the same time, the figure is
// wrong, but nothing else happens.
struct ReadBuffer {
  const char *base, *next, *end;

  explicit ReadBuffer(const FILE* stream) noexcept
      : base(stream->_IO_read_base), next(stream->_IO_read_ptr), end(stream->_IO_read_end) {}
};

// Bytes that the program took between the two states of the buffer, if it was filled at most once in between.
std::size_t taken_between(const ReadBuffer& before, const ReadBuffer& after) noexcept {
  const bool same = before.base == after.base && before.end == after.end && after.next >= before.next;
  if (same) return static_cast<std::size_t>(after.next - before.next);
  const std::size_t rest = before.end > before.next ? static_cast<std::size_t>(before.end - before.next) : 0;
  return rest + (after.next > after.base ? static_cast<std::size_t>(after.next - after.base) : 0);
}

bool is_kept(int descriptor) noexcept { return descriptor == kStderr && keeps_stderr(); }

// Makes a call that writes. `note(result)` then tells what it has written, if that was to stderr:
// `descriptor` is from before the call, since another thread may have closed the stream.
template <typename Function, typename Note>
[[gnu::always_inline]] inline auto writing(int descriptor, Function function, Note note) {
  const auto result = function();
  if (is_kept(descriptor)) [[unlikely]]
    note(result);
  return result;
}

template <typename Function>
FILE* opening(const void* caller, Path path, Function function) {
  const NameCall call(caller);
  FILE* const stream = function();
  const int descriptor = descriptor_of(stream);
  if (call.is_counted_call()) {
    call.end_open(descriptor, AT_FDCWD, path);
  } else if (descriptor >= 0) {
    forget_descriptor(descriptor);
  }
  return stream;
}

template <typename Function>
FILE* reopening(const void* caller, Path path, FILE* stream, Function function) {
  const int descriptor = descriptor_of(stream);
  if (descriptor >= 0) forget_descriptor(descriptor);
  return opening(caller, path, function);
}

template <typename Function>
[[gnu::always_inline]] inline int working(const void* caller, FILE* stream, IoOperation operation,
                                          Function function) {
  const FileCall call(descriptor_of(stream), operation, caller);
  const int result = function();
  call.end(result != 0 ? -1 : 0);
  return result;
}

// `function` asks for bytes instead of items, so that the bytes of an incomplete item are known. libc's
// functions do the same.
template <typename Function>
[[gnu::always_inline]] inline std::size_t moving(const void* caller, FILE* stream, IoOperation operation,
                                                 std::size_t item_bytes, std::size_t items,
                                                 Function function) {
  const FileCall call(descriptor_of(stream), operation, caller);
  std::size_t bytes = 0;
  if (!call.is_counted_call() || item_bytes <= 1 || __builtin_mul_overflow(item_bytes, items, &bytes)) {
    const std::size_t moved = function(item_bytes, items);
    call.end(static_cast<std::int64_t>(moved * item_bytes));
    return moved;
  }
  const std::size_t moved = function(1, bytes);
  call.end(static_cast<std::int64_t>(moved));
  return moved == bytes ? items : moved / item_bytes;
}

template <typename Function>
[[gnu::always_inline]] inline char* getting_line(const void* caller, FILE* stream, Function function) {
  const FileCall call(descriptor_of(stream), IoOperation::kRead, caller);
  if (!call.is_counted_call()) return function();
  const ReadBuffer before(stream);
  char* const line = function();
  if (line == nullptr) {
    call.end(0);
    return line;
  }
  // Two estimates, of which the larger counts: the length up to a NUL is too small if the line holds NULs,
  // the other one if the line is longer than the buffer.
  const ReadBuffer after(stream);
  const bool same = before.base == after.base && before.end == after.end && after.next > before.next;
  const std::size_t taken = same ? static_cast<std::size_t>(after.next - before.next) : 0;
  const std::size_t length = strlen(line);
  call.end(static_cast<std::int64_t>(taken > length ? taken : length));
  return line;
}

// Returns the number of bytes, or a negative number on failure or at the end.
template <typename Function>
[[gnu::always_inline]] inline auto getting(const void* caller, FILE* stream, Function function) {
  const FileCall call(descriptor_of(stream), IoOperation::kRead, caller);
  const auto result = function();
  call.end(result > 0 ? result : 0);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int putting(const void* caller, FILE* stream, const char* text,
                                          std::size_t more, Function function) {
  const int descriptor = descriptor_of(stream);
  const FileCall call(descriptor, IoOperation::kWrite, caller);
  const int result = writing(descriptor, function, [=](int written) {
    if (written == EOF) return;
    note_stderr(text, strlen(text));
    if (more != 0) note_stderr("\n", 1);
  });
  if (call.is_counted_call()) call.end(result == EOF ? -1 : static_cast<std::int64_t>(strlen(text) + more));
  return result;
}

// libc has written the text itself, so it is made once more. `error`: errno at the call, for "%m". libc's own
// buffer for a stream without one is larger than this.
[[gnu::cold, gnu::noinline]] void note_formatted(const char* format, va_list list, int error) noexcept {
  char text[wire::kStderrTailBytes];
  const int error_after = errno;
  errno = error;
  const int length = vsnprintf(text, sizeof text, format, list);
  const auto most = static_cast<int>(sizeof text) - 1;
  if (length > 0) note_stderr(text, static_cast<std::size_t>(length < most ? length : most));
  errno = error_after;
}

// Apart from printing(), since a function that copies a list of arguments cannot be inlined.
template <typename Function>
[[gnu::cold, gnu::noinline]] int printing_to_stderr(const FileCall& call, const char* format, va_list list,
                                                    Function function) {
  const int error = errno;
  va_list again;
  va_copy(again, list);
  const int result = function();
  call.end(result);
  if (result > 0) note_formatted(format, again, error);
  va_end(again);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int printing(const void* caller, int descriptor, const char* format,
                                           va_list list, Function function) {
  const FileCall call(descriptor, IoOperation::kWrite, caller);
  if (is_kept(descriptor)) return printing_to_stderr(call, format, list, function);
  const int result = function();
  call.end(result);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int scanning(const void* caller, FILE* stream, Function function) {
  const FileCall call(descriptor_of(stream), IoOperation::kRead, caller);
  if (!call.is_counted_call()) return function();
  const ReadBuffer before(stream);
  const int result = function();
  call.end(static_cast<std::int64_t>(taken_between(before, ReadBuffer(stream))));
  return result;
}

// For one character. If the buffer has it, or has room for it, this costs next to nothing, also with the
// agent.
template <typename Function>
[[gnu::always_inline]] inline int getting_character(const void* caller, FILE* stream, Function function) {
  const int descriptor = descriptor_of(stream);
  if (!is_counted(caller) || static_cast<unsigned>(descriptor) > 0x7fff'ffffu) return function();
  if (stream->_IO_read_ptr < stream->_IO_read_end && count_buffered(descriptor, IoOperation::kRead))
    return function();
  const FileCall call(file_behind(descriptor), IoOperation::kRead, descriptor);
  const int result = function();
  call.end_and_remember(descriptor, result == EOF ? 0 : 1);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int putting_character(const void* caller, FILE* stream, Function function) {
  const int descriptor = descriptor_of(stream);
  if (!is_counted(caller) || static_cast<unsigned>(descriptor) > 0x7fff'ffffu) return function();
  if (stream->_IO_write_ptr < stream->_IO_write_end && count_buffered(descriptor, IoOperation::kWrite))
    return function();
  const FileCall call(file_behind(descriptor), IoOperation::kWrite, descriptor);
  const int result = function();
  call.end_and_remember(descriptor, result == EOF ? -1 : 1);
  return result;
}

template <typename Function>
[[gnu::always_inline]] inline int putting_any_character(const void* caller, FILE* stream, Function function) {
  return writing(
      descriptor_of(stream), [=] { return putting_character(caller, stream, function); },
      [](int written) {
        const auto character = static_cast<char>(written);
        if (written != EOF) note_stderr(&character, 1);
      });
}

// The kernel makes its description of this process when the file is first read.
FILE* read_without_watcher(FILE* stream) noexcept {
  auto* const read_character = g_fgetc.find();
  if (stream == nullptr || read_character == nullptr) return stream;
  const WatcherStopped alone;
  const int first = read_character(stream);
  if (first != EOF) ungetc(first, stream);
  return stream;
}

}  // namespace

void watch_stdio_calls() noexcept {
  const auto find = [](auto&... functions) { (functions.find(), ...); };
  find(g_fopen, g_fopen64, g_freopen, g_freopen64, g_fclose, g_pclose, g_fflush, g_fflush_unlocked, g_fseek,
       g_fseeko, g_fseeko64, g_rewind, g_fsetpos, g_fsetpos64);
  find(g_fread, g_fread_unlocked, g___fread_chk, g___fread_unlocked_chk, g_fwrite, g_fwrite_unlocked, g_fgets,
       g_fgets_unlocked, g___fgets_chk, g___fgets_unlocked_chk, g_getline, g_getdelim, g___getdelim, g_fputs,
       g_fputs_unlocked, g_puts);
  real_function(g_perror, "perror");
  find(g_fgetc, g_fgetc_unlocked, g_getc, g_getc_unlocked, g__IO_getc, g_getchar, g_getchar_unlocked, g_fputc,
       g_fputc_unlocked, g_putc, g_putc_unlocked, g__IO_putc, g_putchar, g_putchar_unlocked);
  find(g_vprintf, g___vprintf_chk, g_vfprintf, g___vfprintf_chk, g_vdprintf, g___vdprintf_chk, g_vscanf,
       g___isoc99_vscanf, g___isoc23_vscanf, g_vfscanf, g___isoc99_vfscanf, g___isoc23_vfscanf);
}

}  // namespace clusterprof::agent

using namespace clusterprof::agent;

// --- streams ---

#define CLUSTERPROF_FOPEN(name)                                                               \
  CLUSTERPROF_STANDS_FOR(FILE*, name, const char* path, const char* mode) {                   \
    auto* const function = g_##name.find();                                                   \
    if (asks_for_threads_after_fork(path)) return read_without_watcher(function(path, mode)); \
    return opening(CLUSTERPROF_CALLER, path, [=] { return function(path, mode); });           \
  }
CLUSTERPROF_FOPEN(fopen)
CLUSTERPROF_FOPEN(fopen64)

#define CLUSTERPROF_FREOPEN(name)                                                                     \
  CLUSTERPROF_STANDS_FOR(FILE*, name, const char* path, const char* mode, FILE* stream) {             \
    auto* const function = g_##name.find();                                                           \
    return reopening(CLUSTERPROF_CALLER, path, stream, [=] { return function(path, mode, stream); }); \
  }
CLUSTERPROF_FREOPEN(freopen)
CLUSTERPROF_FREOPEN(freopen64)

CLUSTERPROF_STANDS_FOR(int, fclose, FILE* stream) {
  const int descriptor = descriptor_of(stream);
  const std::uint32_t file = descriptor >= 0 ? forget_descriptor(descriptor) : kNoFile;
  const FileCall call(is_counted(CLUSTERPROF_CALLER) ? file : kNoFile, IoOperation::kClose);
  const int result = g_fclose(stream);
  call.end(result != 0 ? -1 : 0);
  return result;
}

CLUSTERPROF_STANDS_FOR(int, pclose, FILE* stream) {
  const int descriptor = descriptor_of(stream);
  if (descriptor >= 0) forget_descriptor(descriptor);
  return g_pclose(stream);
}

#define CLUSTERPROF_WORK(name, operation, parameters, ...)             \
  CLUSTERPROF_STANDS_FOR(int, name, CLUSTERPROF_UNPACK parameters) {   \
    return working(CLUSTERPROF_CALLER, stream, IoOperation::operation, \
                   [=] { return g_##name(__VA_ARGS__); });             \
  }
CLUSTERPROF_WORK(fflush, kSync, (FILE * stream), stream)
CLUSTERPROF_WORK(fflush_unlocked, kSync, (FILE * stream), stream)
CLUSTERPROF_WORK(fseek, kSeek, (FILE * stream, long offset, int whence), stream, offset, whence)
CLUSTERPROF_WORK(fseeko, kSeek, (FILE * stream, off_t offset, int whence), stream, offset, whence)
CLUSTERPROF_WORK(fseeko64, kSeek, (FILE * stream, off64_t offset, int whence), stream, offset, whence)
CLUSTERPROF_WORK(fsetpos, kSeek, (FILE * stream, const void* place), stream, place)
CLUSTERPROF_WORK(fsetpos64, kSeek, (FILE * stream, const void* place), stream, place)

CLUSTERPROF_STANDS_FOR(void, rewind, FILE* stream) {
  auto* const function = g_rewind.find();
  working(CLUSTERPROF_CALLER, stream, IoOperation::kSeek, [=] {
    function(stream);
    return 0;
  });
}

// --- blocks and lines ---

#define CLUSTERPROF_READ(name)                                                                     \
  CLUSTERPROF_STANDS_FOR(size_t, name, void* to, size_t item_bytes, size_t items, FILE* stream) {  \
    auto* const function = g_##name.find();                                                        \
    return moving(CLUSTERPROF_CALLER, stream, IoOperation::kRead, item_bytes, items,               \
                  [=](size_t bytes, size_t count) { return function(to, bytes, count, stream); }); \
  }
CLUSTERPROF_READ(fread)
CLUSTERPROF_READ(fread_unlocked)

#define CLUSTERPROF_READ_CHECKED(name)                                                                   \
  CLUSTERPROF_STANDS_FOR(size_t, name, void* to, size_t room, size_t item_bytes, size_t items,           \
                         FILE* stream) {                                                                 \
    auto* const function = g_##name.find();                                                              \
    return moving(CLUSTERPROF_CALLER, stream, IoOperation::kRead, item_bytes, items,                     \
                  [=](size_t bytes, size_t count) { return function(to, room, bytes, count, stream); }); \
  }
CLUSTERPROF_READ_CHECKED(__fread_chk)
CLUSTERPROF_READ_CHECKED(__fread_unlocked_chk)

#define CLUSTERPROF_WRITE(name)                                                                            \
  CLUSTERPROF_STANDS_FOR(size_t, name, const void* from, size_t item_bytes, size_t items, FILE* stream) {  \
    auto* const function = g_##name.find();                                                                \
    const void* const caller = CLUSTERPROF_CALLER;                                                         \
    return writing(                                                                                        \
        descriptor_of(stream),                                                                             \
        [=] {                                                                                              \
          return moving(caller, stream, IoOperation::kWrite, item_bytes, items,                            \
                        [=](size_t bytes, size_t count) { return function(from, bytes, count, stream); }); \
        },                                                                                                 \
        [=](size_t moved) { note_stderr(from, moved* item_bytes); });                                      \
  }
CLUSTERPROF_WRITE(fwrite)
CLUSTERPROF_WRITE(fwrite_unlocked)

#define CLUSTERPROF_GET_LINE(name, parameters, ...)                                         \
  CLUSTERPROF_STANDS_FOR(char*, name, CLUSTERPROF_UNPACK parameters) {                      \
    auto* const function = g_##name.find();                                                 \
    return getting_line(CLUSTERPROF_CALLER, stream, [=] { return function(__VA_ARGS__); }); \
  }
CLUSTERPROF_GET_LINE(fgets, (char* to, int room, FILE* stream), to, room, stream)
CLUSTERPROF_GET_LINE(fgets_unlocked, (char* to, int room, FILE* stream), to, room, stream)
CLUSTERPROF_GET_LINE(__fgets_chk, (char* to, size_t size, int room, FILE* stream), to, size, room, stream)
CLUSTERPROF_GET_LINE(__fgets_unlocked_chk, (char* to, size_t size, int room, FILE* stream), to, size, room,
                     stream)

#define CLUSTERPROF_GET(result, name, parameters, ...)                                 \
  CLUSTERPROF_STANDS_FOR(result, name, CLUSTERPROF_UNPACK parameters) {                \
    return getting(CLUSTERPROF_CALLER, stream, [=] { return g_##name(__VA_ARGS__); }); \
  }
CLUSTERPROF_GET(ssize_t, getline, (char** line, size_t* room, FILE* stream), line, room, stream)
CLUSTERPROF_GET(ssize_t, getdelim, (char** line, size_t* room, int end, FILE* stream), line, room, end,
                stream)
CLUSTERPROF_GET(ssize_t, __getdelim, (char** line, size_t* room, int end, FILE* stream), line, room, end,
                stream)

#define CLUSTERPROF_PUT(name)                                                                    \
  CLUSTERPROF_STANDS_FOR(int, name, const char* text, FILE* stream) {                            \
    return putting(CLUSTERPROF_CALLER, stream, text, 0, [=] { return g_##name(text, stream); }); \
  }
CLUSTERPROF_PUT(fputs)
CLUSTERPROF_PUT(fputs_unlocked)

CLUSTERPROF_STANDS_FOR(int, puts, const char* text) {
  return putting(CLUSTERPROF_CALLER, stdout, text, 1, [=] { return g_puts(text); });
}

CLUSTERPROF_STANDS_FOR(void, perror, const char* text) {
  const int error = errno;
  if (auto* const function = real_function(g_perror, "perror")) function(text);
  if (!keeps_stderr()) return;
  const int error_after = errno;
  char room[256];
  const char* const meaning = strerror_r(error, room, sizeof room);
  if (text != nullptr && *text != 0) {
    note_stderr(text, strlen(text));
    note_stderr(": ", 2);
  }
  note_stderr(meaning, strlen(meaning));
  note_stderr("\n", 1);
  errno = error_after;
}

// --- characters ---

#define CLUSTERPROF_GET_CHARACTER(name)                                                     \
  CLUSTERPROF_STANDS_FOR(int, name, FILE* stream) {                                         \
    return getting_character(CLUSTERPROF_CALLER, stream, [=] { return g_##name(stream); }); \
  }
CLUSTERPROF_GET_CHARACTER(fgetc)
CLUSTERPROF_GET_CHARACTER(fgetc_unlocked)
CLUSTERPROF_GET_CHARACTER(getc)
CLUSTERPROF_GET_CHARACTER(getc_unlocked)
CLUSTERPROF_GET_CHARACTER(_IO_getc)
CLUSTERPROF_STANDS_FOR(int, getchar, void) {
  return getting_character(CLUSTERPROF_CALLER, stdin, [] { return g_getchar(); });
}
CLUSTERPROF_STANDS_FOR(int, getchar_unlocked, void) {
  return getting_character(CLUSTERPROF_CALLER, stdin, [] { return g_getchar_unlocked(); });
}

#define CLUSTERPROF_PUT_CHARACTER(name)                                                                    \
  CLUSTERPROF_STANDS_FOR(int, name, int character, FILE* stream) {                                         \
    return putting_any_character(CLUSTERPROF_CALLER, stream, [=] { return g_##name(character, stream); }); \
  }
CLUSTERPROF_PUT_CHARACTER(fputc)
CLUSTERPROF_PUT_CHARACTER(fputc_unlocked)
CLUSTERPROF_PUT_CHARACTER(putc)
CLUSTERPROF_PUT_CHARACTER(putc_unlocked)
CLUSTERPROF_PUT_CHARACTER(_IO_putc)
CLUSTERPROF_STANDS_FOR(int, putchar, int character) {
  return putting_any_character(CLUSTERPROF_CALLER, stdout, [=] { return g_putchar(character); });
}
CLUSTERPROF_STANDS_FOR(int, putchar_unlocked, int character) {
  return putting_any_character(CLUSTERPROF_CALLER, stdout, [=] { return g_putchar_unlocked(character); });
}

// --- formatted ---

// Each function with variable arguments, and its variant with a va_list. All names end in `format`.
#define CLUSTERPROF_WITH_LIST(name, list_name, parameters, ...)                         \
  CLUSTERPROF_STANDS_FOR(int, list_name, CLUSTERPROF_UNPACK parameters, va_list list) { \
    return __VA_ARGS__;                                                                 \
  }                                                                                     \
  CLUSTERPROF_STANDS_FOR(int, name, CLUSTERPROF_UNPACK parameters, ...) {               \
    va_list list;                                                                       \
    va_start(list, format);                                                             \
    const int result = __VA_ARGS__;                                                     \
    va_end(list);                                                                       \
    return result;                                                                      \
  }

#define CLUSTERPROF_PRINT(name, list_name, descriptor, parameters, ...) \
  CLUSTERPROF_WITH_LIST(                                                \
      name, list_name, parameters,                                      \
      printing(CLUSTERPROF_CALLER, descriptor, format, list, [&] { return g_##list_name(__VA_ARGS__); }))
CLUSTERPROF_PRINT(printf, vprintf, descriptor_of(stdout), (const char* format), format, list)
CLUSTERPROF_PRINT(__printf_chk, __vprintf_chk, descriptor_of(stdout), (int flag, const char* format), flag,
                  format, list)
CLUSTERPROF_PRINT(fprintf, vfprintf, descriptor_of(stream), (FILE * stream, const char* format), stream,
                  format, list)
CLUSTERPROF_PRINT(__fprintf_chk, __vfprintf_chk, descriptor_of(stream),
                  (FILE * stream, int flag, const char* format), stream, flag, format, list)
CLUSTERPROF_PRINT(dprintf, vdprintf, descriptor, (int descriptor, const char* format), descriptor, format,
                  list)
CLUSTERPROF_PRINT(__dprintf_chk, __vdprintf_chk, descriptor, (int descriptor, int flag, const char* format),
                  descriptor, flag, format, list)

#define CLUSTERPROF_SCAN(name, list_name, stream, parameters, ...) \
  CLUSTERPROF_WITH_LIST(name, list_name, parameters,               \
                        scanning(CLUSTERPROF_CALLER, stream, [&] { return g_##list_name(__VA_ARGS__); }))
CLUSTERPROF_SCAN(scanf, vscanf, stdin, (const char* format), format, list)
CLUSTERPROF_SCAN(__isoc99_scanf, __isoc99_vscanf, stdin, (const char* format), format, list)
CLUSTERPROF_SCAN(__isoc23_scanf, __isoc23_vscanf, stdin, (const char* format), format, list)
CLUSTERPROF_SCAN(fscanf, vfscanf, stream, (FILE * stream, const char* format), stream, format, list)
CLUSTERPROF_SCAN(__isoc99_fscanf, __isoc99_vfscanf, stream, (FILE * stream, const char* format), stream,
                 format, list)
CLUSTERPROF_SCAN(__isoc23_fscanf, __isoc23_vfscanf, stream, (FILE * stream, const char* format), stream,
                 format, list)
