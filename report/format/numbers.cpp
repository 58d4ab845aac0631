// SPDX-License-Identifier: BSD-3-Clause
// Writes times, sizes, counts, shares, dates, and numbers of ranks and signals.
#include "report/format/numbers.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace clusterprof::report::format {
namespace {

std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string decimal_units(double value, double exact_below, std::string_view exact_unit,
                          std::string_view unit) {
  static constexpr std::string_view kPrefixes = "kMGTPE";
  if (value < exact_below) return fmt::format("{:.0f}{}{}", value, exact_unit.empty() ? "" : " ", exact_unit);
  std::size_t step = 0;
  value /= 1000;
  while (value >= 999.5 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{} {}{}", three_digits(value), kPrefixes[step], unit);
}

std::vector<shard::RankRange> ranges_of(const std::vector<std::int32_t>& ascending) {
  std::vector<shard::RankRange> ranges;
  for (const std::int32_t rank : ascending) {
    if (!ranges.empty() && ranges.back().last + 1 == rank)
      ranges.back().last = rank;
    else
      ranges.push_back({rank, rank});
  }
  return ranges;
}

}  // namespace

std::string seconds(double value) {
  if (value < 0) return fmt::format("-{}", seconds(-value));
  if (value == 0) return "0 s";
  if (value < 999.5e-9) return fmt::format("{:.0f} ns", value * 1e9);
  if (value < 999.5e-6) return three_digits(value * 1e6) + " us";
  if (value < 999.5e-3) return three_digits(value * 1e3) + " ms";
  if (value < 9999.5) return three_digits(value) + " s";
  return three_digits(value / 3600) + " h";
}

std::string bytes(double value) { return decimal_units(value, 999.5, "B", "B"); }
std::string count(double value) { return decimal_units(value, 9999.5, "", ""); }
std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string bin_bytes(std::uint64_t value) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (value >= 1024 && value % 1024 == 0 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", value, kUnits[unit]);
}

std::string utc(std::int64_t ns) {
  using namespace std::chrono;
  const sys_seconds time(floor<std::chrono::seconds>(nanoseconds(ns)));
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::string utc_iso(std::int64_t ns) {
  std::string time = utc(ns);
  time[10] = 'T';
  return time.substr(0, 19) + "Z";
}

std::string rank_list(const std::vector<std::int32_t>& ascending, std::size_t most) {
  return range_list(ranges_of(ascending), false, most);
}

std::string range_list(const std::vector<shard::RankRange>& ascending, bool and_more, std::size_t most) {
  std::string out;
  std::size_t groups = 0;
  const auto add = [&](const shard::RankRange& range) {
    if (groups++ == most) return false;
    if (!out.empty()) out += ", ";
    out += range.first == range.last ? fmt::format("{}", range.first)
                                     : fmt::format("{}-{}", range.first, range.last);
    return true;
  };
  for (const auto& [first, last] : ascending) {
    const bool pair = last == first + 1;  // "3, 4" reads better than "3-4"
    if (pair ? !add({first, first}) || !add({last, last}) : !add({first, last})) return out + ", ..";
  }
  return and_more ? out + ", .." : out;
}

std::string rank_ranges(const std::vector<std::int32_t>& ascending, std::size_t most) {
  std::string out;
  std::size_t groups = 0;
  for (const auto& [first, last] : ranges_of(ascending)) {
    if (groups++ == most) return out + ", ..";
    if (!out.empty()) out += ", ";
    out += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return out;
}

std::string missing_ranks(const RunInfo& run, std::size_t most) {
  return range_list(ranges_of(run.missing_ranks), run.missing > run.missing_ranks.size(), most);
}

std::string signal_name(int number) {
  switch (number) {  // the numbers of Linux on x86 and ARM
    case 1:
      return "SIGHUP";
    case 2:
      return "SIGINT";
    case 3:
      return "SIGQUIT";
    case 4:
      return "SIGILL";
    case 5:
      return "SIGTRAP";
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case 9:
      return "SIGKILL";
    case 10:
      return "SIGUSR1";
    case 11:
      return "SIGSEGV";
    case 12:
      return "SIGUSR2";
    case 13:
      return "SIGPIPE";
    case 14:
      return "SIGALRM";
    case 15:
      return "SIGTERM";
    case 24:
      return "SIGXCPU";
    case 25:
      return "SIGXFSZ";
    case 31:
      return "SIGSYS";
    default:
      return fmt::format("signal {}", number);
  }
}

TimeScale::TimeScale(double largest_s) {
  if (largest_s < 0.1) {
    unit_ = "ms", factor_ = 1e3;
  } else if (largest_s >= 99'999.5) {
    unit_ = "h", factor_ = 1.0 / 3600;
  }
  const double largest = largest_s * factor_;
  digits_ = largest < 999.995 ? 2 : largest < 9999.95 ? 1 : 0;
}

std::string TimeScale::operator()(double value_s) const {
  return fmt::format("{:.{}f}", value_s * factor_, digits_);
}

std::string plural(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

std::string ranks_and_nodes(const RunInfo& run) {
  const std::string spawned =
      run.spawned_ranks == 0 ? "" : fmt::format(", {} of them spawned,", run.spawned_ranks);
  std::string text = fmt::format("{}{} on {}", plural(run.ranks, "rank"), spawned, plural(run.nodes, "node"));
  if (run.restarts != 0) text += fmt::format(" in {} starts", run.restarts + 1);
  return text;
}

}  // namespace clusterprof::report::format
