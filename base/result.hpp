// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace clusterprof {

// What callers decide by; nobody reads a message to find out.
enum class ErrorKind : std::uint8_t {
  kOther = 0,     // the system said no, or nothing below
  kDamaged,       // what was read cannot be right
  kOtherVersion,  // another version of clusterprof made it
};

// What went wrong, for a person: one line, no trailing full stop, names the file concerned.
struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::kOther;
};

// A value or an Error. Expected failures (bad input, missing file) travel in these;
// exceptions are for the HDF5 layer and for main.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  [[nodiscard]] explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return !error_; }
  [[nodiscard]] explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace clusterprof
