#include "exp/data/preview.h"

#include <filesystem>

#include "catch.h"
#include "exp/data/shapes.h"
#include "src/data/html.h"
#include "tests/data/support.h"

using namespace xp;
using namespace xp::data;

TEST_CASE("a preview shows images, boxes and shapes") {
  data::test::TempDir dir("preview");
  DrawShapes(dir.path, {.images = 5, .val = 0, .width = 64, .height = 64});
  LoaderOptions options;
  options.img_prefix = (dir.path / "images").string();
  options.scales = {{64, 64}};
  Loader loader(std::make_shared<CocoDataset>(LoadCoco(dir.path / "instances_train.json")),
                options);
  std::string page = PreviewHtml(&loader, 3);
  size_t figures = 0;
  for (size_t at = 0; (at = page.find("<figure>", at)) != std::string::npos; ++at) ++figures;
  CHECK(figures == 3);
  CHECK_THAT(page, ContainsSubstring("2×64×64") && ContainsSubstring("<rect") &&
                       ContainsSubstring("train_0000"));
  CHECK(page == PreviewHtml(&loader, 3));
}

TEST_CASE("base64 is RFC 4648's") {
  CHECK(Base64("") == "");
  CHECK(Base64("f") == "Zg==");
  CHECK(Base64("fo") == "Zm8=");
  CHECK(Base64("foobar") == "Zm9vYmFy");
}
