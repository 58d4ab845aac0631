# Run by `cmake --install` last: every user of a cluster reads what its administrator installs. Files have modes of their
# own; the directories that were made for them have what the administrator's umask left.
cmake_policy(PUSH)
cmake_policy(VERSION 3.25)
foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
  get_filename_component(place "$ENV{DESTDIR}${file}" DIRECTORY)
  while(NOT place STREQUAL clusterprof_root AND place MATCHES "/" AND NOT place IN_LIST clusterprof_old
        AND NOT place IN_LIST clusterprof_new)
    list(APPEND clusterprof_new "${place}")
    get_filename_component(place "${place}" DIRECTORY)
  endwhile()
endforeach()
if(clusterprof_new)
  file(CHMOD ${clusterprof_new} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
endif()
cmake_policy(POP)
