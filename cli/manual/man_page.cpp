// SPDX-License-Identifier: BSD-3-Clause
// Writes manual pages: option lists from the definitions, text from docs/man in a small part of Markdown.
#include "cli/manual/man_page.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

namespace clusterprof::cli {
namespace {

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

// Characters that roff would take for something else. A hyphen that is typed must not become a typographic
// one.
std::string escape(std::string_view text, bool typed) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += typed ? "\\-" : "-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escape(text, true) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escape(text, true) + "\\fR"; }

// A line of roff must not begin with what makes it a request.
std::string guarded(std::string line) {
  if (!line.empty() && (line[0] == '.' || line[0] == '\'')) line.insert(0, "\\&");
  return line;
}

// name(1) at `at` of the text: its length without the section, or 0.
std::size_t reference_at(std::string_view text, std::size_t at) {
  if (at > 0 && is_name_character(text[at - 1])) return 0;
  std::size_t end = at;
  while (end < text.size() && is_name_character(text[end])) ++end;
  const bool is_one = end > at && end + 2 < text.size() && text[end] == '(' && text[end + 1] >= '1' &&
                      text[end + 1] <= '8' && text[end + 2] == ')' &&
                      std::isalpha(static_cast<unsigned char>(text[at])) != 0;
  return is_one ? end - at : 0;
}

// A long option at `at`: its length, or 0.
std::size_t option_at(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "--" || (at > 0 && is_name_character(text[at - 1]))) return 0;
  std::size_t end = at + 2;
  while (end < text.size() && is_name_character(text[end]) && text[end] != '.') ++end;
  return end - at > 2 ? end - at : 0;
}

// Running text. `variables`: words that stand for something else.
std::string inline_text(std::string_view text, const std::vector<std::string>& variables = {}) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '`' || (c == '*' && at + 1 < text.size() && text[at + 1] != ' ')) {
      if (const std::size_t end = text.find(c, at + 1); end != std::string_view::npos) {
        const std::string_view inside = text.substr(at + 1, end - at - 1);
        out += c == '`' ? bold(inside) : italic(inside);
        at = end + 1;
        continue;
      }
    }
    if (const std::size_t length = std::max(reference_at(text, at), option_at(text, at)); length > 0) {
      out += bold(text.substr(at, length));
      at += length;
      continue;
    }
    if (is_name_character(c)) {
      std::size_t end = at;
      while (end < text.size() && is_name_character(text[end])) ++end;
      const std::string_view word = text.substr(at, end - at);
      const bool variable = std::find(variables.begin(), variables.end(), word) != variables.end();
      out += variable ? italic(word) : escape(word, false);
      at = end;
      continue;
    }
    out += escape(text.substr(at, 1), false);
    ++at;
  }
  return out;
}

std::string trimmed(std::string_view line) {
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
  return std::string(line);
}

bool is_example(std::string_view line) { return line.substr(0, 4) == "    "; }
bool is_meaning(std::string_view line) { return line.substr(0, 2) == ": "; }

std::string render_body(const std::vector<std::string>& lines) {
  std::string out;
  bool fresh = true;  // right below a heading, where a paragraph must not be begun
  for (std::size_t i = 0; i < lines.size();) {
    const std::string& line = lines[i];
    if (trimmed(line).empty()) {
      ++i;
    } else if (line.substr(0, 4) == "### ") {
      out += ".SS " + escape(line.substr(4), false) + "\n";
      fresh = true;
      ++i;
    } else if (is_example(line)) {
      out += fresh ? "" : ".PP\n";
      out += ".in +4n\n.nf\n";
      std::size_t blank = 0;
      for (; i < lines.size() && (is_example(lines[i]) || trimmed(lines[i]).empty()); ++i) {
        if (!is_example(lines[i])) {
          ++blank;
          continue;
        }
        for (; blank > 0; --blank) out += "\\&\n";
        out += guarded(escape(std::string_view(lines[i]).substr(4), true)) + "\n";
      }
      out += ".fi\n.in\n";
      fresh = false;
    } else if (i + 1 < lines.size() && is_meaning(lines[i + 1])) {
      out += ".TP\n" + guarded(inline_text(line)) + "\n";
      out += guarded(inline_text(trimmed(std::string_view(lines[++i]).substr(2)))) + "\n";
      for (++i; i < lines.size() && lines[i].substr(0, 2) == "  " && !is_example(lines[i]); ++i)
        out += guarded(inline_text(trimmed(lines[i]))) + "\n";
      fresh = false;
    } else {
      out += fresh ? "" : ".PP\n";
      for (; i < lines.size() && !trimmed(lines[i]).empty() && !is_example(lines[i]) &&
             lines[i].substr(0, 4) != "### ";
           ++i)
        out += guarded(inline_text(trimmed(lines[i]))) + "\n";
      fresh = false;
    }
  }
  return out;
}

