// SPDX-License-Identifier: BSD-3-Clause
// The node's call paths before they have names: a tree of "raw" frames that is cheap enough to be built while
// samples arrive. Raw frames do not depend on the process (they are an object file with an address in it, or
// a code object by content), so all processes of the node share one tree. Append only: indices stay valid.
//
// The tree is limited, because recursion can make a new path of nearly every sample. When it is full, a new
// path keeps only its innermost frames, below a frame that says that callers were left out
// (RawKind::kLeftOut). That frame is attached to the path's innermost caller among the first nodes of the
// tree, or to its region, so the sums of those and of functions stay right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/stacks/flat_index.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// The role of an object file, decided by its name.
enum class ModuleRole : std::uint8_t {
  kProgram,
  kAgent,        // our preload object: its frames are never shown
  kMpiWrapper,   // our MPI wrappers: cut off, replaced by the MPI function
  kMpiLibrary,   // the MPI implementation and what it communicates with
  kInterpreter,  // python, libpython
  kOpenMp,       // a run time of OpenMP: between a region and its body it is not shown
  kSystem,       // libc, libm, the loader, the vdso
};
[[nodiscard]] ModuleRole module_role(std::string_view path);

struct ModuleInfo {
  std::string path;
  std::vector<std::uint8_t> build_id;
  ModuleRole role;
  // Of code that was made at run time: its description (names/generated_object.hpp). Otherwise empty.
  std::vector<std::uint8_t> object;
};

// What code that was made at run time has in place of an object file.
inline constexpr std::string_view kGeneratedModule = "[jit]";

struct CodeInfo {
  std::string file, name;
  std::uint32_t first_line;
  std::uint32_t python_version;  // PY_VERSION_HEX
  std::vector<std::uint8_t> line_table;
};

enum class RawKind : std::uint8_t {
  kNativeExact,   // a: module, b: ELF address of the instruction itself
  kNativeReturn,  // a: module, b: ELF address after a call
  kPython,        // a: code, b: instruction and wire::kApproximateLine (wire::SampleRecord)
  kMpi,           // a: MPI function number
  kKernel,        // a: system call number (may be -1)
  kGilWait,       // waiting for the interpreter's lock, below the system call that waits
  kPageFault,     // the kernel, without a system call
  kRunnable,      // waiting for a processor; in event gaps
  kGarbage,       // Python's cyclic garbage collection; a: module of the interpreter or kNoModule
  kDescriptor,    // a: Descriptor, below the system call that is about it
  kRegion,        // a: index into names; b: see RegionOf
  kNamed,         // a: index into names: code made at run time
  kPending,       // a: index into pending(): not described yet
  kLeftOut,       // callers that were left out
  kOtherSites,    // call sites of an MPI function for which the process's table had no room
  kOmpWait,       // a: wire::OmpActivity, a wait; in place of the run time's frames
  kPool,          // a: module; its thread pool (base/thread_pools.hpp), of whose thread the path is
};

inline constexpr std::uint32_t kNoModule = 0xffff'ffffu;

struct RawFrame {
  RawKind kind = RawKind::kPending;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
  friend bool operator==(const RawFrame&, const RawFrame&) = default;
};

// RawFrame::b of a region. Each is an index plus 1; 0: it has none.
struct RegionOf {
  std::uint32_t domain = 0;   // into names
  std::uint32_t forward = 0;  // into frames: where the forward operator of a backward operator was called
  static RegionOf read(std::uint64_t b) noexcept {
    return {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32)};
  }
  [[nodiscard]] std::uint64_t packed() const noexcept { return std::uint64_t{forward} << 32 | domain; }
};

// nodes[0] is the root, its own parent; a parent comes before its children.
struct RawNode {
  std::uint32_t parent = 0;
  std::uint32_t frame = 0;
};

// A frame whose module, code object or region its process had not described when the sample was read.
struct PendingFrame {
  shard::FrameKind kind = shard::FrameKind::kNative;
  bool resolved = false;
  RawFrame resolution;  // valid when resolved
};

