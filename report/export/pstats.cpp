// SPDX-License-Identifier: BSD-3-Clause
// What cProfile's dump_stats() writes: a dictionary {(file, line, name): (cc, nc, tt, ct, callers)} as
// Python's marshal module has it, in the types that every version from 3.0 on reads.
#include <bit>
#include <cstring>
#include <map>
#include <string>

#include "report/export/export.hpp"
#include "report/export/function_graph.hpp"
#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

class Marshal {
 public:
  explicit Marshal(const ExportSink& sink) : sink_(sink) {}

  void begin_dictionary() { byte('{'); }
  void end_dictionary() { byte('0'); }
  void tuple(std::uint32_t size) { byte('('), u32(size); }
  void number(std::uint64_t value) {
    if (value <= INT32_MAX) return byte('i'), u32(static_cast<std::uint32_t>(value));
    byte('l');
    constexpr unsigned kDigit_bits = 15;
    const auto digits = static_cast<std::uint32_t>((std::bit_width(value) + kDigit_bits - 1) / kDigit_bits);
    u32(digits);
    for (std::uint32_t i = 0; i < digits; ++i, value >>= kDigit_bits) {
      byte(static_cast<char>(value & 0xff));
      byte(static_cast<char>(value >> 8 & 0x7f));
    }
  }
  void seconds(std::uint64_t ns) {
    byte('g');
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(ns) / 1e9);
    for (unsigned shift = 0; shift < 64; shift += 8) byte(static_cast<char>(bits >> shift & 0xff));
  }
  void text(const std::string& text) {
    const std::string valid = format::replace_invalid(text);
    byte('u'), u32(static_cast<std::uint32_t>(valid.size()));
    buffer_ += valid;
  }
  void flush(std::size_t from_bytes = 0) {
    if (buffer_.size() < from_bytes) return;
    sink_(buffer_);
    buffer_.clear();
  }

 private:
  void byte(char value) { buffer_ += value; }
  void u32(std::uint32_t value) {
    for (unsigned shift = 0; shift < 32; shift += 8) byte(static_cast<char>(value >> shift & 0xff));
  }

  const ExportSink& sink_;
  std::string buffer_;
};

struct Calls {
  std::uint64_t primitive = 0, all = 0;  // calls: without those in recursion; with them
  std::uint64_t self_ns = 0, total_ns = 0;
};

// What has no file is named as cProfile names built-in functions.
GraphFunction pstats_key(const CallPaths& paths, const shard::Frame* frame) {
  if (frame == nullptr) return {"", "~", "(outside all calls)", 0};
  GraphFunction function{"", paths.text(frame->file), paths.text(frame->name), frame->function_line};
  if (function.file.empty()) function.file = paths.text(frame->module), function.line = 0;
  if (function.file.empty()) function.file = "~", function.line = 0;
  // Python 3 has no strings with bytes that are not UTF-8, so these are told apart no more.
  function.file = format::replace_invalid(function.file);
  function.name = format::replace_invalid(function.name);
  return function;
}

}  // namespace

void export_pstats(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const CallPaths paths(input.head, FrameMode::kAll);
  const FunctionGraph graph(paths, [&](const shard::Frame* frame) { return pstats_key(paths, frame); });
  std::vector<Calls> functions(graph.functions().size());
  std::vector<std::map<std::uint32_t, Calls>> callers(functions.size());
  std::vector<bool> used(functions.size(), false);
  graph.for_each_stack(ChargedRows(input, paths, options), [&](const FunctionStack& stack) {
    for (std::size_t i = 0; i < stack.steps.size(); ++i) {
      const FunctionStack::Step& step = stack.steps[i];
      const bool leaf = i + 1 == stack.steps.size();
      const std::uint64_t calls = leaf ? stack.calls : stack.of.samples;
      const auto count = [&](Calls& of, bool first) {
        of.all += calls;
        if (leaf) of.self_ns += stack.of.time_ns;
        if (first) of.primitive += calls, of.total_ns += stack.of.time_ns;
      };
      used[step.function] = true;
      count(functions[step.function], step.first_of_function);
      if (i != 0) count(callers[step.function][stack.steps[i - 1].function], step.first_of_edge);
    }
  });

  constexpr std::size_t kFlush_bytes = 1 << 16;
  Marshal out(sink);
  const auto key = [&](std::uint32_t function) {
    const GraphFunction& name = graph.functions()[function];
    out.tuple(3);
    out.text(name.file);
    out.number(name.line);
    out.text(name.name);
  };
  out.begin_dictionary();
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    if (!used[i]) continue;
    key(i);
    out.tuple(5);
    out.number(functions[i].primitive);
    out.number(functions[i].all);
    out.seconds(functions[i].self_ns);
    out.seconds(functions[i].total_ns);
    out.begin_dictionary();
    for (const auto& [caller, calls] : callers[i]) {
      key(caller);
      out.tuple(4);  // here the other way round
      out.number(calls.all);
      out.number(calls.primitive);
      out.seconds(calls.self_ns);
      out.seconds(calls.total_ns);
    }
    out.end_dictionary();
    out.flush(kFlush_bytes);
  }
  out.end_dictionary();
  out.flush();
}

}  // namespace clusterprof::report
