// SPDX-License-Identifier: BSD-3-Clause
// In every test program of GoogleTest: malloc overwrites memory that it gives out or takes back, so that a test
// that uses what is gone fails everywhere, and not only where somebody else has that memory by then.
#include <malloc.h>

namespace {
[[maybe_unused]] const int is_set = mallopt(M_PERTURB, 0xa5);
}
