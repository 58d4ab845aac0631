// SPDX-License-Identifier: BSD-3-Clause
// In order of use: resolve() looks for known callers, build() makes a path of frames, read_frames() finds
// what each word stands for. Called at every sample whose stack is new, by the thread that polls.
#include "collector/stacks/stack_resolver.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>

#include "base/base_name.hpp"
#include "collector/stacks/code_at.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxCachedStacks = 1u << 15;

// Nothing of the user's: what a run time of OpenMP consists of, and what it calls.
bool is_below_openmp(ModuleRole role) {
  return role == ModuleRole::kOpenMp || role == ModuleRole::kAgent || role == ModuleRole::kSystem;
}

// Whether the file is a part of PyTorch, or of the run time of C++ that it calls.
bool is_of_pytorch(std::string_view path) {
  constexpr std::array<std::string_view, 4> kLibraries = {"libtorch", "libc10", "libshm", "libstdc++"};
  const std::string_view name = base_name(path);
  return path.find("-packages/torch/") != std::string_view::npos ||
         std::any_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view library) { return name.starts_with(library); });
}

// The most regions that a path goes on with, one inside the other.
constexpr int kMaxJoined = 16;

bool is_wait(wire::OmpActivity activity) { return activity > wire::OmpActivity::kWork; }

bool is_mpi(ModuleRole role) { return role == ModuleRole::kMpiWrapper || role == ModuleRole::kMpiLibrary; }

}  // namespace

StackResolver::StackResolver(const SegmentView& segment, RawStore& store, DropCounts& drops,
                             std::uint32_t base)
    : segment_(segment),
      store_(store),
      drops_(drops),
      base_(base),
      modules_(segment, store, drops),
      generated_(segment, store, drops),
      codes_(segment, store, drops),
      regions_(segment, store,
               [this](std::uint64_t offset, std::uint32_t words) { return forward_frame(offset, words); }),
      pending_(store, modules_, generated_, codes_, regions_, segment.header().pid) {
  store_.add_process_root(base_);
  const RawTables& tables = store_.tables();
  for (std::uint32_t node = base_; node != 0 && !store_.is_region(node); node = tables.nodes[node].parent)
    base_frames_.push_back(tables.nodes[node].frame);
  std::reverse(base_frames_.begin(), base_frames_.end());
}

void StackResolver::read_descriptions(std::uint64_t now_ns) {
  read_code();
  pending_.settle(now_ns);
}

void StackResolver::finish(std::int32_t pid, std::int64_t process_start_utc_ns, std::uint64_t now_ns) {
  read_code();
  codes_.expect_news();
  regions_.expect_no_more();
  pending_.settle(now_ns);
  pending_.name_generated_code(pid, process_start_utc_ns);
}

Stack StackResolver::resolve(std::span<const std::uint64_t> words, const StackContext& context) {
  std::optional<Frame> leaf;
  if (!words.empty() && (words[0] & wire::kFrameTagMask) == 0 && !context.call_site) {
    leaf = native_frame(words[0], true, context.epoch);
    words = words.subspan(1);
  }
  std::uint64_t seed = (std::uint64_t{context.epoch} << 32) | (std::uint64_t{context.mpi_op} << 8) |
                       (context.collecting_garbage ? 128u : 0u) | (context.call_site ? 64u : 0u);
  if (leaf) seed |= 1u + static_cast<std::uint64_t>(leaf->role);
  seed ^= seed_of_pool(context);
  seed ^= (is_wait(context.openmp) ? 1ull : 0ull) << 56;
  seed ^= mix(store_.openings());
  const std::uint64_t hash = XXH3_64bits_withSeed(words.data(), words.size_bytes(), seed);
  Stack stack;
  if (const std::uint32_t found = cache_.find(hash); found != FlatIndex::kAbsent) {
    stack = stacks_[found];
  } else {
    stack = build(leaf, words, context);
    if (stack.settled) {
      if (stacks_.size() >= kMaxCachedStacks) {
        cache_.clear();
        stacks_.clear();
      }
      cache_.insert(hash, static_cast<std::uint32_t>(stacks_.size()));
      stacks_.push_back(stack);
    }
  }
  const auto extend = [&](const RawFrame& frame) {
    stack.path = store_.leaf(stack.path, store_.frame(frame));
  };
  if (stack.leaf_shown) stack.path = store_.leaf(stack.path, leaf->frame);
  if (leaf) stack.settled = stack.settled && leaf->settled;
  if (context.mpi_op != 0) {
    extend({RawKind::kMpi, context.mpi_op - 1, 0});
  } else if (is_wait(context.openmp) && !context.call_site) {
    extend({RawKind::kOmpWait, static_cast<std::uint32_t>(context.openmp), 0});
  } else {
    if (context.in_syscall) extend({RawKind::kKernel, static_cast<std::uint32_t>(context.syscall_nr), 0});
    if (context.in_syscall && context.descriptor)
      extend({RawKind::kDescriptor, static_cast<std::uint32_t>(*context.descriptor), 0});
    if (context.waiting_for_gil) extend({RawKind::kGilWait, 0, 0});
  }
  return stack;
}

