// SPDX-License-Identifier: BSD-3-Clause
// Both manglings of Rust. The newer one (v0) is read by recursive descent, class RustV0; the older one is a
// list of names with their lengths. Called by readable_name(), on the thread that builds a shard.
#include "collector/names/demangle_rust.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ascii.hpp"

namespace clusterprof::collector {
namespace {

constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

void append_utf8(std::string& out, std::uint32_t character) {
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xc0 | character >> 6);
    out += static_cast<char>(0x80 | (character & 0x3f));
  } else if (character < 0x1'0000) {
    out += static_cast<char>(0xe0 | character >> 12);
    out += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (character & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | character >> 18);
    out += static_cast<char>(0x80 | (character >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (character & 0x3f));
  }
}

constexpr bool is_character(std::uint32_t value) {
  return value < 0x11'0000 && (value < 0xd800 || value >= 0xe000);
}

// --- Rust, v0 (RFC 2603) -------------------------------------------------------------------

// Recursive descent over the grammar of the RFC, printing as it goes. Back references make exponential
// texts possible, so both depth and length are bounded.
class RustV0 {
 public:
  explicit RustV0(std::string_view symbol) : text_(symbol) {}

  std::optional<std::string> demangle() {
    path(true);
    if (ok_ && !at_end()) {  // the crate that instantiated it: of no interest
      ++silent_;
      path(false);
      --silent_;
    }
    if (!ok_ || !at_end()) return std::nullopt;
    return std::move(out_);
  }

 private:
  static constexpr unsigned kMaxDepth = 200;
  static constexpr std::size_t kMaxBytes = 64 << 10;

  struct Deeper {
    explicit Deeper(RustV0& of) : of_(of) {
      if (++of_.depth_ > kMaxDepth) of_.ok_ = false;
    }
    ~Deeper() { --of_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    RustV0& of_;
  };

  struct Identifier {
    std::uint64_t disambiguator = 0;
    std::string name;
  };

  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  char next() {
    if (at_end()) {
      ok_ = false;
      return '\0';
    }
    return text_[at_++];
  }
  bool eat(char c) {
    if (!ok_ || peek() != c) return false;
    ++at_;
    return true;
  }
  void print(std::string_view text) {
    if (silent_ != 0) return;
    if (out_.size() + text.size() > kMaxBytes) {
      ok_ = false;
      return;
    }
    out_ += text;
  }

  std::uint64_t base_62() {
    if (eat('_')) return 0;
    std::uint64_t value = 0;
    while (ok_ && !eat('_')) {
      const char c = next();
      std::uint64_t digit = 0;
      if (is_digit(c)) {
        digit = static_cast<std::uint64_t>(c - '0');
      } else if (is_lower(c)) {
        digit = static_cast<std::uint64_t>(c - 'a') + 10;
      } else if (is_upper(c)) {
        digit = static_cast<std::uint64_t>(c - 'A') + 36;
      } else {
        ok_ = false;
      }
      if (value > (UINT64_MAX - digit - 1) / 62) ok_ = false;
      value = value * 62 + digit;
    }
    return value + 1;
  }
  std::uint64_t optional_base_62(char tag) { return eat(tag) ? base_62() + 1 : 0; }

  Identifier identifier() {
    Identifier result;
    result.disambiguator = optional_base_62('s');
    result.name = plain_identifier();
    return result;
  }

  std::string plain_identifier() {
    const bool punycode = eat('u');
    std::size_t bytes = 0;
    if (!is_digit(peek())) ok_ = false;
    if (!eat('0')) {
      while (ok_ && is_digit(peek()) && bytes <= text_.size())
        bytes = bytes * 10 + static_cast<std::size_t>(next() - '0');
    }
    eat('_');
    if (!ok_ || bytes > text_.size() - at_) {
      ok_ = false;
      return "";
    }
    const std::string_view name = text_.substr(at_, bytes);
    at_ += bytes;
    return punycode ? from_punycode(name) : std::string(name);
  }

