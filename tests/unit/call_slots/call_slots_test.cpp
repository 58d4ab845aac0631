// SPDX-License-Identifier: BSD-3-Clause
#include "agent/discovery/call_slots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace clusterprof::agent {
namespace {

int instead() { return 1'000'000; }
void* address_of_instead() { return reinterpret_cast<void*>(&instead); }

struct Found {
  LoadedObject object;
  std::vector<CallSlot> slots;
};

// Those of one object, looked for among all of the process.
Found slots_of(const char* file, const std::string& name) {
  struct Search {
    const char* file;
    const std::string& name;
    Found found;
  } search{file, name, {}};
  for_each_object(
      [](const LoadedObject& object, void* given) {
        auto& here = *static_cast<Search*>(given);
        if (std::strcmp(object.name, here.file) != 0) return;
        here.found.object = object;
        here.found.object.name = here.file;
        for_each_slot(
            object,
            [](const CallSlot& slot, void* given_again) {
              auto& search_again = *static_cast<Search*>(given_again);
              if (search_again.name == slot.name) search_again.found.slots.push_back(slot);
            },
            given);
      },
      &search);
  return search.found;
}

// As in /proc/self/maps: "r--p".
std::string protection_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char protection[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, protection) == 3 && wanted >= begin &&
        wanted < end)
      return protection;
  }
  return {};
}

class CallSlots : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    handle_ = dlopen(GetParam(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
    call_ = reinterpret_cast<int (*)()>(dlsym(handle_, "slots_call"));
    address_ = reinterpret_cast<void* (*)()>(dlsym(handle_, "slots_address"));
  }
  void TearDown() override { dlclose(handle_); }
  void* handle_ = nullptr;
  int (*call_)() = nullptr;
  void* (*address_)() = nullptr;
};

TEST_P(CallSlots, AreChangedAndPutBack) {
  const Found found = slots_of(GetParam(), "getppid");
  ASSERT_EQ(found.slots.size(), 1u);
  EXPECT_FALSE(found.slots[0].defined_here);
  void** const slot = found.slots[0].place;
  const std::string protection = protection_of(slot);
  EXPECT_EQ(protection, std::strstr(GetParam(), "now") != nullptr ? "r--p" : "rw-p");
  void* const before = *slot;
  ASSERT_TRUE(change_slot(found.object, slot, before, address_of_instead()));
  EXPECT_EQ(call_(), 1'000'005);
  EXPECT_EQ(protection_of(slot), protection);
  // Nobody puts back what is not there.
  EXPECT_FALSE(change_slot(found.object, slot, before, before));
  EXPECT_EQ(call_(), 1'000'005);
  ASSERT_TRUE(change_slot(found.object, slot, address_of_instead(), before));
  EXPECT_EQ(*slot, before);
  EXPECT_EQ(call_(), getppid() + 5);
  EXPECT_EQ(protection_of(slot), protection);
}

TEST_P(CallSlots, OfAddresses) {
  const Found found = slots_of(GetParam(), "getpgrp");
  ASSERT_EQ(found.slots.size(), 1u);
  void* const before = address_();
  EXPECT_EQ(*found.slots[0].place, before);
  ASSERT_TRUE(change_slot(found.object, found.slots[0].place, before, address_of_instead()));
  EXPECT_EQ(address_(), address_of_instead());
  ASSERT_TRUE(change_slot(found.object, found.slots[0].place, address_of_instead(), before));
  EXPECT_EQ(address_(), before);
}

TEST_P(CallSlots, OfTheObjectsOwnFunctions) {
  const Found found = slots_of(GetParam(), "slots_own");
  for (const CallSlot& slot : found.slots) EXPECT_TRUE(slot.defined_here);
}

TEST_P(CallSlots, KnowsWhatIsInTheObject) {
  const Found found = slots_of(GetParam(), "getppid");
  EXPECT_TRUE(found.object.contains(reinterpret_cast<ElfW(Addr)>(call_)));
  EXPECT_FALSE(found.object.contains(reinterpret_cast<ElfW(Addr)>(&instead)));
}

INSTANTIATE_TEST_SUITE_P(Objects, CallSlots, testing::Values(CALL_SLOTS_NOW, CALL_SLOTS_LAZY),
                         [](const auto& given) {
                           return std::strstr(given.param, "now") != nullptr ? "Now" : "Lazy";
                         });

}  // namespace
}  // namespace clusterprof::agent
