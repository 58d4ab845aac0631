// SPDX-License-Identifier: BSD-3-Clause
// Keeps passwords, keys and tokens out of what is stored and shown of a command line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof {

// Replaces what looks like a secret by "***":
// - values of names like password, api-key or GH_PAT: --NAME=V, --NAME V, NAME=V, "NAME: V", URL?NAME=V,
// {"NAME": "V"}
// - passwords in addresses (scheme://user:V@host), and of curl's -u user:V
// - keys and tokens in the formats of well-known services, wherever they stand
// - long strings of random letters and digits
// Words with blanks in them, such as the script of `sh -c`, are searched, too. Only values are replaced, and
// the number of words stays the same. The first word is the program. Masking what is masked already changes
// nothing.
void mask_secrets(std::vector<std::string>& words);

// The same in each line of a text.
std::string mask_secrets_in_text(std::string_view text);

// How much of a command line is stored.
enum class CommandDetail {
  kName,    // the program only
  kHash,    // the program and a number that is the same for the same arguments
  kMasked,  // everything, without secrets
  kFull,    // everything
};

// "name", "hash", "masked" or "full".
std::optional<CommandDetail> command_detail(std::string_view name);
std::string_view name_of(CommandDetail detail);

// The words of a command line to store. The hash is made of the masked arguments, so it tells nothing about
// secrets.
std::vector<std::string> stored_command(std::vector<std::string> words, CommandDetail detail);

}  // namespace clusterprof
