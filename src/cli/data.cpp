// `exp data ...`: draw a small data set, audit one, see what the network sees.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/printable.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/config/schema.h"
#include "exp/data/audit.h"
#include "exp/data/coco.h"
#include "exp/data/crops.h"
#include "exp/data/from_config.h"
#include "exp/data/image_list.h"
#include "exp/data/preview.h"
#include "exp/data/shapes.h"
#include "src/cli/command.h"
#include "src/cli/long_work.h"
#include "src/cli/out_folder.h"
#include "src/cli/tell.h"

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

void AddShapes(Command parent) {
  struct Flags {
    std::string out, size = "320x240";
    data::ShapesOptions shapes;
  };
  auto flags = std::make_shared<Flags>();
  Command app = parent.AddCommand(
      "shapes", "draw a small COCO-format data set of circles, squares and triangles");
  app.AddOption("--out", flags->out, "folder to write to").Required();
  app.AddOption("--images", flags->shapes.images, "training images").ShowDefault();
  app.AddOption("--val", flags->shapes.val, "validation images").ShowDefault();
  app.AddOption("--seed", flags->shapes.seed, "the same seed draws the same bytes").ShowDefault();
  app.AddOption("--size", flags->size, "image size, WxH").ShowDefault();
  app.Footer("example: exp data shapes --out data/shapes --images 64 --val 16 --seed 0");
  app.Callback([flags] {
    ParseSize(flags->size, &flags->shapes);
    data::DrawShapes(flags->out, flags->shapes);
    fmt::print("drew {} training and {} validation images of {} into {}\n", flags->shapes.images,
               flags->shapes.val, flags->size, flags->out);
  });
}

void AddCrops(Command parent) {
  struct Flags {
    std::string annotations, images, out;
    data::CropOptions crops;
  };
  auto flags = std::make_shared<Flags>();
  Command app = parent.AddCommand(
      "crops", "cut the boxes of a COCO data set into a folder of images for each class");
  app.AddOption("ANNOTATIONS", flags->annotations, "COCO annotation file (.json)").Required();
  app.AddOption("--images", flags->images, "folder of its images; default: its own folder");
  app.AddOption("--out", flags->out, "folder to write to").Required();
  app.AddOption("--margin", flags->crops.margin, "around each box, as a share of its sides")
      .Range(0.0, 10.0)
      .ShowDefault();
  app.AddOption("--min-side", flags->crops.min_side, "leave out boxes with a shorter side, pixels")
      .Range(1, 65535)
      .ShowDefault();
  app.AddOption("--quality", flags->crops.quality, "of the JPEGs").Range(1, 100).ShowDefault();
  app.Footer(
      "example: exp data crops data/bccd/instances_train.json --images data/bccd/images --out "
      "data/bccd_cells/train");
  app.Callback([flags] {
    data::CocoDataset dataset = data::LoadCoco(flags->annotations);
    std::filesystem::path images = flags->images;
    if (images.empty()) images = std::filesystem::path(flags->annotations).parent_path();
    data::CropReport report = data::CutBoxes(dataset, images, flags->out, flags->crops);
    int64_t all = 0;
    for (const auto& [name, count] : report.cut) {
      fmt::print("{:8} {}\n", count, Printable(name));
      all += count;
    }
    fmt::print("cut {} boxes of {} images into {}; left out {}\n", all, dataset.images.size(),
               flags->out, report.left_out);
    if (all > 0) return;
    throw UsageError({.what = "no box could be cut",
                      .where = flags->annotations,
                      .expected = "boxes with an area of pixels",
                      .next = "`exp data check` tells what is wrong with them"});
  });
}

struct CheckFlags {
  std::string target, images, html, policy;
  std::vector<std::string> set;
  bool json = false, no_files = false, no_contents = false, decode = false, all = false;
};

