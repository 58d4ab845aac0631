// SPDX-License-Identifier: BSD-3-Clause
// The Python walk: from the thread state along the frames, by the layout of the interpreter's version
// (pyabi/). Everything that is read is checked, since the interpreter may be changing it at this instant.
#include "agent/sigsafe/python_stack.h"

#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_09.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/cpython_3_14.h"
#include "agent/pyabi/cpython_3_15.h"
#include "agent/sigsafe/code_table.h"
#include "agent/sigsafe/gc_state.h"
#include "agent/sigsafe/peek.h"
#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

SelfCheck g_self_check;

namespace {

// The compiler must not move stores to the result past a read that may fault: the fault leaves
// the function, and what was found before it counts.
inline void keep_result() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The chunks of a thread's data stack, newest first. Frames owned by the thread lie in them, and
// a walk meets them in this order.
class DataStack {
 public:
  DataStack(const PythonLayout& layout, std::uint64_t tstate) noexcept {
    if (layout.tstate_datastack_chunk == kAbsent) return;
    known_ = true;
    chunk_ = peek<std::uint64_t>(tstate + layout.tstate_datastack_chunk);
    begin_ = chunk_;
    end_ = peek<std::uint64_t>(tstate + layout.tstate_datastack_top);
  }

  bool contains(std::uint64_t frame) noexcept {
    if (frame - begin_ < end_ - begin_) return true;
    return !known_ || older_chunk_contains(frame);
  }

 private:
  [[gnu::noinline]] bool older_chunk_contains(std::uint64_t frame) noexcept {
    constexpr std::uint32_t kMaxChunks = 4096;
    std::uint64_t chunk = chunk_;
    for (std::uint32_t i = 0; i < kMaxChunks && is_plausible_object(chunk); ++i) {
      chunk = peek<std::uint64_t>(chunk + kChunkPrevious);
      if (!is_plausible_object(chunk)) return false;
      const auto size = peek<std::uint64_t>(chunk + kChunkSize);
      if (frame - chunk >= size) continue;
      chunk_ = chunk;
      begin_ = chunk;
      end_ = chunk + size;
      return true;
    }
    return false;
  }

  bool known_ = false;
  std::uint64_t chunk_ = 0, begin_ = 0, end_ = 0;
};

bool layout_is_trusted() noexcept { return g_self_check.passed.load(std::memory_order_relaxed) != 0; }

// True if there is a layout. Under UBSan, GCC does not compare addresses with null at compile time.
template <const PythonLayout* kLayout>
inline constexpr bool kIsCompiledIn = true;
template <>
inline constexpr bool kIsCompiledIn<nullptr> = false;

// kLayout: the interpreter's layout if it is known at compile time, else null.
template <const PythonLayout* kLayout>
class Walker {
 public:
  Walker(const PythonRuntime& runtime, wire::SegmentHeader& segment, PythonStack& out) noexcept
      : runtime_(runtime),
        segment_(segment),
        generation_(segment_generation(segment)),
        out_(out),
        trusted_(layout_is_trusted()) {}

  // Appends the frames of one thread state. False when something did not look as it should.
  // out.truncated stays true when the walk ends early, in whatever way.
  bool walk(std::uint64_t tstate) noexcept {
    switch (layout().chain) {
      case FrameChain::kFrameObjects:
        return walk_frame_objects(tstate);
      case FrameChain::kCFrame:
        return walk_interpreter_frames<FrameChain::kCFrame>(tstate);
      case FrameChain::kCurrentFrame:
        return walk_interpreter_frames<FrameChain::kCurrentFrame>(tstate);
    }
    return false;
  }

 private:
  static constexpr std::uint32_t kMaxSteps = 4 * kMaxPythonFrames;  // shims and hidden code included

  constexpr const PythonLayout& layout() const noexcept {
    if constexpr (kIsCompiledIn<kLayout>) return *kLayout;
    return runtime_.layout;
  }

  bool is_code(std::uint64_t code) const noexcept {
    return has_type(code, runtime_.code_type) && (trusted_ || is_described(code));
  }

  bool has_type(std::uint64_t object, std::uint64_t type) const noexcept {
    return is_plausible_object(object) && peek<std::uint64_t>(object + layout().object_type) == type;
  }

  // What every code object has, so that fields at the wrong places do not go unseen.
  bool is_described(std::uint64_t code) const noexcept {
    return has_type(peek<std::uint64_t>(code + layout().code_name), runtime_.str_type) &&
           has_type(peek<std::uint64_t>(code + layout().code_filename), runtime_.str_type) &&
           has_type(peek<std::uint64_t>(code + layout().code_line_table), runtime_.bytes_type) &&
           peek<std::int32_t>(code + layout().code_first_line) >= 0;
  }

