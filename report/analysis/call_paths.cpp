// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/call_paths.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

namespace clusterprof::report {
namespace {

using shard::Frame;
using shard::FrameKind;
using shard::kNone;

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

template <std::size_t N>
bool starts_with_any(std::string_view text, const std::array<std::string_view, N>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return text.starts_with(prefix); });
}

bool has_component(std::string_view path, std::string_view component) {
  for (std::size_t at = path.find(component); at != std::string_view::npos;
       at = path.find(component, at + 1)) {
    const std::size_t end = at + component.size();
    if ((at == 0 || path[at - 1] == '/') && (end == path.size() || path[end] == '/')) return true;
  }
  return false;
}

// Code between the user's line and what it asked for: mpi4py, the import machinery (which also
// is between `from mpi4py import MPI` and MPI_Init), the system's headers inlined into a program.
bool is_glue(std::string_view file) {
  return has_component(file, "mpi4py") || file.starts_with("<frozen importlib") ||
         file.starts_with("/usr/include/");
}

// time.sleep() before Python 3.11 is a select() on nothing, for which the C library makes either call.
constexpr std::array<std::string_view, 3> kPythonSleeps = {"time_sleep", "pysleep", "floatsleep"};

// How well a frame says who called MPI: the innermost of the best is shown.
enum class Caller : std::uint8_t { kNobody, kNative, kOutsideMpi, kWithFile, kPython };

bool imports(std::string_view file) {
  return file == "<frozen importlib._bootstrap>" || file == "<frozen importlib._bootstrap_external>";
}

