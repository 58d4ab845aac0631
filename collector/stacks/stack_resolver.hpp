// SPDX-License-Identifier: BSD-3-Clause
// Turns the frame words of a sample, or of a call site, into a call path: a node of the RawStore that all
// processes of the collector share.
//
// Input: words as in wire::SampleRecord, leaf first, of which only the length has been checked, and what the
// thread did. Output: a Stack. Our own frames (agent, wrappers) and everything below an MPI wrapper are left
// out. The last frames say what the thread did (MPI function, system call, waiting for the GIL). Impossible
// words are counted ("damaged_record") and end the path. Only the thread that polls the process may call
// this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/thread_pools.hpp"
#include "collector/names/syscalls.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/code_objects.hpp"
#include "collector/stacks/flat_index.hpp"
#include "collector/stacks/generated_code.hpp"
#include "collector/stacks/module_map.hpp"
#include "collector/stacks/pending_frames.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/region_paths.hpp"
#include "formats/wire/openmp.h"

namespace clusterprof::collector {

// What the thread did in the innermost frame.
struct StackContext {
  std::uint32_t mpi_op = 0;  // function number + 1; 0: not in MPI
  bool in_syscall = false;
  bool waiting_for_gil = false;
  bool collecting_garbage = false;
  std::optional<Descriptor> descriptor;
  wire::OmpActivity openmp = wire::OmpActivity::kNone;
  bool call_site = false;  // the words are the path of a site, without the wrappers
  std::int32_t syscall_nr = -1;
  std::uint32_t epoch = 0;         // SegmentHeader::module_epoch
  std::uint32_t pool = kNoModule;  // that the thread belongs to: its path begins below the pool's frame
  std::uint32_t below = 0;         // the call path that the thread computes for: the pool's frame is below it
};

// For hashes of stacks: 0 without a pool.
constexpr std::uint64_t seed_of_pool(const StackContext& context) {
  return std::uint64_t{static_cast<std::uint32_t>(context.pool + 1)} * 0x9e37'79b9'7f4a'7c15ull ^
         std::uint64_t{context.below} * 0xd6e8'feb8'6659'fd93ull;
}

struct Stack {
  std::uint32_t path = 0;       // node of the RawStore
  bool in_interpreter = false;  // category python unless a system call or MPI says otherwise
  bool leaf_shown = false;
  bool settled = false;  // all its frames are described: the same words give the same path again
};

class StackResolver {
 public:
  // All of them must outlive it. `base`: the path below which all of this process's begin.
  StackResolver(const SegmentView& segment, RawStore& store, DropCounts& drops, std::uint32_t base = 0);

  // Reads what the process has described since the last call, and resolves pending frames. Call it before
  // each round of samples.
  void read_descriptions(std::uint64_t now_ns);
  // Does the same for the last time, when the process has ended.
  void finish(std::int32_t pid, std::int64_t process_start_utc_ns, std::uint64_t now_ns);

  [[nodiscard]] Stack resolve(std::span<const std::uint64_t> words, const StackContext& context);
  // The path of a call site, whose words are in the path arena; mpi_op as in StackContext. No value: the
  // words are outside the arena.
  [[nodiscard]] std::optional<std::uint32_t> call_site_path(std::uint64_t arena_offset, std::uint32_t words,
                                                            std::uint32_t mpi_op);
  // The path that consists of a thread's start function alone, below its pool (StackContext::pool); the base
  // if the function is not known.
  [[nodiscard]] std::uint32_t start_path(std::uint64_t start_function, std::uint32_t pool = kNoModule);
  // What a thread is, by its start function or by a path of it: by the outermost frame that is neither the
  // system's nor of the C++ run time.
  enum class ThreadOf : std::uint8_t { kUnknown, kPython, kPool, kOther };
  struct ThreadOrigin {
    ThreadOf of = ThreadOf::kUnknown;
    std::uint32_t pool = kNoModule;    // kPool: the module
    std::uint32_t module = kNoModule;  // kPool, kOther
  };
  // The pool of threads that this library makes. Null: none is known.
  [[nodiscard]] const ThreadPool* pool(std::uint32_t module) const;
  [[nodiscard]] ThreadOrigin origin_of_start(std::uint64_t start_function);
  [[nodiscard]] ThreadOrigin origin_on_path(std::uint32_t path) const;
  // The path of an OpenMP region of the process's table: of the call that began it. No value: it is not
  // described (yet). And the frame of an instruction behind a call, kNoFrame if it is not known (yet).
  [[nodiscard]] std::optional<std::uint32_t> openmp_path(std::uint32_t site);
  static constexpr std::uint32_t kNoFrame = 0xffff'ffffu;
  [[nodiscard]] std::uint32_t frame_before(std::uint64_t code);
  // The path of a call that made a process, without what libc and the interpreter did for it at its end.
  [[nodiscard]] std::optional<std::uint32_t> creation_path(std::uint64_t arena_offset, std::uint32_t words);
  // "solver+0x11d3": the object file of an instruction, and its address there. Empty: not known.
  [[nodiscard]] std::string place_in_module(std::uint64_t pc);
  // The object file that has the address now, and the address there. kNoModule: none is known.
  struct DataPlace {
    std::uint32_t module = kNoModule;
    std::uint64_t elf_address = 0;
  };
  [[nodiscard]] DataPlace data_place(std::uint64_t address);
  // The path whose innermost frame is the region. No value: it cannot be resolved.
  [[nodiscard]] std::optional<std::uint32_t> region_path(std::uint32_t index) { return regions_.path(index); }

