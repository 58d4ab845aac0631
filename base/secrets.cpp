// SPDX-License-Identifier: BSD-3-Clause
// Names and formats of secrets are those that gitleaks and detect-secrets look for, as far as they occur in
// command lines. A value that is masked by mistake costs its reader little; a secret in a file that people
// share costs a lot.
#include "base/secrets.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/ascii.hpp"
#include "base/hex_hash.hpp"

namespace clusterprof {
namespace {

constexpr std::string_view kMask = "***";
constexpr std::string_view kBlanks = " \t\n\r";
constexpr std::string_view kQuotes = "'\"`";

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_alnum(char c) { return is_upper(c) || is_lower(c) || is_digit(c); }
bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }
bool is_quote(char c) { return kQuotes.find(c) != std::string_view::npos; }
bool is_name_letter(char c) { return is_alnum(c) || c == '_' || c == '-' || c == '.'; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), to_lower);
  return lower;
}

template <typename List>
bool contains(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// "--hf_authToken" becomes "hfauthtoken".
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (is_alnum(c)) letters += to_lower(c);
  return letters;
}

// The last word of "--hf_authToken" is "token".
std::string last_word(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && !is_alnum(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_alnum(name[begin - 1])) {
    --begin;
    if (begin > 0 && is_upper(name[begin]) && is_lower(name[begin - 1])) break;
  }
  return lowered(name.substr(begin, end - begin));
}

// Computed here, because std::log2 would be the launcher's only need for libm, which every rank would load.
double log2_of(double x) {
  double result = 0;
  for (; x >= 2; x /= 2) result += 1;
  for (double digit = 0.5; digit > 1e-6; digit /= 2) {
    x *= x;
    if (x < 2) continue;
    x /= 2;
    result += digit;
  }
  return result;
}

// In bits per letter.
double entropy(std::string_view text) {
  std::array<int, 256> counts{};
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  const double letters = static_cast<double>(text.size());
  double bits = 0;
  for (const int count : counts)
    if (count != 0) bits += count * log2_of(letters / count) / letters;
  return bits;
}

// For a value whose name does not tell whether it is a secret.
bool looks_random(std::string_view value) {
  const bool letters =
      std::any_of(value.begin(), value.end(), [](char c) { return is_upper(c) || is_lower(c); });
  const bool digits = std::any_of(value.begin(), value.end(), is_digit);
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return is_alnum(c) || c == '+' || c == '/' || c == '=' || c == '_' || c == '-';
  });
  const bool is_path = value.starts_with('/') || value.starts_with("./") || value.starts_with('~');
  return !is_path && value.size() >= 16 && letters && digits && plain && entropy(value) >= 3.3;
}

// For a value without a name: true if it is as random as a key of upper and lower case letters and digits, in
// which about every second character is of another kind than the one before. Words and numbers that were put
// together are not.
bool is_random_without_doubt(std::string_view text) {
  constexpr std::size_t kShortest = 24;
  if (text.size() < kShortest || entropy(text) < 3.9) return false;
  const auto kind = [](char c) { return is_upper(c) ? 0 : is_lower(c) ? 1 : 2; };
  std::array<bool, 3> seen{};
  std::size_t changes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    seen[static_cast<std::size_t>(kind(text[i]))] = true;
    changes += i > 0 && kind(text[i]) != kind(text[i - 1]);
  }
  return seen[0] && seen[1] && seen[2] && changes * 9 >= text.size() * 4;
}

enum class Secrecy { kNone, kIfRandom, kUnlessHarmless, kAlways };

// "token" is secret, "tokens" and "tokenizer" are not.
Secrecy secrecy_of(std::string_view name) {
  static constexpr auto kEndings = std::to_array<std::string_view>(
      {"password",   "passwd",     "passphrase",  "passcode",      "secret",
       "token",      "apikey",     "accesskey",   "accesskeyid",   "secretkey",
       "privatekey", "accountkey", "signingkey",  "encryptionkey", "sessionkey",
       "sessionid",  "credential", "credentials", "authorization", "connectionstring"});
  static constexpr auto kWords = std::to_array<std::string_view>({"cookie", "cookies", "bearer", "creds"});
  static constexpr auto kOftenHarmless = std::to_array<std::string_view>({"pass", "pwd", "pw", "auth"});
  static constexpr auto kSometimes =
      std::to_array<std::string_view>({"key", "sig", "signature", "pat", "webhook"});
  const std::string letters = letters_of(name), last = last_word(name);
  if (std::any_of(kEndings.begin(), kEndings.end(),
                  [&](std::string_view end) { return letters.ends_with(end); }))
    return Secrecy::kAlways;
  if (contains(kWords, last) || name.ends_with("_PAT")) return Secrecy::kAlways;
  if (contains(kOftenHarmless, last)) return Secrecy::kUnlessHarmless;
  return contains(kSometimes, last) ? Secrecy::kIfRandom : Secrecy::kNone;
}

