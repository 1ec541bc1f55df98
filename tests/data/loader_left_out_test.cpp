// Images that the loader leaves out: without boxes, small, those that can't be used.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/data/loader.h"
#include "tests/data/drawn_set.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;
using data::test::Drawn;
using data::test::TempDir;

TEST_CASE("images without boxes are kept or filtered") {
  Drawn drawn;
  drawn.set->annotations.resize(drawn.set->first[5]);
  for (size_t i = 6; i <= drawn.set->images.size(); ++i) drawn.set->first[i] = drawn.set->first[5];
  LoaderOptions options = drawn.Options();
  CHECK(Loader(drawn.set, options).images() == 11);
  options.filter_empty_gt = true;
  CHECK(Loader(drawn.set, options).images() == 5);
  drawn.set->annotations.clear();
  std::fill(drawn.set->first.begin(), drawn.set->first.end(), 0);
  CHECK_THROWS_WITH(Loader(drawn.set, options), ContainsSubstring("no image is left"));
  options.filter_empty_gt = false;
  Loader loader(drawn.set, options);
  Batch b;
  loader.StartEpoch(0);
  REQUIRE(loader.Next(&b));
  CHECK(b.box_counts[0] == 0);
}

TEST_CASE("a usable image is found however many beside it can't be used") {
  Drawn drawn;
  LoaderOptions options = drawn.Options();
  options.image_policy = Policy::kDrop;
  // One of each group.
  const std::string wide = drawn.set->images[1].file_name, high = drawn.set->images[3].file_name;
  options.read_file = [&](const std::string& path) {
    if (!path.ends_with(wide) && !path.ends_with(high))
      throw UsageError({.what = "gone", .where = path});
    return ReadFile(path);
  };
  auto many = std::make_shared<CocoDataset>(Repeated(*drawn.set, 5));
  Loader loader(many, options);
  loader.StartEpoch(0);
  Batch b;
  while (loader.Next(&b)) {
    for (int32_t index : b.image_indices) {
      const std::string& used = many->images[static_cast<size_t>(index)].file_name;
      CHECK((used == wide || used == high));
    }
  }
  // One line for each that was replaced, not for each that was tried.
  CHECK(loader.TakeWarnings().size() == static_cast<size_t>(loader.images()) - 10);

  options.read_file = [](const std::string& path) -> std::string {
    throw UsageError({.what = "gone", .where = path});
  };
  Loader none(many, options);
  none.StartEpoch(0);
  CHECK_THROWS_WITH(none.Next(&b), ContainsSubstring("nor can any other"));
}

TEST_CASE("images that an option leaves out of training are told, each by name") {
  Drawn drawn;
  auto set = std::make_shared<CocoDataset>(*drawn.set);
  // Of the second image no box is left, the third is small.
  set->annotations.erase(set->annotations.begin() + set->first[1],
                         set->annotations.begin() + set->first[2]);
  const int gone = set->first[2] - set->first[1];
  for (size_t i = 2; i < set->first.size(); ++i) set->first[i] -= gone;
  set->images[2].width = 31;

  LoaderOptions options = drawn.Options();
  options.filter_empty_gt = true;
  options.min_image_side = 32;
  Loader loader(set, options);
  CHECK(loader.images() == 9);
  std::vector<std::string> told = loader.TakeWarnings();
  REQUIRE(told.size() == 2);
  const std::string of = set->path + ": 1 of 11 images are left out, ";
  CHECK(told[0] == of + "smaller than min_size: " + set->images[2].file_name);
  CHECK(told[1] ==
        of + "without a box to train on, as filter_empty_gt asks: " + set->images[1].file_name);
  CHECK(loader.TakeWarnings().empty());

  options.image_policy = Policy::kIgnore;
  CHECK(Loader(set, options).TakeWarnings().empty());
  options.image_policy = Policy::kDrop;
  options.filter_empty_gt = false;
  options.min_image_side = 0;
  Loader all(set, options);
  CHECK(all.images() == 11);
  CHECK(all.TakeWarnings().empty());
}

TEST_CASE("when no image is left, the cause is told") {
  Drawn drawn;
  LoaderOptions options = drawn.Options();
  options.filter_empty_gt = true;
  auto loads = [&](const std::string& json) {
    static int number = 0;
    const std::string path = drawn.dir.Write(std::to_string(number++) + ".json", json);
    Loader(std::make_shared<CocoDataset>(LoadCoco(path)), options);
  };
  const std::string image =
      R"("images": [{"id": 1, "file_name": "a.jpg", "width": 64, "height": 48}],
    "categories": [{"id": 1, "name": "cat"}], )";
  CHECK_THROWS_WITH(loads("{" + image + R"("annotations": []})"),
                    ContainsSubstring("no image is left to load: there is no annotation"));
  CHECK_THROWS_WITH(
      loads("{" + image +
            R"("annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}]})"),
      ContainsSubstring("1 records are left out, the first at") &&
          ContainsSubstring(".json:2:63: the id of an annotation is missing") &&
          ContainsSubstring("exp data check"));
  CHECK_THROWS_WITH(loads(R"({"images": [], "annotations": [],
                          "categories": [{"id": 1, "name": "cat"}]})"),
                    ContainsSubstring("the file lists none"));
  options.min_image_side = 49;
  CHECK_THROWS_WITH(loads("{" + image + R"("annotations": []})"),
                    ContainsSubstring("all 1 are smaller than `min_size`"));
}
