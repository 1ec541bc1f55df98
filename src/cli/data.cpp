// `exp data ...`: draw a small data set, audit one, see what the network sees.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/data/audit.h"
#include "exp/data/coco.h"
#include "exp/data/crops.h"
#include "exp/data/from_config.h"
#include "exp/data/preview.h"
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

void AddCrops(CLI::App& parent) {
  struct Flags {
    std::string annotations, images, out;
    data::CropOptions crops;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand(
      "crops", "cut the boxes of a COCO data set into a folder of images for each class");
  app->add_option("ANNOTATIONS", flags->annotations, "COCO annotation file (.json)")->required();
  app->add_option("--images", flags->images, "folder of its images; default: its own folder");
  app->add_option("--out", flags->out, "folder to write to")->required();
  app->add_option("--margin", flags->crops.margin, "around each box, as a share of its sides")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app->add_option("--min-side", flags->crops.min_side,
                  "leave out boxes with a shorter side, pixels")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app->add_option("--quality", flags->crops.quality, "of the JPEGs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app->footer(
      "example: exp data crops data/bccd/instances_train.json --images data/bccd/images --out "
      "data/bccd_cells/train");
  app->callback([flags] {
    data::CocoDataset dataset = data::LoadCoco(flags->annotations);
    std::filesystem::path images = flags->images;
    if (images.empty()) images = std::filesystem::path(flags->annotations).parent_path();
    data::CropReport report = data::CutBoxes(dataset, images, flags->out, flags->crops);
    int64_t all = 0;
    for (const auto& [name, count] : report.cut) {
      fmt::print("{:8} {}\n", count, name);
      all += count;
    }
    fmt::print("cut {} boxes of {} images into {}; left out {}\n", all, dataset.images.size(),
               flags->out, report.left_out);
  });
}

struct CheckFlags {
  std::string target, images, html, policy = "drop";
  std::vector<std::string> set;
  bool json = false, no_files = false, no_contents = false, decode = false, all = false;
};

data::AuditOptions CheckOptions(const CheckFlags& flags) {
  if (!flags.target.ends_with(".json") || !flags.set.empty()) {
    config::Resolved resolved = config::Load(flags.target, flags.set);
    return data::ReadAuditOptions(config::Reader(resolved.root));
  }
  data::AuditOptions options;
  auto dataset = std::make_shared<data::CocoDataset>(data::LoadCoco(flags.target));
  std::string images = flags.images.empty()
                           ? std::filesystem::path(flags.target).parent_path().string()
                           : flags.images;
  options.parts.push_back({std::filesystem::path(flags.target).stem().string(), dataset, images});
  return options;
}

void RunCheck(const CheckFlags& flags, Context* context) {
  data::ParsePolicy(flags.policy, "--policy");
  data::AuditOptions options = CheckOptions(flags);
  options.files = !flags.no_files;
  options.contents = !flags.no_contents && !flags.no_files;
  options.decode = flags.decode;
  if (flags.all) options.examples = -1;
  bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (terminal) {
    options.progress = [](int64_t done, int64_t total) {
      if (done % 200 == 0 || done == total)
        fmt::print(stderr, "\r{} of {} images{}", done, total, done == total ? "\r\033[K" : "");
    };
  }
  data::AuditReport report = data::Audit(options);
  fmt::print("{}", flags.json ? data::AuditJson(report) : data::AuditText(report));
  if (!flags.html.empty()) WriteFileAtomic(flags.html, data::AuditHtml(report));
  int64_t bad = report.Count(data::Severity::kError);
  if (flags.policy == "strict") bad += report.Count(data::Severity::kWarning);
  if (flags.policy == "ignore") bad = 0;
  if (bad > 0) context->exit_code = static_cast<int>(ErrorKind::kUsage);
}

void AddCheck(CLI::App& parent, Context* context) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App* app = parent.add_subcommand(
      "check", "audit a data set: annotations, image files, leaks between train and val");
  app->add_option("TARGET", flags->target,
                  "a config (its data.train and data.val), or a COCO annotation file (.json)")
      ->required();
  app->add_option("--images", flags->images,
                  "folder of the images of an annotation file; default: its own folder");
  app->add_option("--set", flags->set, "change the config, K=V")->expected(1)->take_all();
  app->add_flag("--json", flags->json, "print JSON");
  app->add_option("--html", flags->html,
                  "also write one HTML page with sample images and their boxes");
  app->add_flag("--no-contents", flags->no_contents,
                "look whether files are there, but don't read them");
  app->add_flag("--no-files", flags->no_files, "annotations only");
  app->add_flag("--decode", flags->decode,
                "decode every image, which finds damage inside of files");
  app->add_flag("--all", flags->all,
                "every example of each finding in JSON and HTML, not only the first 20");
  app->add_option("--policy", flags->policy,
                  "exit code 2 for errors (drop), also for warnings (strict), never (ignore)")
      ->capture_default_str();
  app->footer(
      "example: exp data check configs/quickstart.yaml --html audit.html\n         exp data check "
      "data/shapes/instances_train.json --images data/shapes/images --json");
  app->callback([flags, context] { RunCheck(*flags, context); });
}

struct PreviewFlags {
  std::string config, out, part = "train";
  std::vector<std::string> set;
  int images = 16;
  uint32_t epoch = 0;
  uint64_t seed = 0;
};

void RunPreview(const PreviewFlags& flags, bool seed_given) {
  config::Resolved resolved = config::Load(flags.config, flags.set);
  config::Reader reader(resolved.root);
  uint64_t seed = seed_given ? flags.seed : static_cast<uint64_t>(reader.Int("seed", 0));
  std::unique_ptr<data::Loader> loader = data::OpenLoader(reader, flags.part, seed);
  WriteFileAtomic(flags.out, data::PreviewHtml(loader.get(), flags.images, flags.epoch));
  fmt::print("wrote {} images of data.{} into {}\n",
             std::min<int64_t>(flags.images, loader->images()), flags.part, flags.out);
}

void AddPreview(CLI::App& parent) {
  auto flags = std::make_shared<PreviewFlags>();
  CLI::App* app = parent.add_subcommand(
      "preview", "one HTML page of what the network sees: augmented images and their boxes");
  app->add_option("CONFIG", flags->config, "the config")->required();
  app->add_option("--out", flags->out, "the page to write")->required();
  app->add_option("--part", flags->part, "which part")
      ->check(CLI::IsMember({"train", "val", "test"}))
      ->capture_default_str();
  app->add_option("--images", flags->images, "how many")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app->add_option("--epoch", flags->epoch, "of which epoch, from 0")->capture_default_str();
  CLI::Option* seed = app->add_option("--seed", flags->seed, "default: the config's");
  app->add_option("--set", flags->set, "change the config, K=V")->expected(1)->take_all();
  app->footer("example: exp data preview configs/quickstart.yaml --out preview.html --images 24");
  app->callback([flags, seed] { RunPreview(*flags, seed->count() > 0); });
}

}  // namespace

void AddDataCommand(CLI::App& app, Context& context) {
  CLI::App* data = app.add_subcommand("data", "draw, audit and preview data sets");
  data->require_subcommand(1);
  AddCheck(*data, &context);
  AddCrops(*data);
  AddPreview(*data);
  AddShapes(*data);
}

}  // namespace xp::cli