  // Of a generator's frame.
  bool is_executing(std::uint64_t frame) const noexcept {
    return layout().generator_state == kAbsent ||
           peek<std::int8_t>(frame - layout().generator_state) == kGeneratorExecuting;
  }

  // Before every step along a chain; damaged chains may be circles.
  bool has_room() noexcept { return out_.count < kMaxPythonFrames && ++steps_ < kMaxSteps; }

  void append(std::uint64_t frame, std::uint64_t code, std::uint32_t instruction, bool entry) noexcept {
    const CodeFingerprint fingerprint{
        code, peek<std::uint64_t>(code + layout().code_name),
        peek<std::uint64_t>(code + layout().code_filename),
        static_cast<std::uint32_t>(peek<std::int32_t>(code + layout().code_first_line))};
    const std::uint64_t id = code_id_of(fingerprint);
    if (id == g_hidden_code.load(std::memory_order_relaxed)) return;
    out_.frames[out_.count] = {id, instruction, entry, code, frame};
    ++out_.count;
    keep_result();
    if (!is_known_code(id, generation_)) [[unlikely]] {
      if (!describe_code(runtime_, segment_, generation_, fingerprint, id)) --out_.count;
    }
  }

  void append_entry(std::uint64_t address, std::uint32_t frames) noexcept {
    if (out_.entries == kMaxEntries) return;
    out_.entry_address[out_.entries] = address;
    out_.entry_frames[out_.entries] = frames;
    ++out_.entries;
    keep_result();
  }

  bool walk_frame_objects(std::uint64_t tstate) noexcept {
    const bool bytes = layout().instruction_field == InstructionField::kByteIndex;
    auto frame = peek<std::uint64_t>(tstate + layout().tstate_frame);
    while (frame != 0) {
      if (!has_room()) return true;
      const std::uint64_t code =
          is_plausible_object(frame) ? peek<std::uint64_t>(frame + layout().frame_code) : 0;
      if (!is_code(code)) return false;
      const auto last = peek<std::int32_t>(frame + layout().frame_instruction);
      const std::uint32_t index =
          last < 0 ? wire::kInstructionNotStarted : static_cast<std::uint32_t>(bytes ? last / 2 : last);
      const auto previous = peek<std::uint64_t>(frame + layout().frame_previous);
      append(frame, code, index, true);
      frame = previous;
    }
    out_.truncated = false;
    return true;
  }

  // Where a walk along the interpreter's frames is. An activation is one run of the eval loop.
  struct Position {
    std::uint64_t frame, cframe;
    const std::uint32_t first_frame, first_entry;  // in out_
    std::uint32_t activation;                      // its first frame in out_
    // In the newest activation, which alone may be half made.
    bool innermost;
    // Nothing contradicts the layout so far.
    bool good;
    DataStack data_stack;
  };

  struct InterpreterFrame {
    std::uint8_t owner;
    std::uint64_t code, previous;
  };

  bool has_shims() const noexcept { return layout().frame_is_entry == kAbsent; }

  // The steps below are inlined, so that the position stays in registers.

  // Starts the walk again at the CFrame below. The eval loop publishes its CFrame before it sets
  // current_frame in it; until then that field is what happened to be on the C stack. From the CFrame below,
  // the chain is known to be right, since an activation has to end at the frame that the CFrame below it
  // names. False if the walk is past the newest activation.
  template <FrameChain kChain>
  [[gnu::always_inline]] bool fall_back(Position& at, std::uint64_t tstate) noexcept {
    if constexpr (kChain != FrameChain::kCFrame) return false;
    const auto previous = peek<std::uint64_t>(at.cframe + layout().cframe_previous);
    if (!at.innermost || !is_plausible_object(previous)) return false;
    at.good &= trusted_;  // such a chain does not confirm the layout
    drop_frames(at);
    append_entry(at.cframe, 0);
    at.cframe = previous;
    at.frame = peek<std::uint64_t>(at.cframe + layout().cframe_current_frame);
    at.data_stack = DataStack(layout(), tstate);
    at.activation = at.first_frame;
    at.innermost = false;
    return true;
  }

  [[gnu::always_inline]] void drop_frames(const Position& at) noexcept {
    out_.count = at.first_frame;
    out_.entries = at.first_entry;
  }

