#include "exp/bench/matrix.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "exp/base/error.h"
#include "exp/bench/photos.h"
#include "exp/config/reader.h"
#include "exp/models/zoo.h"
#include "src/bench/matrix_values.h"

namespace xp::bench {
namespace {

using config::Reader;

constexpr size_t kMostRows = 10000;  // days of measuring: a list that went wrong
constexpr int kMostPixels = 16384;   // a side; SSD's anchors alone take gigabytes beyond it

void ReadPart(const Reader& r, LoaderPart* part) {
  part->images = r.String("images", "");
  std::error_code error;
  if (!part->images.empty() && !std::filesystem::is_directory(part->images, error)) {
    r.Bad("images", "is no folder", "a folder with .jpg files");
  }
  if (!part->images.empty() && FindJpegs(part->images).empty()) {
    r.Bad("images", "holds no JPEG", "a folder with .jpg files");
  }
  part->count = Number(r, "count", part->count, 1000000);
  part->size = Number(r, "size", part->size, 4096);
  part->workers = Numbers(r, "workers", {4}, 1024);
  part->batches = Numbers(r, "batches", {64}, 65536);
}

// What a part doesn't say, the whole says.
struct Lists {
  std::vector<std::string> devices, models, precisions;
  std::vector<int> batches;
  std::vector<bool> captured, fusion, deterministic;