// --pass=2 of a compiler, --auth=kerberos
bool is_harmless(std::string_view value) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"",          "true",     "false",   "yes",   "no",    "on",       "off",    "none",
       "all",       "auto",     "default", "first", "last",  "basic",    "digest", "ntlm",
       "negotiate", "kerberos", "gssapi",  "ldap",  "munge", "oauth",    "oauth2", "saml",
       "jwt",       "mtls",     "ssl",     "tls",   "plain", "anonymous"});
  return contains(kWords, lowered(value)) ||
         (value.size() <= 2 && std::all_of(value.begin(), value.end(), is_digit));
}

bool is_secret(std::string_view name, std::string_view value) {
  switch (secrecy_of(name)) {
    case Secrecy::kAlways:
      return true;
    case Secrecy::kUnlessHarmless:
      return !is_harmless(value);
    case Secrecy::kIfRandom:
      return looks_random(value);
    case Secrecy::kNone:
      return false;
  }
  return false;
}

// A format of keys or tokens: what it begins with, and how many letters, at least, follow.
struct Format {
  std::string_view prefix;
  std::size_t length;
  std::string_view also;  // characters allowed in addition to letters and digits
};

constexpr auto kFormats = std::to_array<Format>({
    {"AKIA", 16, ""},      {"ASIA", 16, ""},
    {"AIza", 30, "_-"},    {"ya29.", 20, "_-"},
    {"ghp_", 30, ""},      {"gho_", 30, ""},
    {"ghu_", 30, ""},      {"ghs_", 30, ""},
    {"ghr_", 30, ""},      {"github_pat_", 22, "_"},
    {"glpat-", 20, "_-"},  {"gldt-", 20, "_-"},
    {"glrt-", 20, "_-"},   {"glptt-", 20, "_-"},
    {"xoxb-", 10, "-"},    {"xoxp-", 10, "-"},
    {"xoxa-", 10, "-"},    {"xoxr-", 10, "-"},
    {"xoxs-", 10, "-"},    {"xapp-", 10, "-"},
    {"sk-ant-", 20, "_-"}, {"sk-proj-", 20, "_-"},
    {"hf_", 30, ""},       {"npm_", 30, ""},
    {"pypi-", 50, "_-"},   {"dckr_pat_", 20, "_-"},
    {"dop_v1_", 60, ""},   {"nvapi-", 40, "_-"},
    {"lin_api_", 30, ""},  {"SG.", 40, "_-."},
    {"eyJ", 40, "_-."},    {"AccountKey=", 20, "+/="},
    {"T3BlbkFJ", 20, ""},  {"hooks.slack.com/services/", 20, "/"},
});

// Replaces text[begin, end) and returns where the text after it begins.
std::size_t replace(std::string& text, std::size_t begin, std::size_t end) {
  text.replace(begin, end - begin, kMask);
  return begin + kMask.size();
}

void mask_formats(std::string& text) {
  for (const Format& format : kFormats) {
    for (std::size_t at = text.find(format.prefix); at != std::string::npos;
         at = text.find(format.prefix, at)) {
      const std::size_t begin = at + format.prefix.size();
      std::size_t end = begin;
      while (end < text.size() &&
             (is_alnum(text[end]) || format.also.find(text[end]) != std::string_view::npos))
        ++end;
      const bool within_word = at > 0 && is_alnum(text[at - 1]) && is_alnum(format.prefix[0]);
      at = end - begin >= format.length && !within_word ? replace(text, begin, end) : begin;
    }
  }
  constexpr std::string_view kKeyBegins = "PRIVATE KEY-----", kKeyEnds = "-----END";
  for (std::size_t at = text.find(kKeyBegins); at != std::string::npos; at = text.find(kKeyBegins, at)) {
    const std::size_t line = text.rfind("-----", at);
    const bool is_end = line != std::string::npos && text.compare(line, kKeyEnds.size(), kKeyEnds) == 0;
    at += kKeyBegins.size();
    if (!is_end) at = replace(text, at, std::min(text.find(kKeyEnds, at), text.size()));
  }
}