// Annotations as other programs write them, which aren't read.
void RefuseOtherFormats(const std::string& target) {
  struct Format {
    const char *ending, *next;
  };
  static constexpr Format kFormats[] = {
      {".xml", "Pascal VOC's XML is one file an image: convert the set to COCO's format"},
      {".txt", "YOLO's text files are one an image: convert the set to COCO's format"},
      {".csv", "convert it to COCO's format"},
      {".gz", "unpack it first"},
      {".zip", "unpack it first"},
      {".tar", "unpack it first"}};
  for (const Format& format : kFormats) {
    if (!target.ends_with(format.ending)) continue;
    throw UsageError(
        {.what = "is neither a config nor a COCO annotation file",
         .where = target,
         .expected = "a config, a .json file, or a folder with a folder for each class",
         .next = format.next});
  }
}

// A folder with a folder of images for each class.
data::AuditOptions CheckFolder(const CheckFlags& flags, data::Policy policy) {
  data::AuditOptions options;
  data::AuditPart& part = options.parts.emplace_back();
  auto list = std::make_shared<data::ImageList>(data::ListImageFolder(flags.target));
  std::filesystem::path folder = std::filesystem::path(flags.target).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "train/"
  part.name = folder.filename().string();
  part.dataset = std::make_shared<data::CocoDataset>(data::DatasetOf(*list));
  part.list = std::move(list);
  part.img_prefix = flags.target;
  part.policy = policy;
  return options;
}

data::AuditOptions CheckOptions(const CheckFlags& flags) {
  std::optional<data::Policy> policy;
  if (!flags.policy.empty()) policy = data::ParsePolicy(flags.policy, "--policy");
  RefuseOtherFormats(flags.target);
  std::error_code error;
  if (std::filesystem::is_directory(flags.target, error) && flags.set.empty())
    return CheckFolder(flags, policy.value_or(data::Policy::kDrop));
  if (!flags.target.ends_with(".json") || !flags.set.empty() || data::HoldsConfig(flags.target)) {
    config::Resolved resolved = config::Load(flags.target, flags.set);
    config::RequireValid(resolved.root, "data");  // a key that isn't known would change nothing
    return data::ReadAuditOptions(config::Reader(resolved.root), policy);
  }
  data::AuditOptions options;
  auto dataset = std::make_shared<data::CocoDataset>(data::LoadCoco(
      flags.target, data::ForAudit({.policy = policy.value_or(data::Policy::kDrop)})));
  std::string images = flags.images.empty()
                           ? std::filesystem::path(flags.target).parent_path().string()
                           : flags.images;
  data::AuditPart& part = options.parts.emplace_back();
  part.name = std::filesystem::path(flags.target).stem().string();
  part.dataset = std::move(dataset);
  part.img_prefix = images;
  part.policy = policy.value_or(data::Policy::kDrop);
  return options;
}

data::AuditReport AuditShown(data::AuditOptions options) {
  LongWork shown("checking");
  options.progress = shown.Reporter();
  return data::Audit(options);
}

void RunCheck(const CheckFlags& flags, Context* context) {
  if (!flags.html.empty()) CheckOutFile(flags.html);
  data::AuditOptions options = CheckOptions(flags);
  options.files = !flags.no_files;
  options.contents = !flags.no_contents && !flags.no_files;
  options.decode = flags.decode;
  if (flags.all) options.examples = -1;
  data::AuditReport report = AuditShown(options);
  fmt::print("{}", flags.json ? data::AuditJson(report) : data::AuditText(report, flags.all));
  if (!flags.html.empty()) WriteFileAtomic(flags.html, data::AuditHtml(report));
  int64_t bad = report.Count(data::Severity::kError);
  const data::Policy policy = options.parts[0].policy;
  if (policy == data::Policy::kStrict) bad += report.Count(data::Severity::kWarning);
  if (policy == data::Policy::kIgnore) bad = 0;
  if (bad > 0) context->exit_code = static_cast<int>(ErrorKind::kUsage);
}

