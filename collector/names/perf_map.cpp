// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/perf_map.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kMaxFileBytes = 64ull << 20;
// So many lines take a second to read, during which the collector does nothing else for the node.
constexpr std::size_t kMaxLines = 1'000'000;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxLineBytes = 64 << 10;
// Time stamps of files are those of the kernel's last tick.
constexpr std::int64_t kTimestampSlackNs = 20'000'000;

// Reads a number and the space behind it. The JVM begins numbers with 0x.
bool take_number(std::string_view& text, std::uint64_t& number) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto after = std::from_chars(text.data(), end, number, 16);
  if (after.ec != std::errc() || after.ptr == end || *after.ptr != ' ') return false;
  text.remove_prefix(static_cast<std::size_t>(after.ptr - text.data()) + 1);
  return true;
}

// Names of address ranges, each identified by its index. A line costs only a few steps in a tree, whatever
// lines come before it; ranges that it joins cost nothing later.
class Names {
 public:
  explicit Names(std::span<const std::uint64_t> addresses) : addresses_(addresses.begin(), addresses.end()) {
    std::ranges::sort(addresses_);
    addresses_.erase(std::unique(addresses_.begin(), addresses_.end()), addresses_.end());
    next_clear_.resize(addresses_.size() + 1);
    std::iota(next_clear_.begin(), next_clear_.end(), 0u);
  }

  void take_line(std::string_view line) {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    if (!take_number(line, start) || !take_number(line, bytes)) return;
    if (line.empty() || bytes > UINT64_MAX - start) return;
    const std::uint32_t first = place_of(start), last = place_of(start + bytes);
    if (first < last) give_name(first, last, line.substr(0, kMaxNameBytes));
  }

  [[nodiscard]] std::unordered_map<std::uint64_t, std::string> found() {
    std::unordered_map<std::uint64_t, std::string> names;
    for (const auto& [first, piece] : pieces_)
      for (std::uint32_t at = clear_from(first); at < piece.last; at = clear_from(at + 1))
        names.emplace(addresses_[at], piece.name);
    return names;
  }

 private:
  // Places from its key to `last`: those that are not ambiguous have this name.
  struct Piece {
    std::uint32_t last;
    std::string name;
  };

  std::uint32_t place_of(std::uint64_t address) const {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(addresses_, address) - addresses_.begin());
  }

  // The first place from `place` on that is not ambiguous, or the number of places if there is none.
  std::uint32_t clear_from(std::uint32_t place) {
    while (next_clear_[place] != place) {
      next_clear_[place] = next_clear_[next_clear_[place]];
      place = next_clear_[place];
    }
    return place;
  }

  // Splits the piece that contains `place` so that one begins there.
  void split(std::uint32_t place) {
    auto at = pieces_.lower_bound(place);
    if (at == pieces_.begin() || (at != pieces_.end() && at->first == place)) return;
    Piece& before = std::prev(at)->second;
    if (before.last <= place) return;
    pieces_.emplace_hint(at, place, Piece{before.last, before.name});
    before.last = place;
  }

  void give_name(std::uint32_t first, std::uint32_t last, std::string_view name) {
    split(first);
    split(last);
    const auto begin = pieces_.lower_bound(first), end = pieces_.lower_bound(last);
    for (auto at = begin; at != end; ++at)
      if (at->second.name != name)
        for (std::uint32_t place = clear_from(at->first); place < at->second.last; place = clear_from(place))
          next_clear_[place] = place + 1;
    pieces_.emplace_hint(pieces_.erase(begin, end), first, Piece{last, std::string(name)});
  }

  std::vector<std::uint64_t> addresses_;
  std::vector<std::uint32_t> next_clear_;  // itself; another place for an ambiguous one
  std::map<std::uint32_t, Piece> pieces_;
};

}  // namespace

std::string perf_map_path(std::int32_t pid) { return fmt::format("/tmp/perf-{}.map", pid); }

std::unordered_map<std::uint64_t, std::string> read_perf_map(const std::string& path,
                                                             std::int64_t not_before_utc_ns,
                                                             std::span<const std::uint64_t> addresses) {
  // Anybody can put anything into /tmp, so do not follow a link or wait for a pipe.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid() || status.st_size < 0 ||
      static_cast<std::uint64_t>(status.st_size) > kMaxFileBytes)
    return {};
  const std::int64_t written_utc_ns =
      std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (written_utc_ns + kTimestampSlackNs < not_before_utc_ns) return {};

  Names names(addresses);
  std::size_t lines = 0;
  std::vector<char> buffer(kMaxLineBytes);
  std::size_t held = 0;
  std::uint64_t taken = 0;
  bool in_long_line = false;
  while (taken < kMaxFileBytes) {  // it may grow while we read
    const ssize_t got = ::read(file.get(), buffer.data() + held, buffer.size() - held);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    taken += static_cast<std::uint64_t>(got);
    held += static_cast<std::size_t>(got);
    std::string_view rest(buffer.data(), held);
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;
         rest.remove_prefix(end + 1)) {
      if (++lines > kMaxLines) return {};
      if (!std::exchange(in_long_line, false)) names.take_line(rest.substr(0, end));
    }
    if (rest.size() == buffer.size()) {
      in_long_line = true;
      rest = {};
    }
    held = rest.size();
    std::copy(rest.begin(), rest.end(), buffer.begin());
  }
  return names.found();
}

}  // namespace clusterprof::collector
