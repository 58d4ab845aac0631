// SPDX-License-Identifier: BSD-3-Clause
// Writes the completion scripts for bash, zsh and fish from the option definitions.
#include "cli/manual/completion.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

namespace clusterprof::cli {
namespace {

// What can stand in a place: "words" (of a fixed set), "list" (several of it, with commas), or "run", "file",
// "directory", "node"; "text": nothing that could be listed.
std::string kind_of(const OptionText& option) {
  if (!option.values.empty()) return option.separable ? "list" : "words";
  const bool argument = option.names[0][0] != '-';
  const std::string& what = argument ? option.names[0] : option.type;
  if (what.substr(0, 3) == "RUN") return "run";
  if (what == "FILE") return "file";
  if (what == "DIR") return "directory";
  // Of a run's nodes; of arguments `clusterprof query RUN node NAME` alone has one of this name.
  if (argument && what == "NAME") return "node";
  return "text";
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

// For shells' single quotes. Zsh's and fish's texts are short; what follows the first clause is left out.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string short_help(const OptionText& option) {
  std::string text = option.help.empty() ? option.long_name() : option.help;
  for (const char* end : {" (", ": ", "; "})
    if (const std::size_t at = text.find(end); at != std::string::npos && at > 12) text.resize(at);
  return text;
}

std::string short_help(const CommandText& command) {
  return command.summary.substr(0, command.summary.find(": "));
}

// Every command a shell has to know: recording, verbs, and verbs of verbs.
std::vector<const CommandText*> all_commands(const ProgramText& program) {
  std::vector<const CommandText*> commands{&program.record};
  for (const CommandText& verb : program.verbs) {
    commands.push_back(&verb);
    for (const CommandText& question : verb.questions) commands.push_back(&question);
  }
  return commands;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

// --- bash ------------------------------------------------------------------------------------

std::string bash_value(const OptionText& option) {
  return (option.many ? "+" : "") + kind_of(option) + ":" + join(option.values, " ");
}

std::string bash_commands(const ProgramText& program) {
  std::string out;
  for (const CommandText* command : all_commands(program)) {
    out += "        " + quoted(command->name) + ")\n            options=(";
    std::string names, values, questions, arguments;
    for (const OptionText& option : command->options) {
      names += (names.empty() ? "" : " ") + join(option.names, " ");
      if (option.type.empty()) continue;
      values +=
          "                " + join(option.names, " | ") + ") value=" + quoted(bash_value(option)) + " ;;\n";
    }
    for (const OptionText& argument : command->arguments)
      arguments += (arguments.empty() ? "" : " ") + quoted(bash_value(argument));
    for (const CommandText& question : command->questions)
      questions += (questions.empty() ? "" : " ") + last_word(question.name);
    out += names + ")\n            arguments=(" + arguments + ") questions=(" + questions + ")\n";
    if (!values.empty()) out += "            case $2 in\n" + values + "            esac\n";
    out += "            ;;\n";
  }
  return out;
}

// --- zsh -------------------------------------------------------------------------------------

// Text within [] or between colons of a specification of _arguments.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += (c == '[' || c == ']' || c == ':' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out;
}

std::string zsh_action(const OptionText& option) {
  const std::string kind = kind_of(option);
  if (kind == "words") return "(" + join(option.values, " ") + ")";
  if (kind == "list") return "_sequence compadd - " + join(option.values, " ");
  if (kind == "run") return "_clusterprof_runs";
  if (kind == "file") return "_files";
  if (kind == "directory") return "_files -/";
  if (kind == "node") return "_clusterprof_nodes";
  return " ";
}

std::string zsh_specifications(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options) {
    std::vector<std::string> without = option.excludes;
    if (!option.repeatable) without.insert(without.end(), option.names.begin(), option.names.end());
    std::string before = option.repeatable ? "*" : "";
    if (!without.empty()) before.insert(0, "(" + join(without, " ") + ")");
    for (const std::string& name : option.names) {
      std::string spec = before + name;
      if (!option.type.empty()) spec += name[1] == '-' ? "=" : "+";
      spec += "[" + zsh_text(short_help(option)) + "]";
      if (!option.type.empty())
        spec += std::string(option.many ? ":*-*:" : ":") + zsh_text(option.type) + ":" + zsh_action(option);
      out += "        " + quoted(spec) + "\n";
    }
  }
  return out;
}

std::string zsh_argument(const std::string& place, const OptionText& argument) {
  return "        " + quoted(place + ":" + zsh_text(argument.names[0]) + ":" + zsh_action(argument)) + "\n";
}

std::string zsh_commands(const ProgramText& program) {
  std::string out;
  for (const CommandText* command : all_commands(program)) {
    out += "    " + quoted(command->name) + ")\n      specifications=(\n" + zsh_specifications(*command);
    std::size_t place = 0;
    const bool is_question = command->name.find(' ') != std::string::npos;
    if (is_question) place = 2;  // the run and the question itself
    for (const OptionText& argument : command->arguments)
      out += zsh_argument(argument.many ? "*" : std::to_string(++place), argument);
    if (!command->questions.empty()) {
      std::string list;
      for (const CommandText& question : command->questions)
        list += (list.empty() ? "" : " ") + last_word(question.name) + "\\:\"" +
                zsh_text(short_help(question)) + "\"";
      out += "        " + quoted(std::to_string(++place) + ":question:((" + list + "))") + "\n";
    }
    out += "      ) ;;\n";
  }
  return out;
}

std::string zsh_verbs(const ProgramText& program) {
  std::string out;
  for (const CommandText& verb : program.verbs)
    out += "    " + quoted(verb.name + ":" + short_help(verb)) + "\n";
  return out;
}

// --- fish ------------------------------------------------------------------------------------

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish_values(const OptionText& option) {
  const std::string kind = kind_of(option);
  if (kind == "words") return " -x -a " + fish_quoted(join(option.values, " "));
  if (kind == "list") return " -x -a " + fish_quoted("(__fish_append , " + join(option.values, " ") + ")");
  if (kind == "run") return " -x -a '(__clusterprof_runs)'";
  if (kind == "file") return " -r -F";
  if (kind == "directory") return " -x -a '(__fish_complete_directories (commandline -ct))'";
  if (kind == "node") return " -x -a '(__clusterprof_nodes)'";
  return " -x";
}

std::string fish_commands(const ProgramText& program) {
  std::string out;
  for (const CommandText& verb : program.verbs) {
    for (const char* before : {"verb", "help"})
      out += "complete -c clusterprof -n '__clusterprof_wants " + std::string(before) + "' -x -a " +
             verb.name + " -d " + fish_quoted(short_help(verb)) + "\n";
  }
  for (const CommandText* command : all_commands(program)) {
    const std::string is = "complete -c clusterprof -n " + fish_quoted("__clusterprof_is " + command->name);
    for (const OptionText& option : command->options) {
      std::string line = is;
      for (const std::string& name : option.names)
        line += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.type.empty()) line += fish_values(option);
      out += line + " -d " + fish_quoted(short_help(option)) + "\n";
      if (option.many)
        out += "complete -c clusterprof -n " +
               fish_quoted("__clusterprof_is " + command->name + "; and __clusterprof_more " +
                           option.long_name()) +
               fish_values(option) + "\n";
    }
    std::size_t place = 0;
    const auto at = [&](bool many) {
      return "complete -c clusterprof -n " +
             fish_quoted("__clusterprof_is " + command->name + "; and __clusterprof_argument " +
                         (many ? "any" : std::to_string(++place)));
    };
    if (command->name.find(' ') != std::string::npos) place = 2;
    for (const OptionText& argument : command->arguments)
      out += at(argument.many) + fish_values(argument) + "\n";
    if (command->questions.empty()) continue;
    const std::string condition = at(false);
    for (const CommandText& question : command->questions)
      out += condition + " -x -a " + last_word(question.name) + " -d " + fish_quoted(short_help(question)) +
             "\n";
  }
  return out;
}

