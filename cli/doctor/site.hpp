// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof doctor --site`: what differs between nodes. Each node answers with the JSON of its own checks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/doctor/check.hpp"
#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// What a node's process prints, in lines that srun passes on as they are: it takes no more than 1 KiB of a
// line at once, and mixes those of several nodes.
std::string answer_lines(const std::string& node, const std::string& json);
// Node: JSON, of all answers in a text that are complete.
std::map<std::string, std::string> answers_in(const std::string& text);

struct NodeAnswer {
  std::string node;
  std::vector<Check> checks;  // id, title, status, found, costs and facts
};
// Empty checks: this is no answer.
NodeAnswer parse_answer(const std::string& node, const std::string& json);

// Nodes with the same value, as "n[1-3],n7".
struct ValueOfNodes {
  std::string value;
  std::vector<std::string> nodes;
};
struct Difference {
  std::string check, title;          // "counters.permission", "performance events"
  std::string fact;                  // "found", "status", or the fact's name
  std::vector<ValueOfNodes> values;  // that of most nodes first
};
struct SiteReport {
  std::vector<std::string> nodes;    // that answered
  std::vector<std::string> missing;  // that did not
  std::string problem;               // what srun said, if nodes are missing
  std::vector<Difference> differences;
  std::vector<std::pair<std::string, std::uint64_t>> counts;  // of recordings, over all nodes
  std::vector<Difference> problems;  // fact: "warn" or "fail"; values: what was found, with its nodes
};
SiteReport compare(const std::vector<NodeAnswer>& answers, std::vector<std::string> missing,
                   std::string problem);

// "n[1-3,7]"
std::string node_list(const std::vector<std::string>& nodes);
std::string text_of(const SiteReport& report);
std::string json_of(const SiteReport& report);

// Starts one process of `launcher` per node through srun, and collects their answers. In a job these are the
// nodes of the job, if neither nodes nor a partition are named. `error`: why nobody was asked.
struct SiteRequest {
  std::string launcher, nodes, partition, directory;
};
SiteReport ask_site(const System& system, const SiteRequest& request, std::string& error);

}  // namespace clusterprof::cli::doctor
