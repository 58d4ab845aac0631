// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rapidjson/prettywriter.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

// --- values that may not be known: null ----------------------------------------------------------------

using MaybeText = std::optional<std::string_view>;
inline MaybeText text_or_null(std::string_view value) {
  return value.empty() ? MaybeText() : MaybeText(value);
}
template <std::unsigned_integral T>
std::optional<T> or_null(T value) {
  return value == 0 ? std::optional<T>() : std::optional<T>(value);
}
inline std::optional<std::string> utc_or_null(std::int64_t ns) {
  return ns == 0 ? std::optional<std::string>() : format::utc_iso(ns);
}

// --- the writer ------------------------------------------------------------------------------------------

// The stream that rapidjson writes characters to. It passes them on in pieces.
class JsonChunks {
 public:
  using Ch = char;
  explicit JsonChunks(const JsonSink& sink) : sink_(sink) { buffer_.reserve(kBytes); }
  void Put(char c) {
    if (buffer_.size() == kBytes) Flush();
    buffer_ += c;
  }
  void Flush() {
    sink_(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kBytes = 1 << 16;
  const JsonSink& sink_;
  std::string buffer_;
};

// Writes one JSON document piece by piece. What was not measured is null.
class JsonWriter {
 public:
  explicit JsonWriter(const JsonSink& sink) : pieces_(sink), out_(pieces_) { out_.SetIndent(' ', 1); }

  void value(std::nullptr_t) { out_.Null(); }
  void value(bool value) { out_.Bool(value); }
  template <std::integral T>
  void value(T value) {
    if constexpr (std::is_signed_v<T>)
      out_.Int64(value);
    else
      out_.Uint64(value);
  }
  // Nanoseconds are what was measured; more digits would only be noise.
  void value(double value) {
    const double rounded = std::round(value * 1e9) / 1e9;
    if (std::isfinite(rounded))
      out_.Double(rounded);
    else
      out_.Null();
  }
  // Names are bytes of the program: format::json_string() makes them harmless.
  void value(std::string_view value) {
    if (format::is_printable(value))
      out_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
    else
      escaped(value);
  }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(const char* text) { value(std::string_view(text)); }
  template <typename T>
  void value(const std::optional<T>& optional) {
    if (optional)
      value(*optional);
    else
      out_.Null();
  }
  template <typename T>
  void value(const std::vector<T>& list) {
    out_.StartArray();
    for (const T& element : list) value(element);
    out_.EndArray();
  }

  void key(std::string_view key) {
    if (format::is_printable(key))
      out_.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
    else
      escaped(key);
  }
  template <typename T>
  JsonWriter& operator()(std::string_view name, const T& what) {
    key(name);
    value(what);
    return *this;
  }

  void begin_object() { out_.StartObject(); }
  void end_object() { out_.EndObject(); }
  template <typename Fill>
  void object(const Fill& fill) {
    begin_object();
    fill();
    end_object();
  }
  template <typename Fill>
  void object(std::string_view name, const Fill& fill) {
    key(name);
    object(fill);
  }
  // An array with one object for each of the rows.
  template <typename Rows, typename Fill>
  void rows(std::string_view name, const Rows& rows, const Fill& fill) {
    key(name);
    out_.StartArray();
    for (const auto& row : rows) object([&] { fill(row); });
    out_.EndArray();
  }
  // One object for each of `count` rows.
  template <typename Fill>
  void rows(std::string_view name, std::size_t count, const Fill& fill) {
    key(name);
    out_.StartArray();
    for (std::size_t i = 0; i < count; ++i) object([&] { fill(i); });
    out_.EndArray();
  }
  void finish() {
    pieces_.Put('\n');
    pieces_.Flush();
  }

 private:
  void escaped(std::string_view text) {
    const std::string json = format::json_string(text);
    out_.RawValue(json.data(), json.size(), rapidjson::kStringType);
  }

  JsonChunks pieces_;
  rapidjson::PrettyWriter<JsonChunks> out_;
};

}  // namespace clusterprof::report