// A data file, as a process named it.
struct FileInfo {
  std::string path;               // empty: not known
  std::uint64_t device = 0;       // st_dev; 0 not known
  std::uint64_t file_system = 0;  // statfs f_type; 0 not known
};

// What is needed to name the paths. Another thread may use a copy.
struct RawTables {
  std::vector<RawFrame> frames;
  std::vector<RawNode> nodes{RawNode{}};
  std::vector<std::shared_ptr<const ModuleInfo>> modules;
  std::vector<std::shared_ptr<const CodeInfo>> codes;
  std::vector<PendingFrame> pending;
  std::vector<std::shared_ptr<const std::string>> names;
  std::vector<std::string> counters;  // names of performance counters
  // files[0] stands for all files beyond the limit.
  std::vector<std::shared_ptr<const FileInfo>> files{std::make_shared<const FileInfo>()};
  // Nodes below which the call paths of other processes begin: those that made these processes.
  std::vector<std::uint32_t> process_roots;
  // By the frame of a call that begins an OpenMP region: that of the beginning of the function which the
  // region's threads run.
  std::unordered_map<std::uint32_t, std::uint32_t> region_bodies;
};

// The limits of a RawStore.
struct StoreLimits {
  std::size_t nodes = 1u << 18;
  std::size_t frames = 1u << 19;       // of code; of other kinds there are few
  std::size_t first_nodes = 1u << 12;  // that paths without their callers can be below
  std::size_t short_nodes = 1u << 16;  // of such paths, besides `nodes`
  // Rows of amounts by call path: of all running processes, of one process, and what each process may have in
  // any case.
  std::size_t rows = 1u << 20, process_rows = 1u << 17, fewest_rows = 1u << 10;
  std::size_t short_rows = 1u << 12;  // of one process on paths without their callers, besides these
  std::size_t generated_bytes = std::size_t{256} << 20;  // of descriptions of generated code
  std::size_t nameless = 1u << 14;                       // RawStore::has_many_nameless
};

// What else takes the collector's memory. Nobody can limit it: they are the node's own.
struct TableSizes {
  std::size_t processes = 0, threads = 0;  // that are being recorded
  std::size_t ended = 0;                   // rows of processes that have ended
  std::size_t wakes = 0;                   // records of who ended waits
  std::size_t generated_bytes = 0;         // of descriptions of generated code
  friend bool operator==(const TableSizes&, const TableSizes&) = default;
};

// Limits with which a collector stays below max_memory_bytes while it writes a shard. A third is for those
// tables; what they take beyond it is taken from call paths and rows. 0: the usual limits.
[[nodiscard]] StoreLimits limits_within(std::uint64_t max_memory_bytes, const TableSizes& tables = {});

class RawStore {
 public:
  explicit RawStore(const StoreLimits& limits = {}) : limits_(limits) {}

  [[nodiscard]] const RawTables& tables() const noexcept { return tables_; }
  [[nodiscard]] const StoreLimits& limits() const noexcept { return limits_; }

  // Lowers the limits to these, but not below what there is.
  void lower_limits(const StoreLimits& limits) noexcept;

  // Makes what there is now the limit: there is no memory for more. From now on new paths keep only their
  // innermost frames. Room for few of these remains.
  void close() noexcept;
  // There is memory again: the limits are those of before, or lower where they were lowered since.
  void open() noexcept;
  // How often it was opened: from then on, paths that were kept without their callers may have them.
  [[nodiscard]] std::uint64_t openings() const noexcept { return openings_; }
  // For those who remember paths: whether they have to forget them. `seen`: theirs, 0 at first.
  [[nodiscard]] bool was_opened_since(std::uint64_t& seen) const noexcept {
    return std::exchange(seen, openings_) != openings_;
  }