std::optional<std::uint32_t> StackResolver::call_site_path(std::uint64_t arena_offset, std::uint32_t count,
                                                           std::uint32_t mpi_op) {
  const auto& layout = segment_.layout();
  std::array<std::uint64_t, wire::kMaxFrameWords> words;
  StackContext context;
  context.mpi_op = mpi_op;
  context.call_site = true;
  context.epoch = 0xffff'ffffu;
  if (count > words.size() || !segment_.copy(layout.path_arena_offset, layout.path_arena_bytes, arena_offset,
                                             words.data(), 8ull * count))
    return std::nullopt;
  const std::uint32_t path = resolve({words.data(), count}, context).path;
  left_callers_out_ = left_callers_out_ || store_.is_short(path);
  return path;
}

std::optional<std::uint32_t> StackResolver::openmp_path(std::uint32_t site) {
  if (store_.was_opened_since(openings_seen_)) openmp_paths_.clear();
  if (const auto known = openmp_paths_.find(site); known != openmp_paths_.end()) return known->second;
  const std::optional<std::span<const std::uint64_t>> found = words_of_site(site);
  if (!found || found->empty()) return std::nullopt;
  const std::vector<std::uint64_t> words(found->begin(),
                                         found->end());  // the path may go on with other sites
  StackContext context;
  context.openmp = wire::OmpActivity::kBarrier;  // leaves the run time's frames out
  context.call_site = true;
  context.epoch = 0xffff'ffffu;
  const Stack stack = resolve(words, context);
  left_callers_out_ = left_callers_out_ || store_.is_short(stack.path);
  if (!stack.settled) return stack.path;
  openmp_paths_[site] = stack.path;
  const wire::OmpSite& row = segment_.table<wire::OmpSite>(segment_.layout().omp_sites_offset)[site];
  if (const std::uint32_t body = frame_before(row.code); body != kNoFrame)
    store_.add_region_body(stack.path, body);
  return stack.path;
}

