// SPDX-License-Identifier: BSD-3-Clause
// An error that UBSan finds ends a fuzzer, as with ASan.
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }
