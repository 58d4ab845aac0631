// SPDX-License-Identifier: BSD-3-Clause
#include "formats/h5/library.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

namespace clusterprof::h5 {

static_assert(std::is_same_v<hid_t, std::int64_t>);

namespace {

// HDF5's message for the innermost failure.
std::string library_reason() {
  std::string reason;
  const auto visit = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr && *error->desc != '\0') *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, visit, &reason);
  H5Eclear2(H5E_DEFAULT);
  // For a failed system call, HDF5 adds time, address and error number. Keep the message alone.
  constexpr std::string_view kSystem = "error message = '";
  if (const std::size_t at = reason.find(kSystem); at != std::string::npos) {
    const std::size_t begin = at + kSystem.size();
    reason = reason.substr(begin, reason.find('\'', begin) - begin);
  }
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason;
}

}  // namespace

std::recursive_mutex& InLibrary::mutex() {
  static auto* const instance = new std::recursive_mutex;  // never destroyed: static objects may hold handles
  return *instance;
}

void fail(const std::string& what) {
  const std::string reason = library_reason();
  throw H5Error(reason.empty() ? what : what + " (" + reason + ")");
}

Handle checked(std::int64_t id, const std::string& what) {
  if (id < 0) fail(what);
  return Handle(id);
}

void check(herr_t status, const std::string& what) {
  if (status < 0) fail(what);
}

void silence() {
  // At exit, HDF5 would try again to write what did not fit on a full disk, and crash.
  [[maybe_unused]] static const herr_t no_exit_handler = H5dont_atexit();
  // A thread-safe HDF5 keeps this setting per thread, so it is set every time. It is cheap.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

void put_attribute(hid_t object, const std::string& where, const char* name, hid_t type, const void* value) {
  const Handle space = checked(H5Screate(H5S_SCALAR), where + " cannot be written");
  const Handle attribute = checked(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                                   where + " cannot be written");
  check(H5Awrite(attribute.get(), type, value), where + " cannot be written");
}

std::pair<Handle, Handle> open_scalar_attribute(hid_t object, const std::string& where, const char* name) {
  Handle attribute = checked(H5Aopen(object, name, H5P_DEFAULT), where + " cannot be read");
  const Handle space = checked(H5Aget_space(attribute.get()), where + " cannot be read");
  if (H5Sget_simple_extent_npoints(space.get()) != 1) throw H5Error(where + " is not a single value");
  Handle type = checked(H5Aget_type(attribute.get()), where + " cannot be read");
  return {std::move(attribute), std::move(type)};
}

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    if (id_ >= 0) {
      const InLibrary in_library;
      H5Idec_ref(id_);
    }
    id_ = std::exchange(other.id_, -1);
  }
  return *this;
}

Handle::~Handle() {
  if (id_ < 0) return;
  const InLibrary in_library;
  H5Idec_ref(id_);
}

}  // namespace clusterprof::h5
