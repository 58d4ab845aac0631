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
#include <utility>
#include <vector>

#include "report/format/characters.hpp"

namespace clusterprof::cli {
namespace {

bool silent = false;

}  // namespace

void be_silent() { silent = true; }

int exit_status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kNotFound:
      return kNothingFound;
    case ErrorKind::kBadArgument:
      return kBadUsage;
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
  std::fprintf(stderr, "%s\n", report::format::printable(line).c_str());
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

namespace {

// Bytes at the end that belong to a character, or a line end, of which the rest is still to come.
std::size_t bytes_to_keep(std::string_view text) {
  if (text.ends_with('\r')) return 1;
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;  // not the first of its character
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > n ? n : 0;
  }
  return 0;
}

std::string visible(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    std::string_view part = text.substr(0, end);
    const bool crlf = end < text.size() && text[end] == '\n' && part.ends_with('\r');
    if (crlf) part.remove_suffix(1);
    out += report::format::printable(part);
    if (crlf) out += '\r';
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string VisibleText::operator()(std::string_view piece) {
  rest_ += piece;
  const std::size_t keep = bytes_to_keep(rest_);
  const std::string out = visible(std::string_view(rest_).substr(0, rest_.size() - keep));
  rest_.erase(0, rest_.size() - keep);
  return out;
}

std::string VisibleText::finish() { return visible(std::exchange(rest_, {})); }

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
