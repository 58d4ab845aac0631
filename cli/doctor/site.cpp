// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/site.hpp"

#include <rapidjson/document.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <tuple>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/report.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kMark = "clusterprof-doctor-answer";
constexpr std::size_t kPartBytes = 700;
constexpr std::size_t kMostParts = 10'000;
constexpr std::chrono::milliseconds kSitePatience{150'000}, kSlurmPatience{10'000};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The text up to the next blank, which is taken away with it.
std::string take_word(std::string& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string word = text.substr(0, end);
  text.erase(0, std::min(end + 1, text.size()));
  return word;
}

std::size_t number_in(const std::string& text) {
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && rest == text.data() + text.size() ? number : 0;
}

std::string text_at(const rapidjson::Value& object, const char* name) {
  const auto found = object.FindMember(name);
  return found != object.MemberEnd() && found->value.IsString() ? found->value.GetString() : "";
}

Status status_named(const std::string& name) {
  return name == "ok" ? Status::kOk : name == "warn" ? Status::kWarn : Status::kFail;
}

// Of values with their nodes: that of most nodes first.
std::vector<ValueOfNodes> by_value(const std::vector<std::pair<std::string, std::string>>& nodes_and_values) {
  std::map<std::string, std::vector<std::string>> nodes;
  for (const auto& [node, value] : nodes_and_values) nodes[value].push_back(node);
  std::vector<ValueOfNodes> values;
  for (auto& [value, names] : nodes) values.push_back({value, std::move(names)});
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.nodes.size() > b.nodes.size(); });
  return values;
}

// What can be compared of a check.
std::vector<std::pair<std::string, std::string>> facts_of(const Check& check) {
  std::vector<std::pair<std::string, std::string>> facts = check.facts;
  if (facts.empty()) facts.emplace_back("found", check.found);
  facts.emplace_back("status", std::string(name_of(check.status)));
  return facts;
}

// The number at a name's end, and what is before it; -1: there is none, or it is written with zeros before
// it.
std::pair<std::string, long> split_number(const std::string& name) {
  std::size_t digits = 0;
  while (digits < name.size() &&
         std::isdigit(static_cast<unsigned char>(name[name.size() - 1 - digits])) != 0)
    ++digits;
  constexpr std::size_t kMostDigits = 9;
  const std::size_t at = name.size() - digits;
  if (digits == 0 || digits > kMostDigits || (digits > 1 && name[at] == '0')) return {name, -1};
  return {name.substr(0, at), static_cast<long>(number_in(name.substr(at)))};
}

void add_values(std::string& out, const std::vector<ValueOfNodes>& values) {
  for (const ValueOfNodes& value : values)
    out += "      " + printable(value.value) + "\n        on " + printable(node_list(value.nodes)) + "\n";
}

std::string quoted_list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + quoted(text);
  return "[" + out + "]";
}

std::string json_of(const std::vector<Difference>& differences) {
  std::string out;
  for (const Difference& difference : differences) {
    out += (out.empty() ? "" : ",") + std::string("\n    {\"check\": ") + quoted(difference.check) +
           ", \"title\": " + quoted(difference.title) + ", \"fact\": " + quoted(difference.fact) +
           ", \"values\": [";
    bool is_first = true;
    for (const ValueOfNodes& value : difference.values) {
      out += std::string(is_first ? "" : ", ") + "{\"value\": " + quoted(value.value) +
             ", \"nodes\": " + quoted_list(value.nodes) + "}";
      is_first = false;
    }
    out += "]}";
  }
  return "[" + out + (out.empty() ? "]" : "\n  ]");
}

// Names of nodes that have room for a step, and of the others.
std::vector<std::string> nodes_of_partition(const System& system, const std::string& sinfo,
                                            const std::string& partition, std::vector<std::string>& down) {
  std::vector<std::string> up;
  const CommandOutcome said = system.run(
      {sinfo, "--noheader", "--Node", "--partition=" + partition, "--format=%N %T"}, kSlurmPatience);
  for (std::string line : lines_of(said.out)) {
    const std::string name = take_word(line);
    // "idle*": it does not answer. A node that is "allocated" would keep srun from starting on all others.
    const bool is_up = line.starts_with("idle") || line.starts_with("mixed");
    (is_up && line.find('*') == std::string::npos ? up : down).push_back(name);
  }
  return up;
}

}  // namespace

std::string answer_lines(const std::string& node, const std::string& json) {
  const std::string text = json.substr(0, json.find_last_not_of('\n') + 1);
  const std::size_t parts = (text.size() + kPartBytes - 1) / kPartBytes;
  std::string out;
  for (std::size_t i = 0; i < parts; ++i)
    out += std::string(kMark) + " " + node + " " + std::to_string(i + 1) + " " + std::to_string(parts) + " " +
           text.substr(i * kPartBytes, kPartBytes) + "\n";
  return out;
}

