# Run by cpack before it packs CPACK_TEMPORARY_DIRECTORY.
#
# In a .deb the libraries that programs need become dependencies: not those of merge-* and self-test-*, one of
# which is of use at most, and that say so themselves when their MPI is missing.
#
# A .tar.gz brings its libraries along, all but libc's and MPI's, in lib/clusterprof/private: it runs where the
# distribution has others or, as containers, none. With cpack -D CPACK_CLUSTERPROF_SYSTEM_LIBRARIES=ON it does not.
cmake_policy(VERSION 3.25)

# What is made here is for every user, whatever the umask.
set(readable OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
set(searchable ${readable} OWNER_EXECUTE GROUP_EXECUTE WORLD_EXECUTE)

function(clusterprof_run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}")
  endif()
endfunction()

set(top "${CPACK_TEMPORARY_DIRECTORY}")
if(CPACK_GENERATOR STREQUAL "DEB")
  set(prefix "${top}${CPACK_PACKAGING_INSTALL_PREFIX}")
else()
  set(prefix "${top}")
endif()
file(GLOB programs "${prefix}/libexec/clusterprof/*" "${prefix}/bin/*")
set(mpi_programs ${programs})
list(FILTER mpi_programs INCLUDE REGEX "/(merge|self-test)-[a-z]+$")
if(NOT programs)
  message(FATAL_ERROR "nothing to be packed in ${prefix}")
endif()

if(CPACK_GENERATOR STREQUAL "DEB")
  find_program(gzip gzip REQUIRED)
  find_program(shlibdeps dpkg-shlibdeps REQUIRED)
  set(documents "${prefix}/share/doc/clusterprof")
  clusterprof_run("${gzip}" -9n "${documents}/CHANGELOG.md")
  file(RENAME "${documents}/CHANGELOG.md.gz" "${documents}/changelog.gz")

  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, where set
  file(WRITE "${documents}/changelog.Debian" "clusterprof (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) "
    "unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  clusterprof_run("${gzip}" -9n "${documents}/changelog.Debian")
  file(GLOB_RECURSE pages "${prefix}/share/man/*")
  foreach(page IN LISTS pages)
    if(IS_SYMLINK "${page}")
      file(READ_SYMLINK "${page}" target)
      file(REMOVE "${page}")
      file(CREATE_LINK "${target}.gz" "${page}.gz" SYMBOLIC)
    else()
      clusterprof_run("${gzip}" -9n "${page}")
    endif()
  endforeach()
  # Whoever publishes the package says who answers for it: -D CPACK_PACKAGE_CONTACT="NAME <MAIL>".
  if(CPACK_PACKAGE_CONTACT MATCHES "@localhost>")
    file(WRITE "${prefix}/share/lintian/overrides/clusterprof" "clusterprof: bogus-mail-host Maintainer *\n"
      "clusterprof: bogus-mail-host-in-debian-changelog *\n")
    file(CHMOD_RECURSE "${prefix}/share/lintian" FILE_PERMISSIONS ${readable} DIRECTORY_PERMISSIONS ${searchable})
  endif()

  # On this distribution MPI's libraries lie where the loader looks anyway.
  foreach(program IN LISTS mpi_programs)
    file(RPATH_REMOVE FILE "${program}")
  endforeach()

  # dpkg-shlibdeps wants the control file of a source package.
  set(work "${top}/../shlibdeps")
  file(MAKE_DIRECTORY "${work}/debian")
  file(WRITE "${work}/debian/control" "Source: clusterprof\n\nPackage: clusterprof\nArchitecture: any\n")
  set(needed ${programs})
  list(FILTER needed EXCLUDE REGEX "/(merge|self-test)-[a-z]+$")
  execute_process(COMMAND "${shlibdeps}" -O ${needed} WORKING_DIRECTORY "${work}"
    OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0 OR NOT output MATCHES "shlibs:Depends=([^\n]+)")
    message(FATAL_ERROR "dpkg-shlibdeps: ${status}\n${errors}")
  endif()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "${CMAKE_MATCH_1}")
elseif(NOT CPACK_CLUSTERPROF_SYSTEM_LIBRARIES)
  find_program(patchelf patchelf)
  if(NOT patchelf)
    message(FATAL_ERROR "patchelf is needed to put libraries into the package (-D CPACK_CLUSTERPROF_SYSTEM_LIBRARIES=ON "
                        "leaves them out)")
  endif()
  set(private "${prefix}/lib/clusterprof/private")
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs}
    RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^libm\\.so" "^libmvec\\.so" "^libdl\\.so" "^libpthread\\.so"
      "^librt\\.so" "^libresolv\\.so" "^libutil\\.so" "^libanl\\.so" "^libnsl\\.so\\.1" "^libmpi" "^libmpich")
  if(missing OR NOT libraries)
    message(FATAL_ERROR "libraries that the programs need were not found: ${missing}")
  endif()
  file(INSTALL ${libraries} DESTINATION "${private}" FOLLOW_SYMLINK_CHAIN)
  file(GLOB copies "${private}/*")
  foreach(copy IN LISTS copies)
    if(NOT IS_SYMLINK "${copy}")
      clusterprof_run("${patchelf}" --set-rpath "$ORIGIN" "${copy}")
    endif()
  endforeach()
  # DT_RPATH, not DT_RUNPATH: a user's LD_LIBRARY_PATH is for the user's program.
  file(GLOB libexec "${prefix}/libexec/clusterprof/*")
  foreach(program IN LISTS libexec)
    clusterprof_run("${patchelf}" --force-rpath --set-rpath "$ORIGIN/../../lib/clusterprof/private" "${program}")
  endforeach()
  # Their licences go with them, where the distribution says.
  find_program(dpkg_query dpkg-query)
  if(dpkg_query)
    foreach(library IN LISTS libraries)
      # dpkg knows each file by one of its two names, with /usr and without.
      string(REGEX REPLACE "^/usr/" "/" short "${library}")
      foreach(path IN ITEMS "${short}" "/usr${short}")
        execute_process(COMMAND "${dpkg_query}" -S "${path}" OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE status)
        if(status EQUAL 0 AND owner MATCHES "^([^:]+):")
          set(copyright "/usr/share/doc/${CMAKE_MATCH_1}/copyright")
          if(EXISTS "${copyright}")
            configure_file("${copyright}" "${prefix}/share/doc/clusterprof/libraries/${CMAKE_MATCH_1}" COPYONLY)
          endif()
          break()
        endif()
      endforeach()
    endforeach()
  endif()
endif()
file(CHMOD_RECURSE "${prefix}/share/doc/clusterprof" FILE_PERMISSIONS ${readable} DIRECTORY_PERMISSIONS ${searchable})
if(IS_DIRECTORY "${prefix}/lib/clusterprof/private")
  file(CHMOD "${prefix}/lib/clusterprof/private" PERMISSIONS ${searchable})
endif()
while(NOT prefix STREQUAL top)
  file(CHMOD "${prefix}" PERMISSIONS ${searchable})
  get_filename_component(prefix "${prefix}" DIRECTORY)
endwhile()
