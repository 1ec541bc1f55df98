// `exp predict`: shows a model images and draws what it finds.
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/base/printable.h"
#include "exp/base/walk.h"
#include "exp/data/draw.h"
#include "exp/data/image_io.h"
#include "exp/data/jpeg.h"
#include "src/cli/command.h"
#include "src/cli/device_flag.h"
#include "src/cli/eval_report.h"
#include "src/cli/long_work.h"
#include "src/cli/model_flags.h"
#include "src/cli/model_source.h"
#include "src/cli/out_folder.h"
#include "src/cli/run_folder.h"
#include "src/cli/tell.h"
#include "src/cli/tta_flags.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

struct Options {
  ModelRequest model;
  train::InferenceOptions inference;
  TtaFlags tta;
  std::vector<std::string> images;
  std::string out;
  double min_score = 0.5;
  bool no_draw = false;
};

void AddFolder(const std::string& folder, std::vector<fs::path>* files) {
  std::vector<fs::path> inside, others;
  Walk walk;
  auto hidden = [](const fs::path& path) { return path.filename().string().starts_with('.'); };
  walk.enter = [&](const fs::path& path) { return !hidden(path); };
  walk.file = [&](const fs::directory_entry& entry) {
    std::error_code error;
    if (hidden(entry.path()) || !entry.is_regular_file(error)) return;
    if (data::HasImageEnding(entry.path())) inside.push_back(fs::absolute(entry.path()));
    if (data::HasOtherImageEnding(entry.path())) others.push_back(entry.path());
  };
  fs::path where = folder;
  std::error_code error = WalkFiles(folder, walk, &where);
  if (error || inside.empty()) {
    throw UsageError({.what = error ? "can't be listed: " + error.message() : "no image is in it",
                      .where = where.string(),
                      .expected = "files ending in .jpg, .jpeg, .png or .webp"});
  }
  if (!others.empty()) {
    const fs::path& first = *std::min_element(others.begin(), others.end());
    Tell("warning: {}: {} images of other formats are passed over: {}{}\n", Printable(folder),
         others.size(), Printable(first.filename().string()), others.size() > 1 ? ", ..." : "");
  }
  std::sort(inside.begin(), inside.end());
  files->insert(files->end(), inside.begin(), inside.end());
}

// What a shell would have made of a pattern that came here in quotes.
std::vector<std::string> Expand(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (!names.empty()) return names;
  throw UsageError({.what = "no file's name fits this pattern",
                    .where = pattern,
                    .expected = "image files, or folders with some"});
}

// Files as given, and the images in folders and in the folders inside, sorted; each once, however
// often it is named.
std::vector<fs::path> Files(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const std::string& argument : arguments) {
    std::error_code error;
    const bool pattern =
        argument.find_first_of("*?[") != argument.npos && !fs::exists(argument, error);
    std::vector<std::string> found = pattern ? Expand(argument) : std::vector{argument};
    names.insert(names.end(), found.begin(), found.end());
  }
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    std::error_code error;
    if (fs::is_directory(name, error)) {
      AddFolder(name, &files);
    } else {
      files.push_back(fs::absolute(name));
    }
  }
  std::set<fs::path> seen;
  std::erase_if(files,
                [&](const fs::path& f) { return !seen.insert(f.lexically_normal()).second; });
  return files;
}

// Leaves out what can't be decoded, each with a warning: one broken file of a folder shall not keep
// the others from being looked at.
std::vector<fs::path> Decodable(const std::vector<fs::path>& files) {
  std::vector<fs::path> good;
  std::string first;
  LongWork shown("reading");
  int64_t read = 0;
  for (const fs::path& file : files) {
    shown.Report(read++, static_cast<int64_t>(files.size()));
    try {
      data::ReadImage(file.string());
      good.push_back(file);
    } catch (const Error& e) {
      if (files.size() == 1) throw;
      if (first.empty()) first = e.text().what;
      shown.Clear();
      Tell("warning: {}: {}; it is left out\n", Printable(file.string()), Printable(e.text().what));
    }
  }
  if (good.empty()) {
    throw UsageError({.what = fmt::format("none of the {} images can be read; of the first: {}",
                                          files.size(), first)});
  }
  return good;
}

