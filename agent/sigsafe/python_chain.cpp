// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/python_chain.h"

#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_09.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/sigsafe/code_table.h"
#include "agent/sigsafe/peek.h"

namespace clusterprof::agent {
namespace {

// The end is told by is_finalizing.
constinit std::atomic<std::uint32_t> g_was_initialized{0};

// `layout` is a compile-time constant if the version's layout is known: that takes a third of the time.
template <typename Function>
bool with_layout(const PythonRuntime& runtime, Function function) noexcept {
  if (runtime.layout_is_compiled_in) {
    switch (runtime.layout.minor) {
      case 8:
        return function([]() -> const PythonLayout& { return kPython308; });
      case 9:
        return function([]() -> const PythonLayout& { return kPython309; });
      case 10:
        return function([]() -> const PythonLayout& { return kPython310; });
      case 11:
        return function([]() -> const PythonLayout& { return kPython311; });
      case 12:
        return function([]() -> const PythonLayout& { return kPython312; });
      case 13:
        return function([]() -> const PythonLayout& { return kPython313; });
      default:
        break;
    }
  }
  return function([&runtime]() -> const PythonLayout& { return runtime.layout; });
}

std::uint64_t instruction_mask(const PythonLayout& layout) noexcept {
  return layout.instruction_field == InstructionField::kPointer ? ~std::uint64_t{0} : 0xffff'ffffu;
}

// The instruction and, in 3.11, a bit for whether a C eval loop of its own runs the frame. The bit is free
// since addresses of instructions are even.
std::uint64_t read_instruction(const PythonLayout& layout, std::uint64_t frame) noexcept {
  const std::uint64_t instruction =
      peek<std::uint64_t>(frame + layout.frame_instruction) & instruction_mask(layout);
  return layout.frame_is_entry == kAbsent ? instruction
                                          : instruction ^ peek<std::uint8_t>(frame + layout.frame_is_entry);
}

bool has_entry_flag(const PythonLayout& layout) noexcept { return layout.frame_is_entry != kAbsent; }

bool is_shim(const PythonLayout& layout, std::uint64_t frame) noexcept {
  return layout.chain != FrameChain::kFrameObjects && !has_entry_flag(layout) &&
         peek<std::uint8_t>(frame + layout.frame_owner) >= kFirstShimOwner;
}

CodeFingerprint fingerprint_of(const PythonLayout& layout, std::uint64_t code) noexcept {
  return {code, peek<std::uint64_t>(code + layout.code_name),
          peek<std::uint64_t>(code + layout.code_filename),
          static_cast<std::uint32_t>(peek<std::int32_t>(code + layout.code_first_line))};
}

// True for a frame that walks leave out.
bool is_hidden(const PythonLayout& layout, std::uint64_t code) noexcept {
  return is_plausible_object(code) &&
         code_id_of(fingerprint_of(layout, code)) == g_hidden_code.load(std::memory_order_relaxed);
}

}  // namespace

bool find_python_chain(PythonChain& chain) noexcept {
  chain = {};
  const PythonRuntime* const runtime = python_runtime();
  if (runtime == nullptr) return true;
  const PythonLayout& layout = runtime->layout;
  const auto tstate = reinterpret_cast<std::uint64_t>(runtime->this_thread_state());
  std::uint64_t holder = tstate;
  if (layout.gil_field == GilField::kHolderOnly) {
    holder = reinterpret_cast<std::uint64_t>(runtime->unchecked_state());
    if (holder != tstate && is_plausible_object(holder) &&
        peek<std::uint64_t>(holder + layout.tstate_thread_id) ==
            reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()))
      return false;
  }
  if (!is_plausible_object(tstate)) return true;
  if (runtime->is_finalizing() != 0) return false;
  if (g_was_initialized.load(std::memory_order_relaxed) == 0) {
    if (runtime->is_initialized() == 0) return true;
    g_was_initialized.store(1, std::memory_order_relaxed);
  }
  if (layout.gil_field == GilField::kHolderOnly && holder != tstate) {
    void* const interpreter = runtime->first_interpreter();
    if (interpreter == nullptr || runtime->next_interpreter(interpreter) != nullptr) return false;
  }
  chain.tstate = tstate;
  chain.interpreter = peek<std::uint64_t>(tstate + layout.tstate_interp);
  chain.top = peek<std::uint64_t>(tstate + layout.tstate_frame);
  if (layout.chain == FrameChain::kCFrame) {
    chain.cframe = chain.top;
    if (!is_plausible_object(chain.cframe)) return false;
    chain.top = peek<std::uint64_t>(chain.cframe + layout.cframe_current_frame);
  }
  if (is_plausible_object(chain.top))
    chain.top_instruction = peek<std::uint64_t>(chain.top + layout.frame_instruction);
  return true;
}