void mask_random_strings(std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_alnum(text[end])) ++end;
    begin = is_random_without_doubt(std::string_view(text).substr(begin, end - begin))
                ? replace(text, begin, end)
                : end + 1;
  }
}

// scheme://user:VALUE@host
void mask_addresses(std::string& text) {
  constexpr std::string_view kScheme = "://";
  for (std::size_t at = text.find(kScheme); at != std::string::npos; at = text.find(kScheme, at)) {
    at += kScheme.size();
    const std::size_t end = std::min(text.find_first_of("/?# \t\n'\"`", at), text.size());
    const std::size_t at_sign = std::string_view(text).substr(at, end - at).rfind('@'),
                      colon = text.find(':', at);
    if (at_sign == std::string::npos) continue;
    const std::size_t host = at + at_sign;
    if (colon > host) continue;
    at = replace(text, colon + 1, host);
  }
}

// Where a value ends that begins at `begin`: at its closing quote, or where `closing` says.
std::size_t end_of_value(std::string_view text, std::size_t begin, std::string_view closing) {
  return std::min(text.find_first_of(closing, begin), text.size());
}

// "Bearer V", wherever it stands.
void mask_bearer(std::string& text) {
  constexpr std::string_view kBearer = "bearer ";
  std::string lower = lowered(text);
  for (std::size_t at = lower.find(kBearer); at != std::string::npos; at = lower.find(kBearer, at)) {
    at += kBearer.size();
    const std::size_t end = end_of_value(text, at, " \t\n\r'\"`,;)");
    constexpr std::size_t kShortest = 8;  // "bearer of bad news"
    if (end - at < kShortest) continue;
    replace(lower, at, end);
    at = replace(text, at, end);
  }
}

// NAME=V, NAME: V, ?NAME=V&, {"NAME": "V"}; a word that begins with NAME is V to its end.
void mask_named_values(std::string& text) {
  for (std::size_t at = text.find_first_of("=:"); at != std::string::npos;
       at = text.find_first_of("=:", at)) {
    std::size_t name_end = at;
    const bool quoted_name = name_end > 0 && is_quote(text[name_end - 1]);
    if (quoted_name) --name_end;
    if (quoted_name && name_end > 0 && text[name_end - 1] == '\\') --name_end;
    std::size_t name_begin = name_end;
    while (name_begin > 0 && is_name_letter(text[name_begin - 1])) --name_begin;
    const std::string name = text.substr(name_begin, name_end - name_begin);
    const bool equals = text[at] == '=';
    const char before = name_begin > 0 ? text[name_begin - 1] : '\n';
    ++at;
    // A colon may also come before a type, a slice or a port.
    if (name.empty() || (!equals && before != '\n' && before != '=' && !is_quote(before))) continue;

    std::size_t begin = at;
    if (!equals || quoted_name)
      while (begin < text.size() && is_blank(text[begin])) ++begin;
    const bool escaped = begin + 1 < text.size() && text[begin] == '\\' && is_quote(text[begin + 1]);
    if (escaped) ++begin;
    std::size_t end = text.size();
    const bool to_end = name_begin == 0 || (!equals && before == '=');
    if (to_end) {
      // --NAME=V, --header=NAME: V
    } else if (begin < text.size() && is_quote(text[begin])) {
      end = end_of_value(text, begin + 1, std::string_view(&text[begin], 1));
      if (escaped && text[end - 1] == '\\') --end;
      ++begin;
    } else if (before == '?' || before == '&') {
      end = end_of_value(text, begin, "&# \t\n'\"`");
    } else if (is_quote(before) && !quoted_name) {
      end = end_of_value(text, begin, std::string_view(&before, 1));
    } else {
      end = end_of_value(text, begin, " \t\n\r'\"`&;,)}]");
    }
    if (begin < end && is_secret(name, std::string_view(text).substr(begin, end - begin)))
      at = replace(text, begin, end);
  }
}

