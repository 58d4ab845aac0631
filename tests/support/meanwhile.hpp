// SPDX-License-Identifier: BSD-3-Clause
// Simulates another process that acts just when the code under test looks at a name. Replaces libc's
// functions, so only one source file of a test program may include it.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace clusterprof {

// Until it is destroyed: before and after the first time that anything of that name is opened.
class Meanwhile {
 public:
  Meanwhile(std::string name, std::function<void()> before, std::function<void()> after)
      : name_(std::move(name)), before_(std::move(before)), after_(std::move(after)) {
    current_ = this;
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;
  ~Meanwhile() { current_ = nullptr; }
  [[nodiscard]] bool happened() const { return happened_; }

  template <typename Open>
  static auto around(std::string_view path, Open&& open) {
    const std::size_t slash = path.rfind('/');
    if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
    Meanwhile* const now = current_;
    if (now == nullptr || now->happened_ || path != now->name_) return open();
    now->happened_ = true;
    if (now->before_) now->before_();
    const auto result = open();
    const int error = errno;
    if (now->after_) now->after_();
    errno = error;
    return result;
  }

 private:
  static inline Meanwhile* current_ = nullptr;
  std::string name_;
  std::function<void()> before_, after_;
  bool happened_ = false;
};

}  // namespace clusterprof

extern "C" int openat(int place, const char* path, int flags, ...) {
  static const auto real = reinterpret_cast<decltype(&openat)>(::dlsym(RTLD_NEXT, "openat"));
  va_list arguments;
  va_start(arguments, flags);
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = has_mode ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return clusterprof::Meanwhile::around(path, [&] { return real(place, path, flags, mode); });
}
