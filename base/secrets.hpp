// SPDX-License-Identifier: BSD-3-Clause
// Masks passwords and keys in the command line of the recorded program before it is stored or shown.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof {
namespace secret_words {

inline constexpr const char* kMask = "***";

// "--hf_authToken" is "hfauthtoken".
inline std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  return letters;
}

// Compares the end of the name: "token" is secret, "tokens" and "tokenizer" are not.
inline bool is_secret_name(std::string_view name) {
  static constexpr std::array kEndings = std::to_array<std::string_view>(
      {"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey",
       "privatekey", "accesskeyid", "credential", "credentials"});
  const std::string letters = letters_of(name);
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return letters.ends_with(ending); });
}

inline bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

// scheme://user:VALUE@host
inline void mask_in_address(std::string& word) {
  const std::size_t scheme = word.find("://");
  if (scheme == std::string::npos) return;
  const std::size_t begin = scheme + 3, end = std::min(word.find_first_of("/?#", begin), word.size());
  const std::size_t at = word.substr(0, end).rfind('@'), colon = word.find(':', begin);
  if (at == std::string::npos || at < begin || colon == std::string::npos || colon > at) return;
  word.replace(colon + 1, at - colon - 1, kMask);
}

}  // namespace secret_words

// Replaces by *** the values of words like --password=VALUE, --api-key VALUE, TOKEN=VALUE and
// scheme://user:VALUE@host. Only names are looked at, not values.
inline void mask_secrets(std::vector<std::string>& words) {
  bool is_value = false;  // of the option before it
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (is_value && !is_option) {
      word = secret_words::kMask;
      is_value = false;
      continue;
    }
    is_value = false;
    const std::size_t equals = word.find('=');
    const std::string_view name = std::string_view(word).substr(0, equals);
    if (i > 0 && secret_words::is_name(name) && secret_words::is_secret_name(name)) {
      if (equals != std::string::npos)
        word.replace(equals + 1, std::string::npos, secret_words::kMask);
      else
        is_value = is_option;
      continue;
    }
    secret_words::mask_in_address(word);
  }
}

}  // namespace clusterprof
