// SPDX-License-Identifier: BSD-3-Clause
// Pages of tables and drawings: one file without scripts that needs nothing else.
#pragma once

#include <string>
#include <string_view>

namespace clusterprof::report::plain_html {

// Text and values of attributes alike, made printable.
std::string escaped(std::string_view text);
// All up to the content. The title is escaped here.
std::string head(std::string_view title);
inline constexpr std::string_view kEnd = "</body>\n</html>\n";

}  // namespace clusterprof::report::plain_html
