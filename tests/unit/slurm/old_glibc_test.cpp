// SPDX-License-Identifier: BSD-3-Clause
// The plugin's own stand-ins for what libgcc and libstdc++ need of newer glibc (slurm/spank/glibc_2_17.cpp),
// linked to both as the plugin is.
#include <cstdio>
#include <locale>
#include <memory>
#include <stdexcept>
#include <string>

extern "C" int found_object(void* pc, void* result) __asm__("_dl_find_object");

namespace {

[[gnu::noinline]] void throw_through(int depth) {
  const std::string destroyed(100, 'x');
  if (depth == 0) throw std::runtime_error(destroyed);
  throw_through(depth - 1);
}

bool check(bool good, const char* what) {
  if (!good) std::fprintf(stderr, "failed: %s\n", what);
  return good;
}

}  // namespace

int main() {
  bool good = true;
  try {
    throw_through(3);
    good = check(false, "an exception was thrown");
  } catch (const std::runtime_error& error) {
    good = check(std::string(error.what()).size() == 100, "the exception arrives") && good;
  }
  void* result[16] = {};
  auto* const here = reinterpret_cast<char*>(&throw_through);
  good =
      check(found_object(here, result) == 0 && result[1] <= here && result[2] > here, "this code is found") &&
      good;
  good = check(found_object(result, result) == -1, "the stack is no code") && good;
  good = check(std::use_facet<std::numpunct<char>>(std::locale::classic()).decimal_point() == '.',
               "locales are made once") &&
         good;
  return good ? 0 : 1;
}