  // The activation of the CFrame ends at a frame whose predecessor is `previous`.
  [[gnu::always_inline]] bool ends_where_expected(const Position& at, std::uint64_t previous) const noexcept {
    const auto older = peek<std::uint64_t>(at.cframe + layout().cframe_previous);
    const std::uint64_t expected =
        is_plausible_object(older) ? peek<std::uint64_t>(older + layout().cframe_current_frame) : 0;
    return previous == expected;
  }

  // The activation is complete. False if it does not end where its CFrame says.
  template <FrameChain kChain>
  [[gnu::always_inline]] bool end_activation(Position& at, std::uint64_t previous,
                                             std::uint64_t entry) noexcept {
    if constexpr (kChain == FrameChain::kCFrame) {
      if (!ends_where_expected(at, previous)) return false;
      at.cframe = peek<std::uint64_t>(at.cframe + layout().cframe_previous);
    }
    append_entry(entry, out_.count - at.activation);
    at.activation = out_.count;
    at.innermost = false;
    return true;
  }

  enum class FrameKind : std::uint8_t { kCode, kShim, kNone };

  // kNone: it cannot be a frame.
  [[gnu::always_inline]] FrameKind read_frame(Position& at, InterpreterFrame& frame) const noexcept {
    if (!is_plausible_object(at.frame)) return FrameKind::kNone;
    frame.owner = peek<std::uint8_t>(at.frame + layout().frame_owner);
    frame.previous = peek<std::uint64_t>(at.frame + layout().frame_previous);
    if (has_shims() && frame.owner >= kFirstShimOwner && frame.owner <= kFirstShimOwner + 1)
      return FrameKind::kShim;
    frame.code =
        peek<std::uint64_t>(at.frame + layout().frame_code) & ~std::uint64_t{layout().frame_code_tag_bits};
    const bool valid =
        is_code(frame.code) && (frame.owner == kOwnedByThread ? at.data_stack.contains(at.frame)
                                                              : frame.owner <= kOwnedByFrameObject);
    return valid ? FrameKind::kCode : FrameKind::kNone;
  }

  std::uint32_t instruction_of(std::uint64_t frame, std::uint64_t code) const noexcept {
    const std::uint64_t first =
        layout().code_tlbc == kAbsent ? code + layout().code_instructions : first_of_copy(frame, code);
    const auto instruction =
        static_cast<std::int64_t>(peek<std::uint64_t>(frame + layout().frame_instruction) - first) / 2;
    const std::int64_t end =
        layout().code_tlbc == kAbsent ? wire::kInstructionNotStarted : end_of_copy(first, code);
    const bool started = instruction >= 0 && instruction < end;
    return started ? static_cast<std::uint32_t>(instruction) : wire::kInstructionNotStarted;
  }

  // Builds without the GIL: the first instruction of the copy that the frame runs. 0: it was not found. The
  // list of copies may have become a larger one. A thread that is not attached, as in a blocking call, may
  // then read the one that was freed, or what is there now.
  std::uint64_t first_of_copy(std::uint64_t frame, std::uint64_t code) const noexcept {
    const auto index = peek<std::int32_t>(frame + layout().frame_tlbc_index);
    if (index == 0) return code + layout().code_instructions;
    const auto copies = peek<std::uint64_t>(code + layout().code_tlbc);
    if (!is_plausible_object(copies) || index < 0 || index >= peek<std::int64_t>(copies)) return 0;
    return peek<std::uint64_t>(copies + 8 + 8 * static_cast<std::uint64_t>(index));
  }
  std::int64_t end_of_copy(std::uint64_t first, std::uint64_t code) const noexcept {
    return first == 0 ? 0 : peek<std::int64_t>(code + layout().bytes_size);
  }

  // With shims, `entry` belongs to the oldest frame of each activation.
  void mark_entries(const Position& at) noexcept {
    std::uint32_t end = at.first_frame;
    for (std::uint32_t i = at.first_entry; i < out_.entries; ++i) {
      end += out_.entry_frames[i];
      if (out_.entry_frames[i] != 0) out_.frames[end - 1].entry = true;
    }
  }

