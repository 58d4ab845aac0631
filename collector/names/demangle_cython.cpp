// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/demangle_cython.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/ascii.hpp"
#include "base/leading_number.hpp"

namespace clusterprof::collector {
namespace {

// One way to read a name: "foo", "Grid", and the function with its number among those of its scope.
struct CythonReading {
  std::vector<std::string_view> scopes;
  std::string_view number, function;
};

// All ways to read "3foo_4Grid_1sweep". A scope is its length, its name and an underscore; what remains is
// the function, with its number before it where the kind has one.
void read_cython(std::string_view text, std::vector<std::string_view>& scopes,
                 std::vector<CythonReading>& out) {
  std::size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  if (out.size() >= 16) return;
  constexpr std::size_t kMostDigits = 9;  // of a number that fits an int
  if (!scopes.empty() && digits < text.size() && digits <= kMostDigits)
    out.push_back({scopes, text.substr(0, digits), text.substr(digits)});
  if (digits == 0 || digits > 3 || text[0] == '0') return;
  const auto bytes = leading_number<std::size_t>(text.substr(0, digits)).value_or(0);
  if (bytes == 0 || digits + bytes + 1 >= text.size() || text[digits + bytes] != '_') return;
  scopes.push_back(text.substr(digits, bytes));
  read_cython(text.substr(digits + bytes + 1), scopes, out);
  scopes.pop_back();
}

std::string cython_symbol(std::string_view kind, const CythonReading& reading, int number) {
  std::string text(kind);
  for (const std::string_view scope : reading.scopes)
    text += std::to_string(scope.size()) + std::string(scope) + "_";
  if (number != 0) text += std::to_string(number);
  return text += reading.function;
}

std::string cython_text(const CythonReading& reading) {
  std::string text;
  for (const std::string_view scope : reading.scopes) text += std::string(scope) + ".";
  return text += reading.function;
}

}  // namespace

std::optional<std::string> demangle_cython(std::string_view symbol, const NameContext& context) {
  // Python function: wrapper and body; C function; generator body.
  static constexpr std::string_view kWrapper = "__pyx_pw_";
  static constexpr std::string_view kBody = "__pyx_pf_";
  static constexpr std::string_view kKinds[] = {kWrapper, kBody, "__pyx_f_", "__pyx_gb_"};
  const auto* const kind =
      std::ranges::find_if(kKinds, [&](std::string_view prefix) { return symbol.starts_with(prefix); });
  if (kind == std::end(kKinds)) return std::nullopt;

  std::vector<CythonReading> readings;
  std::vector<std::string_view> scopes;
  read_cython(symbol.substr(kind->size()), scopes, readings);
  std::erase_if(readings, [&](const CythonReading& reading) {
    const int number = leading_number(reading.number).value_or(0);
    if (*kind == kWrapper) return number % 2 == 0;  // 1, 3, ..., their bodies 0 (not written), 2, ...
    if (*kind == kBody) return number % 2 != 0 || (number == 0 && !reading.number.empty());
    if (*kind == "__pyx_f_") return !reading.number.empty();
    return number == 0 || !reading.function.starts_with("generator");
  });
  // One of the scopes is the module; nothing ends above it.
  const auto in_module = [&](const CythonReading& reading) {
    return std::ranges::find(reading.scopes, context.module_name) != reading.scopes.end();
  };
  if (std::ranges::any_of(readings, in_module))
    std::erase_if(readings, [&](const CythonReading& reading) { return !in_module(reading); });
  if (readings.size() > 1 && context.has_symbol && (*kind == kWrapper || *kind == kBody)) {
    // A function's wrapper and body have neighbouring numbers in one scope.
    std::vector<CythonReading> confirmed;
    for (const CythonReading& reading : readings) {
      const int number = leading_number(reading.number).value_or(0);
      const std::string partner = *kind == kWrapper ? cython_symbol(kBody, reading, number - 1)
                                                    : cython_symbol(kWrapper, reading, number + 1);
      // A method's class has an allocator of its own when it is an extension type.
      CythonReading above{reading.scopes, "", ""};
      above.function = above.scopes.back();
      above.scopes.pop_back();
      if (context.has_symbol(partner) ||
          (!above.scopes.empty() && context.has_symbol(cython_symbol("__pyx_tp_new_", above, 0))))
        confirmed.push_back(reading);
    }
    if (!confirmed.empty()) readings = std::move(confirmed);
  }
  if (readings.size() != 1) return std::nullopt;
  return cython_text(readings.front());
}

}  // namespace clusterprof::collector
