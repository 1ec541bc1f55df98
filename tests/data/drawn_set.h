// What the loader's tests load.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "exp/data/coco.h"
#include "exp/data/jpeg.h"
#include "exp/data/loader.h"
#include "exp/data/shapes.h"
#include "tests/data/support.h"

namespace xp::data::test {

// A drawn set with every third image turned to portrait, so that both groups occur.
struct Drawn {
  TempDir dir{"loader"};
  std::shared_ptr<CocoDataset> set;

  Drawn() {
    DrawShapes(dir.path, {.images = 11, .val = 0, .seed = 4, .width = 80, .height = 64});
    set = std::make_shared<CocoDataset>(LoadCoco(dir.path / "instances_train.json"));
    for (size_t i = 0; i < set->images.size(); i += 3) {
      std::string path = (dir.path / "images" / set->images[i].file_name).string();
      RgbImage image = ReadJpeg(path);
      ApplyOrientation(5, &image);
      WriteFileAtomic(path, EncodeJpeg(image, 90));
      std::swap(set->images[i].width, set->images[i].height);
      for (int a = set->first[i]; a < set->first[i + 1]; ++a) {
        std::swap(set->annotations[a].x, set->annotations[a].y);
        std::swap(set->annotations[a].w, set->annotations[a].h);
      }
    }
  }
  LoaderOptions Options() const {
    LoaderOptions options;
    options.img_prefix = (dir.path / "images").string();
    options.samples_per_gpu = 2;
    options.scales = {{200, 120}, {120, 80}};
    options.flip_ratio = 0.5;
    options.vertical_flip_ratio = 0.3;
    options.seed = 17;
    return options;
  }
};

}  // namespace xp::data::test