  template <FrameChain kChain>
  bool walk_interpreter_frames(std::uint64_t tstate) noexcept {
    Position at{peek<std::uint64_t>(tstate + layout().tstate_frame),
                0,
                out_.count,
                out_.entries,
                out_.count,
                true,
                true,
                DataStack(layout(), tstate)};
    if constexpr (kChain == FrameChain::kCFrame) {
      at.cframe = at.frame;
      if (!is_plausible_object(at.cframe)) return false;
      at.frame = peek<std::uint64_t>(at.cframe + layout().cframe_current_frame);
    }
    const std::uint64_t sentinel =
        layout().tstate_base_frame != kAbsent ? peek<std::uint64_t>(tstate + layout().tstate_base_frame) : 0;
    bool cut = false;

    while (true) {
      if (at.frame == 0 || at.frame == sentinel) {
        // Every activation ends in the frame it began with. A CFrame that is new at a place where there was
        // one before may lead to generators' frames that have come to be where others were.
        const bool whole = has_shims() || kChain != FrameChain::kCFrame || at.activation == out_.count;
        if (whole) break;
        if (fall_back<kChain>(at, tstate)) continue;
        drop_frames(at);
        return false;
      }
      if (!has_room()) return at.good;
      InterpreterFrame frame{};
      const FrameKind kind = read_frame(at, frame);
      if (kind == FrameKind::kShim) {
        if (end_activation<kChain>(at, frame.previous, at.frame)) {
          at.frame = frame.previous;
        } else if (!fall_back<kChain>(at, tstate)) {
          return false;
        }
        continue;
      }
      if (kind == FrameKind::kNone) [[unlikely]] {
        if (fall_back<kChain>(at, tstate)) continue;
        at.good = false;
        if (at.innermost && out_.count == at.first_frame && is_plausible_object(at.frame)) {
          at.innermost = false;  // the frame at the top is being taken down; the others are complete
          at.frame = frame.previous;
          continue;
        }
        return false;
      }
      // A generator without a caller that does not run: a CFrame of an activation that is over, all of which
      // was still on the C stack, led here.
      if (!has_shims() && frame.owner == kOwnedByGenerator && frame.previous == 0 &&
          !is_executing(at.frame)) {
        if (fall_back<kChain>(at, tstate)) continue;
        drop_frames(at);
        return false;
      }
      // A generator that is being resumed or suspended can be current without a predecessor; every
      // complete chain of a version with shims ends in one.
      if (has_shims() && frame.previous == 0) {
        cut = true;
        if (fall_back<kChain>(at, tstate)) continue;
      }
      const bool entry = !has_shims() && peek<std::uint8_t>(at.frame + layout().frame_is_entry) != 0;
      append(at.frame, frame.code, instruction_of(at.frame, frame.code), entry);
      if (kChain == FrameChain::kCFrame && entry && !end_activation<kChain>(at, frame.previous, at.cframe)) {
        if (fall_back<kChain>(at, tstate)) continue;
        return false;
      }
      at.frame = frame.previous;
    }
    out_.truncated = cut;
    if (has_shims()) mark_entries(at);
    return at.good;
  }

  const PythonRuntime& runtime_;
  wire::SegmentHeader& segment_;
  const std::uint64_t generation_;
  PythonStack& out_;
  const bool trusted_;
  std::uint32_t steps_ = 0;
};

template <const PythonLayout* kLayout>
[[gnu::noinline]] bool walk_with(const PythonRuntime& runtime, wire::SegmentHeader& segment,
                                 std::uint64_t tstate, PythonStack& out) noexcept {
  out.truncated = true;
  keep_result();
  Walker<kLayout> walker(runtime, segment, out);
  return walker.walk(tstate);
}

// Appends the frames of one thread state, see Walker::walk.
bool walk_state(const PythonRuntime& runtime, wire::SegmentHeader& segment, std::uint64_t tstate,
                PythonStack& out) noexcept {
  if (runtime.layout_is_compiled_in) {
    switch (runtime.layout.minor) {
      case 8:
        return walk_with<&kPython308>(runtime, segment, tstate, out);
      case 9:
        return walk_with<&kPython309>(runtime, segment, tstate, out);
      case 10:
        return walk_with<&kPython310>(runtime, segment, tstate, out);
      case 11:
        return walk_with<&kPython311>(runtime, segment, tstate, out);
      case 12:
        return walk_with<&kPython312>(runtime, segment, tstate, out);
      case 13:
        return walk_with<&kPython313>(runtime, segment, tstate, out);
      case 14:
        return walk_with<&kPython314>(runtime, segment, tstate, out);
      case 15:
        return walk_with<&kPython315>(runtime, segment, tstate, out);
      default:
        break;
    }
  }
  return walk_with<nullptr>(runtime, segment, tstate, out);
}

std::uint64_t call(void* (*function)()) noexcept { return reinterpret_cast<std::uint64_t>(function()); }

std::uint64_t own_thread_id() noexcept {
  return reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());  // pthread_self() on x86-64
}

