// SPDX-License-Identifier: BSD-3-Clause
// Names of Rust functions from the names of their symbols. No state: any thread. Symbols come out of other
// people's files: any bytes are accepted, and both the depth of the names and the length of their texts are
// bounded. docs/design/0013-libraries.md tells why this is not a library's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace clusterprof::collector {

// No value: `symbol` is not a name of that kind, or is damaged.
// _RNvCs1234_4heat4main (RFC 2603)  ->  heat::main
[[nodiscard]] std::optional<std::string> demangle_rust_v0(std::string_view symbol);
// _ZN4core3fmt5write17h0123456789abcdefE  ->  core::fmt::write
[[nodiscard]] std::optional<std::string> demangle_rust_legacy(std::string_view symbol);

}  // namespace clusterprof::collector
