#include "src/graph/cuda/compiled_plans.h"

#include <filesystem>

#include "catch.h"
#include "exp/base/file.h"
#include "exp/base/temporary_folder.h"

namespace xp::graph::cuda {
namespace {

std::filesystem::path OnlyFile(const std::filesystem::path& folder) {
  std::filesystem::path found;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    found = entry.path();
    ++count;
  }
  REQUIRE(count == 1);
  return found;
}

}  // namespace

TEST_CASE("a compiled plan is found by its problem and choice") {
  TemporaryFolder folder("plans");
  const CompiledPlans plans(std::filesystem::path(folder.path()) / "not" / "yet");
  CHECK(plans.Find("problem", "fused:eng1").empty());
  plans.Add("problem", "fused:eng1", "{\"a\": \"line\nand\tanother\"}");
  CHECK(plans.Find("problem", "fused:eng1") == "{\"a\": \"line\nand\tanother\"}");
  CHECK(plans.Find("problem", "fused:eng2").empty());
  CHECK(plans.Find("problem2", "fused:eng1").empty());
  plans.Add("problem", "fused:eng1", "{}");
  CHECK(CompiledPlans(std::filesystem::path(folder.path()) / "not" / "yet")
            .Find("problem", "fused:eng1") == "{}");
}

TEST_CASE("a compiled plan that was damaged is none") {
  TemporaryFolder folder("plans");
  const CompiledPlans plans(folder.path());
  plans.Add("problem", "fused:eng1", "{\"kernel\": \"0123456789\"}");
  const std::filesystem::path file = OnlyFile(folder.path());
  const std::string whole = ReadFile(file);
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    WriteFileAtomic(file, whole.substr(0, cut));
    CHECK(plans.Find("problem", "fused:eng1").empty());
    std::string changed = whole;
    changed[cut] = static_cast<char>(changed[cut] ^ 4);
    WriteFileAtomic(file, changed);
    CHECK(plans.Find("problem", "fused:eng1").empty());
  }
  plans.Add("problem", "fused:eng1", "{}");
  CHECK(plans.Find("problem", "fused:eng1") == "{}");
}

TEST_CASE("without a folder no compiled plan is kept") {
  const CompiledPlans plans("");
  plans.Add("problem", "fused:eng1", "{}");
  CHECK(plans.Find("problem", "fused:eng1").empty());
}

}  // namespace xp::graph::cuda