bool holds_gil(const PythonRuntime& runtime, std::uint64_t tstate, std::uint64_t holder) noexcept {
  const PythonLayout& layout = runtime.layout;
  switch (layout.gil_field) {
    case GilField::kHolderOnly:
      return holder == tstate;
    case GilField::kActiveBit:
      return (peek<std::uint32_t>(tstate + layout.tstate_gil) & kActiveBitMask) != 0;
    case GilField::kAttachState:
      return peek<std::int32_t>(tstate + layout.tstate_gil) == kStateAttached;
  }
  return false;
}

// A thread that runs a sub-interpreter has one state per interpreter. The frames of the main interpreter are
// those of the caller. 0 if there is none.
std::uint64_t state_in_main_interpreter(const PythonRuntime& runtime, std::uint64_t own) noexcept {
  constexpr std::uint32_t kMaxThreads = 1024;  // the list may change while it is read
  const PythonLayout& layout = runtime.layout;
  void* main = runtime.main_interpreter();
  if (main == nullptr ||
      peek<std::uint64_t>(own + layout.tstate_interp) == reinterpret_cast<std::uint64_t>(main)) {
    return 0;
  }
  void* state = runtime.first_thread(main);
  for (std::uint32_t i = 0; i < kMaxThreads && state != nullptr; ++i) {
    const auto address = reinterpret_cast<std::uint64_t>(state);
    if (peek<std::uint64_t>(address + layout.tstate_thread_id) == own_thread_id()) return address;
    state = runtime.next_thread(state);
  }
  return 0;
}

// The state of the calling thread in an interpreter other than that of `own`, if it has frames there. Up to
// 3.11 nothing else tells that a thread without the GIL is in a sub-interpreter. 0 if there is none.
std::uint64_t state_in_sub_interpreter(const PythonRuntime& runtime, std::uint64_t own) noexcept {
  constexpr std::uint32_t kMaxStates = 1024;  // lists may change while they are read
  const PythonLayout& layout = runtime.layout;
  void* interpreter = runtime.first_interpreter();
  if (interpreter == nullptr || runtime.next_interpreter(interpreter) == nullptr) return 0;
  const auto own_interpreter = peek<std::uint64_t>(own + layout.tstate_interp);
  for (std::uint32_t i = 0; i < kMaxStates && interpreter != nullptr;
       ++i, interpreter = runtime.next_interpreter(interpreter)) {
    if (reinterpret_cast<std::uint64_t>(interpreter) == own_interpreter) continue;
    for (void* state = runtime.first_thread(interpreter); i < kMaxStates && state != nullptr;
         ++i, state = runtime.next_thread(state)) {
      const auto address = reinterpret_cast<std::uint64_t>(state);
      if (peek<std::uint64_t>(address + layout.tstate_thread_id) == own_thread_id() &&
          peek<std::uint64_t>(address + layout.tstate_frame) != 0) {
        return address;
      }
    }
  }
  return 0;
}

// Whether the interpreter compiles is seen from its threads. It says so only while one runs what was
// compiled.
void look_for_jit(const PythonLayout& layout, std::uint64_t tstate) noexcept {
  if (layout.tstate_executor == kAbsent || g_jit_runs.load(std::memory_order_relaxed) != 0) return;
  if (is_plausible_object(peek<std::uint64_t>(tstate + layout.tstate_executor)))
    g_jit_runs.store(1, std::memory_order_relaxed);
}

void set_note(wire::SegmentHeader& segment, wire::PythonNote note) noexcept {
  segment.python_note.store(static_cast<std::uint32_t>(note), std::memory_order_relaxed);
}

// False if this walk must not be used.
bool check_self(bool good, std::uint32_t frames) noexcept {
  SelfCheck& check = g_self_check;
  if (check.walks.load(std::memory_order_relaxed) >= kCheckedStacks) return true;
  if (frames == 0 && good) return true;  // says nothing
  check.walks.fetch_add(1, std::memory_order_relaxed);
  if (good) {
    check.passed.store(1, std::memory_order_relaxed);
  } else {
    check.bad_walks.fetch_add(1, std::memory_order_relaxed);
  }
  return layout_is_trusted();
}