  // RFC 3492 with '_' for '-'.
  std::string from_punycode(std::string_view text) {
    std::u32string characters;
    std::size_t at = 0;
    if (const std::size_t last = text.rfind('_'); last != std::string_view::npos) {
      for (const char c : text.substr(0, last)) characters += static_cast<unsigned char>(c);
      at = last + 1;
    }
    std::uint64_t character = 0x80;
    std::uint64_t index = 0;
    std::uint64_t bias = 72;
    bool first = true;
    while (at < text.size()) {
      const std::uint64_t before = index;
      std::uint64_t weight = 1;
      for (std::uint64_t k = 36;; k += 36) {
        if (at == text.size()) {
          ok_ = false;
          return "";
        }
        const char c = text[at++];
        const std::uint64_t digit = is_lower(c)   ? static_cast<std::uint64_t>(c - 'a')
                                    : is_digit(c) ? static_cast<std::uint64_t>(c - '0') + 26
                                                  : 36;
        index += digit * weight;
        const std::uint64_t threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        if (digit > 35 || index > 0xffff'ffff) {
          ok_ = false;
          return "";
        }
        if (digit < threshold) break;
        weight *= 36 - threshold;
        if (weight > 0xffff'ffff) {
          ok_ = false;
          return "";
        }
      }
      const std::uint64_t count = characters.size() + 1;
      std::uint64_t delta = (index - before) / (first ? 700 : 2);
      first = false;
      delta += delta / count;
      for (bias = 0; delta > 455; bias += 36) delta /= 35;
      bias += 36 * delta / (delta + 38);
      character += index / count;
      index %= count;
      if (!is_character(static_cast<std::uint32_t>(std::min<std::uint64_t>(character, UINT32_MAX)))) {
        ok_ = false;
        return "";
      }
      characters.insert(characters.begin() + static_cast<std::ptrdiff_t>(index),
                        static_cast<char32_t>(character));
      ++index;
    }
    std::string name;
    for (const char32_t c : characters) append_utf8(name, c);
    return name;
  }

  // Runs `parse` where the reference points to; nothing there can be missing when nothing is printed.
  template <typename Parse>
  void back_reference(Parse&& parse) {
    const std::size_t from = at_ - 1;  // of the 'B'
    const std::uint64_t target = base_62();
    if (!ok_ || target >= from) {
      ok_ = false;
      return;
    }
    if (silent_ != 0) return;
    const std::size_t resume = std::exchange(at_, static_cast<std::size_t>(target));
    parse();
    at_ = resume;
  }

  // `in_value`: generic arguments are written with "::" before them.
  void path(bool in_value) {
    const Deeper deeper(*this);
    if (!ok_) return;
    switch (const char tag = next()) {
      case 'C':
        print(identifier().name);
        return;
      case 'N': {
        const char name_space = next();
        if (!is_lower(name_space) && !is_upper(name_space)) ok_ = false;
        path(in_value);
        const Identifier name = identifier();
        if (is_upper(name_space)) {
          print("::{");
          print(name_space == 'C'   ? "closure"
                : name_space == 'S' ? "shim"
                                    : std::string_view(&name_space, 1));
          if (!name.name.empty()) print(":" + name.name);
          print("#" + std::to_string(name.disambiguator) + "}");
        } else if (!name.name.empty()) {
          print("::" + name.name);
        }
        return;
      }
      case 'M':
      case 'X':
        optional_base_62('s');
        ++silent_;
        path(false);
        --silent_;
        [[fallthrough]];
      case 'Y':
        print("<");
        type();
        if (tag != 'M') {
          print(" as ");
          path(false);
        }
        print(">");
        return;
      case 'I':
        path(in_value);
        print(in_value ? "::<" : "<");
        generic_arguments();
        print(">");
        return;
      case 'B':
        back_reference([&] { path(in_value); });
        return;
      default:
        ok_ = false;
    }
  }

  void generic_arguments() {
    for (bool first = true; ok_ && !eat('E'); first = false) {
      if (!first) print(", ");
      if (eat('L')) {
        lifetime(base_62());
      } else if (eat('K')) {
        constant();
      } else {
        type();
      }
    }
  }

  void lifetime(std::uint64_t index) {
    if (index == 0) {
      print("'_");
    } else if (index > bound_lifetimes_) {
      ok_ = false;
    } else {
      const std::uint64_t depth = bound_lifetimes_ - index;
      const std::array<char, 2> name = {'\'', static_cast<char>('a' + depth % 26)};
      print({name.data(), name.size()});
      if (depth >= 26) print(std::to_string(depth / 26));
    }
  }