// --no-auth, --ask-pass: no value follows.
bool is_switch(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  for (const std::string_view begin : {"no-", "ask-", "use-", "skip-", "with-", "without-", "require-"})
    if (option.starts_with(begin)) return true;
  return false;
}

// Options of curl whose value is USER:PASSWORD.
bool names_user(std::string_view option) {
  return option == "-u" || option == "--user" || option == "-U" || option == "--proxy-user";
}

// --NAME V within the script of `sh -c`
void mask_options_within(std::string& text) {
  for (std::size_t at = text.find(" -"); at != std::string::npos; at = text.find(" -", at)) {
    const std::size_t name_begin = ++at;
    while (at < text.size() && is_name_letter(text[at])) ++at;
    const std::string name = text.substr(name_begin, at - name_begin);
    std::size_t begin = at;
    while (begin < text.size() && is_blank(text[begin])) ++begin;
    if (begin == at || begin == text.size() || text[begin] == '-') continue;
    const bool quoted = is_quote(text[begin]);
    const std::size_t end = quoted ? end_of_value(text, begin + 1, std::string_view(&text[begin], 1))
                                   : end_of_value(text, begin, " \t\n\r'\"`;)");
    if (quoted) ++begin;
    if (begin >= end) continue;
    const std::size_t colon = text.find(':', begin);
    if (names_user(name) && colon < end && text.rfind("curl", name_begin) != std::string::npos) {
      at = replace(text, colon + 1, end);
    } else if (!is_switch(name) && is_secret(name, std::string_view(text).substr(begin, end - begin))) {
      at = replace(text, begin, end);
    }
  }
}

void mask_within(std::string& word) {
  mask_addresses(word);
  mask_bearer(word);
  mask_named_values(word);
  mask_options_within(word);
  mask_formats(word);
  mask_random_strings(word);
}

bool is_curl(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return name == "curl" || name == "wget" || name == "http" || name == "https";
}

}  // namespace

void mask_secrets(std::vector<std::string>& words) {
  bool of_curl = false;
  std::string option;  // the word before, if a value may follow it
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    of_curl = of_curl || is_curl(word);
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (!option.empty() && !is_option && !is_switch(option) && is_secret(option, word)) {
      word = kMask;
    } else if (of_curl &&
               (names_user(option) || (word.starts_with("-u") && word.find(':') != std::string::npos))) {
      if (const std::size_t colon = word.find(':'); colon != std::string::npos)
        replace(word, colon + 1, word.size());
      mask_within(word);
    } else if (i > 0) {
      mask_within(word);
    } else {
      mask_addresses(word);
    }
    option = i > 0 && is_option && std::all_of(word.begin(), word.end(), is_name_letter) ? word : "";
  }
}

std::string mask_secrets_in_text(std::string_view text) {
  std::string masked;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    std::vector<std::string> words = {"", std::string(text.substr(0, end))};  // the first is a program
    mask_secrets(words);
    masked += words[1];
    if (end == text.size()) break;
    masked += text[end];
    text.remove_prefix(end + 1);
  }
  return masked;
}

std::optional<CommandDetail> command_detail(std::string_view name) {
  for (const auto detail :
       {CommandDetail::kName, CommandDetail::kHash, CommandDetail::kMasked, CommandDetail::kFull})
    if (name == name_of(detail)) return detail;
  return std::nullopt;
}

std::string_view name_of(CommandDetail detail) {
  switch (detail) {
    case CommandDetail::kName:
      return "name";
    case CommandDetail::kHash:
      return "hash";
    case CommandDetail::kMasked:
      return "masked";
    case CommandDetail::kFull:
      return "full";
  }
  return {};
}

std::vector<std::string> stored_command(std::vector<std::string> words, CommandDetail detail) {
  if (detail == CommandDetail::kFull) return words;
  mask_secrets(words);
  if (detail == CommandDetail::kMasked || words.size() < 2) return words;
  if (detail == CommandDetail::kName) {
    words.resize(1);
    return words;
  }
  std::string arguments;
  for (std::size_t i = 1; i < words.size(); ++i) arguments += words[i] + '\0';
  return {words[0], "arguments-" + hex_hash(arguments)};
}

}  // namespace clusterprof
