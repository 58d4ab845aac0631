// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include "report/format/format.hpp"

namespace clusterprof::cli {
namespace {

bool silent = false;

}  // namespace

void be_silent() { silent = true; }

int exit_status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kOther:
    case ErrorKind::kDamaged:
    case ErrorKind::kOtherVersion:
      break;
  }
  return kBadInput;
}

int complain(int status, const std::string& text) {
  if (silent) return status;
  std::string line = "clusterprof: " + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "%s\n", report::text::printable(line).c_str());
  return status;
}

int complain(const Error& error) { return complain(exit_status_of(error.kind), error.message); }

int print(std::string_view text) {
  Output output;
  output(text);
  return output.finish();
}

void Output::operator()(std::string_view piece) {
  if (silent || error_ != 0 || std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size()) return;
  error_ = errno != 0 ? errno : EIO;
}

int Output::finish() {
  if (error_ == 0 && std::fflush(stdout) != 0) error_ = errno;
  if (error_ == 0) return kOk;
  return complain(kBadInput, std::string("standard output cannot be written: ") + std::strerror(error_));
}

int columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) return size.ws_col;
  const char* const variable = std::getenv("COLUMNS");
  int columns = 0;
  if (variable == nullptr) return 80;
  const char* const end = variable + std::strlen(variable);
  const auto read = std::from_chars(variable, end, columns);
  return read.ec == std::errc() && read.ptr == end && columns > 0 ? std::min(columns, 4096) : 80;
}

bool moves_cursor(int fd) {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(fd) == 1 && (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

bool wants_colour(int fd) {
  const char* const no_colour = std::getenv("NO_COLOR");
  return moves_cursor(fd) && (no_colour == nullptr || *no_colour == '\0');
}

bool wants_colour(int fd, std::string_view choice) {
  return choice == "always" || (choice != "never" && wants_colour(fd));
}

// As setlocale would choose, without needing the locale to be installed.
bool wants_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string charset(value);
    charset = charset.substr(std::min(charset.find('.'), charset.size()));
    std::transform(charset.begin(), charset.end(), charset.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return charset.starts_with(".utf-8") || charset.starts_with(".utf8");
  }
  return false;
}

}  // namespace clusterprof::cli
