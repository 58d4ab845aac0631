// SPDX-License-Identifier: BSD-3-Clause
#include "base/process_mark.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "base/hex_hash.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof {
namespace {

std::string read_text(const std::string& path) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  char buffer[1024];
  for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

// Empty where it is not known.
std::string this_machine() {
  const std::string boot = read_text("/proc/sys/kernel/random/boot_id");
  char ids[64];
  const ssize_t length = ::readlink("/proc/self/ns/pid", ids, sizeof ids);
  if (boot.empty() || length <= 0) return {};
  return hex_hash(boot + std::string(ids, static_cast<std::size_t>(length)));
}

struct ProcessStat {
  char state = '?';
  std::uint64_t start_ticks = 0;
};

// Fields 3 and 22 of proc(5) stat. The command name may hold blanks and parentheses: count from the last ')'.
std::optional<ProcessStat> read_stat(pid_t pid) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos || close + 2 >= text.size()) return std::nullopt;
  ProcessStat stat;
  stat.state = text[close + 2];
  std::size_t at = close + 1;
  for (int field = 3; field <= 22; ++field) {
    at = text.find_first_not_of(' ', at);
    if (at == std::string::npos) return std::nullopt;
    if (field == 22) stat.start_ticks = std::strtoull(text.c_str() + at, nullptr, 10);
    at = text.find(' ', at);
  }
  return stat;
}

template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || rest == text.data() + text.size() || *rest != '.') return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()) + 1);
  return true;
}

}  // namespace

std::string to_string(const ProcessMark& mark) {
  return std::to_string(mark.pid) + "." + std::to_string(mark.start_ticks) + "." +
         (mark.machine.empty() ? "-" : mark.machine);
}

std::optional<ProcessMark> parse_process_mark(std::string_view text) {
  ProcessMark mark;
  if (!take_number(text, mark.pid) || mark.pid <= 0 || !take_number(text, mark.start_ticks))
    return std::nullopt;
  mark.machine = text.substr(0, text.find('.'));
  if (mark.machine.empty()) return std::nullopt;
  if (mark.machine == "-") mark.machine.clear();
  return mark;
}

ProcessMark mark_of_this_process() {
  const auto stat = read_stat(::getpid());
  return {::getpid(), stat ? stat->start_ticks : 0, this_machine()};
}

bool has_ended(const ProcessMark& mark) {
  if (mark.machine.empty() || mark.machine != this_machine()) return false;
  if (::kill(mark.pid, 0) != 0) return errno == ESRCH;
  const auto stat = read_stat(mark.pid);
  if (!stat || mark.start_ticks == 0) return false;
  const bool is_another = stat->start_ticks != mark.start_ticks;
  return is_another || stat->state == 'Z' || stat->state == 'X';
}

}  // namespace clusterprof
