// SPDX-License-Identifier: BSD-3-Clause
// What a merge cannot be faster than: HDF5 reads, checks and decompresses every dataset of the given files,
// and nothing is done with them. Prints "files rows bytes seconds" (bytes: decompressed).
//
//   cmake --preset release -DCLUSTERPROF_BUILD_BENCHMARKS=ON && cmake --build build/release -t read_floor
//   build/release/bench/read_floor RUN/node-*.h5
#include <hdf5.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct Read {
  std::vector<std::byte> buffer;
  std::uint64_t rows = 0, bytes = 0;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "read_floor: %s\n", what);
  std::exit(3);
}

herr_t read_one(hid_t file, const char* name, const H5O_info_t* info, void* out) {
  if (info->type != H5O_TYPE_DATASET) return 0;
  Read& read = *static_cast<Read*>(out);
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
  const hssize_t rows = H5Sget_simple_extent_npoints(space);
  const std::size_t bytes = static_cast<std::size_t>(rows) * H5Tget_size(type);
  if (read.buffer.size() < bytes) read.buffer.resize(bytes);
  if (rows != 0 && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.buffer.data()) < 0) fail(name);
  read.rows += static_cast<std::uint64_t>(rows);
  read.bytes += bytes;
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto begin = std::chrono::steady_clock::now();
  Read read;
  for (int i = 1; i < argc; ++i) {
    const hid_t file = H5Fopen(argv[i], H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0 || H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, read_one, &read, H5O_INFO_BASIC) < 0)
      fail(argv[i]);
    H5Fclose(file);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%d %llu %llu %.4f\n", argc - 1, static_cast<unsigned long long>(read.rows),
              static_cast<unsigned long long>(read.bytes), seconds.count());
}
