// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/activation/options.hpp"

#include <algorithm>
#include <charconv>

#include "base/collector_options.hpp"
#include "base/resource_limits.hpp"

namespace clusterprof::slurm {
namespace {

constexpr int kMaxRate_hz = 10000;
constexpr int kMaxMinDuration_s = 7 * 24 * 3600;
constexpr int kMinHangAfter_s = 5, kMaxHangAfter_s = 7 * 24 * 3600;
constexpr int kMaxMinRanks = 1 << 24;

std::string variable_of(std::string_view option) {
  std::string name = "CLUSTERPROF_";
  for (const char c : option)
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

const RecordOption* find_option(std::string_view name) {
  const auto& options = record_options();
  const auto found = std::find_if(options.begin(), options.end(),
                                  [name](const RecordOption& option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

bool to_number(std::string_view text, int& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && rest == text.data() + text.size() && number >= 0;
}

bool is_rank_list(std::string_view text) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const std::size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!to_number(part.substr(0, dash), first)) return false;
    if (dash != std::string_view::npos && (!to_number(part.substr(dash + 1), last) || last < first))
      return false;
  }
  return true;
}

// EVENT[:PERIOD]. Only the nodes know which events and periods there are.
bool is_sample_on(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == text.size() ||
      text.find_first_not_of("0123456789", colon + 1) != std::string_view::npos)
    return true;
  return colon > 0 && text.find_first_not_of('0', colon + 1) != std::string_view::npos;
}

// Finds mistakes that the nodes would refuse, when it is too late. Empty: there are none.
std::string complaint(const RecordOption& option, const std::string& value) {
  const std::string not_it = ", not '" + value + "'";
  if (value.empty()) return std::string(option.name) + " needs a value";
  if (value.find('\n') != std::string::npos) return std::string(option.name) + ": a line break in its value";
  if (option.name == "rate") {
    int rate_hz = 0;
    if (!to_number(value, rate_hz) || rate_hz < 1 || rate_hz > kMaxRate_hz)
      return "rate: a whole number of samples per second from 1 to " + std::to_string(kMaxRate_hz) + not_it;
  } else if (option.name == "mode") {
    if (value != "light" && value != "full") return "mode: light or full" + not_it;
  } else if (option.name == "clock") {
    if (value != "wall" && value != "cpu") return "clock: wall or cpu" + not_it;
  } else if (option.name == "clock-sync") {
    if (value != "auto" && value != "never" && value != "always")
      return "clock-sync: auto, never or always" + not_it;
  } else if (option.name == "command") {
    if (value != "name" && value != "hash" && value != "masked" && value != "full")
      return "command: name, hash, masked or full" + not_it;
  } else if (option.name == "min-duration" || option.name == "min-ranks") {
    const bool is_time = option.name == "min-duration";
    int number = 0;
    if (!to_number(value, number) || number < (is_time ? 0 : 1) ||
        number > (is_time ? kMaxMinDuration_s : kMaxMinRanks))
      return std::string(option.name) +
             (is_time ? ": a whole number of seconds" : ": a whole number of ranks") + not_it;
  } else if (option.name == "hang-after") {
    int seconds = 0;
    if (!to_number(value, seconds) || seconds < kMinHangAfter_s || seconds > kMaxHangAfter_s)
      return "hang-after: a whole number of seconds from " + std::to_string(kMinHangAfter_s) + " to " +
             std::to_string(kMaxHangAfter_s) + not_it;
  } else if (option.name == "memory") {
    if (!parse_memory_interval(value)) return "memory: " + std::string(kMemoryIntervalValues) + not_it;
  } else if (std::find(kCollectorOptions.begin(), kCollectorOptions.end(), option.name) !=
             kCollectorOptions.end()) {
    CollectorOptions ignored;
    const Result<void> set = set_collector_option(ignored, option.name, value, std::string(option.name));
    if (!set) return set.error().message;
  } else if (option.name == "ranks") {
    if (!is_rank_list(value)) return "ranks: ranks and ranges such as 0-3,8" + not_it;
  } else if (option.name == "sample-on") {
    if (!is_sample_on(value)) return "sample-on: EVENT or EVENT:PERIOD" + not_it;
  } else if (option.name == "event") {
    if (value.front() == ',' || value.back() == ',' || value.find(",,") != std::string::npos)
      return "event: an empty name in '" + value + "'";
  }
  return {};
}

void put(Variables& variables, const RecordOption& option, const std::string& value) {
  const std::string name = variable_of(option.name);
  for (auto& [other, text] : variables) {
    if (other != name) continue;
    // As on the command line, all events count, but of other options only the last.
    text = option.name == "event" ? text + "," + value : value;
    return;
  }
  variables.emplace_back(name, value);
}

std::string known_names() {
  std::string names;
  for (const RecordOption& option : record_options()) {
    names += (names.empty() ? "" : ", ") + std::string(option.name) +
             (option.kind == RecordOption::kSwitch ? "" : "=");
  }
  return names;
}

}  // namespace

const std::vector<RecordOption>& record_options() {
  using enum RecordOption::Kind;
  static const std::vector<RecordOption> kOptions = {
      {"output", kValue},    {"quiet", kSwitch},        {"no-html", kSwitch},      {"no-source", kSwitch},
      {"rate", kValue},      {"mode", kValue},          {"clock", kValue},         {"clock-sync", kValue},
      {"event", kList},      {"sample-on", kValue},     {"no-python", kSwitch},    {"no-native", kSwitch},
      {"no-mpi", kSwitch},   {"only-regions", kSwitch}, {"no-children", kSwitch},  {"ranks", kList},
      {"own", kValue},       {"command", kValue},       {"no-arguments", kSwitch}, {"min-duration", kValue},
      {"min-ranks", kValue}, {"checkpoint", kValue},    {"max-memory", kValue},    {"max-cpu", kValue},
      {"standby", kSwitch},  {"no-stderr", kSwitch},    {"hang-after", kValue},    {"hang-abort", kSwitch},
      {"memory", kValue},    {"torch-ops", kSwitch}};
  return kOptions;
}

Result<Request> parse_request(std::string_view text) {
  Request request;
  if (text.empty()) return request;
  if (text == "off" || text == "no") {
    request.is_on = false;
    return request;
  }
  const RecordOption* open = nullptr;  // the option whose value may continue
  std::string value;
  const auto close = [&]() -> std::string {
    if (open == nullptr) return {};
    if (std::string problem = complaint(*open, value); !problem.empty()) return problem;
    put(request.variables, *open, value);
    open = nullptr;
    return {};
  };
  bool is_first = true;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view piece = text.substr(at, end - at);
    at = end + 1;
    const bool was_first = is_first;
    is_first = false;
    if (was_first && (piece == "on" || piece == "yes")) continue;
    const std::string_view whole = piece;
    if (piece.substr(0, 2) == "--") piece.remove_prefix(2);
    const std::size_t equals = piece.find('=');
    const RecordOption* const option = find_option(piece.substr(0, equals));
    if (option == nullptr) {
      if (open != nullptr && open->kind == RecordOption::kList && whole.substr(0, 3) != "no-") {
        value += "," + std::string(whole);
        continue;
      }
      if (piece == "off" || piece == "no") return Error{"'" + std::string(piece) + "' stands alone"};
      return Error{"no option '" + std::string(piece.substr(0, equals)) + "'; there are " + known_names() +
                   ", off"};
    }
    if (auto problem = close(); !problem.empty()) return Error{problem};
    if (option->kind == RecordOption::kSwitch) {
      if (equals != std::string_view::npos) return Error{std::string(option->name) + " takes no value"};
      put(request.variables, *option, "1");
      continue;
    }
    open = option;
    value = equals == std::string_view::npos ? "" : std::string(piece.substr(equals + 1));
  }
  if (auto problem = close(); !problem.empty()) return Error{problem};
  return request;
}

}  // namespace clusterprof::slurm