std::map<std::string, std::string> answers_in(const std::string& text) {
  std::map<std::string, std::map<std::size_t, std::string>> parts;
  std::map<std::string, std::size_t> counts;
  for (std::string line : lines_of(text)) {
    if (take_word(line) != kMark) continue;
    const std::string node = take_word(line);
    const std::size_t number = number_in(take_word(line)), count = number_in(take_word(line));
    if (node.empty() || number == 0 || number > count || count > kMostParts) continue;
    parts[node][number] = line;
    counts[node] = count;
  }
  std::map<std::string, std::string> answers;
  for (const auto& [node, texts] : parts) {
    if (texts.size() != counts[node]) continue;
    for (const auto& [number, part] : texts) answers[node] += part;
  }
  return answers;
}

NodeAnswer parse_answer(const std::string& node, const std::string& json) {
  NodeAnswer answer{node, {}};
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json.c_str());  // however deep it is
  if (document.HasParseError() || !document.IsObject()) return answer;
  const auto checks = document.FindMember("checks");
  if (checks == document.MemberEnd() || !checks->value.IsArray()) return answer;
  for (const rapidjson::Value& object : checks->value.GetArray()) {
    if (!object.IsObject()) continue;
    Check check{text_at(object, "id"),    text_at(object, "group"),
                text_at(object, "title"), status_named(text_at(object, "status")),
                text_at(object, "found"), text_at(object, "costs"),
                text_at(object, "fix"),   {}};
    const auto facts = object.FindMember("facts");
    if (facts != object.MemberEnd() && facts->value.IsObject()) {
      for (const auto& fact : facts->value.GetObject())
        if (fact.value.IsString()) check.facts.emplace_back(fact.name.GetString(), fact.value.GetString());
    }
    const auto counts = object.FindMember("counts");
    if (counts != object.MemberEnd() && counts->value.IsObject()) {
      for (const auto& count : counts->value.GetObject())
        if (count.value.IsUint64())
          check.counts.emplace_back(count.name.GetString(), count.value.GetUint64());
    }
    answer.checks.push_back(std::move(check));
  }
  return answer;
}

SiteReport compare(const std::vector<NodeAnswer>& answers, std::vector<std::string> missing,
                   std::string problem) {
  SiteReport report;
  report.missing = std::move(missing);
  report.problem = std::move(problem);
  // In the order of the first node's checks.
  std::vector<std::tuple<std::string, std::string, std::string>> keys;  // check, title, fact
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<std::string, std::string>>> values,
      problems;
  std::map<std::string, std::uint64_t> counts;
  for (const NodeAnswer& answer : answers) {
    report.nodes.push_back(answer.node);
    for (const Check& check : answer.checks) {
      for (const auto& [what, count] : check.counts) counts[what] += count;
      for (const auto& [fact, value] : facts_of(check)) {
        auto& known = values[{check.id, fact}];
        if (known.empty()) keys.emplace_back(check.id, check.title, fact);
        known.emplace_back(answer.node, value);
      }
      if (check.status == Status::kOk) continue;
      auto& known = problems[{check.id, std::string(name_of(check.status))}];
      if (known.empty()) keys.emplace_back(check.id, check.title, name_of(check.status));
      known.emplace_back(answer.node, check.found + (check.costs.empty() ? "" : ": " + check.costs));
    }
  }
  report.counts.assign(counts.begin(), counts.end());
  for (const auto& [check, title, fact] : keys) {
    if (const auto found = problems.find({check, fact}); found != problems.end()) {
      report.problems.push_back({check, title, fact, by_value(found->second)});
      continue;
    }
    std::vector<std::pair<std::string, std::string>> of_fact = values[{check, fact}];
    std::set<std::string> has;
    for (const auto& [node, value] : of_fact) has.insert(node);
    for (const std::string& node : report.nodes)
      if (!has.contains(node)) of_fact.emplace_back(node, "not told");
    std::vector<ValueOfNodes> groups = by_value(of_fact);
    if (groups.size() > 1) report.differences.push_back({check, title, fact, std::move(groups)});
  }
  return report;
}

std::string node_list(const std::vector<std::string>& nodes) {
  std::map<std::string, std::set<long>> numbers;  // by what is before the number
  std::set<std::string> others;
  for (const std::string& node : nodes) {
    const auto [stem, number] = split_number(node);
    if (number < 0) {
      others.insert(node);
    } else {
      numbers[stem].insert(number);
    }
  }
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ",") + text; };
  for (const auto& [stem, of_stem] : numbers) {
    std::string ranges;
    for (auto at = of_stem.begin(); at != of_stem.end();) {
      const long first = *at;
      long last = first;
      while (++at != of_stem.end() && *at == last + 1) last = *at;
      ranges += (ranges.empty() ? "" : ",") + std::to_string(first) +
                (last == first ? "" : "-" + std::to_string(last));
    }
    add(of_stem.size() == 1 ? stem + ranges : stem + "[" + ranges + "]");
  }
  for (const std::string& name : others) add(name);
  return out;
}

