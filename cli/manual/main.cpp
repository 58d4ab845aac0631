// SPDX-License-Identifier: BSD-3-Clause
// make_manual SHARE PAGES SCRIPTS DATE: at build time, SHARE/man and completion for shells from PAGES/*.md
// and SCRIPTS/*.in. make_manual --check PAGES: whether clusterprof would understand the examples of the
// pages.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "cli/manual/completion.hpp"
#include "cli/manual/definitions.hpp"
#include "cli/manual/man_page.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return text;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path.string() + ": cannot be written");
}

std::vector<fs::path> pages_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".md") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

PageSource parsed(const fs::path& path) {
  Result<PageSource> page = parse_page(read(path));
  if (!page) throw std::runtime_error(path.string() + ": " + page.error().message);
  return std::move(page).value();
}

// The command that a page is about; null: none.
const CommandText* command_of(const PageSource& page, const ProgramText& program) {
  if (page.name == "clusterprof") return &program.record;
  const auto found = std::find_if(program.verbs.begin(), program.verbs.end(), [&](const CommandText& verb) {
    return page.name == "clusterprof-" + verb.name;
  });
  return found == program.verbs.end() ? nullptr : &*found;
}

void make(const fs::path& share, const fs::path& pages, const fs::path& scripts, const std::string& date) {
  const ProgramText program = read_definitions();
  std::vector<std::string> without_page;
  for (const CommandText& verb : program.verbs)
    if (!fs::exists(pages / ("clusterprof-" + verb.name + ".md"))) without_page.push_back(verb.name);
  if (!without_page.empty())
    throw std::runtime_error(pages.string() + ": no page of the verb " + without_page.front());

  fs::remove_all(share / "man");  // pages of verbs that are no more
  for (const fs::path& path : pages_in(pages)) {
    const PageSource page = parsed(path);
    const Result<std::string> text = render_page(page, command_of(page, program), program, {date, kVersion});
    if (!text) throw std::runtime_error(path.string() + ": " + text.error().message);
    write(share / "man" / ("man" + page.section) / (page.name + "." + page.section), text.value());
  }
  fs::create_symlink("clusterprof.1", share / "man/man1/clusterprof-record.1");

  const struct {
    Shell shell;
    const char *script, *target;
  } completions[] = {
      {Shell::kBash, "clusterprof.bash.in", "bash-completion/completions/clusterprof"},
      {Shell::kZsh, "clusterprof.zsh.in", "zsh/site-functions/_clusterprof"},
      {Shell::kFish, "clusterprof.fish.in", "fish/vendor_completions.d/clusterprof.fish"},
  };
  for (const auto& completion : completions)
    write(share / completion.target,
          render_completion(completion.shell, read(scripts / completion.script), program));
}

// Words as a shell would make them of a line without expansions.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool within = false;
  char quote = '\0';
  for (const char c : line) {
    if (quote == '\0' && (c == ' ' || c == '\'' || c == '"')) {
      if (c != ' ') quote = c;
      if (c == ' ') within = false;
      if (c != ' ' && !within) words.emplace_back(), within = true;
    } else if (c == quote) {
      quote = '\0';
    } else {
      if (!within) words.emplace_back(), within = true;
      words.back() += c;
    }
  }
  return words;
}

int check(const fs::path& pages) {
  int checked = 0, wrong = 0;
  for (const fs::path& path : pages_in(pages)) {
    for (const std::string& example : examples_of(parsed(path))) {
      std::vector<std::string> words = words_of(example);
      auto name = std::find(words.begin(), words.end(), "clusterprof");
      if (name == words.end()) {  // it is in what another command is given: --wrap "srun clusterprof ..."
        words = words_of(*std::find_if(words.begin(), words.end(), [](const std::string& word) {
          return (" " + word + " ").find(" clusterprof ") != std::string::npos;
        }));
        name = std::find(words.begin(), words.end(), "clusterprof");
      }
      // What follows is another command's, or the shell's.
      const auto end = std::find_if(name, words.end(), [](const std::string& word) {
        return word == "|" || word == ">" || word == "&&" || word == "||" || word == "&";
      });
      const std::string problem = problem_of({name + 1, end});
      ++checked;
      if (problem.empty()) continue;
      ++wrong;
      std::printf("%s: %s\n  %s\n", path.filename().c_str(), example.c_str(), problem.c_str());
    }
  }
  std::printf("%d examples, %d wrong\n", checked, wrong);
  return checked > 0 && wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace clusterprof::cli

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 2 && arguments[0] == "--check") return clusterprof::cli::check(arguments[1]);
    if (arguments.size() != 4) throw std::runtime_error("usage: make_manual SHARE PAGES SCRIPTS DATE");
    clusterprof::cli::make(arguments[0], arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_manual: %s\n", error.what());
    return 1;
  }
  return 0;
}
