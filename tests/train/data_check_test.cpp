// Before a run: the annotations and files are looked at as `exp data check` does, and what is left
// out is named in the run's warnings.
#include "src/train/data_check.h"

#include <filesystem>
#include <map>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/data/from_config.h"
#include "exp/data/shapes.h"
#include "temp_folder.h"

using namespace xp;
using namespace xp::train;
namespace fs = std::filesystem;

namespace {

// Drawn shapes, with two boxes without area and the same image in both parts.
class Set {
 public:
  Set() {
    data::DrawShapes(folder.path(), {.images = 4, .val = 2, .seed = 3, .width = 96, .height = 64});
    std::string path = (folder / "instances_train.json").string();
    std::string text = ReadFile(path);
    size_t at = text.find("\"annotations\":");
    at = text.find('[', at) + 1;
    text.insert(at, R"({"id": 9001, "image_id": 1, "category_id": 1, "bbox": [3, 3, 0, 5]},
                       {"id": 9002, "image_id": 1, "category_id": 1, "bbox": [3, 3, 5, 0]},)");
    WriteFileAtomic(path, text);
  }

  // The warnings of a check: code to message.
  std::map<std::string, std::string> Check(std::vector<std::string> set) const {
    set.push_back("data_root=" + folder.path().string());
    config::Resolved resolved = config::Load(EXP_SOURCE_DIR "/configs/quickstart.yaml", set);
    config::Reader reader(resolved.root);
    std::map<std::string, std::string> told;
    CheckData(reader, {data::OpenPart(reader, "train"), data::OpenPart(reader, "val")},
              [&](const std::string& code, const std::string& message) {
                told[code] += message + "\n";  // of both parts
              });
    return told;
  }

  TempFolder folder;
};

}  // namespace

// Report 5 (vision#2740): found at load, the annotation named.
TEST_CASE("each record that is left out is in the run's warnings") {
  auto told = Set().Check({});
  REQUIRE(told.contains("data.box.no_area"));
  CHECK_THAT(told["data.box.no_area"],
             ContainsSubstring("train: 2 boxes without area; left out of training") &&
                 ContainsSubstring("instances_train.json:") &&
                 ContainsSubstring("all: annotation 9001, annotation 9002"));
}

TEST_CASE("strict refuses, ignore says nothing") {
  Set set;
  CHECK_THROWS_WITH(set.Check({"data.train.policy=strict"}), ContainsSubstring("box.no_area"));
  CHECK(set.Check({"data.train.policy=ignore"}).empty());
  // Also for what only the audit knows.
  std::string path = (set.folder / "instances_val.json").string();
  std::string text = ReadFile(path);
  size_t at = text.find('[', text.find("\"annotations\":")) + 1;
  std::string record = text.substr(at, text.find('}', at) + 1 - at);
  size_t id = record.find("\"id\":") + 5;
  record.replace(id, record.find_first_of(",}", id) - id, "777");
  WriteFileAtomic(path, text.insert(at, record + ","));
  CHECK(set.Check({}).contains("data.box.duplicate"));
  CHECK_THROWS_WITH(set.Check({"data.val.policy=strict"}), ContainsSubstring("box.duplicate"));
}

TEST_CASE("missing images refuse the run, or are said under on_error: skip") {
  Set set;
  fs::path image = *fs::directory_iterator(set.folder / "images");
  for (const auto& entry : fs::directory_iterator(set.folder / "images")) {
    if (entry.path().filename().string().starts_with("train")) image = entry.path();
  }
  fs::remove(image);
  CHECK_THROWS_WITH(set.Check({}), ContainsSubstring("1 image files that aren't there") &&
                                       ContainsSubstring(image.filename().string()) &&
                                       ContainsSubstring("on_error: skip"));
  CHECK(set.Check({"+data.train.on_error=skip"}).contains("data.image.missing"));
}

TEST_CASE("an image that train and val share is said before the run") {
  Set set;
  auto told = set.Check({"data.val.ann_file=" + (set.folder / "instances_train.json").string()});
  CHECK_THAT(told["data.leak.content"], ContainsSubstring("4 images that are in two parts"));
}
