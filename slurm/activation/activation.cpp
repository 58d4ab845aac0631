// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/activation/activation.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/base_name.hpp"
#include "slurm/start/decide.hpp"

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

std::string expand(const std::string& pattern, const std::string& user, const std::string& home) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char next = pattern[at] == '%' && at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    if (next == 'u' || next == 'h' || next == '%') {
      text += next == 'u' ? user : next == 'h' ? home : "%";
      ++at;
    } else {
      text += pattern[at];
    }
  }
  return text;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

Site parse_site(const std::vector<std::string>& arguments) {
  Site site;
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
    } else {
      site.problems.push_back(
          "'" + argument + "' is none of default=on|off, root=DIR, prefix=DIR, options=LIST, starter=DIR/" +
          start::kObjectName);
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

Decision decide(const std::optional<std::string>& option, const Site& site, const JobVariable& job,
                const std::function<bool()>& opted_out) {
  const auto follow = [](const std::string& text, const char* of) {
    auto request = parse_request(text);
    if (!request) return Decision{Decision::kStrip, {}, of + request.error().message};
    const auto kind = request.value().is_on ? Decision::kActivate : Decision::kStrip;
    return Decision{kind, std::move(request).value(), ""};
  };
  if (option) return follow(*option, "--clusterprof: ");
  const auto variable = job("CLUSTERPROF_SLURM");
  if (variable && !variable->empty()) return follow(*variable, "CLUSTERPROF_SLURM: ");
  if (site.records_by_default && !opted_out()) return {Decision::kActivate, {}, ""};
  return {};
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

bool has_opted_out(const std::string& home) {
  return !home.empty() && ::access((home + "/.clusterprof-off").c_str(), F_OK) == 0;
}

Variables activate(const Decision& decision, const Site& site, const Step& step, const JobVariable& job) {
  Variables changes;
  if (decision.kind == Decision::kNothing) return changes;
  const std::string before = job("LD_PRELOAD").value_or("");
  if (step.has_tasks && job(start::kBatchVariable)) changes.emplace_back(start::kBatchVariable, "");
  if (decision.kind == Decision::kStrip) {
    if (before.find(start::kObjectName) != std::string::npos)
      changes.emplace_back("LD_PRELOAD", preloads(before, ""));
    if (job(start::kStartVariable)) changes.emplace_back(start::kStartVariable, "");
    return changes;
  }
  changes.emplace_back("LD_PRELOAD", preloads(before, starter_of(site)));
  changes.emplace_back(start::kStartVariable, launcher_of(site.prefix));
  if (!step.has_tasks) changes.emplace_back(start::kBatchVariable, "1");
  if (!site.root.empty() && !job("CLUSTERPROF_ROOT"))
    changes.emplace_back("CLUSTERPROF_ROOT", expand(site.root, step.user, step.home));
  for (const auto& [name, value] : site.variables) {
    if (!job(name.c_str())) changes.emplace_back(name, value);
  }
  for (const auto& [name, value] : decision.request.variables) {
    std::erase_if(changes, [&name = name](const auto& change) { return change.first == name; });
    changes.emplace_back(name, value);
  }
  return changes;
}

}  // namespace clusterprof::slurm
