// SPDX-License-Identifier: BSD-3-Clause
// Telling that the Python frames of the calling thread are those of an earlier walk, for much less than
// another walk: every frame of the chain is looked at, but only at the words that would differ.
//
// Nothing shorter is safe. A caller that goes on and calls the same functions again leaves the frames nearest
// to the leaf as they were, at the same addresses, and the interpreter counts nothing that would tell.
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

  // The top's instruction follows from its links.
  bool begins_like(const PythonChain& other) const noexcept {
    return tstate == other.tstate && interpreter == other.interpreter && cframe == other.cframe &&
           top == other.top;
  }
};

// Of one frame of the chain, shims included: what its words were.
struct FrameLink {
  std::uint64_t frame, code, instruction;
};

// A code object in the chain: what else its id is made of. Once its frame has ended, another one may come to
// lie at its address.
struct LinkedCode {
  std::uint64_t code, name, filename;
  std::uint32_t first_line, reserved;
};

// All of these read the interpreter's memory: under a guard.

// False when that is not to be had at little cost: with sub-interpreters, while the interpreter finalizes.
bool find_python_chain(PythonChain& chain) noexcept;

// Writes the links of the chain that walk_python found `python` in, one more behind the last whose `frame`
// says how the chain goes on, and the codes in it. False when there is no room for them, or when the chain is
// not just what `python` has: then it is not to be remembered.
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
