// SPDX-License-Identifier: BSD-3-Clause
// Manual pages: what the definitions say of options, and what docs/man says of everything else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/manual/definitions.hpp"

namespace clusterprof::cli {

// docs/man/NAME.md, in a small part of Markdown: `#` the page's name(section), for pages that are of no verb
// with
// ": what it is about"; `##` and `###` headings; paragraphs; lines indented by four blanks, which are
// examples; a line, and one that begins with ": " below it, a term and what it means. In text `bold`,
// *italic* and name(1). ASCII alone.
struct PageSource {
  std::string name, section, about;
  struct Section {
    std::string title;
    std::vector<std::string> lines;
  };
  std::vector<Section> sections;
};
Result<PageSource> parse_page(std::string_view text);

// Lines of examples that call clusterprof, without comments; continued ones put together.
std::vector<std::string> examples_of(const PageSource& page);

struct Edition {
  std::string date, version;
};
// The page in roff, for man(1). A verb's page gets NAME, SYNOPSIS and OPTIONS from `command`, null for a page
// of no verb. OPTIONS come behind DESCRIPTION, or behind the text of a section OPTIONS.
Result<std::string> render_page(const PageSource& page, const CommandText* command,
                                const ProgramText& program, const Edition& edition);

}  // namespace clusterprof::cli
