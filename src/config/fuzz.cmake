# Fuzz targets, one a parser: cmake -DEXP_FUZZ=ON with clang; tests/fuzz/run.sh builds and runs them.
foreach(target yaml python set schema json toml interpolate)
  add_executable(fuzz_${target} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/fuzz/config_fuzz.cpp)
  target_compile_definitions(fuzz_${target} PRIVATE EXP_FUZZ="${target}")
  target_link_libraries(fuzz_${target} PRIVATE exp_config)
  target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
endforeach()
