// SPDX-License-Identifier: BSD-3-Clause
// Functions at known lines, for symbolize_test.cpp. The numbers in comments are checked there: keep them.

using Record = void (*)(const char* what, void* pc);

extern "C" __attribute__((visibility("default"))) void symbolize_sample(Record record);
void report_here(Record record, const char* what);

namespace sample {
namespace {

volatile int g_sink = 0;

inline __attribute__((always_inline)) void innermost(Record record) {
  report_here(record, "inlined");  // line 15
  g_sink = g_sink + 1;
}

template <typename T>
inline __attribute__((always_inline)) void middle(Record record, T value) {
  innermost(record);  // line 21
  g_sink = g_sink + static_cast<int>(value);
}

struct Counter {
  __attribute__((noinline)) void outer(Record record, int times) const {  // line 26
    for (int i = 0; i < times; ++i) {
      middle<double>(record, 1.5);  // line 28
    }
    g_sink = g_sink + 1;
  }
};

__attribute__((noinline)) void local_function(Record record) {  // line 34
  report_here(record, "local");                                 // line 35
  g_sink = g_sink + 1;
}

}  // namespace
}  // namespace sample

__attribute__((noinline)) void report_here(Record record, const char* what) {
  record(what, __builtin_return_address(0));
  sample::g_sink = sample::g_sink + 1;
}

void symbolize_sample(Record record) {
  sample::Counter{}.outer(record, 1);
  sample::local_function(record);
  report_here(record, "exported");  // line 50
  sample::g_sink = sample::g_sink + 1;
}