  // Runs `parse` with the lifetimes of a "for<'a, 'b>" known.
  template <typename Parse>
  void binder(Parse&& parse) {
    const std::uint64_t count = optional_base_62('G');
    if (count > 64) ok_ = false;
    if (!ok_) return;
    if (count > 0) {
      print("for<");
      for (std::uint64_t i = 0; i < count; ++i) {
        ++bound_lifetimes_;
        if (i > 0) print(", ");
        lifetime(1);
      }
      print("> ");
    }
    parse();
    bound_lifetimes_ -= count;
  }

  static std::string_view basic_type(char tag) {
    switch (tag) {
      case 'a':
        return "i8";
      case 'b':
        return "bool";
      case 'c':
        return "char";
      case 'd':
        return "f64";
      case 'e':
        return "str";
      case 'f':
        return "f32";
      case 'h':
        return "u8";
      case 'i':
        return "isize";
      case 'j':
        return "usize";
      case 'l':
        return "i32";
      case 'm':
        return "u32";
      case 'n':
        return "i128";
      case 'o':
        return "u128";
      case 'p':
        return "_";
      case 's':
        return "i16";
      case 't':
        return "u16";
      case 'u':
        return "()";
      case 'v':
        return "...";
      case 'x':
        return "i64";
      case 'y':
        return "u64";
      case 'z':
        return "!";
      default:
        return "";
    }
  }

  void type() {
    const Deeper deeper(*this);
    if (!ok_) return;
    const char tag = next();
    if (const std::string_view basic = basic_type(tag); !basic.empty()) return print(basic);
    switch (tag) {
      case 'A':
      case 'S':
        print("[");
        type();
        if (tag == 'A') {
          print("; ");
          constant();
        }
        print("]");
        return;
      case 'T': {
        print("(");
        std::size_t count = 0;
        for (; ok_ && !eat('E'); ++count) {
          if (count > 0) print(", ");
          type();
        }
        print(count == 1 ? ",)" : ")");
        return;
      }
      case 'R':
      case 'Q':
        print("&");
        if (eat('L')) {
          if (const std::uint64_t index = base_62(); index != 0) {
            lifetime(index);
            print(" ");
          }
        }
        if (tag == 'Q') print("mut ");
        return type();
      case 'P':
        print("*const ");
        return type();
      case 'O':
        print("*mut ");
        return type();
      case 'F':
        return binder([&] { function_type(); });
      case 'D':
        return dynamic_type();
      case 'B':
        return back_reference([&] { type(); });
      default:
        --at_;
        path(false);
    }
  }

  void function_type() {
    if (eat('U')) print("unsafe ");
    if (eat('K')) {
      std::string abi = eat('C') ? "C" : plain_identifier();
      std::ranges::replace(abi, '_', '-');
      print("extern \"" + abi + "\" ");
    }
    print("fn(");
    for (bool first = true; ok_ && !eat('E'); first = false) {
      if (!first) print(", ");
      type();
    }
    print(")");
    if (!eat('u')) {  // returns ()
      print(" -> ");
      type();
    }
  }

  void dynamic_type() {
    print("dyn ");
    binder([&] {
      for (bool first = true; ok_ && !eat('E'); first = false) {
        if (!first) print(" + ");
        bool open = path_with_open_arguments();
        while (eat('p')) {
          print(open ? ", " : "<");
          open = true;
          print(plain_identifier() + " = ");
          type();
        }
        if (open) print(">");
      }
    });
    if (!eat('L')) {
      ok_ = false;
      return;
    }
    if (const std::uint64_t index = base_62(); index != 0) {
      print(" + ");
      lifetime(index);
    }
  }

  // A path whose list of generic arguments, if any, is left open for "Item = u8". True: it is.
  bool path_with_open_arguments() {
    const Deeper deeper(*this);
    if (!ok_) return false;
    if (eat('B')) {
      bool open = false;
      back_reference([&] { open = path_with_open_arguments(); });
      return open;
    }
    if (!eat('I')) {
      path(false);
      return false;
    }
    path(false);
    print("<");
    generic_arguments();
    return true;
  }

