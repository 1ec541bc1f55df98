// `exp data ...`: draw a small data set, audit one, see what the network sees.
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "exp/base/error.h"
#include "exp/data/shapes.h"
#include "src/cli/command.h"

namespace xp::cli {
namespace {

void ParseSize(const std::string& text, data::ShapesOptions* options) {
  const char* end = text.data() + text.size();
  int width = 0, height = 0;
  auto first = std::from_chars(text.data(), end, width);
  bool good = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
  if (good) {
    auto second = std::from_chars(first.ptr + 1, end, height);
    good = second.ec == std::errc() && second.ptr == end;
  }
  if (!good) {
    throw UsageError({.what = fmt::format("`{}` is not a size", text),
                      .where = "--size",
                      .expected = "WxH, such as 320x240"});
  }
  options->width = width;
  options->height = height;
}

void AddShapes(CLI::App& parent) {
  struct Flags {
    std::string out, size = "320x240";
    data::ShapesOptions shapes;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand(
      "shapes", "draw a small COCO-format data set of circles, squares and triangles");
  app->add_option("--out", flags->out, "folder to write to")->required();
  app->add_option("--images", flags->shapes.images, "training images")->capture_default_str();
  app->add_option("--val", flags->shapes.val, "validation images")->capture_default_str();
  app->add_option("--seed", flags->shapes.seed, "the same seed draws the same bytes")
      ->capture_default_str();
  app->add_option("--size", flags->size, "image size, WxH")->capture_default_str();
  app->footer("example: exp data shapes --out data/shapes --images 64 --val 16 --seed 0");
  app->callback([flags] {
    ParseSize(flags->size, &flags->shapes);
    data::DrawShapes(flags->out, flags->shapes);
    fmt::print("drew {} training and {} validation images of {} into {}\n", flags->shapes.images,
               flags->shapes.val, flags->size, flags->out);
  });
}

}  // namespace

void AddDataCommand(CLI::App& app, Context&) {
  CLI::App* data = app.add_subcommand("data", "draw, audit and preview data sets");
  data->require_subcommand(1);
  AddShapes(*data);
}

}  // namespace xp::cli
