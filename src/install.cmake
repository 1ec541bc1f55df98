# `cmake --install build --prefix DIR`: the program, and the recorder as a library for other C++ programs
# (pkg-config exp-record; examples/record_your_own.cpp). --component recorder: the library alone.
include(GNUInstallDirs)
if(TARGET exp)
  install(TARGETS exp exp_commands RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
install(TARGETS exp_record exp_snapshot exp_base ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT recorder)
install(DIRECTORY include/exp/base include/exp/record include/exp/snapshot
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/exp COMPONENT recorder)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/exp-record.pc CONTENT [[
prefix=${pcfiledir}/../..
libdir=${pcfiledir}/..
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: exp-record
Description: records runs of training programs in the store of exp
URL: include/exp/record/writer.h
Version: @PROJECT_VERSION@
Requires: sqlite3 libgit2 libxxhash fmt nlohmann_json
Cflags: -I${includedir}
Libs: -L${libdir} -lexp_record -lexp_snapshot -lexp_base -ldl -pthread
]] @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/exp-record.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT recorder)
