// Resolves configs in one process: reads a path a line, writes a JSON line each,
// {"config","resolved"} or
// {"config","error"}. For the conformance test and the benchmark.
//   exp_config_dump [--search-path DIR]... [--duplicates] [--quiet] < list
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/load.h"

using xp::config::CanonicalJson;
using xp::config::Node;

int main(int argc, char** argv) {
  xp::config::LoadOptions options;
  options.interpolate = false;
  bool quiet = false;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--search-path" && i + 1 < argc) options.search_paths.emplace_back(argv[++i]);
    if (flag == "--duplicates") options.allow_duplicate_keys = true;
    if (flag == "--quiet") quiet = true;
  }
  auto start = std::chrono::steady_clock::now();
  size_t good = 0;
  size_t bad = 0;
  std::string path;
  while (std::getline(std::cin, path)) {
    Node line = Node::Dict();
    line.Set("config", Node(path));
    try {
      line.Set("resolved", xp::config::Load(path, {}, options).root);
      ++good;
    } catch (const xp::Error& error) {
      line.Set("error", Node(error.what()));
      ++bad;
    }
    if (!quiet) std::printf("%s\n", CanonicalJson(line).c_str());
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::fprintf(stderr, "%zu resolved, %zu refused, %.3f s\n", good, bad, seconds);
  return 0;
}
