# Run by `cmake --install` first: notes which directories there are, for directories_after.cmake.
cmake_policy(PUSH)
cmake_policy(VERSION 3.25)
set(clusterprof_root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
set(clusterprof_new "")
set(place "${clusterprof_root}")
while(NOT EXISTS "${place}")
  list(APPEND clusterprof_new "${place}")
  get_filename_component(place "${place}" DIRECTORY)
endwhile()
file(GLOB clusterprof_old LIST_DIRECTORIES true
  "${clusterprof_root}/*" "${clusterprof_root}/share/*" "${clusterprof_root}/share/*/*")
cmake_policy(POP)
