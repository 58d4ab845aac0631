// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/python_thread_name.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/instance_layout.h"
#include "tests/unit/python_walk/fake_python.hpp"

namespace clusterprof::agent {
namespace {

// A Thread object in memory, and the outermost frame that has it as its first local variable.
class FakeNamedThread {
 public:
  explicit FakeNamedThread(const PythonLayout& layout) : python(layout), layout_(layout) {
    publish_python_runtime(&python.runtime);
    type_.set(kTypeFlags,
              std::uint64_t{kTypeOnHeap} | (at().dict == InstanceDict::kOfType ? 0 : kTypeHasManagedDict));
    type_.set(kObjectType, metatype_.address()).set(kTypeBasicSize, std::int64_t{16});
    type_.set(kTypeDictOffset, std::int64_t{at().dict == InstanceDict::kOfType ? 16 : -1});
    metatype_.set(kTypeFlags, std::uint64_t{kTypeOfTypes}).set(kObjectType, metatype_.address());
    dict_type_.set(kTypeFlags, std::uint64_t{kTypeOfDicts});
    object_.set(kObject + kObjectType, type_.address());
    frame_.set(at().frame_locals, object());
    stack->count = 2;
    stack->frames[0] = {1, 0, false, python.make_code(python.make_str("run"), python.make_str("a.py"), 1), 0};
    set_outermost(layout.minor >= 11 ? "Thread._bootstrap" : "_bootstrap");
  }
  ~FakeNamedThread() { publish_python_runtime(nullptr); }

  const InstanceLayout& at() const { return *instance_layout(layout_.minor); }
  std::uint64_t object() const { return object_.address() + kObject; }
  void set_outermost(const std::string& function) {
    const std::uint64_t code =
        python.make_code(python.make_str(function), python.make_str("threading.py"), 9);
    stack->frames[1] = {2, 0, false, code, frame_.address()};
  }

  // Keys with one index byte per place, in the form that instances share (values apart) or a dict has.
  std::uint64_t keys(const std::vector<std::string>& names, const std::vector<std::uint64_t>& values = {}) {
    Memory& memory = python.make(512);
    const bool old = at().dict == InstanceDict::kOfType;
    memory.set(at().keys_entry_count, static_cast<std::int64_t>(names.size()));
    if (old) {
      memory.set(at().keys_size, std::int64_t{8});
    } else {
      memory.set(at().keys_size, std::uint8_t{3}).set(kKeysKind, std::uint8_t{1});
    }
    const std::size_t first = at().keys_indices + 8u, step = old ? 24 : 16, key = old ? 8 : 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      memory.set(first + i * step + key, python.make_str(names[i]));
      if (i < values.size()) memory.set(first + i * step + key + 8, values[i]);
    }
    return memory.address();
  }
  std::uint64_t dict(std::uint64_t of_keys, std::uint64_t values = 0) {
    Memory& memory = python.make(64);
    memory.set(kObjectType, dict_type_.address()).set(kDictKeys, of_keys).set(kDictValues, values);
    return memory.address();
  }
  std::uint64_t values(const std::vector<std::uint64_t>& all) {
    Memory& memory = python.make(at().values_data + 8 * all.size() + 8);
    for (std::size_t i = 0; i < all.size(); ++i) memory.set(at().values_data + 8 * i, all[i]);
    return memory.address();
  }
  void set_before(std::size_t bytes, std::uint64_t value) { object_.set(kObject - bytes, value); }

  std::string name() {
    slot->python_name_bytes = 0;
    if (const std::uint64_t found = find_thread_name(*stack); found != 0) tell_thread_name(found, *slot);
    std::string text;
    for (const auto& word : slot->python_name) {
      char bytes[8];
      const std::uint64_t value = word;
      std::memcpy(bytes, &value, sizeof bytes);
      text.append(bytes, sizeof bytes);
    }
    return text.substr(0, slot->python_name_bytes);
  }

  static constexpr std::size_t kObject = 64;  // there is something before it
  FakePython python;
  Memory type_{1024}, metatype_{512}, dict_type_{512}, object_{256}, frame_{512};
  std::unique_ptr<PythonStack> stack = std::make_unique<PythonStack>();
  std::unique_ptr<wire::ThreadSlot> slot = std::make_unique<wire::ThreadSlot>();

