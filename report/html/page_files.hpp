// SPDX-License-Identifier: BSD-3-Clause
// page.html and dist/ as embed.cmake put them into the library.
#pragma once

#include <string_view>

namespace clusterprof::report {

extern const std::string_view kPageTemplate, kPageScript, kPageStyle;
// Hexadecimal.
extern const std::string_view kPageScriptSha256, kPageStyleSha256;

}  // namespace clusterprof::report
