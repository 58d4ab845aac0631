// SPDX-License-Identifier: BSD-3-Clause
// The tree of call paths: finding and adding nodes, and what is left out when it is full (RawStore::leaf,
// left_out). Called at every sample whose stack is new, by the thread that polls.
#include "collector/stacks/raw_store.hpp"

#include <xxhash.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace clusterprof::collector {
namespace {

void append(std::string& key, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  key.append(reinterpret_cast<const char*>(&size), sizeof size);
  key.append(text);
}

void append(std::string& key, std::uint32_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& key, std::uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (text.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

// Kinds of frames that are not limited in number. Of the others there are no more than system calls, MPI
// functions and regions.
bool is_code(RawKind kind) {
  return kind == RawKind::kNativeExact || kind == RawKind::kNativeReturn || kind == RawKind::kPython ||
         kind == RawKind::kNamed || kind == RawKind::kPending;
}

// Frames at the end of a path: the code that runs, and what it is in: a garbage collection, an MPI or system
// call, the kind of its descriptor, waiting for the GIL, a page fault.
constexpr std::size_t kMaxOfEnd = 8;

// How many outermost nodes are still distinguished above callers that are left out, when room gets scarce.
constexpr std::size_t kFirstOfAll = 64;

}  // namespace

ModuleRole module_role(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  if (starts_with_any(name, {"libclusterprof_mpi"})) return ModuleRole::kMpiWrapper;
  if (starts_with_any(name, {"libclusterprof_"})) return ModuleRole::kAgent;
  // libmpi covers libmpich, libmpifort, libmpi_mpifh, libmpi_usempif08, libmpi_cxx.
  if (starts_with_any(name, {"libmpi", "libopen-rte", "libopen-pal", "libprrte", "mca_", "libmca_", "libucp",
                             "libuct", "libucs", "libucm", "libpmi", "libfabric", "libhcoll", "libpsm",
                             "libfmpich", "libibverbs", "libmlx", "librdmacm", "libsharp"})) {
    return ModuleRole::kMpiLibrary;
  }
  if (starts_with_any(name, {"libgomp", "libomp.", "libomp-", "libiomp"})) return ModuleRole::kOpenMp;
  if (starts_with_any(name, {"libpython"})) return ModuleRole::kInterpreter;
  if (starts_with_any(name, {"python"}) && name.find(".so") == std::string_view::npos) {
    return ModuleRole::kInterpreter;
  }
  if (starts_with_any(name,
                      {"libc.so", "libc-", "libm.so", "libm-", "libmvec", "libpthread", "libdl.so", "libdl-",
                       "librt.so", "librt-", "ld-", "ld.so", "[vdso]", "linux-vdso", "linux-gate"})) {
    return ModuleRole::kSystem;
  }
  return ModuleRole::kProgram;
}

StoreLimits limits_within(std::uint64_t max_memory_bytes, const TableSizes& tables) {
  StoreLimits limits;
  if (max_memory_bytes == 0) return limits;
  // Measured with bench/checkpoint_cost: a node with its frame takes 390 bytes, a row 210 and a thread 6,000,
  // up to half as much again while a shard is made, and a collector without any 20 MB. The others are rough.
  constexpr std::uint64_t kBase_bytes = 20 << 20, kNode_bytes = 600, kRow_bytes = 320;
  constexpr std::uint64_t kThread_bytes = 8 << 10, kProcess_bytes = 64 << 10, kEnded_bytes = 1 << 10,
                          kWake_bytes = 1 << 10;
  constexpr std::uint64_t kLeastRoom_bytes = 1 << 20;
  const std::uint64_t free_bytes = max_memory_bytes - std::min(max_memory_bytes, kBase_bytes);
  const std::uint64_t tables_bytes = tables.threads * kThread_bytes + tables.processes * kProcess_bytes +
                                     tables.ended * kEnded_bytes + tables.wakes * kWake_bytes +
                                     tables.generated_bytes;
  std::uint64_t room = free_bytes / 3;
  if (tables_bytes > room)
    room = std::max(kLeastRoom_bytes, (free_bytes - std::min(free_bytes, tables_bytes)) / 2);
  limits.nodes = std::min<std::size_t>(limits.nodes, room / kNode_bytes);
  limits.frames = std::min<std::size_t>(limits.frames, 2 * room / kNode_bytes);
  limits.short_nodes = std::min<std::size_t>(limits.short_nodes, limits.nodes / 4);
  // What each process may have in any case must not be more than half of it for all of them.
  constexpr std::size_t kFewest = 64;
  const std::size_t rows = room / kRow_bytes, processes = std::max<std::size_t>(tables.processes, 1);
  limits.fewest_rows = std::clamp(rows / (4 * processes), kFewest, limits.fewest_rows);
  limits.short_rows = std::clamp(rows / (4 * processes), kFewest, limits.short_rows);
  limits.rows =
      std::min(limits.rows, rows - std::min(rows / 2, processes * (limits.fewest_rows + limits.short_rows)));
  limits.process_rows = std::min(limits.process_rows, limits.rows);
  limits.generated_bytes = std::min<std::size_t>(limits.generated_bytes, free_bytes / 8);
  return limits;
}

void RawStore::lower(StoreLimits& limits, const StoreLimits& to) const noexcept {
  limits.nodes = std::min(limits.nodes, std::max(to.nodes, tables_.nodes.size()));
  limits.frames = std::min(limits.frames, std::max(to.frames, tables_.frames.size()));
  limits.short_nodes = std::min(limits.short_nodes, to.short_nodes);
  limits.rows = std::min(limits.rows, std::max(to.rows, rows_));
  limits.process_rows = std::min(limits.process_rows, to.process_rows);
  limits.fewest_rows = std::min(limits.fewest_rows, to.fewest_rows);
  limits.short_rows = std::min(limits.short_rows, to.short_rows);
  limits.generated_bytes = std::min(limits.generated_bytes, std::max(to.generated_bytes, generated_bytes_));
}

void RawStore::lower_limits(const StoreLimits& limits) noexcept {
  lower(limits_, limits);
  if (when_open_) lower(*when_open_, limits);
}

void RawStore::open() noexcept {
  if (!when_open_) return;
  limits_ = *std::exchange(when_open_, std::nullopt);
  ++openings_;
}

void RawStore::close() noexcept {
  constexpr StoreLimits kOfClosed{.short_nodes = 1u << 12, .fewest_rows = 1u << 6, .short_rows = 1u << 8};
  if (!when_open_) when_open_ = limits_;
  limits_.nodes = std::min(limits_.nodes, std::max<std::size_t>(tables_.nodes.size(), 1));
  limits_.frames = std::min(limits_.frames, tables_.frames.size());
  limits_.rows = std::min(limits_.rows, rows_);
  limits_.short_nodes = std::min(limits_.short_nodes, kOfClosed.short_nodes);
  limits_.fewest_rows = std::min(limits_.fewest_rows, kOfClosed.fewest_rows);
  limits_.short_rows = std::min(limits_.short_rows, kOfClosed.short_rows);
  limits_.generated_bytes = std::min(limits_.generated_bytes, generated_bytes_);
}

std::uint32_t RawStore::module(std::string_view path, const std::vector<std::uint8_t>& build_id) {
  std::string key(path);
  key.push_back('\0');
  key.append(build_id.begin(), build_id.end());
  const auto [found, added] =
      modules_.try_emplace(std::move(key), static_cast<std::uint32_t>(tables_.modules.size()));
  if (added) {
    tables_.modules.push_back(
        std::make_shared<const ModuleInfo>(ModuleInfo{std::string(path), build_id, module_role(path), {}}));
  }
  return found->second;
}

std::uint32_t RawStore::generated_module(std::vector<std::uint8_t> object) {
  const auto next = static_cast<std::uint32_t>(tables_.modules.size());
  const std::uint64_t hash = XXH3_64bits(object.data(), object.size());
  const auto found = generated_.find(hash);
  // The process may have written anything: an object with the same hash may be another one.
  if (found != generated_.end() && tables_.modules[found->second]->object == object) return found->second;
  if (object.size() > limits_.generated_bytes - generated_bytes_) return kNoModule;
  generated_.try_emplace(hash, next);
  generated_bytes_ += object.size();
  tables_.modules.push_back(std::make_shared<const ModuleInfo>(
      ModuleInfo{std::string(kGeneratedModule), {}, ModuleRole::kProgram, std::move(object)}));
  return next;
}

std::uint32_t RawStore::code(CodeInfo info) {
  std::string key;
  append(key, info.file);
  append(key, info.name);
  append(key, info.first_line);
  append(key, info.python_version);
  key.append(info.line_table.begin(), info.line_table.end());
  const auto [found, added] =
      codes_.try_emplace(std::move(key), static_cast<std::uint32_t>(tables_.codes.size()));
  if (added) tables_.codes.push_back(std::make_shared<const CodeInfo>(std::move(info)));
  return found->second;
}

std::uint32_t RawStore::name(const std::string& name) {
  const auto [found, added] = names_.try_emplace(name, static_cast<std::uint32_t>(tables_.names.size()));
  if (added) tables_.names.push_back(std::make_shared<const std::string>(name));
  return found->second;
}

std::uint32_t RawStore::frame(const RawFrame& frame) {
  const std::uint64_t kind = (static_cast<std::uint64_t>(frame.kind) << 32) | frame.a;
  for (std::uint64_t hash = frame.b ^ mix(kind);; ++hash) {
    const std::uint32_t found = frames_.find(hash);
    if (found == FlatIndex::kAbsent) {
      if (tables_.frames.size() >= limits_.frames && is_code(frame.kind))
        return this->frame({RawKind::kLeftOut, 0, 0});
      const auto index = static_cast<std::uint32_t>(tables_.frames.size());
      tables_.frames.push_back(frame);
      frames_.insert(hash, index);
      if (frame.kind == RawKind::kLeftOut) left_out_frame_ = index;
      return index;
    }
    if (tables_.frames[found] == frame) return found;
  }
}

std::uint32_t RawStore::find_node(std::uint32_t parent, std::uint32_t frame) const noexcept {
  return nodes_.find((static_cast<std::uint64_t>(parent) << 32) | frame);
}

std::uint32_t RawStore::add_node(std::uint32_t parent, std::uint32_t frame) {
  const auto index = static_cast<std::uint32_t>(tables_.nodes.size());
  tables_.nodes.push_back(RawNode{parent, frame});
  nodes_.insert((static_cast<std::uint64_t>(parent) << 32) | frame, index);
  return index;
}

bool RawStore::is_region(std::uint32_t node) const noexcept {
  const RawFrame& frame = tables_.frames[tables_.nodes[node].frame];
  return frame.kind == RawKind::kRegion ||
         (frame.kind == RawKind::kPending && tables_.pending[frame.a].kind == shard::FrameKind::kRegion);
}

std::uint32_t RawStore::node(std::uint32_t parent, std::uint32_t frame) {
  if (is_left_out(parent)) return parent;
  if (const std::uint32_t found = find_node(parent, frame); found != FlatIndex::kAbsent) return found;
  return tables_.nodes.size() < limits_.nodes ? add_node(parent, frame)
                                              : left_out(parent, limits_.first_nodes);
}

std::uint32_t RawStore::leaf(std::uint32_t parent, std::uint32_t frame) {
  if (const std::uint32_t found = find_node(parent, frame); found != FlatIndex::kAbsent) return found;
  if (tables_.nodes.size() < limits_.nodes) return add_node(parent, frame);
  const auto below = [&](std::uint32_t above, std::size_t room) {
    const std::uint32_t found = find_node(above, frame);
    if (found != FlatIndex::kAbsent || tables_.nodes.size() >= limits_.nodes + room) return found;
    return add_node(above, frame);
  };
  // Half of the room is for paths below any of the first nodes. A further part is for paths below fewer of
  // them, and the last part is for paths of which only the end is kept.
  const std::size_t room = limits_.short_nodes;
  std::uint32_t found =
      is_short(parent) ? below(parent, room / 8 * 7) : below(left_out(parent, limits_.first_nodes), room / 2);
  if (found == FlatIndex::kAbsent) found = below(left_out(parent, kFirstOfAll), room / 8 * 7);
  if (found == FlatIndex::kAbsent) found = below(shortest(), room);
  return found != FlatIndex::kAbsent ? found : shortest();
}

std::uint32_t RawStore::region(std::uint32_t parent, std::uint32_t frame) {
  if (const std::uint32_t found = find_node(parent, frame); found != FlatIndex::kAbsent) return found;
  return tables_.nodes.size() < limits_.nodes + limits_.short_nodes ? add_node(parent, frame) : parent;
}

std::uint32_t RawStore::left_out(std::uint32_t parent, std::size_t first_nodes) {
  const auto stays = [&](std::uint32_t node) { return node < first_nodes || node == 0 || is_region(node); };
  std::uint32_t above = parent;
  for (; is_left_out(above) || !stays(above); above = tables_.nodes[above].parent)
    if (is_left_out(above) && stays(tables_.nodes[above].parent)) return above;
  const std::uint32_t frame = this->frame({RawKind::kLeftOut, 0, 0});
  if (const std::uint32_t found = find_node(above, frame); found != FlatIndex::kAbsent) return found;
  if (above == 0 || tables_.nodes.size() < limits_.nodes + limits_.short_nodes) return add_node(above, frame);
  return shortest();
}

std::uint32_t RawStore::shorten(std::uint32_t path) {
  std::array<std::uint32_t, kMaxOfEnd> end;  // of the path, the innermost first
  std::size_t count = 0;
  std::uint32_t above = path;
  while (above != 0 && !is_region(above) && count < end.size()) {
    if (is_left_out(above)) return path;
    const bool code = is_code(tables_.frames[tables_.nodes[above].frame].kind);
    end[count++] = tables_.nodes[above].frame;
    above = tables_.nodes[above].parent;
    if (code) break;
  }
  above = left_out(above, limits_.first_nodes);
  while (count > 0) above = leaf(above, end[--count]);
  return above;
}

bool RawStore::is_short(std::uint32_t path) const noexcept {
  if (left_out_frame_ == FlatIndex::kAbsent) return false;
  for (std::size_t i = 0; path != 0 && i <= kMaxOfEnd; ++i, path = tables_.nodes[path].parent)
    if (is_left_out(path)) return true;
  return false;
}

bool RawStore::is_at_most(std::uint32_t node, std::size_t frames) const noexcept {
  for (; node != 0 && frames != 0; --frames) node = tables_.nodes[node].parent;
  return node == 0;
}

void RawStore::add_process_root(std::uint32_t node) {
  constexpr std::size_t kMaxRoots = 1024;
  std::vector<std::uint32_t>& roots = tables_.process_roots;
  if (node != 0 && roots.size() < kMaxRoots && std::find(roots.begin(), roots.end(), node) == roots.end())
    roots.push_back(node);
}

void RawStore::add_region_body(std::uint32_t path, std::uint32_t body) {
  const std::uint32_t call = tables_.nodes[path].frame;
  if (path != 0 && tables_.frames[call].kind == RawKind::kNativeReturn)
    tables_.region_bodies.try_emplace(call, body);
}

bool RawStore::take_rows(std::size_t count) noexcept {
  if (count > limits_.rows - rows_) return false;
  rows_ += count;
  return true;
}

std::uint32_t RawStore::counter(std::string_view name) {
  for (std::size_t i = 0; i < tables_.counters.size(); ++i) {
    if (tables_.counters[i] == name) return static_cast<std::uint32_t>(i);
  }
  tables_.counters.emplace_back(name);
  return static_cast<std::uint32_t>(tables_.counters.size() - 1);
}

std::uint32_t RawStore::file(const FileInfo& file) {
  if (file.path.empty() && file.device == 0 && file.file_system == 0) return 0;
  std::string key(file.path);
  key.push_back('\0');
  append(key, file.device);
  append(key, file.file_system);
  if (const auto found = files_.find(key); found != files_.end()) return found->second;
  if (tables_.files.size() >= kMaxFiles) return 0;
  const auto index = static_cast<std::uint32_t>(tables_.files.size());
  tables_.files.push_back(std::make_shared<const FileInfo>(file));
  files_.emplace(std::move(key), index);
  return index;
}

std::optional<std::uint32_t> RawStore::add_pending(shard::FrameKind kind) {
  if (tables_.frames.size() >= limits_.frames) return std::nullopt;
  tables_.pending.push_back(PendingFrame{kind, false, {}});
  return frame(RawFrame{RawKind::kPending, static_cast<std::uint32_t>(tables_.pending.size() - 1), 0});
}

std::uint32_t RawStore::unknown(shard::FrameKind kind) {
  std::optional<std::uint32_t>& found = unknown_[static_cast<std::size_t>(kind)];
  if (!found) {
    tables_.pending.push_back(PendingFrame{kind, false, {}});
    // Not through frame(), which may refuse: there is always room for this one.
    found = static_cast<std::uint32_t>(tables_.frames.size());
    tables_.frames.push_back(
        RawFrame{RawKind::kPending, static_cast<std::uint32_t>(tables_.pending.size() - 1), 0});
  }
  return *found;
}

void RawStore::resolve_pending(std::uint32_t index, const RawFrame& resolution) {
  tables_.pending[index].resolved = true;
  tables_.pending[index].resolution = resolution;
}

}  // namespace clusterprof::collector