std::string list_of(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + bold(words[i]);
  return text;
}

// "wall|cpu" as it is typed, "DIR" for what it stands for.
std::string type_text(const OptionText& option) {
  if (option.type.find('|') == std::string::npos || option.values.empty()) return italic(option.type);
  std::string text;
  for (const std::string& value : option.values) text += (text.empty() ? "" : "|") + bold(value);
  return text;
}

std::string sentence(const OptionText& option) {
  std::string help = option.help;
  if (help.empty()) help = "see above";
  // Unless it begins with something that is typed as it is.
  const std::size_t end = std::min(help.find_first_of(" ,:"), help.size());
  const std::string word = help.substr(0, end);
  const bool typed = word.find_first_of("-_.=") != std::string::npos ||
                     (end < help.size() && help[end] != ' ') ||
                     std::find(option.values.begin(), option.values.end(), word) != option.values.end();
  if (!typed) help[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(help[0])));
  std::string text = inline_text(help, {option.type, "EVENT", "PERIOD", "RUN", "CONDITIONS"});
  text += text.back() == '.' ? "" : ".";
  if (!option.values.empty() && option.type.find('|') == std::string::npos &&
      help.find(option.values.back()) == std::string::npos)
    text += std::string("\n") + (option.separable ? "Any of " : "One of ") + list_of(option.values, " or ") +
            (option.separable ? ", separated by commas or blanks." : ".");
  if (!option.default_value.empty() && help.find("default") == std::string::npos)
    text += "\nDefault: " + bold(option.default_value) + ".";
  if (!option.variable.empty())
    text += "\nThe environment variable " + bold(option.variable) + "=1 says the same.";
  return text;
}

std::string option_entry(const OptionText& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "" : ", ") + bold(name);
    if (!option.type.empty()) names += (name[1] == '-' ? "=" : " ") + type_text(option);
    if (option.many) names += " ...";
  }
  return ".TP\n" + names + "\n" + guarded(sentence(option)) + "\n";
}

std::string argument_entry(const OptionText& argument) {
  return ".TP\n" + italic(argument.names[0]) + "\n" + guarded(sentence(argument)) + "\n";
}

std::string render_options(const CommandText& command) {
  std::string out;
  for (const OptionText& argument : command.arguments) out += argument_entry(argument);
  std::vector<std::string> groups;
  for (const OptionText& option : command.options)
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  for (const std::string& group : groups) {
    if (groups.size() > 1) out += ".SS " + escape(group, false) + "\n";
    for (const OptionText& option : command.options)
      if (option.group == group) out += option_entry(option);
  }
  for (const CommandText& question : command.questions) {
    out += ".SS " + escape(command.name, false) + " RUN " +
           escape(question.name.substr(question.name.rfind(' ') + 1), false);
    for (const OptionText& argument : question.arguments) out += " " + escape(argument.names[0], true);
    std::string summary = question.summary;
    summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
    out += "\n" + guarded(inline_text(summary)) + ".\n";
    for (const OptionText& argument : question.arguments) out += argument_entry(argument);
    for (const OptionText& option : question.options) {
      const bool shared =
          std::any_of(command.options.begin(), command.options.end(),
                      [&](const OptionText& other) { return other.long_name() == option.long_name(); });
      if (!shared) out += option_entry(option);
    }
  }
  return out;
}

std::string synopsis_of(const CommandText& command, const std::string& words, const std::string& between) {
  std::string line = bold("clusterprof " + words);
  const auto add_argument = [&](const OptionText& argument) {
    const std::string name = italic(argument.names[0]) + (argument.many ? " ..." : "");
    line += " " + (argument.required ? name : "[" + name + "]");
  };
  line += between;
  for (const OptionText& argument : command.arguments) add_argument(argument);
  for (const OptionText& option : command.options) {
    if (option.long_name() == "--help") continue;
    const std::string& name = option.required ? option.names[0] : option.long_name();
    std::string text = bold(name);
    if (!option.type.empty())
      text += (name[1] == '-' ? "=" : " ") + type_text(option) + (option.many ? " ..." : "");
    line += " " + (option.required ? text : "[" + text + "]");
  }
  return line + "\n";
}