std::uint32_t StackResolver::frame_before(std::uint64_t code) {
  if (code == 0 || (code & wire::kFrameTagMask) != 0) return kNoFrame;
  const Frame frame = native_frame(code, false, 0xffff'ffffu);
  return frame.settled ? frame.frame : kNoFrame;
}

std::optional<std::uint32_t> StackResolver::creation_path(std::uint64_t arena_offset, std::uint32_t words) {
  if (words == 0) return std::nullopt;
  std::optional<std::uint32_t> path = call_site_path(arena_offset, words, 0);
  const RawTables& tables = store_.tables();
  const auto is_of_system = [&](const RawFrame& frame) {
    if (frame.kind != RawKind::kNativeExact && frame.kind != RawKind::kNativeReturn) return false;
    const ModuleRole role = tables.modules[frame.a]->role;
    return role == ModuleRole::kSystem || role == ModuleRole::kInterpreter;
  };
  while (path && *path != 0 && is_of_system(tables.frames[tables.nodes[*path].frame]))
    path = tables.nodes[*path].parent;
  return path;
}

StackResolver::ThreadOrigin StackResolver::origin_of_module(std::uint32_t module) const {
  const ModuleInfo& info = *store_.tables().modules[module];
  if (info.role == ModuleRole::kInterpreter) return {ThreadOf::kPython};
  // std::thread starts everybody's threads there.
  const std::string_view name = std::string_view(info.path).substr(info.path.rfind('/') + 1);
  if (info.role == ModuleRole::kSystem || name.starts_with("libstdc++") || name.starts_with("libc++"))
    return {ThreadOf::kUnknown};
  return thread_pool_of(info.path) != nullptr ? ThreadOrigin{ThreadOf::kPool, module, module}
                                              : ThreadOrigin{ThreadOf::kOther, kNoModule, module};
}

const ThreadPool* StackResolver::pool(std::uint32_t module) const {
  return thread_pool_of(store_.tables().modules[module]->path);
}

StackResolver::ThreadOrigin StackResolver::origin_of_start(std::uint64_t start_function) {
  if (start_function == 0 || (start_function & wire::kFrameTagMask) != 0) return {};
  const std::uint32_t epoch = segment_.header().module_epoch.load(std::memory_order_acquire);
  const ModuleMap::Mapping* mapping = modules_.find(start_function, epoch);
  if (mapping == nullptr) {
    modules_.read();
    mapping = modules_.find(start_function, epoch);
  }
  return mapping == nullptr ? ThreadOrigin{} : origin_of_module(mapping->module);
}

StackResolver::ThreadOrigin StackResolver::origin_on_path(std::uint32_t path) const {
  const RawTables& tables = store_.tables();
  ThreadOrigin outermost;
  for (; path != 0 && path != base_; path = tables.nodes[path].parent) {
    const RawFrame& frame = tables.frames[tables.nodes[path].frame];
    if (frame.kind == RawKind::kPython) outermost = {ThreadOf::kPython};
    if (frame.kind != RawKind::kNativeExact && frame.kind != RawKind::kNativeReturn) continue;
    if (const ThreadOrigin origin = origin_of_module(frame.a); origin.of != ThreadOf::kUnknown)
      outermost = origin;
  }
  return outermost;
}

std::uint32_t StackResolver::start_path(std::uint64_t start_function, std::uint32_t pool) {
  if (start_function == 0 || (start_function & wire::kFrameTagMask) != 0) return base_;
  StackContext context;
  context.pool = pool;
  context.epoch = segment_.header().module_epoch.load(std::memory_order_acquire);
  return resolve({&start_function, 1}, context).path;
}

bool StackResolver::is_module_body(std::uint64_t code_id) const {
  const std::optional<std::uint32_t> code = codes_.index(code_id);
  return code && store_.tables().codes[*code]->name == "<module>";
}

StackResolver::DataPlace StackResolver::data_place(std::uint64_t address) {
  const std::uint32_t epoch = segment_.header().module_epoch.load(std::memory_order_acquire);
  modules_.read();
  const ModuleMap::Mapping* const mapping = modules_.find(address, epoch);
  if (mapping == nullptr) return {};
  return {mapping->module, address - mapping->load_bias};
}

std::string StackResolver::place_in_module(std::uint64_t pc) {
  const DataPlace place = data_place(pc);
  if (place.module == kNoModule) return {};
  return fmt::format("{}+{:#x}", base_name(store_.tables().modules[place.module]->path), place.elf_address);
}

void StackResolver::read_code() {
  modules_.read();
  generated_.read();
  if (!generated_.take_replaced()) return;
  ++replacements_;
  cache_.clear();  // its stacks have the names of what was there
  stacks_.clear();
}

StackResolver::Frame StackResolver::native_frame(std::uint64_t word, bool exact, std::uint32_t epoch) {
  std::optional<CodeAt> code = code_at(modules_, generated_, word, exact, epoch);
  if (!code) {
    // Perhaps it was described after this round began.
    modules_.read();
    generated_.read();
    code = code_at(modules_, generated_, word, exact, epoch);
  }
  if (!code) return {pending_.address(word, exact, epoch), false, ModuleRole::kProgram, false};
  return {store_.frame(code->frame), false, code->role, true};
}

StackResolver::Frame StackResolver::python_frame(std::uint64_t code_id, std::uint64_t word) {
  const std::uint64_t instruction = word & (wire::kApproximateLine | 0xffff'ffffu);
  switch (codes_.find(code_id)) {
    case CodeObjects::State::kKnown:
      return {store_.frame({RawKind::kPython, *codes_.index(code_id), instruction}), true, {}, true};
    case CodeObjects::State::kNever:
      return {store_.unknown(shard::FrameKind::kPython), true, {}, true};
    case CodeObjects::State::kNotYet:
      break;
  }
  return {pending_.code(code_id, instruction), true, {}, false};
}

StackResolver::Frame StackResolver::region_frame(std::uint32_t index) {
  const std::optional<RawFrame> frame = regions_.frame(index);
  if (!frame) return {pending_.region(index), false, {}, false};
  return {store_.frame(*frame), false, {}, true};
}

RegionPaths::Forward StackResolver::forward_frame(std::uint64_t arena_offset, std::uint32_t count) {
  const auto& layout = segment_.layout();
  std::array<std::uint64_t, wire::kMaxFrameWords> words;
  if (count > words.size()) return {};
  if (!segment_.copy(layout.path_arena_offset, layout.path_arena_bytes, arena_offset, words.data(),
                     8ull * count))
    return {};
  const RawTables& tables = store_.tables();
  RegionPaths::Forward found;
  std::optional<std::uint32_t> native, of_torch;  // what there is without a caller in Python
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t tag = words[i] & wire::kFrameTagMask;
    if (tag == wire::kPythonFrameTag && i + 1 < count) {
      const Frame frame = python_frame(words[i + 1], words[i]);
      ++i;
      found.settled = found.settled && frame.settled;
      const RawFrame& raw = tables.frames[frame.frame];
      if (raw.kind != RawKind::kPython) continue;
      if (!is_of_pytorch(tables.codes[raw.a]->file)) {
        found.frame = frame.frame;
        return found;
      }
      if (!of_torch) of_torch = frame.frame;
    } else if (tag == 0 && !native) {
      // The first one is the call itself and not what is behind it.
      const Frame frame = native_frame(words[i] + (i == 0 ? 1 : 0), false, 0xffff'ffffu);
      const RawFrame& raw = tables.frames[frame.frame];
      if (frame.settled && frame.role == ModuleRole::kProgram && !is_of_pytorch(tables.modules[raw.a]->path))
        native = frame.frame;
    }
  }
  found.frame = native ? native : of_torch;
  return found;
}

std::optional<std::span<const std::uint64_t>> StackResolver::words_of_site(std::uint32_t site) {
  const std::span<const std::uint64_t> none;
  const auto& layout = segment_.layout();
  if (site >= layout.omp_sites) return none;
  const wire::OmpSite& row = segment_.table<wire::OmpSite>(layout.omp_sites_offset)[site];
  if (row.ready.load(std::memory_order_acquire) != 1) return std::nullopt;
  const std::uint32_t count = row.path_words;
  const std::uint64_t offset = row.path_offset;
  if (count == 0 || count > wire::kMaxFrameWords) return none;
  site_words_.resize(count);
  if (!segment_.copy(layout.path_arena_offset, layout.path_arena_bytes, offset, site_words_.data(),
                     8ull * count)) {
    drops_.add("damaged_openmp");
    return none;
  }
  // It is that of the call itself. In a stack of the thread that has made the call, it is the one behind it.
  if ((site_words_[0] & wire::kFrameTagMask) == 0) ++site_words_[0];
  return site_words_;
}

bool StackResolver::read_frames(const std::optional<Frame>& leaf, std::span<const std::uint64_t> words,
                                std::uint32_t epoch) {
  frames_.clear();  // leaf first
  region_frames_.clear();
  joined_ = false;
  if (leaf) frames_.push_back(*leaf);
  std::uint32_t site = wire::kNoOmpSite;
  bool settled = read_words(words, epoch, site);
  for (int joins = 0; site != wire::kNoOmpSite && joins < kMaxJoined; ++joins) {
    const std::optional<std::span<const std::uint64_t>> around = words_of_site(site);
    if (!around) return false;
    if (around->empty()) return settled;
    // What started the thread, and called it for the region.
    while (frames_.size() > (leaf ? 1u : 0u) && !frames_.back().python &&
           is_below_openmp(frames_.back().role))
      frames_.pop_back();
    joined_ = true;
    settled = read_words(*around, 0xffff'ffffu, site) && settled;
  }
  return settled;
}

bool StackResolver::read_words(std::span<const std::uint64_t> words, std::uint32_t epoch,
                               std::uint32_t& site) {
  const std::size_t regions_before = region_frames_.size();
  bool settled = true;
  site = wire::kNoOmpSite;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t tag = words[i] & wire::kFrameTagMask;
    const auto number = static_cast<std::uint32_t>(words[i]);
    if (tag == wire::kOmpFrameTag && site == wire::kNoOmpSite) {
      site = number;
      continue;
    }
    if (tag == wire::kRegionFrameTag && number < segment_.layout().regions &&
        region_frames_.size() < shard::kMaxRegionDepth) {
      region_frames_.push_back(region_frame(number));
      settled = settled && region_frames_.back().settled;
      continue;
    }
    if (region_frames_.size() != regions_before || site != wire::kNoOmpSite) {  // these are outermost
      drops_.add("damaged_record");
      break;
    }
    if (tag == wire::kPythonFrameTag && i + 1 < words.size()) {
      frames_.push_back(python_frame(words[i + 1], words[i]));
      ++i;
    } else if (tag == 0) {
      frames_.push_back(native_frame(words[i], false, epoch));
    } else {
      drops_.add("damaged_record");
      break;
    }
    settled = settled && frames_.back().settled;
  }
  return settled;
}

std::size_t StackResolver::frames_of_openmp() const {
  std::size_t end = 0;
  while (end < frames_.size() && !frames_[end].python && is_below_openmp(frames_[end].role)) ++end;
  return end;
}

std::size_t StackResolver::frames_of_mpi(bool call_site) const {
  // The wrapper that counts as "in MPI" is the outermost one; what it was called through (the
  // implementation's Fortran bindings) belongs to the call.
  std::size_t end = 0;
  std::size_t wrapper = frames_.size();
  for (std::size_t i = 0; i < frames_.size(); ++i)
    if (!frames_[i].python && frames_[i].role == ModuleRole::kMpiWrapper) wrapper = i;
  if (wrapper != frames_.size()) {
    end = wrapper + 1;
  } else if (!call_site) {
    // The walk did not reach the wrapper: cut all frames that are recognisably MPI or called by it.
    for (std::size_t i = 0; i < frames_.size() && !frames_[i].python; ++i)
      if (is_mpi(frames_[i].role)) end = i + 1;
    const auto in_system = [&] {
      return end < frames_.size() && !frames_[end].python && frames_[end].role == ModuleRole::kSystem;
    };
    if (end == 0)
      while (in_system()) ++end;
  }
  while (end < frames_.size() && !frames_[end].python && is_mpi(frames_[end].role)) ++end;
  return end;
}

// Regions are the outermost frames of a path. So where the process has regions of its own, these take the
// place of those that its creation was in.
std::uint32_t StackResolver::begin_path(const StackContext& context) {
  // A worker in a region has the region's call path, whoever else is in a call of its library.
  const auto below_pool = [&](std::uint32_t path) {
    return context.pool == kNoModule || joined_
               ? path
               : store_.node(path, store_.frame({RawKind::kPool, context.pool, 0}));
  };
  if (context.below != 0 && !joined_) return below_pool(context.below);
  if (region_frames_.empty()) return below_pool(base_);
  std::uint32_t path = 0;
  for (std::size_t i = region_frames_.size(); i-- > 0;) path = store_.region(path, region_frames_[i].frame);
  for (const std::uint32_t frame : base_frames_) path = store_.node(path, frame);
  if (!base_frames_.empty()) store_.add_process_root(path);
  return below_pool(path);
}

Stack StackResolver::build(const std::optional<Frame>& leaf, std::span<const std::uint64_t> words,
                           const StackContext& context) {
  Stack stack;
  stack.settled = read_frames(leaf, words, context.epoch);
  // Frames nearer to the leaf than `first` are not shown.
  const std::size_t first = context.mpi_op != 0       ? frames_of_mpi(context.call_site)
                            : is_wait(context.openmp) ? frames_of_openmp()
                                                      : 0;
  std::size_t python = first;
  bool only_interpreter = true;
  for (; python < frames_.size() && !frames_[python].python; ++python) {
    const ModuleRole role = frames_[python].role;
    only_interpreter = only_interpreter && role != ModuleRole::kProgram && role != ModuleRole::kMpiLibrary &&
                       role != ModuleRole::kOpenMp;
  }
  stack.in_interpreter = python < frames_.size() && only_interpreter;

  const auto is_own = [](const Frame& frame) {
    return !frame.python && (frame.role == ModuleRole::kAgent || frame.role == ModuleRole::kMpiWrapper);
  };
  // A run time of OpenMP that calls code of the user's.
  std::size_t user = first;
  while (user < frames_.size() && !frames_[user].python && is_below_openmp(frames_[user].role)) ++user;
  const auto is_between = [&](std::size_t i) {
    return i > user && !frames_[i].python && frames_[i].role == ModuleRole::kOpenMp;
  };
  stack.leaf_shown = leaf && first == 0 && !is_own(*leaf);
  const std::size_t callers = std::max<std::size_t>(first, leaf ? 1 : 0);
  stack.path = begin_path(context);
  const bool garbage = context.collecting_garbage && context.mpi_op == 0;
  path_frames_.clear();
  const auto add_collection = [&] {
    path_frames_.push_back(store_.frame({RawKind::kGarbage, modules_.interpreter(), 0}));
  };
  if (garbage && python >= frames_.size()) add_collection();  // there is no Python frame to put it below
  for (std::size_t i = frames_.size(); i-- > callers;) {
    if (!is_own(frames_[i]) && !is_between(i)) path_frames_.push_back(frames_[i].frame);
    if (garbage && i == python) add_collection();
  }
  // The path ends with a garbage collection and the function in which it began.
  const std::size_t end =
      stack.leaf_shown ? path_frames_.size()
                       : path_frames_.size() - std::min<std::size_t>(path_frames_.size(), garbage ? 2 : 1);
  for (std::size_t i = 0; i < path_frames_.size(); ++i)
    stack.path =
        i < end ? store_.node(stack.path, path_frames_[i]) : store_.leaf(stack.path, path_frames_[i]);
  return stack;
}

}  // namespace clusterprof::collector