  size_t Rows() const {
    return devices.size() * models.size() * precisions.size() * batches.size() * captured.size() *
           fusion.size() * deterministic.size();
  }
};

Lists ReadLists(const Reader& r, const Lists& outer) {
  return {Devices(r, outer.devices),
          Models(r, outer.models),
          Precisions(r, outer.precisions),
          Numbers(r, "batches", {outer.batches.begin(), outer.batches.end()}, 65536),
          Switches(r, "graph", outer.captured),
          Switches(r, "fusion", outer.fusion),
          Switches(r, "deterministic", outer.deterministic)};
}

// Where only height or width is given, the other one is the model's own.
void FillSize(const Case& given, Case* c) {
  c->height = given.height, c->width = given.width;
  if ((given.height > 0) == (given.width > 0)) return;
  const models::ZooEntry& entry = models::FindInZoo(c->model);
  if (c->height == 0) c->height = entry.height;
  if (c->width == 0) c->width = entry.width;
}

void AddProduct(const Reader& r, const Lists& l, const Case& base, std::vector<Case>* cases) {
  if (cases->size() + l.Rows() > kMostRows) {
    throw UsageError({.what = fmt::format("the matrix has {} rows", cases->size() + l.Rows()),
                      .where = r.Where(""),
                      .expected = fmt::format("at most {}", kMostRows)});
  }
  Case c = base;
  for (const std::string& device : l.devices) {
    for (const std::string& model : l.models) {
      for (const std::string& precision : l.precisions) {
        for (bool captured : l.captured) {
          for (bool fusion : l.fusion) {
            for (bool deterministic : l.deterministic) {
              for (int batch : l.batches) {
                c.device = device, c.model = model, c.precision = precision, c.batch = batch;
                c.captured = captured, c.fusion = fusion, c.deterministic = deterministic;
                FillSize(base, &c);
                cases->push_back(c);
              }
            }
          }
        }
      }
    }
  }
}

// Parts may overlap, most of all where the command line stands above them. Rows tell their device
// where there are several.
void LeaveOutRepeated(std::vector<Case>* cases) {
  std::set<std::string> devices, seen;
  for (const Case& c : *cases) devices.insert(c.device);
  for (Case& c : *cases) c.tell_device = devices.size() > 1;
  std::erase_if(*cases, [&](const Case& c) { return !seen.insert(Key(c)).second; });
}

// A bound that no case can keep is a mistake.
void ReadBound(const Reader& r, Case* c) {
  if (!r.Has("seconds_a_case")) return;
  c->seconds_a_case = Seconds(r, "seconds_a_case", 0);
  const double least = c->repeats * c->seconds_a_repeat;
  if (c->seconds_a_case > least) return;
  r.Bad("seconds_a_case", "is too little",
        fmt::format("more than {:g} seconds: {} repeats of {:g}", least, c->repeats,
                    c->seconds_a_repeat));
}

// Returns what the rows of the loader and of training from JPEGs have in common with the steps.
Case ReadSteps(const Reader& r, const Case& base, Matrix* m) {
  Lists l = ReadLists(r, {{base.device},
                          {base.model},
                          {base.precision},
                          {base.batch},
                          {base.captured},
                          {base.fusion},
                          {base.deterministic}});
  Case c = base;
  c.seconds_a_repeat = Seconds(r, "seconds_a_repeat", c.seconds_a_repeat);
  c.settle_seconds = Seconds(r, "settle_seconds", c.settle_seconds);
  c.repeats = Number(r, "repeats", c.repeats, 1000);
  c.warmup = Number(r, "warmup", c.warmup, 100000);
  c.threads = Number(r, "threads", c.threads, 4096, 0);
  c.height = Number(r, "height", c.height, kMostPixels, 0);
  c.width = Number(r, "width", c.width, kMostPixels, 0);
  c.profile = r.Bool("profile", c.profile);
  ReadBound(r, &c);
  const std::vector<Reader> parts = r.Has("parts") ? r.Children("parts") : std::vector<Reader>();
  std::vector<Case> whole;
  if (parts.empty()) AddProduct(r, l, c, &whole);
  for (const Reader& part : parts) AddProduct(part, ReadLists(part, l), c, &m->cases);
  if (!r.Has("parts")) {
    m->cases = whole;
  } else if (parts.empty() && !r.Has("loader") && !r.Has("end_to_end")) {
    r.Bad("parts", "is empty", "a list of dicts; [] beside loader or end_to_end");
  }
  LeaveOutRepeated(&m->cases);
  return m->cases.empty() ? whole.front() : m->cases.front();
}

// The largest batch is searched once for what differs in more than the batch.
std::vector<Case> EachCombination(std::vector<Case> cases) {
  for (Case& c : cases) c.largest = true;
  LeaveOutRepeated(&cases);
  return cases;
}

// The images are of the part's size, whatever that of the steps is; a size that is usual isn't
// told.
void PutSize(const LoaderPart& part, int usual, Case* c) {
  c->height = c->width = part.size == usual ? 0 : part.size;
}

std::vector<Case> LoaderCases(const LoaderPart& part, const Case& like) {
  std::vector<Case> cases;
  Case c = like;
  c.kind = "loader", c.device = "cpu";
  PutSize(part, LoaderPart().size, &c);
  for (int batch : part.batches) {
    for (int workers : part.workers) {
      c.batch = batch, c.workers = workers;
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> EndToEndCases(const EndToEndPart& part, const Case& like) {
  std::vector<Case> cases;
  Case c = like;
  c.kind = "end_to_end";
  for (const std::string& model : part.models) {
    c.model = model;
    PutSize(part, models::FindInZoo(model).height, &c);
    for (const std::string& precision : part.precisions) {
      for (int batch : part.batches) {
        for (int workers : part.workers) {
          c.precision = precision, c.batch = batch, c.workers = workers;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

void ReadEndToEnd(const Reader& r, const Case& base, EndToEndPart* part) {
  ReadPart(r, part);
  part->models = Models(r, {"resnet50"}, true);
  part->precisions = Precisions(r, {base.precision});
  part->epochs = Number(r, "epochs", part->epochs, 1000, 2);  // the first stands apart
  part->images_an_epoch = Number(r, "images_an_epoch", part->images_an_epoch, 10000000);
}

}  // namespace

Matrix ReadMatrix(const config::Node& root, const Case& base) {
  Reader r(root);
  Matrix m;
  const Case like = ReadSteps(r, base, &m);
  if (r.Bool("largest_batch", false)) m.largest = EachCombination(m.cases);
  m.largest_batch_limit = Number(r, "largest_batch_limit", m.largest_batch_limit, 65536);
  m.torch_modes = Words(r, "torch_modes", m.torch_modes, [](const std::string& mode) -> Verdict {
    if (mode == "eager" || mode == "compile") return {};
    return {"names no mode", "eager or compile"};
  });
  if (r.Has("loader")) {
    ReadPart(r.Child("loader"), &m.loader_part);
    m.loader = LoaderCases(m.loader_part, like);
  }
  if (r.Has("end_to_end")) {
    ReadEndToEnd(r.Child("end_to_end"), base, &m.end_to_end_part);
    m.end_to_end = EndToEndCases(m.end_to_end_part, like);
  }
  RequireKnownKeys(r);
  return m;
}

std::vector<Case> TorchCases(const Matrix& matrix) {
  std::vector<Case> cases;
  std::set<std::string> seen;
  for (const std::string& mode : matrix.torch_modes) {
    for (Case c : matrix.cases) {
      c.program = "torch", c.torch_mode = mode, c.captured = c.fusion = true;
      c.profile = false;
      if (mode == "compile") c.deterministic = false;
      if (seen.insert(c.device + Key(c)).second) cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace xp::bench
