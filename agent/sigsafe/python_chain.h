// SPDX-License-Identifier: BSD-3-Clause
// Recognises that the Python frames of the calling thread are those of an earlier walk, at a much lower cost
// than another walk. Every frame of the chain is checked, but only the words that would differ.
//
// Nothing shorter is safe. A caller that continues and calls the same functions again leaves the frames
// nearest to the leaf unchanged, at the same addresses, and the interpreter has no counter that would show
// it.
#pragma once

#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/python_stack.h"

namespace clusterprof::agent {

// Where the chain of frames begins. All 0: the thread has no Python frames.
struct PythonChain {
  std::uint64_t tstate, interpreter;
  std::uint64_t cframe;  // FrameChain::kCFrame only
  std::uint64_t top;     // the newest frame
  std::uint64_t top_instruction;

  // The top's instruction is not compared here: it follows from the links.
  bool begins_like(const PythonChain& other) const noexcept {
    return tstate == other.tstate && interpreter == other.interpreter && cframe == other.cframe &&
           top == other.top;
  }
};

// The words of one frame of the chain (shims included) at the earlier walk.
struct FrameLink {
  std::uint64_t frame, code, instruction;
};

// A code object in the chain: the other parts of its id. Once its frame has ended, another code object may be
// at its address.
struct LinkedCode {
  std::uint64_t code, name, filename;
  std::uint32_t first_line, reserved;
};

// All of these read the interpreter's memory, so they run under a guard.

// False if finding it would cost much: with sub-interpreters, and while the interpreter finalizes.
bool find_python_chain(PythonChain& chain) noexcept;

// Writes the links of the chain in which walk_python found `python`, and one more after the last, whose
// `frame` says how the chain continues; and the code objects in the chain. False if there is no room for
// them, or if the chain is not exactly what `python` has: then it must not be remembered.
struct LinkRoom {
  FrameLink* links;
  std::uint32_t most_links, link_count;  // without the one behind the last
  LinkedCode* codes;
  std::uint32_t most_codes, code_count;
};
bool read_python_links(const PythonChain& chain, const PythonStack& python, LinkRoom& room) noexcept;

bool links_are_unchanged(const FrameLink* links, std::uint32_t count) noexcept;
bool codes_are_unchanged(const LinkedCode* codes, std::uint32_t count) noexcept;

}  // namespace clusterprof::agent
