// Real ELF files, as bytes that a test changes.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "catch.h"

namespace xp::doctor {

inline std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string Replaced(std::string bytes, const std::string& what, const std::string& by) {
  REQUIRE(what.size() == by.size());
  size_t at = 0;
  int count = 0;
  while ((at = bytes.find(what, at)) != std::string::npos) {
    bytes.replace(at, what.size(), by);
    ++count;
  }
  REQUIRE(count > 0);
  return bytes;
}

}  // namespace xp::doctor
