// SPDX-License-Identifier: BSD-3-Clause
#include "cli/manual/definitions.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <variant>

#include "cli/analyze/analyze.hpp"
#include "cli/attach/options.hpp"
#include "cli/doctor/options.hpp"
#include "cli/options.hpp"
#include "report/diff/diff.hpp"
#include "report/export/export.hpp"

namespace clusterprof::cli {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "{a,b}" of CLI::IsMember, "wall|cpu" of the record options.
std::vector<std::string> values_of(const std::string& type, const std::string& checks) {
  if (const std::size_t open = checks.find('{'); open != std::string::npos)
    return split(std::string_view(checks).substr(open + 1, checks.find('}', open) - open - 1), ',');
  const bool choice =
      type.find('|') != std::string::npos &&
      std::all_of(type.begin(), type.end(), [](char c) { return c == '|' || (c >= 'a' && c <= 'z'); });
  return choice ? split(type, '|') : std::vector<std::string>();
}

// What CLI11 writes behind the type: ":" and a description for each check.
std::string checks_of(CLI::Option& option) {
  std::string text;
  for (int i = 0;; ++i) {
    try {
      const std::string description = option.get_validator(i)->get_description();
      if (!description.empty()) text += ":" + description;
    } catch (const CLI::OptionNotFound&) {
      return text;
    }
  }
}

OptionText text_of(CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.names.empty()) text.names.push_back(option.get_name(true));
  const bool takes_value = option.get_expected_max() > 0 && option.get_type_size() > 0;
  if (takes_value) {
    const std::string checks = checks_of(option), type = option.get_type_name();
    text.type = type.substr(0, type.size() - checks.size());
    text.values = values_of(text.type, checks);
  }
  text.help = option.get_description();
  std::replace(text.help.begin(), text.help.end(), '\n', ' ');
  text.group = option.get_group();
  text.default_value = option.get_default_str();
  text.variable = option.get_envname();
  for (const CLI::Option* other : option.get_excludes())
    for (const std::string& name : other->get_lnames()) text.excludes.push_back("--" + name);
  text.required = option.get_required();
  text.many = takes_value && option.get_items_expected_max() > 1 && option.get_allow_extra_args();
  text.separable = option.get_delimiter() != '\0';
  text.repeatable =
      takes_value && (text.many || option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll);
  return text;
}

CommandText text_of(CLI::App& app, std::string name) {
  CommandText text;
  text.name = std::move(name);
  text.summary = app.get_description();
  for (CLI::Option* const option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? text.arguments : text.options).push_back(text_of(*option));
  }
  // Help last, as it is the same everywhere.
  std::stable_partition(text.options.begin(), text.options.end(),
                        [](const OptionText& option) { return option.long_name() != "--help"; });
  for (CLI::App* const question : app.get_subcommands([](CLI::App*) { return true; })) {
    if (question->get_group().empty()) continue;
    text.questions.push_back(text_of(*question, text.name + " " + question->get_name()));
    // What is known of the verb is understood behind the question, too.
    std::vector<OptionText>& options = text.questions.back().options;
    for (const OptionText& option : text.options)
      if (option.long_name() != "--help") options.push_back(option);
  }
  return text;
}

// Values that are checked elsewhere than in the definitions.
void add_values(CommandText& verb) {
  if (verb.name != "export") return;
  for (OptionText& option : verb.options)
    if (option.long_name() == "--table")
      option.values.assign(report::csv_tables().begin(), report::csv_tables().end());
}

// The definitions of a verb; false: of no such verb there are any.
bool with_verb(const std::string& verb, const std::function<void(CLI::App&)>& use) {
  if (verb == "tui") {
    CLI::App app;
    std::string run;
    define_browser(app, run);
    use(app);
    return true;
  }
  if (verb == "attach") {
    CLI::App app;
    attach::Options options;
    attach::define_options(app, options);
    use(app);
    return true;
  }
  if (verb == "top") {
    CLI::App app;
    TopOptions options;
    define_top(app, options);
    use(app);
    return true;
  }
  if (verb == "doctor") {
    CLI::App app;
    doctor::Options options;
    doctor::define_options(app, options);
    use(app);
    return true;
  }
  bool found = false;
  with_verbs([&](CLI::App& app) {
    for (CLI::App* const definition :
         app.get_subcommands([&](CLI::App* one) { return one->check_name(verb); })) {
      found = true;
      use(*definition);
    }
  });
  return found;
}

}  // namespace

const std::string& OptionText::long_name() const {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [](const std::string& name) { return name.substr(0, 2) == "--"; });
  return found == names.end() ? names.front() : *found;
}

ProgramText read_definitions() {
  ProgramText program;
  with_record_options([&](CLI::App& app) { program.record = text_of(app, "record"); });
  for (const std::string& verb : analysis_verbs()) {
    const bool found = with_verb(verb, [&](CLI::App& app) { program.verbs.push_back(text_of(app, verb)); });
    if (found) add_values(program.verbs.back());  // else the name is reserved and the verb refused
  }
  return program;
}

std::string problem_of(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "help") return words.size() <= 2 ? "" : "help is about one verb";
  if (words.empty() || !is_analysis_verb(words[0])) {
    const auto behind_record =
        words.begin() + (!words.empty() && (words[0] == "record" || words[0] == "run") ? 1 : 0);
    const auto parsed = parse_record_options({behind_record, words.end()},
                                             [](const char*) -> const char* { return nullptr; });
    const Leave* const leave = std::get_if<Leave>(&parsed);
    return leave == nullptr || leave->status == 0 ? "" : leave->error;
  }
  std::string problem = words[0] + " is not in this version";
  with_verb(words[0], [&](CLI::App& app) {
    problem.clear();
    std::vector<std::string> backwards(words.rbegin(), words.rend() - 1);
    try {
      app.parse(std::move(backwards));
    } catch (const CLI::CallForHelp&) {
    } catch (const CLI::ParseError& error) {
      problem = error.what();
    }
    const CLI::Option* const conditions = app.get_option_no_throw("--fail-if");
    if (problem.empty() && conditions != nullptr && conditions->count() > 0)
      if (const auto parsed = report::parse_conditions(conditions->as<std::string>()); !parsed)
        problem = parsed.error().message;
  });
  return problem;
}

}  // namespace clusterprof::cli
