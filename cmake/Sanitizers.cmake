# Runs some tests with sanitizers in a build without sanitizers, because CI has no time for a second build.
# The presets asan and tsan sanitize everything outside the recorded program, with more checks. With these
# presets, and if the compiler has no run time for sanitizers, all of this does nothing.

# Half of UBSan's checks (null, alignment, object-size, vptr, pointer-overflow) are left out: they take twice
# as long to compile as ASan and find little that ASan does not find.
set(clusterprof_address_sanitizer
  -fsanitize=address,bounds,shift,integer-divide-by-zero,signed-integer-overflow,bool,enum,float-cast-overflow,nonnull-attribute
  -fno-sanitize-recover=all)

# Finds out whether there is anything to do, and the run times for it.
include(CheckCXXSourceCompiles)
set(CLUSTERPROF_ADDRESS_SANITIZER OFF)
set(CLUSTERPROF_THREAD_SANITIZER OFF)
if(NOT CLUSTERPROF_SANITIZE)
  foreach(which ADDRESS THREAD)
    string(TOLOWER ${which} flag)
    set(CMAKE_REQUIRED_FLAGS -fsanitize=${flag})
    check_cxx_source_compiles("int main() { return 0; }" CLUSTERPROF_HAS_${which}_SANITIZER)
    unset(CMAKE_REQUIRED_FLAGS)
    if(CLUSTERPROF_HAS_${which}_SANITIZER)
      set(CLUSTERPROF_${which}_SANITIZER ON)
    else()
      message(STATUS "clusterprof: no run time for -fsanitize=${flag}, its tests are left out")
    endif()
  endforeach()
endif()

# clusterprof_sanitized_copy(LIBRARIES... [WITHOUT SOURCES...]): a library LIBRARY_asan beside each, of the same sources. Each
# comes behind those that it links. SOURCES, file names, are left out for time: a test that needs them gets the library's own.
function(clusterprof_sanitized_copy)
  cmake_parse_arguments(PARSE_ARGV 0 how "" "" "WITHOUT")
  if(NOT CLUSTERPROF_ADDRESS_SANITIZER)
    return()
  endif()
  foreach(name IN LISTS how_UNPARSED_ARGUMENTS)
    get_target_property(folder ${name} SOURCE_DIR)
    get_target_property(names ${name} SOURCES)
    set(sources "")
    foreach(source IN LISTS names)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}")
      cmake_path(GET source FILENAME file)
      if(NOT file IN_LIST how_WITHOUT)
        list(APPEND sources "${source}")
      endif()
    endforeach()
    add_library(${name}_asan STATIC EXCLUDE_FROM_ALL ${sources})
    set_target_properties(${name}_asan PROPERTIES OPTIMIZE_DEPENDENCIES ON)  # does not wait for the library itself
    target_include_directories(${name}_asan PUBLIC "$<TARGET_PROPERTY:${name},INCLUDE_DIRECTORIES>")
    # xxhash.h insists on inlining functions that -Og does not inline.
    target_compile_definitions(${name}_asan PRIVATE "$<TARGET_PROPERTY:${name},COMPILE_DEFINITIONS>" XXH_NO_INLINE_HINTS=1)
    # Warnings were shown when the library itself was compiled.
    target_compile_options(${name}_asan PRIVATE -w -fno-omit-frame-pointer ${clusterprof_address_sanitizer}
      $<$<CONFIG:RelWithDebInfo>:-Og> $<$<CONFIG:RelWithDebInfo>:-g1>)
    get_target_property(is_unity ${name} UNITY_BUILD)
    if(is_unity)
      clusterprof_unity(${name}_asan)
      foreach(source IN LISTS sources)
        get_source_file_property(is_apart "${source}" DIRECTORY "${folder}" SKIP_UNITY_BUILD_INCLUSION)
        if(is_apart)
          set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
        endif()
      endforeach()
    endif()
    get_target_property(headers ${name} PRECOMPILE_HEADERS)
    if(headers)
      target_precompile_headers(${name}_asan PRIVATE ${headers})
    endif()
    # Those of its libraries that have a copy; then itself, for what it links, and for what its copy lacks.
    get_target_property(libraries ${name} LINK_LIBRARIES)
    foreach(library IN LISTS libraries)
      if(TARGET ${library}_asan)
        target_link_libraries(${name}_asan PUBLIC ${library}_asan)
      endif()
    endforeach()
    target_link_libraries(${name}_asan PUBLIC ${name})
  endforeach()
