// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/activation/activation.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/base_name.hpp"
#include "base/decimal.hpp"
#include "formats/wire/site_counts.h"
#include "formats/wire/site_switch.h"
#include "slurm/start/decide.hpp"
#include "slurm/start/match.hpp"

namespace clusterprof::slurm {
namespace {

// LD_PRELOAD without the starter, and with it at the very end: a library that has to be first, such as
// AddressSanitizer's, stays first.
std::string preloads(const std::string& before, const std::string& starter) {
  std::string list;
  for (std::size_t at = 0; at < before.size();) {
    const std::size_t end = std::min(before.find_first_of(": ", at), before.size());
    const std::string entry = before.substr(at, end - at);
    at = end + 1;
    if (entry.empty() || entry.substr(entry.rfind('/') + 1) == start::kObjectName) continue;
    list += (list.empty() ? "" : ":") + entry;
  }
  if (!starter.empty()) list += (list.empty() ? "" : ":") + starter;
  return list;
}

std::string expand(const std::string& pattern, const Step& step) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char next = pattern[at] == '%' && at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    if (next == 'u' || next == 'h' || next == '%') {
      text += next == 'u' ? step.user() : next == 'h' ? step.home() : "%";
      ++at;
    } else {
      text += pattern[at];
    }
  }
  return text;
}

// "10%" or "0.1".
bool parse_fraction(std::string_view text, double& fraction) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.remove_suffix(1);
  const auto value = parse_decimal(text);
  if (!value || *value > (is_percent ? 100 : 1)) return false;
  fraction = is_percent ? *value / 100 : *value;
  return true;
}

// Components of a heterogeneous job have numbers of their own; the job's is that of the first. 0: not known.
std::uint64_t job_number(const JobVariable& job) {
  for (const char* const name : {"SLURM_HET_JOB_ID", "SLURM_JOB_ID"}) {
    if (const std::string text = job(name).value_or(""); !text.empty())
      return std::strtoull(text.c_str(), nullptr, 10);
  }
  return 0;
}

// The part of the site's options that says which runs are worth recording. It holds for runs that nobody
// asked for, and so goes by names that only the starter and the launcher under it read. nullptr: another
// option.
const char* variable_of_minimum(const std::string& name) {
  return name == "CLUSTERPROF_MIN_DURATION" ? start::kMinDurationVariable
         : name == "CLUSTERPROF_MIN_RANKS"  ? start::kMinRanksVariable
                                            : nullptr;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

Site parse_site(const std::vector<std::string>& arguments) {
  Site site;
  const std::pair<std::string_view, Filter*> filters[] = {{"users", &site.users},
                                                          {"partitions", &site.partitions},
                                                          {"accounts", &site.accounts},
                                                          {"commands", &site.commands}};
  const auto put_filter = [&filters](std::string_view name, const std::string& value) {
    const bool is_never = name.substr(0, 4) == "not-";
    if (is_never) name.remove_prefix(4);
    for (const auto& [of, filter] : filters) {
      if (of != name || value.empty()) continue;
      std::string& list = is_never ? filter->never : filter->only;
      list += (list.empty() ? "" : ",") + value;
      return true;
    }
    return false;
  };
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "default" && (value == "on" || value == "off")) {
      site.records_by_default = value == "on";
    } else if (name == "root" && !value.empty() && (value[0] == '/' || value[0] == '%')) {
      site.root = value;
    } else if (name == "prefix" && value[0] == '/') {
      site.prefix = value;
    } else if (name == "starter" && value[0] == '/' && base_name(value) == start::kObjectName) {
      site.starter = value;
    } else if (name == "options" && !value.empty()) {
      auto request = parse_request(value);
      if (!request) {
        site.problems.push_back(argument + ": " + request.error().message);
      } else if (!request.value().is_on) {
        site.problems.push_back(argument + ": say default=off");
      } else {
        site.variables = std::move(request).value().variables;
      }
    } else if (name == "fraction" && parse_fraction(value, site.fraction)) {
      continue;
    } else if (!put_filter(name, value)) {
      site.problems.push_back(
          "'" + argument +
          "' is none of default=on|off, root=DIR, prefix=DIR, options=LIST, starter=FILE, fraction=N%, "
          "[not-]users=LIST, [not-]partitions=LIST, [not-]accounts=LIST, [not-]commands=LIST");
    }
  }
  return site;
}

