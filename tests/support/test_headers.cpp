// SPDX-License-Identifier: BSD-3-Clause
// What test_headers.hpp is precompiled with.
#include "tests/support/test_headers.hpp"
