# cmake -DOUTPUT=FILE -DSOURCES="a;b" -P hash_sources.cmake: a header with a number that any change to these
# files changes.
set(all "")
foreach(source IN LISTS SOURCES)
  get_filename_component(name "${source}" NAME)
  file(SHA256 "${source}" hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING "${hash}" 0 16 number)
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
#pragma once

#include <cstdint>

namespace clusterprof::report {
inline constexpr std::uint64_t kAnalysisCode = 0x@number@;
}  // namespace clusterprof::report
]])