std::string prefix_of(const std::string& plugin) {
  std::string directory = directory_of(plugin);
  if (base_name(directory).find("slurm-") == 0) directory = directory_of(directory);
  if (base_name(directory) != "clusterprof") return {};
  directory = directory_of(directory);
  return base_name(directory) == "lib" ? directory_of(directory) : std::string();
}

std::string starter_beside(const std::string& plugin) {
  if (plugin.empty() || !prefix_of(plugin).empty()) return {};
  std::string starter = directory_of(plugin) + "/" + start::kObjectName;
  return ::access(starter.c_str(), R_OK) == 0 ? starter : std::string();
}

bool is_sampled(std::uint64_t job, double fraction) {
  // The last steps of MurmurHash3 and SplitMix64: each bit of the number changes half of the bits.
  std::uint64_t bits = job + 0x9e37'79b9'7f4a'7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d0'49bb'1331'11ebu;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) < fraction * 0x1p53;
}

Decision decide_unfiltered(const std::optional<std::string>& option, const Site& site, const JobVariable& job,
                           const UserFacts& user) {
  const auto follow = [](const std::string& text, const char* of) {
    Decision decision;
    decision.is_asked_for = true;
    auto request = parse_request(text);
    if (!request) {
      decision.kind = Decision::kStrip;
      decision.problem = of + request.error().message;
      return decision;
    }
    decision.kind = request.value().is_on ? Decision::kActivate : Decision::kStrip;
    decision.request = std::move(request).value();
    return decision;
  };
  if (option) return follow(*option, "--clusterprof: ");
  const auto variable = job("CLUSTERPROF_SLURM");
  if (variable && !variable->empty()) return follow(*variable, "CLUSTERPROF_SLURM: ");
  Decision decision;
  if (site.records_by_default && !user.opted_out()) decision.kind = Decision::kActivate;
  return decision;
}

Decision decide(const std::optional<std::string>& option, const Site& site, const JobVariable& job,
                const UserFacts& user) {
  Decision decision = decide_unfiltered(option, site, job, user);
  if (decision.kind != Decision::kActivate) return decision;
  const auto refuse = [&decision](std::string reason, std::string explanation) {
    decision.kind = Decision::kStrip;
    decision.reason = std::move(reason);
    decision.explanation = std::move(explanation);
    return decision;
  };
  const auto of_job = [&job](const char* name) { return job(name).value_or(""); };
  struct Property {
    const char* what;
    const Filter& filter;
    std::function<std::string()> value;
  };
  for (const Property& property :
       {Property{"user", site.users, user.name},
        {"partition", site.partitions, [&] { return of_job("SLURM_JOB_PARTITION"); }},
        {"account", site.accounts, [&] { return of_job("SLURM_JOB_ACCOUNT"); }}}) {
    const bool has_only = !property.filter.only.empty() && !decision.is_asked_for;
    if (!has_only && property.filter.never.empty()) continue;
    const std::string what = property.what, value = property.value();
    if (start::matches_one(property.filter.never.c_str(), value.c_str()))
      return refuse(what + "-excluded", "the site records no jobs of " + what + " " + value);
    if (has_only && !start::matches_one(property.filter.only.c_str(), value.c_str()))
      return refuse(what + "-not-included",
                    "the site records jobs of " + what + " '" + value + "' only on request");
  }
  if (!decision.is_asked_for && site.fraction < 1) {
    const std::uint64_t number = job_number(job);
    if (!is_sampled(number, site.fraction))
      return refuse("not-sampled", "job " + std::to_string(number) +
                                       " is not in the part of all jobs that the "
                                       "site records");
  }
  return decision;
}

bool is_explained(const Decision& decision, const JobVariable& job) {
  const std::string explain = job(start::kExplainVariable).value_or("");
  return !decision.reason.empty() && (decision.is_asked_for || (!explain.empty() && explain != "0"));
}

