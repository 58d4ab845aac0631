# Makes page.html, page.js and page.css a C++ source:
# cmake -DOUTPUT=FILE -DTEMPLATE=page.html -DSCRIPT=page.js -DSTYLE=page.css -P embed.cmake
cmake_minimum_required(VERSION 3.25)
set(text "// Made by embed.cmake.\n#include \"report/html/page_files.hpp\"\n\nnamespace clusterprof::report {\nnamespace {\n\n")

function(embed name file)
  file(READ "${file}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  if(bytes EQUAL 0)
    message(FATAL_ERROR "${file} is empty")
  endif()
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  set(text "${text}constexpr unsigned char k${name}Bytes[] = {\n${hex}};\n\n" PARENT_SCOPE)
endfunction()

# What would end the element that it is put into, or that the browser would change before it looks at its hash.
function(check_inline file)
  file(READ "${file}" content)
  string(TOLOWER "${content}" content)
  foreach(bad "</script" "</style" "<!--" "\r")
    string(FIND "${content}" "${bad}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file}: '${bad}' cannot be in it")
    endif()
  endforeach()
endfunction()

check_inline("${SCRIPT}")
check_inline("${STYLE}")
file(READ "${TEMPLATE}" content)
foreach(needed "<style>@STYLE@</style>" "<script>@SCRIPT@</script>" "@DATA@" "@TITLE@" "'sha256-@SCRIPT_SHA256@'"
    "'sha256-@STYLE_SHA256@'")
  string(FIND "${content}" "${needed}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${TEMPLATE}: ${needed} is not in it")
  endif()
endforeach()

embed(PageTemplate "${TEMPLATE}")
embed(PageScript "${SCRIPT}")
embed(PageStyle "${STYLE}")
file(SHA256 "${SCRIPT}" script_hash)
file(SHA256 "${STYLE}" style_hash)
string(APPEND text "template <std::size_t N>\nstd::string_view view(const unsigned char (&bytes)[N]) {\n"
  "  return {reinterpret_cast<const char*>(bytes), N};\n}\n\n}  // namespace\n\n")
foreach(name PageTemplate PageScript PageStyle)
  string(APPEND text "const std::string_view k${name} = view(k${name}Bytes);\n")
endforeach()
string(APPEND text "const std::string_view kPageScriptSha256 = \"${script_hash}\";\n"
  "const std::string_view kPageStyleSha256 = \"${style_hash}\";\n\n}  // namespace clusterprof::report\n")
file(WRITE "${OUTPUT}" "${text}")
