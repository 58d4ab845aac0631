// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rapidjson/writer.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "report/format/characters.hpp"
#include "report/json/json_writer.hpp"

namespace clusterprof::report {

// JSON without white space, in pieces.
class CompactJson : public rapidjson::Writer<JsonChunks> {
 public:
  explicit CompactJson(const JsonSink& sink) : rapidjson::Writer<JsonChunks>(pieces_), pieces_(sink) {}

  // Names are bytes of the program: format::json_string() makes them harmless.
  void text(std::string_view value) {
    if (format::is_printable(value)) {
      String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
      return;
    }
    const std::string json = format::json_string(value);
    RawValue(json.data(), json.size(), rapidjson::kStringType);
  }
  void member(const char* name, std::string_view value) { Key(name), text(value); }
  void member(const char* name, std::uint64_t value) { Key(name), Uint64(value); }
  void seconds(std::uint64_t ns) { Double(static_cast<double>(ns) / 1e9); }
  void finish() {
    pieces_.Put('\n');
    pieces_.Flush();
  }

 private:
  JsonChunks pieces_;
};

}  // namespace clusterprof::report