std::string starter_of(const Site& site) {
  return site.starter.empty() ? site.prefix + "/lib/clusterprof/" + start::kObjectName : site.starter;
}
std::string launcher_of(const std::string& prefix) { return prefix + "/bin/clusterprof"; }

std::string obstacle(const Site& site) {
  if (site.prefix.empty()) return "it is not said where clusterprof is (prefix=DIR)";
  const std::string starter = starter_of(site);
  for (const std::string& path : {site.prefix, starter}) {
    if (path.find_first_of(": ") != std::string::npos)
      return path + ": LD_PRELOAD cannot name a path with a blank or colon";
  }
  if (::access(starter.c_str(), R_OK) != 0) return starter + ": " + std::strerror(errno);
  if (site.starter.empty() && ::access(launcher_of(site.prefix).c_str(), X_OK) != 0)
    return launcher_of(site.prefix) + ": " + std::strerror(errno);
  return {};
}

const char* off_file() {
  return wire::off_file([](const char* path) { return ::access(path, F_OK) == 0; });
}

std::string off_text(const char* file) {
  return std::string("this site has turned recording off (") + file + ")";
}

void count_as_unrecorded(const JobVariable& job, const std::string& reason) {
  const auto call = [](long number, long a, long b, long c, long d) {
    const long result = ::syscall(number, a, b, c, d);
    return result < 0 ? -static_cast<long>(errno) : result;
  };
  wire::count_recording(call, wire::kCountsDirectory, job("SLURM_JOB_ID").value_or("").c_str(),
                        job("SLURM_STEP_ID").value_or("").c_str(), wire::kCountUnrecorded, reason.c_str());
}

bool has_opted_out(const std::string& home) {
  return !home.empty() && ::access((home + "/.clusterprof-off").c_str(), F_OK) == 0;
}

Variables activate(const Decision& decision, const Site& site, const Step& step, const JobVariable& job) {
  Variables changes;
  if (decision.kind == Decision::kNothing) return changes;
  const std::string before = job("LD_PRELOAD").value_or("");
  if (step.has_tasks && job(start::kBatchVariable)) changes.emplace_back(start::kBatchVariable, "");
  // Of the job that this one was submitted from.
  for (const char* const name :
       {start::kCommandsVariable, start::kNotCommandsVariable, start::kMinRanksVariable,
        start::kMinDurationVariable, start::kAskedVariable}) {
    if (job(name)) changes.emplace_back(name, "");
  }
  if (decision.kind == Decision::kStrip) {
    if (before.find(start::kObjectName) != std::string::npos)
      changes.emplace_back("LD_PRELOAD", preloads(before, ""));
    if (job(start::kStartVariable)) changes.emplace_back(start::kStartVariable, "");
    return changes;
  }
  const auto set = [&changes](const std::string& name, const std::string& value) {
    std::erase_if(changes, [&name](const auto& change) { return change.first == name; });
    changes.emplace_back(name, value);
  };
  set("LD_PRELOAD", preloads(before, starter_of(site)));
  set(start::kStartVariable, launcher_of(site.prefix));
  if (!step.has_tasks) set(start::kBatchVariable, "1");
  if (!site.root.empty() && !job("CLUSTERPROF_ROOT")) set("CLUSTERPROF_ROOT", expand(site.root, step));
  if (!site.commands.never.empty()) {
    set(start::kNotCommandsVariable, site.commands.never);
    if (decision.is_asked_for) set(start::kAskedVariable, "1");
  }
  if (!site.commands.only.empty() && !decision.is_asked_for)
    set(start::kCommandsVariable, site.commands.only);
  for (const auto& [name, value] : site.variables) {
    if (job(name.c_str())) continue;
    const char* const minimum = variable_of_minimum(name);
    if (minimum == nullptr) {
      set(name, value);
    } else if (!decision.is_asked_for) {
      set(minimum, value);
    }
  }
  for (const auto& [name, value] : decision.request.variables) set(name, value);
  return changes;
}

}  // namespace clusterprof::slurm