endfunction()

# In the list VARIABLE, sanitized copies in the place of libraries that have one; and behind all, before the linker sees
# the libraries themselves, copies of those that these link.
function(clusterprof_sanitized_names variable)
  set(names "")
  set(copies "")
  set(seen "")
  set(waiting "${${variable}}")
  foreach(name IN LISTS waiting)
    if(TARGET ${name}_asan)
      set(name ${name}_asan)
    endif()
    list(APPEND names "${name}")
  endforeach()
  while(waiting)
    list(POP_FRONT waiting name)
    if(name MATCHES "^clusterprof_" AND TARGET ${name} AND NOT name IN_LIST seen)
      list(APPEND seen "${name}")
      get_target_property(libraries ${name} LINK_LIBRARIES)
      if(libraries)
        list(APPEND waiting ${libraries})
      endif()
      if(TARGET ${name}_asan)
        list(APPEND copies ${name}_asan)
      endif()
    endif()
  endwhile()
  list(REMOVE_ITEM copies ${names})
  set(${variable} "${names};${copies}" PARENT_SCOPE)
endfunction()

# clusterprof_sanitize(NAME): a test program whose sources of the product have ASan and UBSan, and that is linked with the
# sanitized copies of libraries that have one. Its tests do not: they use headers that are compiled already. Comes behind
# all that is said of it.
function(clusterprof_sanitize name)
  if(NOT CLUSTERPROF_ADDRESS_SANITIZER)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "^${PROJECT_SOURCE_DIR}/" AND NOT source MATCHES "^${PROJECT_SOURCE_DIR}/tests/")
      get_source_file_property(options "${source}" COMPILE_OPTIONS)
      if(NOT options)
        set(options "")
      endif()
      set_source_files_properties("${source}" PROPERTIES
        COMPILE_OPTIONS "${options};-fno-omit-frame-pointer;${clusterprof_address_sanitizer}")
    endif()
  endforeach()
  target_link_options(${name} PRIVATE ${clusterprof_address_sanitizer})
  get_target_property(libraries ${name} LINK_LIBRARIES)
  if(libraries)
    clusterprof_sanitized_names(libraries)
    set_target_properties(${name} PROPERTIES LINK_LIBRARIES "${libraries}")
  endif()
endfunction()

# clusterprof_test_sanitized(NAME TEST [FILTER]): the unit tests of the program NAME once more, as one test sanitizers.TEST: its
# objects, linked with sanitized copies of the libraries. FILTER: "-..." without these.
function(clusterprof_test_sanitized name test)
  if(NOT CLUSTERPROF_ADDRESS_SANITIZER)
    return()
  endif()
  add_executable(${name}_asan $<TARGET_OBJECTS:${name}>)
  set_target_properties(${name}_asan PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  get_target_property(libraries ${name} LINK_LIBRARIES)
  target_link_libraries(${name}_asan PRIVATE ${libraries})
  clusterprof_sanitize(${name}_asan)
  add_test(NAME sanitizers.${test} COMMAND ${name}_asan --gtest_brief=1 "--gtest_filter=*${ARGN}")
  set_tests_properties(sanitizers.${test} PROPERTIES LABELS unit TIMEOUT ${test_limit_s} COST 100
    ENVIRONMENT "ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=4")  # for speed: HDF5 allocates a lot
endfunction()
