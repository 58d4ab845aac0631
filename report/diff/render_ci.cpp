// SPDX-License-Identifier: BSD-3-Clause
// Judgements for continuous integration: annotations of GitHub Actions, and JUnit's XML for all others.
#include <fmt/format.h>

#include <algorithm>

#include "report/diff/diff.hpp"
#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/plain_html/document.hpp"

namespace clusterprof::report {
namespace {

// How GitHub's workflow commands take text.
std::string quoted(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

bool fails(const Judgement& judgement) { return judgement.holds.value_or(true); }

// Within the repository, whose root the jobs of CI systems run in.
std::string_view within(std::string_view root, std::string_view file) {
  if (root.ends_with('/')) root.remove_suffix(1);
  if (file.size() > root.size() + 1 && file.starts_with(root) && file[root.size()] == '/')
    file.remove_prefix(root.size() + 1);
  return file;
}

}  // namespace

std::string render_github(const std::vector<Judgement>& judgements, std::string_view root) {
  std::string out;
  for (const Judgement& judgement : judgements) {
    std::string properties;
    if (!judgement.file.empty()) {
      properties += "file=" + quoted(format::printable(within(root, judgement.file)), true) + ",";
      if (judgement.line != 0) properties += fmt::format("line={},", judgement.line);
    }
    out += fmt::format("::{} {}title=clusterprof diff::{}\n",
                       fails(judgement)      ? "error"
                       : judgement.undecided ? "warning"
                                             : "notice",
                       properties, quoted(judgement_text(judgement), false));
  }
  return out;
}

std::string render_junit(const std::vector<Judgement>& judgements) {
  using plain_html::escaped;
  const auto failures = std::count_if(judgements.begin(), judgements.end(), fails);
  const auto skipped = std::count_if(judgements.begin(), judgements.end(), [](const Judgement& judgement) {
    return judgement.undecided.has_value();
  });
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "<testsuite name=\"clusterprof diff\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
      judgements.size(), failures, skipped);
  for (const Judgement& judgement : judgements) {
    const std::string subject = judgement.subject.empty() ? std::string() : " " + judgement.subject;
    out += fmt::format("<testcase classname=\"clusterprof\" name=\"{}\">",
                       escaped(judgement.condition.text + subject));
    if (fails(judgement) || judgement.undecided)
      out += fmt::format("<{} message=\"{}\"/>", fails(judgement) ? "failure" : "skipped",
                         escaped(judgement_text(judgement)));
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n</testsuites>\n";
}

}  // namespace clusterprof::report
