// SPDX-License-Identifier: BSD-3-Clause
// What every call into HDF5 needs: the lock, errors as exceptions, and handles that are closed. Internal to
// formats/h5.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "formats/h5/h5.hpp"

namespace clusterprof::h5 {

// Held during every call into HDF5, which only one thread at a time may use. Whoever fails still holds it
// while asking HDF5 for the reason. Compression and decompression, which cost most, run without it.
class InLibrary {
 public:
  InLibrary() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex();
  std::unique_lock<std::recursive_mutex> lock_;
};

// Throws H5Error: `what`, and in brackets the reason that HDF5 gives for its last failure.
[[noreturn]] void fail(const std::string& what);

// Call fail(what) if HDF5 has returned an error.
Handle checked(std::int64_t id, const std::string& what);
void check(herr_t status, const std::string& what);

// Switches off what HDF5 does unasked: printing errors, and writing at exit.
void silence();

void put_attribute(hid_t object, const std::string& where, const char* name, hid_t type, const void* value);

// Opens an attribute that has exactly one element. Also returns its type.
std::pair<Handle, Handle> open_scalar_attribute(hid_t object, const std::string& where, const char* name);

}  // namespace clusterprof::h5