// --- all -------------------------------------------------------------------------------------

std::vector<std::string> names_where(const ProgramText& program,
                                     const std::function<bool(const OptionText&)>& wanted) {
  std::vector<std::string> names;
  for (const CommandText* command : all_commands(program))
    for (const OptionText& option : command->options)
      if (wanted(option)) names.insert(names.end(), option.names.begin(), option.names.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::string render_completion(Shell shell, std::string_view script, const ProgramText& program) {
  std::vector<std::string> verbs;
  for (const CommandText& verb : program.verbs) verbs.push_back(verb.name);
  std::vector<std::string> record_values;
  for (const OptionText& option : program.record.options)
    if (!option.type.empty())
      record_values.insert(record_values.end(), option.names.begin(), option.names.end());
  const std::map<std::string_view, std::string> parts = {
      {"VERBS", shell == Shell::kZsh ? zsh_verbs(program) : join(verbs, " ") + "\n"},
      {"VERB_NAMES", join(verbs, " ") + "\n"},
      {"COMMANDS", shell == Shell::kBash  ? bash_commands(program)
                   : shell == Shell::kZsh ? zsh_commands(program)
                                          : fish_commands(program)},
      // Options that take a value, by what they are needed for: to find the words that are arguments.
      {"RECORD_VALUES", join(record_values, " ") + "\n"},
      {"VERB_VALUES",
       join(names_where(program, [](const OptionText& o) { return !o.type.empty() && !o.many; }), " ") +
           "\n"},
      {"MANY_VALUES", join(names_where(program, [](const OptionText& o) { return o.many; }), " ") + "\n"},
  };
  std::string out;
  for (std::size_t at = 0; at < script.size();) {
    const std::size_t end = std::min(script.find('\n', at), script.size());
    const std::string_view line = script.substr(at, end - at);
    at = end + 1;
    // @NAME@ alone in its line, or behind what the line begins with.
    const std::size_t open = line.find('@'), close = line.rfind('@');
    if (open == close) {
      out.append(line).append("\n");
      continue;
    }
    const auto part = parts.find(line.substr(open + 1, close - open - 1));
    if (part == parts.end()) {
      out.append(line).append("\n");
      continue;
    }
    std::string text = part->second;
    const std::string_view behind = line.substr(close + 1);
    if (!behind.empty() && text.back() == '\n') text.pop_back();
    out.append(line.substr(0, open)).append(text).append(behind).append(behind.empty() ? "" : "\n");
  }
  return out;
}

}  // namespace clusterprof::cli