  std::uint32_t module(std::string_view path, const std::vector<std::uint8_t>& build_id);
  // Equal objects are one. kNoModule: there is no room for it.
  std::uint32_t generated_module(std::vector<std::uint8_t> object);
  [[nodiscard]] std::size_t generated_bytes() const noexcept { return generated_bytes_; }
  std::uint32_t code(CodeInfo info);
  std::uint32_t name(const std::string& name);
  std::uint32_t frame(const RawFrame& frame);
  // The child of `parent` with this frame: for a frame that calls another one, for the last frame of a path
  // (or one that is followed only by frames that say what the thread did), and for a region. If there is no
  // room: the node that stands for it.
  std::uint32_t node(std::uint32_t parent, std::uint32_t frame);
  std::uint32_t leaf(std::uint32_t parent, std::uint32_t frame);
  std::uint32_t region(std::uint32_t parent, std::uint32_t frame);
  // The path without its callers.
  std::uint32_t shorten(std::uint32_t path);
  // The path that stands for paths about which nothing is known.
  std::uint32_t shortest() { return left_out(0, 1); }
  // Whether callers are left out.
  [[nodiscard]] bool is_short(std::uint32_t path) const noexcept;
  [[nodiscard]] bool is_region(std::uint32_t node) const noexcept;

  // Whether the node has at most that many frames, callers included.
  [[nodiscard]] bool is_at_most(std::uint32_t node, std::size_t frames) const noexcept;
  // A process begins below this node. Only the first ones are remembered.
  void add_process_root(std::uint32_t node);
  // The region that a path's last frame begins runs the function that begins at `body`, a frame. The first
  // one counts.
  void add_region_body(std::uint32_t path, std::uint32_t body);

  // Takes rows out of limits().rows. False: there are not enough left.
  bool take_rows(std::size_t count) noexcept;
  void give_rows_back(std::size_t count) noexcept { rows_ -= count; }

  std::uint32_t counter(std::string_view name);

  // Returns 0 beyond kMaxFiles.
  static constexpr std::size_t kMaxFiles = 1u << 16;
  std::uint32_t file(const FileInfo& file);

  // Adds a frame that is not described yet, and resolves it later. No value: there is no room.
  std::optional<std::uint32_t> add_pending(shard::FrameKind kind);
  void resolve_pending(std::uint32_t index, const RawFrame& resolution);
  // Addresses of a process that has ended, which got no names. With many of them and half of the nodes taken,
  // further addresses that may get none are not worth a frame each.
  void add_nameless(std::size_t addresses) noexcept { nameless_ += addresses; }
  [[nodiscard]] bool has_many_nameless() const noexcept {
    return nameless_ >= limits_.nameless && tables_.nodes.size() >= limits_.nodes / 2;
  }
  // The frame for everything that will never be known.
  std::uint32_t unknown(shard::FrameKind kind);

 private:
  [[nodiscard]] std::uint32_t find_node(std::uint32_t parent, std::uint32_t frame) const noexcept;
  std::uint32_t add_node(std::uint32_t parent, std::uint32_t frame);
  [[nodiscard]] bool is_left_out(std::uint32_t node) const noexcept {
    return node != 0 && tables_.nodes[node].frame == left_out_frame_;
  }
  // The node for callers that are left out, below the innermost on the way from the root to `parent` that is
  // among the first nodes, or is a region.
  std::uint32_t left_out(std::uint32_t parent, std::size_t first_nodes);

  void lower(StoreLimits& limits, const StoreLimits& to) const noexcept;

  StoreLimits limits_;
  std::optional<StoreLimits> when_open_;  // given while it is closed
  std::uint64_t openings_ = 0;
  std::size_t rows_ = 0;  // that were taken
  RawTables tables_;
  std::uint32_t left_out_frame_ = FlatIndex::kAbsent;
  std::array<std::optional<std::uint32_t>, shard::kFrameKinds> unknown_;
  std::unordered_map<std::string, std::uint32_t> modules_, codes_, names_, files_;
  std::unordered_map<std::uint64_t, std::uint32_t> generated_;  // modules, by a hash of their objects
  std::size_t generated_bytes_ = 0, nameless_ = 0;
  FlatIndex frames_;  // by a hash; the next free number where two frames have the same
  FlatIndex nodes_;   // by parent << 32 | frame
};

}  // namespace clusterprof::collector