struct IdentityHash {
  std::size_t operator()(const std::array<std::uint32_t, 5>& key) const noexcept {
    std::uint64_t hash = 0x9e37'79b9'7f4a'7c15ull;
    for (const std::uint32_t part : key) {
      hash = (hash ^ part) * 0xff51'afd7'ed55'8ccdull;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace

bool is_mpi_module(std::string_view module_path) {
  static constexpr std::array<std::string_view, 5> kPrefixes = {"libmpi", "libpmpi", "libopen-rte",
                                                                "libopen-pal", "libfmpich"};
  return starts_with_any(base_name(module_path), kPrefixes);
}

bool is_runtime_module(std::string_view module_path) {
  static constexpr std::array<std::string_view, 11> kPrefixes = {
      "python3",    "libpython3", "libc.so", "libc-2", "libm.so",   "libm-2",
      "libpthread", "ld-linux",   "ld-2",    "[vdso]", "linux-vdso"};
  return base_name(module_path) == "python" || starts_with_any(base_name(module_path), kPrefixes) ||
         is_mpi_module(module_path);
}

bool is_descriptor_name(std::string_view name) {
  return name == shard::kOnFileName || name == shard::kOnSocketName || name == shard::kOnPipeName;
}

CallPaths::CallPaths(const shard::ShardData& data) : data_(data) {
  const std::size_t count = data.paths.size();
  parent_.assign(count, 0);
  python_.assign(count, 0);
  source_.assign(count, 0);
  region_.assign(count, 0);
  import_.assign(count, false);
  garbage_.assign(count, false);
  descriptor_.assign(count, false);
  python_sleep_.assign(count, false);
  place_.assign(count, 0);
  caller_.assign(count, 0);

  std::vector<bool> has_source(data.frames.size(), false), of_program(has_source), sleeps(has_source);
  std::vector<Caller> callers(data.frames.size(), Caller::kNobody);
  for (std::size_t i = 0; i < data.frames.size(); ++i) {
    const Frame& f = data.frames[i];
    const bool code = f.kind == FrameKind::kPython || f.kind == FrameKind::kNative;
    has_source[i] = code && f.line != 0 && !text(f.file).empty() && !is_glue(text(f.file)) &&
                    (f.kind == FrameKind::kPython || !is_runtime_module(text(f.module)));
    of_program[i] = code && (f.kind == FrameKind::kPython || !is_runtime_module(text(f.module)));
    if (f.kind == FrameKind::kPython) {
      if (!is_glue(text(f.file))) callers[i] = Caller::kPython;
    } else if (f.kind == FrameKind::kNative) {
      callers[i] = is_mpi_module(text(f.module))          ? Caller::kNative
                   : f.line != 0 && !text(f.file).empty() ? Caller::kWithFile
                                                          : Caller::kOutsideMpi;
      sleeps[i] = std::find(kPythonSleeps.begin(), kPythonSleeps.end(), text(f.name)) != kPythonSleeps.end();
    }
  }
  const auto caller_of = [&](std::uint32_t path) {
    return frame(path) == nullptr ? Caller::kNobody : callers[data.paths[path].frame];
  };
  for (std::uint32_t path = 1; path < count; ++path) {
    const std::uint32_t parent = data.paths[path].parent;
    parent_[path] = parent < path ? parent : 0;
    const Frame* f = frame(path);
    const bool python = f != nullptr && f->kind == FrameKind::kPython;
    const bool garbage =
        f != nullptr && f->kind == FrameKind::kNative && text(f->name) == shard::kGarbageName;
    python_[path] = python || garbage ? path : python_[parent_[path]];
    garbage_[path] = garbage || (!python && garbage_[parent_[path]]);
    import_[path] = import_[parent_[path]] || (python && imports(text(f->file)));
    descriptor_[path] = f != nullptr && f->kind == FrameKind::kKernel && is_descriptor_name(text(f->name));
    region_[path] = f != nullptr && f->kind == FrameKind::kRegion ? path : region_[parent_[path]];
    source_[path] = f != nullptr && has_source[data.paths[path].frame] ? path : source_[parent_[path]];
    // Whatever the depth, all of it is known from the parent's: paths may be many, and deep.
    place_[path] = source_[path] != 0                                   ? source_[path]
                   : f != nullptr && of_program[data.paths[path].frame] ? path
                                                                        : place_[parent_[path]];
    const std::uint32_t above = caller_[parent_[path]];
    const Caller own = caller_of(path);
    caller_[path] = own != Caller::kNobody && own >= caller_of(above) ? path : above;
    python_sleep_[path] = f != nullptr && f->kind == FrameKind::kNative &&
                          (sleeps[data.paths[path].frame] || python_sleep_[parent_[path]]);
  }
  name_functions_and_lines();
  find_outermost();
}

const Frame* CallPaths::frame(std::uint32_t path) const {
  const std::uint32_t index = data_.paths[path].frame;
  return path != 0 && index < data_.frames.size() ? &data_.frames[index] : nullptr;
}

const std::string& CallPaths::text(shard::StringIndex index) const {
  static const std::string kEmpty;
  return index < data_.strings.size() ? data_.strings[index] : kEmpty;
}

void CallPaths::name_functions_and_lines() {
  // Equal strings may have several indices in data that was not made by an interner.
  std::unordered_map<std::string_view, std::uint32_t> first;
  first.reserve(data_.strings.size());
  std::vector<std::uint32_t> canonical(data_.strings.size());
  for (std::uint32_t i = 0; i < data_.strings.size(); ++i)
    canonical[i] = first.try_emplace(data_.strings[i], i).first->second;
  const auto same = [&](shard::StringIndex index) {
    return index < canonical.size() ? canonical[index] : first.try_emplace("", 0).first->second;
  };

  using Key = std::array<std::uint32_t, 5>;
  std::unordered_map<Key, std::uint32_t, IdentityHash> function_ids, line_ids;
  std::vector<std::uint32_t> frame_function(data_.frames.size(), kNone), frame_line(frame_function);
  for (std::size_t i = 0; i < data_.frames.size(); ++i) {
    const Frame& f = data_.frames[i];
    if (f.kind == FrameKind::kRegion) continue;
    // Before 3.11 Python functions have no qualified name: methods of two classes in one file
    // differ in their line alone.
    const std::uint32_t start = f.kind == FrameKind::kPython ? f.function_line : 0;
    const Key function{static_cast<std::uint32_t>(f.kind), same(f.name), same(f.file), same(f.module), start};
    const auto [id, is_new] =
        function_ids.try_emplace(function, static_cast<std::uint32_t>(functions_.size()));
    if (is_new) functions_.push_back(&f);
    // Places of one native function may disagree on where it starts; take the first line known.
    const Frame*& shown = functions_[id->second];
    if (f.function_line != 0 && (shown->function_line == 0 || f.function_line < shown->function_line))
      shown = &f;
    frame_function[i] = id->second;

    if (f.line == 0 || text(f.file).empty()) continue;
    const Key line{static_cast<std::uint32_t>(f.kind), same(f.name), same(f.file), f.line, 0};
    const auto [line_id, line_is_new] = line_ids.try_emplace(line, static_cast<std::uint32_t>(lines_.size()));
    if (line_is_new) lines_.push_back(&f);
    frame_line[i] = line_id->second;
  }

  function_.assign(size(), kNone);
  line_.assign(size(), kNone);
  for (std::uint32_t path = 1; path < size(); ++path) {
    if (frame(path) == nullptr) continue;
    function_[path] = frame_function[data_.paths[path].frame];
    line_[path] = frame_line[data_.paths[path].frame];
  }
}

void CallPaths::find_outermost() {
  outermost_function_.assign(size(), false);
  outermost_line_.assign(size(), false);
  // Depth first: which functions and lines are entered, at every path.
  std::vector<std::uint32_t> first_child(size(), 0), sibling(size(), 0);
  for (auto path = static_cast<std::uint32_t>(size()); path-- > 1;) {
    sibling[path] = first_child[parent_[path]];
    first_child[parent_[path]] = path;
  }
  std::vector<std::uint32_t> functions(functions_.size(), 0), lines(lines_.size(), 0);  // how often entered
  std::uint32_t path = size() == 0 ? 0 : first_child[0];
  while (path != 0) {
    if (function_[path] != kNone) outermost_function_[path] = functions[function_[path]]++ == 0;
    if (line_[path] != kNone) outermost_line_[path] = lines[line_[path]]++ == 0;
    if (first_child[path] != 0) {
      path = first_child[path];
      continue;
    }
    while (path != 0) {
      if (function_[path] != kNone) --functions[function_[path]];
      if (line_[path] != kNone) --lines[line_[path]];
      if (sibling[path] != 0) break;
      path = parent_[path];
    }
    if (path != 0) path = sibling[path];
  }
}

std::uint32_t CallPaths::counted(std::uint32_t path, shard::Category category) const {
  if (descriptor_[path]) path = parent_[path];
  if (category != shard::Category::kPython || python_[path] == 0) return path;
  return python_[path];
}

}  // namespace clusterprof::report