bool read_python_links(const PythonChain& chain, const PythonStack& python, LinkRoom& room) noexcept {
  room.link_count = room.code_count = 0;
  if (room.most_links == 0) return false;
  room.links[0] = {};
  const PythonRuntime* const runtime = python_runtime();
  if (chain.tstate == 0) return python.count == 0;
  const PythonLayout& layout = runtime->layout;
  if (g_self_check.passed.load(std::memory_order_relaxed) == 0) return false;
  // In a sub-interpreter, frames of the one that called it follow.
  if (layout.gil_field != GilField::kHolderOnly &&
      chain.interpreter != reinterpret_cast<std::uint64_t>(runtime->main_interpreter()))
    return false;
  const std::uint64_t sentinel =
      layout.tstate_base_frame != kAbsent ? peek<std::uint64_t>(chain.tstate + layout.tstate_base_frame) : 0;
  const std::uint64_t tag_mask = ~std::uint64_t{layout.frame_code_tag_bits};
  std::uint32_t found = 0;
  std::uint64_t frame = chain.top;
  while (frame != 0 && frame != sentinel && !(python.truncated && found == python.count)) {
    if (room.link_count + 1 >= room.most_links || !is_plausible_object(frame)) return false;
    const auto code = peek<std::uint64_t>(frame + layout.frame_code);
    room.links[room.link_count++] = {frame, code, read_instruction(layout, frame)};
    if (found < python.count && python.frames[found].frame_address == frame &&
        python.frames[found].code_address == (code & tag_mask)) {
      ++found;
      bool known = false;
      for (std::uint32_t i = 0; i < room.code_count && !known; ++i)
        known = room.codes[i].code == (code & tag_mask);
      if (!known) {
        if (room.code_count == room.most_codes) return false;
        const CodeFingerprint fingerprint = fingerprint_of(layout, code & tag_mask);
        room.codes[room.code_count++] = {fingerprint.code, fingerprint.name, fingerprint.filename,
                                         fingerprint.first_line, 0};
      }
    } else if (!is_shim(layout, frame) && !is_hidden(layout, code & tag_mask)) {
      return false;
    }
    frame = peek<std::uint64_t>(frame + layout.frame_previous);
  }
  room.links[room.link_count] = {frame, 0, 0};
  return found == python.count;
}

bool links_are_unchanged(const FrameLink* links, std::uint32_t count) noexcept {
  if (count == 0) return true;
  return with_layout(*python_runtime(), [=](auto layout_of) noexcept {
    constexpr std::uint32_t kAtOnce = 8;  // without a branch for each
    const auto difference = [&](const FrameLink* link) {
      const PythonLayout& layout = layout_of();
      const std::uint64_t changed =
          (read_instruction(layout, link->frame) ^ link->instruction) |
          (peek<std::uint64_t>(link->frame + layout.frame_previous) ^ link[1].frame);
      // An address of an instruction lies in its code object.
      if (layout.instruction_field == InstructionField::kPointer) return changed;
      return changed | (peek<std::uint64_t>(link->frame + layout.frame_code) ^ link->code);
    };
    const FrameLink* link = links;
    const FrameLink* const end = links + count;
    for (; end - link >= kAtOnce; link += kAtOnce) {
      std::uint64_t different = 0;
      for (std::uint32_t i = 0; i < kAtOnce; ++i) different |= difference(link + i);
      if (different != 0) return false;
    }
    std::uint64_t different = 0;
    for (; link != end; ++link) different |= difference(link);
    return different == 0;
  });
}

bool codes_are_unchanged(const LinkedCode* codes, std::uint32_t count) noexcept {
  if (count == 0) return true;
  const PythonLayout& layout = python_runtime()->layout;
  std::uint64_t different = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const CodeFingerprint now = fingerprint_of(layout, codes[i].code);
    different |= (now.name ^ codes[i].name) | (now.filename ^ codes[i].filename) |
                 (now.first_line ^ codes[i].first_line);
  }
  return different == 0;
}

}  // namespace clusterprof::agent