  // Whether the code object is the body of a Python module, which runs when it is imported or started.
  [[nodiscard]] bool is_module_body(std::uint64_t code_id) const;
  // How often the same stacks have got another path: generated code has taken the place of other code, or
  // there was room for callers again.
  [[nodiscard]] std::uint64_t changes() const noexcept { return replacements_ + store_.openings(); }
  // Whether callers of some call sites were left out for lack of room.
  [[nodiscard]] bool left_callers_out() const noexcept { return left_callers_out_; }
  // Whether the process has an object file whose name begins like this.
  [[nodiscard]] bool has_module(std::string_view begin_of_name) const {
    return modules_.has_module(begin_of_name);
  }

 private:
  struct Frame {
    std::uint32_t frame;  // of the RawStore
    bool python;
    ModuleRole role;  // of native frames
    bool settled;     // false: refers to something not described (yet)
  };

  Frame native_frame(std::uint64_t word, bool exact, std::uint32_t epoch);
  // What the process has said of object files and of generated code.
  void read_code();
  Frame python_frame(std::uint64_t code_id, std::uint64_t word);
  Frame region_frame(std::uint32_t index);  // < layout().regions
  // The caller of an operator of PyTorch that is not PyTorch itself: in Python if there is one.
  RegionPaths::Forward forward_frame(std::uint64_t arena_offset, std::uint32_t words);
  // The part of the path above the leaf, of which only the role matters.
  Stack build(const std::optional<Frame>& leaf, std::span<const std::uint64_t> words,
              const StackContext& context);
  // Into frames_, region_frames_ and joined_. False: some are not settled.
  bool read_frames(const std::optional<Frame>& leaf, std::span<const std::uint64_t> words,
                   std::uint32_t epoch);
  // The part of the path from `words` on, up to its end or to an OpenMP region that it goes on with: returned
  // in `site`, else kNoOmpSite.
  bool read_words(std::span<const std::uint64_t> words, std::uint32_t epoch, std::uint32_t& site);
  // The words of the path of an OpenMP region. No value: it is not described yet. Empty: there was no room
  // for its path.
  [[nodiscard]] std::optional<std::span<const std::uint64_t>> words_of_site(std::uint32_t site);
  // How many of frames_ belong to a run time of OpenMP, and what that calls, from the leaf on.
  [[nodiscard]] std::size_t frames_of_openmp() const;
  // The node below which a path begins that has region_frames_ outermost.
  std::uint32_t begin_path(const StackContext& context);
  [[nodiscard]] ThreadOrigin origin_of_module(std::uint32_t module) const;
  // How many of frames_ belong to an MPI call, its wrapper included.
  [[nodiscard]] std::size_t frames_of_mpi(bool call_site) const;

  const SegmentView& segment_;
  RawStore& store_;
  DropCounts& drops_;
  const std::uint32_t base_;
  std::vector<std::uint32_t> base_frames_;  // of that path, the outermost first, without regions
  ModuleMap modules_;
  GeneratedCode generated_;
  CodeObjects codes_;
  RegionPaths regions_;
  PendingFrames pending_;
  // Paths above the leaf, by hash of their words: the leaf changes, its callers repeat.
  FlatIndex cache_;
  std::vector<Stack> stacks_;
  std::uint64_t replacements_ = 0;
  bool left_callers_out_ = false;
  std::vector<Frame> frames_, region_frames_;  // of build()
  std::vector<std::uint32_t> path_frames_;     // likewise
  bool joined_ = false;                        // frames_ go on with those of an OpenMP region
  std::vector<std::uint64_t> site_words_;
  std::unordered_map<std::uint32_t, std::uint32_t> openmp_paths_;  // by site
  std::uint64_t openings_seen_ = 0;                                // by these
};

}  // namespace clusterprof::collector