// Images with the ids 1, 2, ... in the order given.
std::shared_ptr<data::CocoDataset> MakeDataset(const std::vector<fs::path>& files,
                                               const std::vector<data::Category>& categories) {
  auto dataset = std::make_shared<data::CocoDataset>();
  dataset->path = "the command line";
  dataset->categories = categories;
  for (const fs::path& file : files) {
    std::string bytes = data::ReadImageFile(file.string());
    data::ImageInfo info = data::ReadImageInfo(
        {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, file.string());
    data::Size size = info.upright();
    auto id = static_cast<int64_t>(dataset->images.size()) + 1;
    dataset->image_index[id] = static_cast<int32_t>(dataset->images.size());
    dataset->images.push_back({id, file.string(), size.width, size.height});
  }
  dataset->first.assign(files.size() + 1, 0);
  return dataset;
}

// Names of the drawn images: the files' own, numbered where two are the same.
std::vector<std::string> OutputNames(const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  std::set<std::string> used;
  for (const fs::path& file : files) {
    std::string name = file.stem().string();
    for (int n = 2; !used.insert(name).second; ++n)
      name = file.stem().string() + "_" + std::to_string(n);
    names.push_back(name + ".jpg");
  }
  return names;
}

// Names of files needn't be UTF-8; in JSON what isn't becomes U+FFFD.
void WriteJson(const fs::path& path, const nlohmann::json& content) {
  using nlohmann::json;
  WriteFileAtomic(path, content.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

// JPEG's own limit; false where the image is beyond it.
bool FitsJpeg(const data::CocoImage& image) {
  constexpr int kLongest = 65500;
  return image.width <= kLongest && image.height <= kLongest;
}

// Of each image, the detections (places in `found`) of at least that score, in their order.
std::vector<std::vector<size_t>> ShownOf(const train::Detections& found, size_t images,
                                         double min_score) {
  std::vector<std::vector<size_t>> shown(images);
  for (size_t k = 0; k < found.size(); ++k) {
    if (found.scores[k] >= min_score)
      shown[static_cast<size_t>(found.image_ids[k] - 1)].push_back(k);
  }
  return shown;
}

void Draw(const fs::path& file, const fs::path& out, const train::Detections& found,
          const std::vector<size_t>& shown, const std::vector<data::Category>& categories) {
  data::RgbImage image = data::ReadImage(file.string());
  int thick = std::max(2, std::max(image.width, image.height) / 500);
  std::map<int64_t, int> labels;
  for (const data::Category& c : categories) labels.emplace(c.id, static_cast<int>(labels.size()));
  // The best last, on top.
  for (size_t i = shown.size(); i-- > 0;) {
    const size_t k = shown[i];
    const double* b = &found.boxes[4 * k];
    int label = labels[found.category_ids[k]];
    data::Colour colour = data::ColourOf(label);
    data::DrawBox(&image, b[0], b[1], b[0] + b[2], b[1] + b[3], colour, thick);
    std::string text =
        fmt::format("{} {:.2f}", categories[static_cast<size_t>(label)].name, found.scores[k]);
    data::DrawLabel(&image, b[0], b[1] - 13.0 * std::max(1, thick / 2), text, colour,
                    std::max(1, thick / 2));
  }
  WriteFileAtomic(out, data::EncodeJpeg(image, 92));
}

void Detect(train::Inference& model, const Options& o, const std::vector<fs::path>& files,
            const fs::path& out) {
  auto dataset = MakeDataset(files, model.categories());
  std::vector<std::string> names = OutputNames(files);
  std::vector<fs::path> written{out / "results.json", out / "images.json"};
  for (const std::string& name : names) written.push_back(out / name);
  RefuseOverwriting(written, files, "--out");
  train::Detections found = model.Detect(dataset, "");
  const auto shown = ShownOf(found, files.size(), o.min_score);
  nlohmann::json images = nlohmann::json::array(), categories = nlohmann::json::array();
  for (const data::Category& c : model.categories())
    categories.push_back({{"id", c.id}, {"name", c.name}});
  for (size_t i = 0; i < files.size(); ++i) {
    images.push_back({{"id", static_cast<int64_t>(i) + 1},
                      {"file_name", files[i].string()},
                      {"width", dataset->images[i].width},
                      {"height", dataset->images[i].height}});
    std::string drawn;
    if (!o.no_draw && FitsJpeg(dataset->images[i])) {
      Draw(files[i], out / names[i], found, shown[i], model.categories());
      drawn = ", drawn in " + Printable((out / names[i]).string());
    } else if (!o.no_draw) {
      drawn = ", not drawn: a JPEG has at most 65500 pixels a side";
    }
    fmt::print("{}: {} boxes with a score of {:g} or more{}\n", Printable(files[i].string()),
               shown[i].size(), o.min_score, drawn);
  }
  WriteFileAtomic(out / "results.json", CocoResultsJson(found));
  WriteJson(out / "images.json", {{"images", images}, {"categories", categories}});
  fmt::print("wrote {} boxes of all scores to {}, what their ids mean to {}\n", found.size(),
             (out / "results.json").string(), (out / "images.json").string());
}

void Classify(train::Inference& model, const std::vector<fs::path>& files, const fs::path& out) {
  auto list = std::make_shared<data::ImageList>();
  list->path = "the command line";
  for (const data::Category& c : model.categories()) list->classes.push_back(c.name);
  for (const fs::path& file : files) list->files.push_back(file.string());
  list->labels.assign(files.size(), 0);
  nlohmann::json results = nlohmann::json::array();
  for (const train::ClassScores& s : model.Classify(list)) {
    auto best =
        static_cast<size_t>(std::max_element(s.scores.begin(), s.scores.end()) - s.scores.begin());
    fmt::print("{}: {} ({:.3f})\n", Printable(s.file), Printable(list->classes[best]),
               s.scores[best]);
    nlohmann::json scores;
    for (size_t k = 0; k < s.scores.size(); ++k) scores[list->classes[k]] = s.scores[k];
    results.push_back({{"file_name", s.file}, {"class", list->classes[best]}, {"scores", scores}});
  }
  WriteJson(out / "results.json", results);
}

void Run(Options& o, Context& context) {
  const std::vector<fs::path> named = Files(o.images);
  const std::vector<fs::path> files = Decodable(named);
  ModelSource source = FindModel(o.model);
  const fs::path out = MakeOutFolder(o.out, "--out");
  EnterFolder(source.folder);
  o.inference.weights = source.weights;
  o.inference.tta = ReadTta(o.tta);
  LongWork shown("predicting");
  o.inference.progress = shown.Reporter();
  train::Inference model(source.config, o.inference);
  if (!model.precision_note().empty()) Tell("warning: {}\n", model.precision_note());
  model.task() == models::Task::kDetection ? Detect(model, o, files, out)
                                           : Classify(model, files, out);
  for (const std::string& line : model.TakeWarnings()) Tell("warning: {}\n", Printable(line));
  if (files.size() < named.size()) context.exit_code = static_cast<int>(ErrorKind::kJob);
}

}  // namespace

void AddPredictCommand(Command app, Context& context) {
  auto o = std::make_shared<Options>();
  Command command = app.AddCommand("predict", "show a model images and draw what it finds");
  command.AddOption("target", o->model.target, "RUN, or a .safetensors or .pth file").Required();
  command
      .AddOption("images", o->images, "image files, or folders with some (also in folders inside)")
      .Required();
  command.AddOption("--out", o->out, "folder for drawn images and results.json (COCO's format)")
      .Required();
  command.AddOption("--min-score", o->min_score, "of the boxes that are drawn")
      .Range(0.0, 1.0)
      .ShowDefault();
  command.AddFlag("--no-draw", o->no_draw, "results.json only");
  AddModelFlags(command, o->model);
  command.AddOption("--part", o->inference.part, "whose resize the images get")
      .OneOf({"val", "test"})
      .ShowDefault();
  AddTtaFlags(command, o->tta);
  AddDeviceFlag(command, o->inference.device);
  command.Footer(
      "Example: exp predict @ image.jpg more_images/ --out predicted\n"
      "         exp predict epoch_12.safetensors image.jpg --config my.yaml --out predicted");
  command.Callback([o, &context] { Run(*o, context); });
}

}  // namespace xp::cli
