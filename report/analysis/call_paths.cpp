// SPDX-License-Identifier: BSD-3-Clause
// Decides once for each call path which function, source line, library call and MPI caller its time counts
// for. Rules: docs/metrics.md, "The user's own code", "Functions" and "Lines".
#include "report/analysis/call_paths.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "base/base_name.hpp"
#include "report/analysis/last_name.hpp"

namespace clusterprof::report {
namespace {

using shard::Frame;
using shard::FrameKind;
using shard::kNone;

// time.sleep() before Python 3.11 is a select() on nothing, for which the C library makes either call.
constexpr std::array<std::string_view, 3> kPythonSleeps = {"time_sleep", "pysleep", "floatsleep"};

// How well a frame tells who called MPI. Of the best frames, the innermost is shown.
enum class Caller : std::uint8_t {
  kNobody,
  kMpi,
  kLibrary,
  kLibraryLine,
  kLibraryPython,
  kOwn,
  kOwnLine,
  kOwnPython
};

// How well a line serves as the place of a path. Of the best lines it is the innermost, but the outermost if
// all are in libraries.
enum class Specificity : std::uint8_t { kNothing, kLibraryLine, kStandardLibrary, kPackage, kOwn };

}  // namespace

bool is_wrapper(std::string_view name) {
  return name.empty() || name.find('<') != std::string_view::npos || name == "wrapper" || name == "inner" ||
         name == "__call__" || name == "_call_with_frames_removed";
}

bool imports_modules(std::string_view file) {
  return file == "<frozen importlib._bootstrap>" || file == "<frozen importlib._bootstrap_external>";
}

namespace {

// Functions from system headers that are inlined into a program's functions.
bool is_system_header(std::string_view file) { return file.starts_with("/usr/include/"); }

constexpr std::uint32_t kWholeModule = 0xffffu;  // stands in place of a kind
constexpr const char* kNoNames = ", no names";
constexpr const char* kOfInterpreter = ", interpreter";

// The functions of Python's library in which a thread waits for threads or processes that its own program has
// started. `pools` decides for the pools of concurrent.futures and multiprocessing, whose functions are the
// same for threads and processes.
enum class Waits : std::uint8_t { kNo, kAsItsCaller, kForThreads, kForChildren };

template <std::size_t N>
bool among(std::string_view text, const std::array<std::string_view, N>& all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

Waits waits_in(std::string_view file, std::string_view name, Waits pools) {
  static constexpr std::array<std::string_view, 3> kJoins = {"join", "_wait_for_tstate_lock", "_shutdown"};
  static constexpr std::array<std::string_view, 5> kOfSubprocess = {"wait", "_wait", "communicate",
                                                                    "_communicate", "_execute_child"};
  static constexpr std::array<std::string_view, 5> kOfPools = {"get", "next", "wait", "_handle_results",
                                                               "_wait_for_updates"};
  static constexpr std::array<std::string_view, 6> kOfFutures = {
      "result", "exception", "result_iterator", "wait", "as_completed", "wait_result_broken_or_wakeup"};
  const std::string_view last = last_name(name);
  if (file.ends_with("/threading.py")) return among(last, kJoins) ? Waits::kForThreads : Waits::kAsItsCaller;
  if (file.ends_with("/selectors.py")) return Waits::kAsItsCaller;
  if (file.ends_with("/subprocess.py"))
    return among(last, kOfSubprocess) ? Waits::kForChildren : Waits::kAsItsCaller;
  if (file.find("/multiprocessing/") != std::string_view::npos) {
    const std::string_view base = base_name(file);
    if (base == "pool.py")
      return among(last, kOfPools) ? pools : last == "worker" ? Waits::kNo : Waits::kAsItsCaller;
    if (base == "process.py") return last == "join" ? Waits::kForChildren : Waits::kNo;
    if (base.starts_with("popen_"))
      return last == "wait" || last == "poll" ? Waits::kForChildren : Waits::kNo;
    return Waits::kAsItsCaller;
  }
  if (file.find("/concurrent/futures/") != std::string_view::npos)
    return among(last, kOfFutures)                          ? pools
           : last == "_process_worker" || last == "_worker" ? Waits::kNo
                                                            : Waits::kAsItsCaller;
  return Waits::kNo;
}

bool joins(std::string_view native) {
  static constexpr std::array<std::string_view, 7> kNames = {"pthread_join",
                                                             "__pthread_join",
                                                             "__pthread_clockjoin_ex",
                                                             "pthread_timedjoin_np",
                                                             "pthread_clockjoin_np",
                                                             "std::thread::join()",
                                                             "thrd_join"};
  return among(native, kNames);
}

// Returns whether a pool starts processes anywhere in the profile.
bool makes_process(std::string_view file) {
  return file.ends_with("/multiprocessing/process.py") || file.ends_with("/concurrent/futures/process.py") ||
         file.find("/multiprocessing/popen_") != std::string_view::npos;
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

bool is_descriptor_name(std::string_view name) {
  return name == shard::kOnFileName || name == shard::kOnSocketName || name == shard::kOnPipeName ||
         name == shard::kOnThreadName;
}

CallPaths::CallPaths(const shard::ShardData& data, FrameMode frames)
    : data_(data), frames_(frames), owners_(data) {
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
  called_.assign(count, 0);
  caller_.assign(count, 0);
  code_.assign(count, 0);
  awaited_.assign(count, Awaited::kOthers);
  find_owners();

  const bool all = frames == FrameMode::kAll;
  std::vector<bool> has_line(data.frames.size(), false), names_place(has_line), sleeps(has_line);
  machinery_of_frame_.assign(data.frames.size(), false);
  std::vector<Specificity> specificity(data.frames.size(), Specificity::kNothing);
  std::vector<Caller> callers(data.frames.size(), Caller::kNobody);
  for (std::size_t i = 0; i < data.frames.size(); ++i) {
    const Frame& f = data.frames[i];
    const bool python = f.kind == FrameKind::kPython, native = f.kind == FrameKind::kNative;
    if (!python && !native) continue;
    const Owner owner = owner_of_frame_[i];
    const bool own = owner == Owner::kOwn, machinery = !own && owners_.is_machinery(f);
    const bool runtime = native && is_runtime_module(text(f.module));
    machinery_of_frame_[i] = machinery;
    has_line[i] = f.line != 0 && !text(f.file).empty() && !runtime && (!machinery || (all && python)) &&
                  (own || python || !is_system_header(text(f.file)));
    names_place[i] = !runtime;
    if (has_line[i]) {
      const bool standard = python && owners_.is_standard(f);
      specificity[i] = own || all ? Specificity::kOwn
                       : !python  ? Specificity::kLibraryLine
                       : standard ? Specificity::kStandardLibrary
                                  : Specificity::kPackage;
    }
    if (python) {
      callers[i] = own         ? Caller::kOwnPython
                   : machinery ? Caller::kNobody
                   : all       ? Caller::kOwnPython
                               : Caller::kLibraryPython;
    } else {
      const bool line = f.line != 0 && !text(f.file).empty();
      callers[i] = owner == Owner::kInterpreter    ? Caller::kNobody
                   : is_mpi_module(text(f.module)) ? Caller::kMpi
                   : own && line                   ? Caller::kOwnLine
                   : own                           ? Caller::kOwn
                   : line                          ? Caller::kLibraryLine
                                                   : Caller::kLibrary;
      sleeps[i] = std::find(kPythonSleeps.begin(), kPythonSleeps.end(), text(f.name)) != kPythonSleeps.end();
    }
  }
  const bool has_processes = std::any_of(data.frames.begin(), data.frames.end(), [&](const Frame& f) {
    return f.kind == FrameKind::kPython && makes_process(text(f.file));
  });
  std::vector<Waits> waits(data.frames.size(), Waits::kAsItsCaller);
  for (std::size_t i = 0; i < data.frames.size(); ++i) {
    const Frame& f = data.frames[i];
    if (f.kind == FrameKind::kPython)
      waits[i] =
          waits_in(text(f.file), text(f.name), has_processes ? Waits::kForChildren : Waits::kForThreads);
    else if (f.kind == FrameKind::kNative && joins(text(f.name)))
      waits[i] = Waits::kForThreads;
  }
  const auto of_frame = [&](const auto& table, std::uint32_t path) {
    using Value = std::remove_cvref_t<decltype(table[0])>;
    return frame(path) == nullptr ? Value{} : static_cast<Value>(table[data.paths[path].frame]);
  };
  // Whether the user's code, with or without lines, is on the path.
  std::vector<bool> own_above(count, false);
  for (std::uint32_t path = 1; path < count; ++path) {
    const std::uint32_t parent = data.paths[path].parent;
    parent_[path] = parent < path ? parent : 0;
    const std::uint32_t above = parent_[path];
    const Frame* f = frame(path);
    const bool python = f != nullptr && f->kind == FrameKind::kPython;
    const bool native = f != nullptr && f->kind == FrameKind::kNative;
    const bool garbage = native && text(f->name) == shard::kGarbageName;
    python_[path] = python || garbage ? path : python_[above];
    garbage_[path] = garbage || (!python && garbage_[above]);
    import_[path] = import_[above] || (python && imports_modules(text(f->file)));
    descriptor_[path] = f != nullptr && f->kind == FrameKind::kKernel && is_descriptor_name(text(f->name));
    region_[path] = f != nullptr && f->kind == FrameKind::kRegion ? path : region_[above];
    // A region is not code that the interpreter could be running.
    const bool interpreter = native && !garbage && owner_[path] == Owner::kInterpreter && !all;
    const Frame* const around = frame(code_[above]);
    code_[path] =
        interpreter && around != nullptr && around->kind != FrameKind::kRegion ? code_[above] : path;

    // Everything follows from the parent's values, whatever the depth: there may be many paths, and deep
    // ones.
    const Specificity known = of_frame(specificity, source_[above]), here = of_frame(specificity, path);
    const bool outermost = here == Specificity::kStandardLibrary || here == Specificity::kPackage;
    source_[path] =
        here != Specificity::kNothing && (outermost ? here > known : here >= known) ? path : source_[above];
    const bool own =
        (python || native) && (owner_[path] == Owner::kOwn || all) && of_frame(names_place, path);
    own_above[path] = own || own_above[above];
    const bool has_own_line = of_frame(specificity, source_[path]) == Specificity::kOwn;
    place_[path] = has_own_line                                                    ? source_[path]
                   : own                                                           ? path
                   : own_above[path]                                               ? place_[above]
                   : source_[path] != 0                                            ? source_[path]
                   : (python || native) && of_frame(names_place, path) && !garbage ? path
                                                                                   : place_[above];
    const std::uint32_t caller = caller_[above];
    const Caller candidate = of_frame(callers, path);
    caller_[path] = candidate != Caller::kNobody && candidate >= of_frame(callers, caller) ? path : caller;
    switch (f == nullptr ? Waits::kNo : waits[data.paths[path].frame]) {
      case Waits::kNo:
        break;
      case Waits::kAsItsCaller:
        awaited_[path] = awaited_[above];
        break;
      case Waits::kForThreads:
        awaited_[path] = Awaited::kThreads;
        break;
      case Waits::kForChildren:
        awaited_[path] = Awaited::kChildren;
        break;
    }
    python_sleep_[path] = native && (sleeps[data.paths[path].frame] || python_sleep_[above]);

    // Below the user's code, take the first function that somebody would call by its name.
    if (!own_above[path] || place_[path] != place_[above] || place_[path] == path) continue;
    called_[path] = called_[above];
    const bool library = owner_[path] == Owner::kLibrary && of_frame(names_place, path) && !garbage && !all &&
                         !(python && imports_modules(text(f->file)));
    if (!library || (native && has_no_name(text(f->name), text(f->module)) && called_[path] != 0)) continue;
    const Frame* const so_far = frame(called_[path]);
    if (so_far == nullptr || (is_wrapper(text(so_far->name)) && !is_wrapper(text(f->name)) && python))
      called_[path] = path;
  }
  name_functions_and_lines();
  find_outermost();
}

void CallPaths::find_owners() {
  owner_of_frame_.reserve(data_.frames.size());
  for (const Frame& f : data_.frames) owner_of_frame_.push_back(owners_.of(f));
  owner_.assign(data_.paths.size(), Owner::kOwn);
  for (std::uint32_t path = 1; path < owner_.size(); ++path)
    if (frame(path) != nullptr) owner_[path] = owner_of_frame_[data_.paths[path].frame];
}

bool CallPaths::is_machinery(std::uint32_t path) const {
  return frame(path) != nullptr && machinery_of_frame_[data_.paths[path].frame];
}

std::string_view CallPaths::package(std::uint32_t path) const {
  const Frame* const f = frame(path);
  return f == nullptr ? std::string_view() : owners_.package(*f);
}

std::string CallPaths::library_name(std::uint32_t path) const {
  const Frame* const f = frame(path);
  if (f == nullptr) return {};
  std::string name(owners_.package(*f));
  std::string_view function = text(f->name);
  if (f->kind == FrameKind::kNative && has_no_name(function, text(f->module))) return name;
  // "outer.<locals>.inner" is shown as "inner".
  constexpr std::string_view kLocals = "<locals>.";
  if (const std::size_t at = function.rfind(kLocals); at != std::string_view::npos)
    function.remove_prefix(at + kLocals.size());
  if (function == "<module>") return name;
  if (!name.empty() && !function.empty()) name += '.';
  return name.append(function);
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
  // In data that no interner made, equal strings may have several indices.
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
    // One function stands for the whole module if its functions have no names or are the interpreter's.
    const bool folded =
        frames_ == FrameMode::kFolded && f.kind == FrameKind::kNative && text(f.name) != shard::kGarbageName;
    const bool nameless = folded && has_no_name(text(f.name), text(f.module)) && !text(f.module).empty();
    const bool interpreter = folded && owner_of_frame_[i] == Owner::kInterpreter;
    const std::uint32_t module = same(f.module);
    const Key function = nameless || interpreter ? Key{kWholeModule, interpreter, 0, module, 0}
                                                 : Key{static_cast<std::uint32_t>(f.kind), same(f.name),
                                                       same(f.file), module, start};
    const auto [id, is_new] =
        function_ids.try_emplace(function, static_cast<std::uint32_t>(functions_.size()));
    if (is_new) {
      functions_.push_back(&f);
      std::string& name = function_names_.emplace_back(text(f.name));
      if (interpreter || nameless)
        name = std::string(module_name(text(f.module))) + (interpreter ? kOfInterpreter : kNoNames);
    }
    // Frames of one native function may disagree on where it starts; take the first known line.
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
  // Goes depth first and keeps track of the functions and lines entered at every path.
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
  if (category == shard::Category::kPython && python_[path] != 0) return python_[path];
  return code_[path];
}

}  // namespace clusterprof::report
