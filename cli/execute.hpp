// SPDX-License-Identifier: BSD-3-Clause
// Replaces this process by another program of the installation.
#pragma once

#include <string>

#include "cli/identity.hpp"

namespace clusterprof::cli {

// The value of GLIBC_TUNABLES with which malloc() asks for huge pages; empty: the variable stays as it is,
// since it says already whether to do that.
std::string tunables_with_huge_pages(const Environment& environment);

// Returns an exit status only if the program could not be executed, and says why.
int execute(const std::string& program, char* const* arguments);

// The same of one of the programs that read runs, whose tables are large. A replay of events, which goes
// through gigabytes in no order, takes three quarters of the time with huge pages.
int execute_reader(const std::string& program, char* const* arguments);

}  // namespace clusterprof::cli
