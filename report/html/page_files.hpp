// SPDX-License-Identifier: BSD-3-Clause
// What embed.cmake made of page.html and dist/.
#pragma once

#include <string_view>

namespace clusterprof::report {

extern const std::string_view kPageTemplate, kPageScript, kPageStyle;
// Hexadecimal.
extern const std::string_view kPageScriptSha256, kPageStyleSha256;

}  // namespace clusterprof::report
