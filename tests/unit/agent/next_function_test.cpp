// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/next_function.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace clusterprof::agent {
namespace {

// All names that libc and the other libraries of this test define, in their own tables.
std::vector<std::string> defined_names() {
  std::vector<std::string> names;
  for (const link_map* map = _r_debug.r_map->l_next; map != nullptr; map = map->l_next) {
    const ElfW(Sym)* symbols = nullptr;
    const char* strings = nullptr;
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) address =
          entry->d_un.d_ptr < map->l_addr ? entry->d_un.d_ptr + map->l_addr : entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
      if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(address);
    }
    if (symbols == nullptr || strings == nullptr) continue;
    // The linkers put the names behind the symbols.
    const auto* const end = reinterpret_cast<const ElfW(Sym)*>(strings);
    for (const ElfW(Sym)* symbol = symbols + 1; symbol + 1 <= end; ++symbol)
      if (symbol->st_shndx != SHN_UNDEF) names.emplace_back(strings + symbol->st_name);
  }
  return names;
}

bool loader_takes_default_versions() {
  int major = 0, minor = 0;
  return std::sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 &&
         (major > 2 || (major == 2 && minor >= 36));
}

// What the loader finds, in the version that is the default of the object where it finds it. Before
// glibc 2.36 it may take an older one for RTLD_NEXT, but not if it is asked for a function of that object (BZ
// #14932).
void* next_in_default_version(const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  Dl_info place{};
  if (next == nullptr || loader_takes_default_versions() || dladdr(next, &place) == 0) return next;
  void* const object = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (object == nullptr) return next;
  void* const found = dlsym(object, name);
  dlclose(object);
  return found;
}

// Function by function the same as the loader, for all names that there are.
TEST(NextFunction, IsWhatTheLoaderFinds) {
  const NextFunctions functions;
  ASSERT_TRUE(functions.is_active());
  const std::vector<std::string> names = defined_names();
  ASSERT_GT(names.size(), 3000u) << "libc alone has more";
  std::size_t without_loader = 0;
  for (const std::string& name : names) {
    void* found = nullptr;
    const bool needs_loader = functions.needs_loader(name.c_str(), found);
    void* const wanted =
        needs_loader ? dlsym(RTLD_NEXT, name.c_str()) : next_in_default_version(name.c_str());
    EXPECT_EQ(next_function(name.c_str()), wanted) << name;
    if (needs_loader) continue;
    EXPECT_EQ(found, wanted) << name;
    ++without_loader;
  }
  EXPECT_GT(without_loader, names.size() / 2);
}

TEST(NextFunction, NeedsNoLoaderForWhatTheAgentStandsInFrontOf) {
  const NextFunctions functions;
  for (const char* name :
       {"read", "write", "sendmsg", "open", "openat64", "close", "fopen", "fgets", "vprintf", "poll",
        "epoll_wait", "clock_nanosleep", "vfork", "posix_spawn", "system", "signal"}) {
    void* found = nullptr;
    EXPECT_FALSE(functions.needs_loader(name, found)) << name;
    EXPECT_EQ(found, next_in_default_version(name)) << name;
    EXPECT_NE(found, nullptr) << name;
  }
}

TEST(NextFunction, KnowsThatThereIsNone) {
  const NextFunctions functions;
  void* found = &found;
  EXPECT_FALSE(functions.needs_loader("clusterprof_no_such_function", found));
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(next_function("clusterprof_no_such_function"), nullptr);
}

// The kernel's own object is in the loader's list, but nobody's successor. An object that is no function, and
// one whose place code chooses, are left to the loader.
TEST(NextFunction, LeavesWhatIsUnusualToTheLoader) {
  const NextFunctions functions;
  EXPECT_EQ(next_function("clock_gettime"), dlsym(RTLD_NEXT, "clock_gettime"));
  void* found = nullptr;
  EXPECT_TRUE(functions.needs_loader("memcpy", found)) << "chosen when the program starts";
  EXPECT_TRUE(functions.needs_loader("stdout", found));
  EXPECT_EQ(next_function("stdout"), dlsym(RTLD_NEXT, "stdout"));
}

TEST(NextFunction, FindsInLibcItself) {
  const NextFunctions functions;
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(libc, nullptr);
  EXPECT_EQ(functions.function_of_libc("clock_gettime"), dlsym(libc, "clock_gettime"));
  EXPECT_EQ(functions.variable_of_libc("__abort_msg"), dlsym(libc, "__abort_msg"));
  EXPECT_EQ(functions.function_of_libc("stdout"), nullptr) << "it is a variable";
  EXPECT_EQ(functions.function_of_libc("memcpy"), nullptr) << "chosen when the program starts";
  EXPECT_EQ(functions.function_of_libc("cos"), nullptr) << "in another library";
  dlclose(libc);
}

TEST(NextFunction, OnlyOneThreadSearchesWithoutTheLoader) {
  auto functions = std::make_unique<NextFunctions>();
  void* there = nullptr;
  std::thread([&] { there = next_function("read"); }).join();
  EXPECT_EQ(there, dlsym(RTLD_NEXT, "read"));
  functions.reset();
  EXPECT_EQ(next_function("read"), there) << "the loader again";
}

TEST(NextFunction, LeavesAllToTheLoaderWhereAuditorsMayChangeIt) {
  setenv("LD_AUDIT", "", 1);
  const NextFunctions functions;
  EXPECT_FALSE(functions.is_active());
  EXPECT_NE(next_function("read"), nullptr);
  unsetenv("LD_AUDIT");
}

}  // namespace
}  // namespace clusterprof::agent
