# Programs run with the glibc that they are linked with, and with newer ones. This is how one package is made for
# older systems (scripts/package --portable): what is compiled here is linked with the C library of an older
# release, and with archives of everything else. What that library lacks is in base/older_glibc.cpp.
set(CLUSTERPROF_SYSROOT "" CACHE PATH
  "Folder with an older glibc, as scripts/older-glibc makes it, that programs are linked with; empty: this system's")
if(CLUSTERPROF_SYSROOT)
  set(ZLIB_USE_STATIC_LIBS ON)
endif()

# clusterprof_archives(RESULT NAMES...): the archives of these libraries.
function(clusterprof_archives result)
  set(archives "")
  foreach(name IN LISTS ARGN)
    find_library(CLUSTERPROF_ARCHIVE_${name} lib${name}.a REQUIRED)
    mark_as_advanced(CLUSTERPROF_ARCHIVE_${name})
    list(APPEND archives "${CLUSTERPROF_ARCHIVE_${name}}")
  endforeach()
  set(${result} "${archives}" PARENT_SCOPE)
endfunction()

# clusterprof_prefer_archives(TARGET NAMES...): with CLUSTERPROF_SYSROOT, the imported target stands for these archives.
function(clusterprof_prefer_archives target)
  if(CLUSTERPROF_SYSROOT)
    clusterprof_archives(archives ${ARGN})
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${archives}")
  endif()
endfunction()

# clusterprof_find_fmt(): defines fmt::fmt.
macro(clusterprof_find_fmt)
  find_package(fmt REQUIRED)
  if(CLUSTERPROF_SYSROOT)
    # Debian has no archive of it, but the headers have all of it (base/fmt_library.cpp).
    get_target_property(configurations fmt::fmt IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      set_target_properties(fmt::fmt PROPERTIES
        IMPORTED_LOCATION_${configuration} "${PROJECT_BINARY_DIR}/base/libclusterprof_fmt.a")
    endforeach()
  endif()
endmacro()

# Links a program with the C library in CLUSTERPROF_SYSROOT.
function(clusterprof_link_with_sysroot name)
  target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/base/older_glibc.cpp")
  set(libraries "${CLUSTERPROF_SYSROOT}/usr/lib/x86_64-linux-gnu")
  # The compiler looks for libraries in its own folders, too, whatever the sysroot: -B and -L come before them.
  # MPI's libraries are this system's, and need its glibc.
  target_link_options(${name} PRIVATE "--sysroot=${CLUSTERPROF_SYSROOT}" "-B${libraries}/" "-L${libraries}"
    "-L${CLUSTERPROF_SYSROOT}/lib/x86_64-linux-gnu" -static-libstdc++ -static-libgcc LINKER:--allow-shlib-undefined
    LINKER:--wrap=exp LINKER:--wrap=log LINKER:--wrap=pow LINKER:--undefined=__wrap_pow)
  target_link_libraries(${name} PRIVATE pthread dl)
  add_dependencies(${name} clusterprof_fmt)
endfunction()

# clusterprof_target(NAME): settings that all our targets share.
function(clusterprof_target name)
  get_target_property(type ${name} TYPE)
  if(CLUSTERPROF_SYSROOT AND type STREQUAL "EXECUTABLE")
    clusterprof_link_with_sysroot(${name})
  endif()
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    $<$<OR:$<C_COMPILER_ID:GNU>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)
  # This still has functions, lines and inlined calls. Full debug information would take a quarter of the
  # compile time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-g1>)
  if(CLUSTERPROF_SANITIZE AND NOT CLUSTERPROF_PRELOAD_${name})
    target_compile_options(${name} PRIVATE -fsanitize=${CLUSTERPROF_SANITIZE} -fno-omit-frame-pointer)
    if(CLUSTERPROF_BUILD_FUZZERS)
      # Half of the compile time, for what AddressSanitizer and the kernel find as well.
      target_compile_options(${name} PRIVATE -fno-sanitize=null,object-size,vptr)
    else()
      # Errors that UBSan finds fail a test. More optimisation would not make tests faster, but double the
      # compile time.
      target_compile_options(${name} PRIVATE -fno-sanitize-recover=all $<$<CONFIG:RelWithDebInfo>:-Og>)
      target_compile_definitions(${name} PRIVATE XXH_NO_INLINE_HINTS=1)  # xxhash.h insists on inlining what -Og does not
    endif()
    target_link_options(${name} PRIVATE -fsanitize=${CLUSTERPROF_SANITIZE})
  endif()
endfunction()

# Precompiled headers save a third of the compile time. Only in optimised builds: a Debug build shows what a source
# forgot to include. ccache does not know what GCC reads from them (its `sloppiness` would have to be set).
set(CLUSTERPROF_PRECOMPILE OFF)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND NOT "${CMAKE_CXX_COMPILER_LAUNCHER} ${CMAKE_CXX_COMPILER}" MATCHES "ccache")
  set(CLUSTERPROF_PRECOMPILE ON)
endif()

# clusterprof_precompile(NAME HEADERS...): for a library of many sources: the standard library's usual headers, and these.
function(clusterprof_precompile name)
  if(CLUSTERPROF_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/standard_headers.hpp" ${ARGN})
  endif()
endfunction()

# clusterprof_unity(NAME [BY_FOLDER] [APART SOURCES...]): with CLUSTERPROF_UNITY, the target's sources are compiled several
# at a time, which saves reading the same headers over and over, but for SOURCES and those with options of their own. So
# no two sources of the target may give the same name to different things, in anonymous namespaces either. BY_FOLDER: only
# sources of one folder together, for a library of which programs compile some folders anew and link the others. Comes
# behind clusterprof_target(), in the same folder.
function(clusterprof_unity name)
  if(NOT CLUSTERPROF_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 how "BY_FOLDER" "" "APART")
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # These would tell of names of other sources, and take sources for headers.
  target_compile_options(${name} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  if(how_BY_FOLDER)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${name} SOURCES)
    foreach(source IN LISTS sources)
      cmake_path(GET source PARENT_PATH folder)
      cmake_path(GET folder FILENAME folder)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}")
    endforeach()
  endif()
  if(how_APART)
    set_source_files_properties(${how_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
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

# What glibc may make of $LIB in an entry of LD_PRELOAD: as in formats/wire/preload_entry.h.
set(CLUSTERPROF_LIBRARY_DIRECTORIES lib64 lib lib/x86_64-linux-gnu x86_64-linux-gnu IB)

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
  foreach(directory IN LISTS CLUSTERPROF_LIBRARY_DIRECTORIES)
    string(REGEX REPLACE "[^/]+" ".." up "${directory}")
    set(link "${CLUSTERPROF_PRELOAD_OUTPUT_DIRECTORY}/${directory}/lib${name}.so")
    cmake_path(GET link PARENT_PATH place)
    file(MAKE_DIRECTORY "${place}")
    file(CREATE_LINK "${up}/lib${name}.so" "${link}" SYMBOLIC)
    install(FILES "${link}" DESTINATION "${CLUSTERPROF_PRELOADDIR}/${directory}")
  endforeach()
endfunction()