void AddCheck(Command parent, Context* context) {
  auto flags = std::make_shared<CheckFlags>();
  Command app = parent.AddCommand(
      "check", "audit a data set: annotations, image files, leaks between train and val");
  app.AddOption("TARGET", flags->target,
                "a config (its data.train and data.val), a COCO annotation file (.json), or a "
                "folder of class folders")
      .Required();
  app.AddOption("--images", flags->images,
                "folder of the images of an annotation file; default: its own folder");
  app.AddOption("--set", flags->set, "change the config, K=V").OneEachTime();
  app.AddFlag("--json", flags->json, "print JSON");
  app.AddOption("--html", flags->html,
                "also write one HTML page with sample images and their boxes");
  app.AddFlag("--no-contents", flags->no_contents,
              "look whether files are there, but don't read them");
  app.AddFlag("--no-files", flags->no_files, "annotations only");
  app.AddFlag("--decode", flags->decode, "decode every image, which finds damage inside of files");
  app.AddFlag("--all", flags->all,
              "every example of each finding, not only the first (text: 3; JSON, HTML: 20)");
  app.AddOption(
      "--policy", flags->policy,
      "exit code 2 for errors (drop), also for warnings (strict), never (ignore); default: "
      "the config's");
  app.Footer(
      "example: exp data check configs/quickstart.yaml --html audit.html\n         exp data check "
      "data/shapes/instances_train.json --images data/shapes/images --json");
  app.Callback([flags, context] { RunCheck(*flags, context); });
}

struct PreviewFlags {
  std::string config, out, part = "train";
  std::vector<std::string> set;
  int images = 16;
  uint32_t epoch = 0;
  uint64_t seed = 0;
};

void RunPreview(const PreviewFlags& flags, bool seed_given) {
  CheckOutFile(flags.out);
  config::Resolved resolved = config::Load(flags.config, flags.set);
  config::RequireValid(resolved.root, "data");  // what isn't known would be missing on the page
  config::Reader reader(resolved.root);
  uint64_t seed = seed_given ? flags.seed : static_cast<uint64_t>(reader.Int("seed", 0));
  data::PreviewPage page;
  if (reader.String("model.type", "") == "ImageClassifier")
    page = data::Preview(data::OpenClassLoader(reader, flags.part, seed).get(), flags.images,
                         flags.epoch);
  else
    page =
        data::Preview(data::OpenLoader(reader, flags.part, seed).get(), flags.images, flags.epoch);
  WriteFileAtomic(flags.out, page.html);
  constexpr size_t kTold = 10;
  for (size_t i = 0; i < page.warnings.size() && i < kTold; ++i)
    Tell("warning: {}\n", Printable(page.warnings[i]));
  if (page.warnings.size() > kTold)
    Tell("warning: and {} more, which the page lists\n", page.warnings.size() - kTold);
  fmt::print("wrote {} images of data.{} into {}\n", page.shown, flags.part, flags.out);
}

void AddPreview(Command parent) {
  auto flags = std::make_shared<PreviewFlags>();
  Command app = parent.AddCommand(
      "preview", "one HTML page of what the network sees: augmented images and their boxes");
  app.AddOption("CONFIG", flags->config, "the config").Required();
  app.AddOption("--out", flags->out, "the page to write").Required();
  app.AddOption("--part", flags->part, "which part").OneOf({"train", "val", "test"}).ShowDefault();
  app.AddOption("--images", flags->images, "how many").Range(1, 10000).ShowDefault();
  app.AddOption("--epoch", flags->epoch, "of which epoch, from 0").ShowDefault();
  Argument seed = app.AddOption("--seed", flags->seed, "default: the config's");
  app.AddOption("--set", flags->set, "change the config, K=V").OneEachTime();
  app.Footer("example: exp data preview configs/quickstart.yaml --out preview.html --images 24");
  app.Callback([flags, seed] { RunPreview(*flags, seed.given()); });
}

}  // namespace

void AddDataCommand(Command app, Context& context) {
  Command data = app.AddCommand("data", "draw, audit and preview data sets");
  data.RequireCommand();
  AddCheck(data, &context);
  AddCrops(data);
  AddPreview(data);
  AddShapes(data);
}

}  // namespace xp::cli
