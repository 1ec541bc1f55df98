// Every parser on seeds and their mutations, the same ones each time: what tests/fuzz/run.sh does
// at random and for longer. Runs under the sanitizers in tests/run.sh.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "catch.h"
#include "tests/fuzz/targets.h"

using namespace xp::config;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> Files(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(EXP_SOURCE_DIR "/" + folder)) {
    if (entry.path().extension() == ending) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

std::vector<std::string> Seeds(std::string_view target) {
  if (target == "python") return Files("tests/conformance", ".py");
  if (target == "json") return Files("tests/conformance/cases", ".json");
  if (target == "set") {
    return {"a.b.1.c=[1, (2, \"x\"), {k: 1e-3}]",
            "+a.n.m='q'",
            "~a.\"x.y\"",
            "a.b+=[1, 0x10]",
            "a.b.*=nan",
            "optimizer.lr=18446744073709551615",
            "a={_delete_: true, b: ${c}}"};
  }
  if (target == "toml") {
    return {"a = 1\n[b.c]\nd = [1.5, 'x']\n[[e]]\nf = 1979-05-27T07:32:00Z\n",
            "x = {a = 1, b = [[], [inf]]}\n'q r' = \"\"\"l\nm\"\"\"\nn = 0x10\n"};
  }
  std::vector<std::string> texts = Files("configs", ".yaml");
  for (std::string& text : Files("tests/conformance/cases", ".yaml")) texts.push_back(text);
  return texts;
}

// Bytes changed, dropped, doubled, swapped in from a list of words, or from another seed.
std::string Mutated(const std::vector<std::string>& seeds, std::mt19937& random) {
  static const std::string kWords[] = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       "(",
                                       ")",
                                       "'",
                                       "\"",
                                       "*a",
                                       "&a ",
                                       "<<: ",
                                       "!t ",
                                       "!!float ",
                                       "- ",
                                       ": ",
                                       "? ",
                                       "| \n",
                                       "\n",
                                       "\t",
                                       "${a}",
                                       "${",
                                       "{{_base_.a}}",
                                       "{{$X:1}}",
                                       "1e999",
                                       "-",
                                       "0x",
                                       "9223372036854775808",
                                       "_delete_",
                                       "_base_",
                                       "lambda x: ",
                                       " for x in ",
                                       "**",
                                       ":=",
                                       "\xff",
                                       "\xc3",
                                       std::string(1, '\0'),
                                       "%s",
                                       "f'{",
                                       "#",
                                       "@",
                                       "\\",
                                       "..",
                                       "~",
                                       "+",
                                       "="};
  auto below = [&](size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random);
  };
  std::string text = seeds[below(seeds.size())];
  if (text.size() > 3000) text = text.substr(below(text.size() - 2000), 2000);
  for (size_t edits = 1 + below(6); edits > 0; --edits) {
    size_t at = below(text.size() + 1);
    size_t length = std::min(text.size() - at, below(20));
    switch (below(5)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, kWords[below(std::size(kWords))]);
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        size_t from = below(other.size() + 1);
        text.insert(at, other.substr(from, below(60)));
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("every parser withstands mutated seeds") {
  for (std::string_view target : fuzz::kTargets) {
    CAPTURE(std::string(target));
    std::vector<std::string> seeds = Seeds(target);
    REQUIRE_FALSE(seeds.empty());
    std::mt19937 random(1);
    const int count = target == "schema" ? 300 : 5000;
    for (int i = 0; i < count; ++i) {
      std::string text = i < static_cast<int>(seeds.size()) ? seeds[static_cast<size_t>(i)]
                                                            : Mutated(seeds, random);
      try {
        fuzz::One(target, text);
      } catch (const std::exception& error) {
        FAIL(error.what() << "\nof: " << text);
      }
    }
  }
}