  void constant() {
    const Deeper deeper(*this);
    if (!ok_) return;
    if (eat('B')) return back_reference([&] { constant(); });
    if (eat('p')) return print("_");
    const char tag = next();
    if (std::string_view("abchijlmnostxy").find(tag) == std::string_view::npos) {
      ok_ = false;  // texts and structures: unstable in the language
      return;
    }
    const bool negative = eat('n');
    std::uint64_t value = 0;
    std::size_t digits = 0;
    const std::size_t begin = at_;
    while (ok_ && !eat('_')) {
      const char c = next();
      if (!is_digit(c) && (c < 'a' || c > 'f')) ok_ = false;
      value = value << 4 | static_cast<std::uint64_t>(is_digit(c) ? c - '0' : c - 'a' + 10);
      ++digits;
    }
    if (!ok_) return;
    if (digits > 16) return print("0x" + std::string(text_.substr(begin, digits)));
    if (tag == 'b') return print(value != 0 ? "true" : "false");
    if (tag == 'c') {
      if (value > UINT32_MAX || !is_character(static_cast<std::uint32_t>(value))) {
        ok_ = false;
        return;
      }
      std::string text = "'";
      append_utf8(text, static_cast<std::uint32_t>(value));
      return print(text + "'");
    }
    print((negative ? "-" : "") + std::to_string(value));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  bool ok_ = true;
  unsigned silent_ = 0;
  unsigned depth_ = 0;
  std::uint64_t bound_lifetimes_ = 0;
};

// --- Rust, legacy --------------------------------------------------------------------------

std::string without_rust_escapes(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kEscapes[] = {
      {"SP", '@'}, {"BP", '*'}, {"RF", '&'}, {"LT", '<'}, {"GT", '>'}, {"LP", '('}, {"RP", ')'}, {"C", ','}};
  std::string out;
  if (text.starts_with("_$")) text.remove_prefix(1);
  while (!text.empty()) {
    if (text.starts_with("..")) {
      out += "::";
      text.remove_prefix(2);
      continue;
    }
    const std::size_t close = text.front() == '$' ? text.find('$', 1) : std::string_view::npos;
    if (close != std::string_view::npos) {
      const std::string_view escape = text.substr(1, close - 1);
      const auto known = std::ranges::find(kEscapes, escape, &std::pair<std::string_view, char>::first);
      std::uint32_t character = 0;
      bool is_code = escape.size() > 1 && escape.size() <= 7 && escape[0] == 'u';
      for (const char c : is_code ? escape.substr(1) : std::string_view()) {
        is_code = is_code && (is_digit(c) || (c >= 'a' && c <= 'f'));
        character = character << 4 | static_cast<std::uint32_t>(is_digit(c) ? c - '0' : c - 'a' + 10);
      }
      if (known != std::end(kEscapes)) {
        out += known->second;
      } else if (is_code && is_character(character)) {
        append_utf8(out, character);
      } else {
        out += text.substr(0, close + 1);
      }
      text.remove_prefix(close + 1);
      continue;
    }
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace

std::optional<std::string> demangle_rust_v0(std::string_view symbol) {
  if (!symbol.starts_with("_R")) return std::nullopt;
  const std::string_view name = symbol.substr(2, symbol.find('.') - 2);
  if (name.empty() || !is_upper(name.front())) return std::nullopt;
  return RustV0(name).demangle();
}

std::optional<std::string> demangle_rust_legacy(std::string_view symbol) {
  if (!symbol.starts_with("_ZN")) return std::nullopt;
  std::string_view text = symbol.substr(3);
  std::vector<std::string_view> parts;
  while (!text.empty() && is_digit(text.front())) {
    std::size_t bytes = 0;
    while (!text.empty() && is_digit(text.front()) && bytes <= symbol.size()) {
      bytes = bytes * 10 + static_cast<std::size_t>(text.front() - '0');
      text.remove_prefix(1);
    }
    if (bytes > text.size()) return std::nullopt;
    parts.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  if (text != "E" || parts.size() < 2 || parts.back().size() != 17 || parts.back()[0] != 'h' ||
      parts.back().find_first_not_of("0123456789abcdef", 1) != std::string_view::npos)
    return std::nullopt;
  parts.pop_back();
  std::string name;
  for (const std::string_view part : parts) {
    if (!name.empty()) name += "::";
    name += without_rust_escapes(part);
  }
  return name;
}

}  // namespace clusterprof::collector
