// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <zlib.h>

#include <array>
#include <stdexcept>
#include <string_view>

#include "report/export/export.hpp"

namespace clusterprof::report {

// One gzip stream, without a name or time in it. Throws std::runtime_error when zlib fails.
class GzipSink {
 public:
  explicit GzipSink(const ExportSink& sink) : sink_(sink) {
    constexpr int kGzip = 16, kLevel = 6, kMemory = 8;
    if (deflateInit2(&stream_, kLevel, Z_DEFLATED, MAX_WBITS + kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::runtime_error("zlib cannot be used");
  }
  ~GzipSink() { deflateEnd(&stream_); }
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;

  // Less than 4 GiB at a time.
  void operator()(std::string_view bytes) { deflate_all(bytes, Z_NO_FLUSH); }
  void finish() { deflate_all({}, Z_FINISH); }

 private:
  void deflate_all(std::string_view bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      if (deflate(&stream_, flush) == Z_STREAM_ERROR) throw std::runtime_error("zlib failed");
      const std::size_t size = out_.size() - stream_.avail_out;
      if (size != 0) sink_({out_.data(), size});
    } while (stream_.avail_out == 0);
  }

  const ExportSink& sink_;
  z_stream stream_{};
  std::array<char, 1 << 16> out_{};
};

}  // namespace clusterprof::report