std::string text_of(const SiteReport& report) {
  std::string out;
  if (!report.differences.empty()) out += "different\n";
  for (const Difference& difference : report.differences) {
    out += "  " + printable(difference.check) + "  " + printable(difference.title) +
           (difference.fact == "found" ? "" : ": " + printable(difference.fact)) + "\n";
    add_values(out, difference.values);
  }
  if (!report.problems.empty()) out += std::string(out.empty() ? "" : "\n") + "not ok\n";
  for (const Difference& problem : report.problems) {
    out += "  " + printable(problem.fact) + "  " + printable(problem.check) + "  " +
           printable(problem.title) + "\n";
    add_values(out, problem.values);
  }
  if (!report.counts.empty()) {
    out += std::string(out.empty() ? "" : "\n") + "recordings\n";
    for (const auto& [what, number] : report.counts)
      out += "  " + std::to_string(number) + " " + printable(what) + "\n";
  }
  if (!out.empty()) out += "\n";
  const auto count = [](std::size_t number, const char* word) {
    return std::to_string(number) + " " + word + (number == 1 ? "" : "s");
  };
  out += count(report.nodes.size(), "node") + " answered: ";
  out += report.differences.empty() ? "no difference" : count(report.differences.size(), "difference");
  out += ", " + count(report.problems.size(), "check") + " not ok\n";
  if (!report.missing.empty()) {
    out += "no answer from " + printable(node_list(report.missing)) + "\n";
    if (!report.problem.empty()) out += "  " + printable(report.problem) + "\n";
  }
  return out;
}

std::string json_of(const SiteReport& report) {
  return "{\n  \"schema\": \"clusterprof.doctor_site/1\",\n  \"nodes\": " + quoted_list(report.nodes) +
         ",\n  \"missing\": " + quoted_list(report.missing) +
         ",\n  \"differences\": " + json_of(report.differences) +
         ",\n  \"problems\": " + json_of(report.problems) + ",\n  \"counts\": " + json_of(report.counts) +
         "\n}\n";
}

SiteReport ask_site(const System& system, const SiteRequest& request, std::string& error) {
  const std::string srun = in_path(system, "srun"), scontrol = in_path(system, "scontrol"),
                    sinfo = in_path(system, "sinfo");
  if (srun.empty() || scontrol.empty() || sinfo.empty()) {
    error = "--site asks nodes through Slurm: srun, scontrol and sinfo are not all in PATH";
    return {};
  }
  const bool in_job = !variable(system, "SLURM_JOB_ID").empty();
  std::vector<std::string> nodes, missing;
  std::string list = request.nodes;
  if (list.empty() && request.partition.empty()) list = variable(system, "SLURM_JOB_NODELIST");
  if (!list.empty()) {
    for (const std::string& name :
         lines_of(system.run({scontrol, "show", "hostnames", list}, kSlurmPatience).out))
      if (!name.empty()) nodes.push_back(name);
  } else if (!request.partition.empty()) {
    nodes = nodes_of_partition(system, sinfo, request.partition, missing);
  } else {
    error =
        "--site needs nodes: call it in an allocation (salloc -N 4), or with --nodes n[1-4] or --partition "
        "NAME";
    return {};
  }
  if (nodes.empty()) {
    error = "no node to be asked in " + (list.empty() ? "partition " + request.partition : list);
    return {};
  }
  std::vector<std::string> command = {srun,
                                      "--quiet",
                                      "--nodes=" + std::to_string(nodes.size()),
                                      "--ntasks-per-node=1",
                                      "--nodelist=" + node_list(nodes),
                                      "--kill-on-bad-exit=0",
                                      "--no-kill"};
  if (in_job) {
    command.emplace_back("--overlap");
  } else {
    command.emplace_back("--immediate=60");
    if (!request.partition.empty()) command.push_back("--partition=" + request.partition);
  }
  for (const std::string& word :
       {request.launcher, std::string("doctor"), std::string("--node"), std::string("--answer")})
    command.push_back(word);
  if (!request.directory.empty()) command.push_back(request.directory);
  const CommandOutcome said = system.run(command, kSitePatience);
  std::vector<NodeAnswer> answers;
  const std::map<std::string, std::string> texts = answers_in(said.out);
  for (const std::string& node : nodes) {
    const auto found = texts.find(node);
    NodeAnswer answer = found == texts.end() ? NodeAnswer{node, {}} : parse_answer(node, found->second);
    if (answer.checks.empty()) {
      missing.push_back(node);
    } else {
      answers.push_back(std::move(answer));
    }
  }
  return compare(answers, std::move(missing), first_line(said.err));
}

}  // namespace clusterprof::cli::doctor
