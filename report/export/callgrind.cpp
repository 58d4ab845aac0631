// SPDX-License-Identifier: BSD-3-Clause
// valgrind.org/docs/manual/cl-format.html
#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>

#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"
#include "report/export/function_graph.hpp"
#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

struct Cost {
  std::uint64_t ns = 0, samples = 0;
  void add(const Weights& weights) { ns += weights.time_ns, samples += weights.samples; }
};
struct Call {
  Cost cost;  // inclusive
  std::uint64_t count = 0;
};
struct FunctionCost {
  std::map<std::uint32_t, Cost> self;                             // by line
  std::map<std::pair<std::uint32_t, std::uint32_t>, Call> calls;  // by line, callee
};

std::string line_of(std::string_view name) { return format::printable(name); }

// (id) name for the first time, (id) from then on.
class Names {
 public:
  std::string operator()(const std::string& name) {
    const auto [known, is_new] = ids_.try_emplace(name, ids_.size() + 1);
    return is_new ? fmt::format("({}) {}", known->second, name) : fmt::format("({})", known->second);
  }

 private:
  std::map<std::string, std::size_t> ids_;
};

// Functions of equal name, file and object are told apart by where they start.
FunctionGraph::Key callgrind_key(const CallPaths& paths) {
  std::map<std::tuple<std::string, std::string>, int> same;
  const auto file_of = [&paths](const shard::Frame& frame) {
    const std::string file = line_of(paths.text(frame.file));
    return file.empty() ? std::string("???") : file;
  };
  for (const shard::Frame* frame : paths.functions())
    if (frame->kind == shard::FrameKind::kPython) ++same[{file_of(*frame), paths.text(frame->name)}];
  return [&paths, file_of, same](const shard::Frame* frame) -> GraphFunction {
    if (frame == nullptr) return {"", "???", std::string(kOutside), 0};
    GraphFunction function{line_of(paths.text(frame->module)), file_of(*frame),
                           line_of(paths.text(frame->name)), 0};
    if (function.name.empty()) function.name = "???";
    if (frame->kind == shard::FrameKind::kPython && same.at({function.file, paths.text(frame->name)}) > 1)
      function.name += fmt::format(":{}", frame->function_line);
    return function;
  };
}

}  // namespace

void export_callgrind(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const CallPaths paths(input.head, FrameMode::kAll);
  const FunctionGraph graph(paths, callgrind_key(paths));
  // One more, of which all that nobody calls is called: callgrind_annotate makes inclusive costs of calls.
  const auto root = static_cast<std::uint32_t>(graph.functions().size());
  std::vector<FunctionCost> functions(root + 1);
  Cost sum;
  graph.for_each_stack(ChargedRows(input, paths, options), [&](const FunctionStack& stack) {
    sum.add(stack.of);
    std::uint32_t caller = root, line = 0;
    for (const FunctionStack::Step& step : stack.steps) {
      Call& call = functions[caller].calls[{line, step.function}];
      const bool leaf = &step == &stack.steps.back();
      call.count += leaf ? stack.calls : stack.of.samples;
      // As callgrind has it: what happens in a recursion is in the cost of the outermost call.
      if (step.first_of_function) call.cost.add(stack.of);
      caller = step.function, line = step.line;
    }
    functions[caller].self[line].add(stack.of);
  });

  sink(fmt::format("# callgrind format\nversion: 1\ncreator: {}\ncmd: {}\n", creator(),
                   line_of(command_of(input.head))));
  sink(
      fmt::format("positions: line\nevent: ns : Wall time of all threads (ns)\nevent: samples : Samples\n"
                  "events: ns samples\nsummary: {} {}\n",
                  sum.ns, sum.samples));
  Names objects, files, names;
  const GraphFunction of_root{"", "???", "(root)", 0};
  const auto function = [&](std::uint32_t i) -> const GraphFunction& {
    return i == root ? of_root : graph.functions()[i];
  };
  const auto object = [](const GraphFunction& of) { return of.object.empty() ? "???" : of.object; };
  std::string text;
  for (std::uint32_t at = 0; at <= root; ++at) {
    // The root first.
    const std::uint32_t i = at == 0 ? root : at - 1;
    const FunctionCost& of = functions[i];
    if (of.self.empty() && of.calls.empty()) continue;
    const GraphFunction& name = function(i);
    text = fmt::format("\nob={}\nfl={}\nfn={}\n", objects(object(name)), files(name.file), names(name.name));
    for (const auto& [line, cost] : of.self) text += fmt::format("{} {} {}\n", line, cost.ns, cost.samples);
    for (const auto& [where, call] : of.calls) {
      const GraphFunction& callee = function(where.second);
      text += fmt::format("cob={}\ncfi={}\ncfn={}\ncalls={} {}\n{} {} {}\n", objects(object(callee)),
                          files(callee.file), names(callee.name), call.count, graph.start(where.second),
                          where.first, call.cost.ns, call.cost.samples);
    }
    sink(text);
  }
}

}  // namespace clusterprof::report