std::string render_synopsis(const CommandText& command) {
  if (command.questions.empty()) return synopsis_of(command, command.name, "");
  std::string out, run;
  for (const OptionText& argument : command.arguments) run += " " + italic(argument.names[0]);
  for (const CommandText& question : command.questions) {
    const std::string verb = question.name.substr(question.name.rfind(' ') + 1);
    out += (out.empty() ? "" : ".br\n") + synopsis_of(question, command.name, run + " " + bold(verb));
  }
  return out;
}

std::string render_verbs(const ProgramText& program) {
  std::string out;
  for (const CommandText& verb : program.verbs)
    out += ".TP\n" + bold("clusterprof-" + verb.name) + "(1)\n" + guarded(inline_text(verb.summary)) + ".\n";
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "Compares runs: diff A B ..." is about comparing runs.
std::string about_of(const CommandText& command) {
  std::string about = command.summary.substr(0, command.summary.find(": "));
  about[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(about[0])));
  return about;
}

}  // namespace

Result<PageSource> parse_page(std::string_view text) {
  PageSource page;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
    at = end + 1;
    ++number;
    const std::string place = "line " + std::to_string(number) + ": ";
    if (std::any_of(line.begin(), line.end(),
                    [](char c) { return static_cast<unsigned char>(c) > 126 || c == '\t'; }))
      return Error{place + "a tab, or a character that is not ASCII"};
    if (!is_example(line) && std::count(line.begin(), line.end(), '`') % 2 != 0)
      return Error{place + "a ` without another one"};
    if (line.substr(0, 2) == "# ") {
      const std::size_t open = line.find('('), close = line.find(')');
      if (open == std::string::npos || close != open + 2) return Error{place + "no name(section)"};
      page.name = line.substr(2, open - 2);
      page.section = line.substr(open + 1, 1);
      if (line.substr(close + 1, 2) == ": ") page.about = line.substr(close + 3);
    } else if (line.substr(0, 3) == "## ") {
      page.sections.push_back({line.substr(3), {}});
    } else if (!page.sections.empty()) {
      page.sections.back().lines.push_back(std::move(line));
    } else if (!line.empty()) {
      return Error{place + "text before the first section"};
    }
  }
  if (page.name.empty()) return Error{"no line with the page's name(section)"};
  return page;
}

std::vector<std::string> examples_of(const PageSource& page) {
  std::vector<std::string> examples;
  std::string whole;
  for (const PageSource::Section& section : page.sections) {
    if (section.title == "SYNOPSIS") continue;
    for (const std::string& line : section.lines) {
      if (!is_example(line)) continue;
      whole += trimmed(line);
      if (!whole.empty() && whole.back() == '\\') {
        whole.back() = ' ';
        continue;
      }
      whole = trimmed(whole.substr(0, whole.find(" #")));
      if (!whole.empty() && whole[0] != '#' && (" " + whole + " ").find(" clusterprof ") != std::string::npos)
        examples.push_back(whole);
      whole.clear();
    }
  }
  return examples;
}

Result<std::string> render_page(const PageSource& page, const CommandText* command,
                                const ProgramText& program, const Edition& edition) {
  const auto find = [&](const char* title) -> const PageSource::Section* {
    const auto found =
        std::find_if(page.sections.begin(), page.sections.end(),
                     [&](const PageSource::Section& section) { return section.title == title; });
    return found == page.sections.end() ? nullptr : &*found;
  };
  if (find("DESCRIPTION") == nullptr) return Error{"there is no section DESCRIPTION"};
  if (command == nullptr && page.about.empty()) return Error{"the page does not say what it is about"};
  const std::string about = page.about.empty() ? about_of(*command) : page.about;
  std::string out = ".\\\" Generated from docs/man and the definitions of the options.\n";
  out += ".TH \"" + escape(upper(page.name), true) + "\" \"" + page.section + "\" \"" + edition.date +
         "\" \"clusterprof " + edition.version + "\" \"clusterprof\"\n";
  // Ragged and without hyphens: options and names are not to be broken, and terminals have one font.
  out += ".ad l\n.nh\n.SH NAME\n" + escape(page.name, true) + " \\- " + inline_text(about) + "\n";
  if (command != nullptr && find("SYNOPSIS") == nullptr) out += ".SH SYNOPSIS\n" + render_synopsis(*command);
  for (const PageSource::Section& section : page.sections) {
    out += ".SH " + escape(section.title, false) + "\n" + render_body(section.lines);
    if (section.title == "COMMANDS") out += render_verbs(program);
    const bool options_here =
        section.title == "OPTIONS" || (section.title == "DESCRIPTION" && find("OPTIONS") == nullptr);
    if (command == nullptr || !options_here) continue;
    out += (section.title == "OPTIONS" ? "" : ".SH OPTIONS\n") + render_options(*command);
  }
  return out;
}

}  // namespace clusterprof::cli