 private:
  PythonLayout layout_;
};

TEST(PythonThreadName, IsReadFromADictOfItsOwn) {
  FakeNamedThread thread(kPython308);
  const std::uint64_t text = thread.python.make_str("loader-1");
  thread.object_.set(FakeNamedThread::kObject + 16,
                     thread.dict(thread.keys({"_target", "_name"}, {1, text})));
  EXPECT_EQ(thread.name(), "loader-1");
}

TEST(PythonThreadName, IsReadFromADictThatSharesItsKeys) {
  FakeNamedThread thread(kPython308);
  const std::uint64_t text = thread.python.make_str("loader-2");
  thread.object_.set(FakeNamedThread::kObject + 16,
                     thread.dict(thread.keys({"_target", "_name"}), thread.values({1, text})));
  EXPECT_EQ(thread.name(), "loader-2");
}

TEST(PythonThreadName, IsReadFromValuesOf311) {
  FakeNamedThread thread(kPython311);
  const std::uint64_t text = thread.python.make_str("loader-3");
  thread.type_.set(thread.at().type_cached_keys, thread.keys({"_target", "_name"}));
  thread.set_before(kValuesBefore, thread.values({1, text}));
  EXPECT_EQ(thread.name(), "loader-3");
  thread.set_before(kValuesBefore, 0);
  thread.set_before(kDictBefore, thread.dict(thread.keys({"_name"}, {thread.python.make_str("in a dict")})));
  EXPECT_EQ(thread.name(), "in a dict");
}

TEST(PythonThreadName, IsReadFromValuesOf312) {
  FakeNamedThread thread(kPython312);
  const std::uint64_t text = thread.python.make_str("loader-4");
  thread.type_.set(thread.at().type_cached_keys, thread.keys({"_target", "_name"}));
  thread.set_before(kDictBefore, thread.values({1, text}) - 1);
  EXPECT_EQ(thread.name(), "loader-4");
  thread.set_before(kDictBefore, thread.dict(thread.keys({"_name"}, {thread.python.make_str("in a dict")})));
  EXPECT_EQ(thread.name(), "in a dict");
}

TEST(PythonThreadName, IsReadFromValuesBehindAnObjectOf313) {
  FakeNamedThread thread(kPython313);
  const std::uint64_t text = thread.python.make_str("loader-5");
  thread.type_.set(kTypeFlags, std::uint64_t{kTypeOnHeap | kTypeHasManagedDict | kTypeHasInlineValues});
  thread.type_.set(thread.at().type_cached_keys, thread.keys({"_target", "_name"}));
  const std::size_t values = FakeNamedThread::kObject + 16;
  thread.object_.set(values + kValuesValid, std::uint8_t{1}).set(values + thread.at().values_data + 8, text);
  EXPECT_EQ(thread.name(), "loader-5");
  thread.object_.set(values + kValuesValid, std::uint8_t{0});
  EXPECT_EQ(thread.name(), "") << "values that are no longer the object's";
  thread.set_before(kDictBefore, thread.dict(thread.keys({"_name"}, {thread.python.make_str("in a dict")})));
  EXPECT_EQ(thread.name(), "in a dict");
}

TEST(PythonThreadName, IsUtf8AndCutBetweenCharacters) {
  FakeNamedThread thread(kPython308);
  std::u16string wide(40, u'\u20ac');  // 3 bytes each
  const std::uint64_t text = thread.python.make_str(wide.data(), wide.size(), 2, false);
  thread.object_.set(FakeNamedThread::kObject + 16, thread.dict(thread.keys({"_name"}, {text})));
  std::string expected;
  for (int i = 0; i < 21; ++i) expected += "\xe2\x82\xac";
  EXPECT_EQ(thread.name(), expected);
}

TEST(PythonThreadName, IsOfThreadsOfTheThreadingModuleOnly) {
  FakeNamedThread thread(kPython312);
  thread.set_before(kDictBefore, thread.dict(thread.keys({"_name"}, {thread.python.make_str("name")})));
  EXPECT_EQ(thread.name(), "name");
  thread.set_outermost("run");
  EXPECT_EQ(thread.name(), "");
  thread.set_outermost("Thread._bootstrap");
  thread.stack->truncated = true;
  EXPECT_EQ(thread.name(), "") << "the outermost frame is another one";
  thread.stack->truncated = false;
  thread.python.runtime.layout_is_compiled_in = false;
  EXPECT_EQ(thread.name(), "") << "another build";
}

TEST(PythonThreadName, WhatIsNotAsItShouldBeIsNotFollowed) {
  FakeNamedThread thread(kPython312);
  const std::uint64_t good = thread.dict(thread.keys({"_name"}, {thread.python.make_str("name")}));
  thread.set_before(kDictBefore, good);
  ASSERT_EQ(thread.name(), "name");
  for (const std::uint64_t bad :
       {std::uint64_t{0}, std::uint64_t{12}, std::uint64_t{0xdead'beef'0000'0000}}) {
    thread.set_before(kDictBefore, bad);
    EXPECT_EQ(thread.name(), "") << bad;
    thread.set_before(kDictBefore, thread.dict(bad));
    EXPECT_EQ(thread.name(), "") << bad;
    thread.set_before(kDictBefore, good);
    thread.frame_.set(thread.at().frame_locals, bad);
    EXPECT_EQ(thread.name(), "") << bad;
    thread.frame_.set(thread.at().frame_locals, thread.object());
  }
  // The name is no str.
  thread.set_before(kDictBefore, thread.dict(thread.keys({"_name"}, {good})));
  EXPECT_EQ(thread.name(), "");
  // What has the place of a class is none.
  thread.set_before(kDictBefore, good);
  thread.metatype_.set(kTypeFlags, std::uint64_t{0});
  EXPECT_EQ(thread.name(), "");
}

}  // namespace
}  // namespace clusterprof::agent