// The reason why no frames are read, once that is decided.
wire::PythonNote failure() noexcept {
  const SelfCheck& check = g_self_check;
  const auto count = [](const std::atomic<std::uint32_t>& number) {
    return number.load(std::memory_order_relaxed);
  };
  if (count(check.walks) >= kCheckedStacks && count(check.bad_walks) > kCheckedStacks / 2)
    return wire::PythonNote::kCodeNotFound;
  if (count(check.passed) == 0 && count(check.missing) >= kCheckedStacks)
    return wire::PythonNote::kFramesNotFound;
  return wire::PythonNote::kNothing;
}

// Reports what the checks found, and what is missing although frames are read. The first remark is kept.
void remark(wire::SegmentHeader& segment, bool gc_unknown) noexcept {
  const auto nothing = wire::PythonNote::kNothing;
  if (const wire::PythonNote reason = failure(); reason != nothing) {
    set_note(segment, reason);
    segment.python_state.store(static_cast<std::uint32_t>(wire::PythonState::kCheckFailed),
                               std::memory_order_release);
    return;
  }
  if (segment.python_note.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(nothing)) return;
  if (merging_is_given_up()) {
    set_note(segment, wire::PythonNote::kNativeMissing);
  } else if (gc_unknown) {
    set_note(segment, wire::PythonNote::kGarbageUnknown);
  }
}

}  // namespace

void walk_python(wire::SegmentHeader* segment, PythonStack& out) noexcept {
  out.count = 0;
  out.entries = 0;
  out.truncated = false;
  out.thread_has_state = false;
  out.holds_gil = false;
  out.gil_known = false;
  out.finalizing = false;
  out.collecting_garbage = out.collects_elsewhere = false;
  keep_result();
  const PythonRuntime* runtime = python_runtime();
  if (runtime == nullptr || segment == nullptr ||
      segment->python_state.load(std::memory_order_relaxed) !=
          static_cast<std::uint32_t>(wire::PythonState::kActive)) {
    return;
  }
  learn_functions();
  const bool initialized = runtime->is_initialized() != 0;
  out.finalizing = runtime->is_finalizing() != 0;
  if (!initialized && !out.finalizing) return;

  const PythonLayout& layout = runtime->layout;
  std::uint64_t tstate = call(runtime->this_thread_state);
  std::uint64_t outer = 0;
  std::uint64_t holder = 0;
  if (layout.gil_field == GilField::kHolderOnly) {
    holder = call(runtime->unchecked_state);
    // In a sub-interpreter this_thread_state still gives the state of the main one.
    if (holder != tstate && is_plausible_object(holder) &&
        peek<std::uint64_t>(holder + layout.tstate_thread_id) == own_thread_id()) {
      outer = tstate;
      tstate = holder;
    } else if (holder != tstate && is_plausible_object(tstate) && runtime->is_finalizing() == 0) {
      if (const std::uint64_t inner = state_in_sub_interpreter(*runtime, tstate)) {
        outer = tstate;
        tstate = inner;
      }
    }
  }
  if (!is_plausible_object(tstate)) return;
  if (out.finalizing) {
    // Other threads' states may be freed already; theirs are never the current one again.
    if (layout.gil_field != GilField::kHolderOnly) holder = call(runtime->unchecked_state);
    if (holder != tstate) return;
    out.holds_gil = true;
    out.gil_known = true;
  } else if (layout.gil_field == GilField::kHolderOnly || layout.tstate_gil != kAbsent) {
    out.holds_gil = holds_gil(*runtime, tstate, holder);
    out.gil_known = true;
    if (layout.gil_field != GilField::kHolderOnly) outer = state_in_main_interpreter(*runtime, tstate);
  }
  out.thread_has_state = true;
  keep_result();

  look_for_jit(layout, tstate);
  bool good = walk_state(*runtime, *segment, tstate, out);
  if (is_plausible_object(outer) && !out.truncated) good &= walk_state(*runtime, *segment, outer, out);
  if (!check_self(good, out.count)) {
    out.count = 0;
    out.entries = 0;
  }

  // Last: a fault while the place is looked for leaves what was found so far.
  GcKnown gc = GcKnown::kNo;
  if (layout.free_threaded) {
    // Collections are not alone there: other threads run while finalizers do.
    if (layout_is_trusted()) gc = GcKnown::kGivenUp;
  } else if (out.holds_gil && layout_is_trusted()) {
    gc = gc_state(*runtime, tstate);
  }
  out.collects_elsewhere = gc == GcKnown::kCollectsElsewhere;
  out.collecting_garbage = gc == GcKnown::kCollecting || out.collects_elsewhere;
  remark(*segment, gc == GcKnown::kGivenUp);
}

}  // namespace clusterprof::agent
