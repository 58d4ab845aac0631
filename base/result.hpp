// SPDX-License-Identifier: BSD-3-Clause
// Result<T>: how functions report expected failures.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace clusterprof {

// The kind of an Error. Callers decide by it and never by the message.
enum class ErrorKind : std::uint8_t {
  kOther = 0,     // everything else, for example a system call that failed
  kDamaged,       // the input cannot be right
  kOtherVersion,  // the input was made by another version of clusterprof
  kNotFound,      // what was asked for does not exist
  kBadArgument,   // the request itself is wrong or ambiguous
};

// What went wrong. `message` is for people: one line that names the file concerned, without a full stop.
struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::kOther;
};

// A value or an Error. Functions return it for failures that are to be expected (bad input, a missing file).
// Exceptions are used only in formats/ around HDF5, and for lack of memory.
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
