# clusterprof_target(NAME): settings that all our targets share.
function(clusterprof_target name)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-restrict)
  # This still has functions, lines and inlined calls. Full debug information would take a quarter of the
  # compile time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-g1>)
  if(CLUSTERPROF_SANITIZE AND NOT CLUSTERPROF_PRELOAD_${name})
    target_compile_options(${name} PRIVATE -fsanitize=${CLUSTERPROF_SANITIZE} -fno-omit-frame-pointer)
    if(NOT CLUSTERPROF_BUILD_FUZZERS)  # these have options of their own
      # Errors that UBSan finds fail a test. More optimisation would not make tests faster, but double the
      # compile time.
      target_compile_options(${name} PRIVATE -fno-sanitize-recover=all $<$<CONFIG:RelWithDebInfo>:-Og>)
      target_compile_definitions(${name} PRIVATE XXH_NO_INLINE_HINTS=1)  # xxhash.h insists on inlining what -Og does not
    endif()
    target_link_options(${name} PRIVATE -fsanitize=${CLUSTERPROF_SANITIZE})
  endif()
endfunction()

# clusterprof_command_line(SOURCES...): sources of this folder that include CLI11 and do little else.
# Optimising them, though they run only once, would take half of their compile time.
function(clusterprof_command_line)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:RelWithDebInfo>:-Og>")
endfunction()

# Two words that were just stored one by one must not be loaded as one: the load would wait until both are in
# the cache, which is a tenth of the cost of an MPI call.
set(CLUSTERPROF_WORD_BY_WORD -fno-tree-slp-vectorize)

# clusterprof_old_glibc(NAME): objects of this target are loaded into programs of others, and need no version of
# glibc above 2.17 (base/glibc_2_17.h).
function(clusterprof_old_glibc name)
  target_compile_options(${name} PRIVATE "SHELL:-include \"${PROJECT_SOURCE_DIR}/base/glibc_2_17.h\"")
  get_target_property(type ${name} TYPE)
  if(type MATCHES "SHARED|MODULE")
    # Before 2.34 what we need was here. Of later releases' libraries of these names the linker sees that they
    # are empty.
    target_link_options(${name} PRIVATE LINKER:--push-state,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0 LINKER:--pop-state)
  endif()
endfunction()

# clusterprof_preload(NAME MAP SOURCES...): a shared object for LD_PRELOAD. It needs glibc alone:
# no C++ run time, hidden symbols, initial-exec TLS, only the symbols in MAP exported.
function(clusterprof_preload name map)
  add_library(${name} SHARED ${ARGN})
  set(CLUSTERPROF_PRELOAD_${name} ON)
  clusterprof_target(${name})
  clusterprof_old_glibc(${name})
  target_compile_options(${name} PRIVATE
    -fvisibility=hidden -ftls-model=initial-exec -fasynchronous-unwind-tables ${CLUSTERPROF_WORD_BY_WORD}
    $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit>)
  # GCC 12 has no -nostdlib++: leave all libraries out and name those that may be needed.
  target_link_libraries(${name} PRIVATE c gcc)
  target_link_options(${name} PRIVATE -nodefaultlibs "LINKER:--version-script=${map}" LINKER:-z,now LINKER:-z,defs LINKER:--as-needed)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${CLUSTERPROF_PRELOAD_OUTPUT_DIRECTORY}"
    LINK_DEPENDS "${map}" POSITION_INDEPENDENT_CODE ON)
  install(TARGETS ${name} LIBRARY DESTINATION "${CLUSTERPROF_PRELOADDIR}")
endfunction()
