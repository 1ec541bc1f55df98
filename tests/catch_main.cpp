// Catch2 2 has no library with a main; this is it. Catch2 3 brings its own.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
