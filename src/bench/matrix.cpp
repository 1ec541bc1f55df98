#include "exp/bench/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "exp/base/error.h"
#include "exp/bench/photos.h"
#include "exp/config/reader.h"
#include "exp/models/zoo.h"
#include "src/train/device.h"

namespace xp::bench {
namespace {

using config::Reader;

void RequireSome(const Reader& r, const char* key, bool empty) {
  if (empty) r.Bad(key, "is empty", "a value or a list of them");
}

// The path of one value of a list, so that a mistake in it is found; of a single value the key.
std::string Item(const Reader& r, const char* key, size_t i) {
  const config::Node* node = r.Raw(key);
  return node != nullptr && node->IsList() ? std::string(key) + "." + std::to_string(i) : key;
}

// `judge` says of a text what is wrong with it, and what was expected; an empty first: nothing.
template <class Judge>
void RequireEach(const Reader& r, const char* key, const std::vector<std::string>& values,
                 Judge judge) {
  RequireSome(r, key, values.empty());
  for (size_t i = 0; i < values.size(); ++i) {
    auto [wrong, expected] = judge(values[i]);
    if (!wrong.empty()) r.Bad(Item(r, key, i), wrong + ": `" + values[i] + "`", expected);
  }
}

using Verdict = std::pair<std::string, std::string>;

std::vector<int> Numbers(const Reader& r, const char* key, std::vector<int64_t> fallback,
                         int64_t most, int64_t least = 1) {
  std::vector<int> out;
  for (int64_t n : r.Ints(key, std::move(fallback))) {
    if (n < least || n > most) {
      r.Bad(Item(r, key, out.size()), "is out of range",
            fmt::format("whole numbers from {} to {}", least, most));
    }
    out.push_back(static_cast<int>(n));
  }
  RequireSome(r, key, r.Has(key) && out.empty());
  return out;
}

int Number(const Reader& r, const char* key, int fallback, int64_t most, int64_t least = 1) {
  if (r.Has(key) && r.Raw(key)->IsList()) r.Bad(key, "is a list", "one number: it makes no rows");
  return Numbers(r, key, {fallback}, most, least).front();
}

std::vector<bool> Switches(const Reader& r, const char* key) {
  const config::Node* node = r.Raw(key);
  std::vector<bool> values;
  std::vector<config::Node> items =
      node->IsList() ? node->items() : std::vector<config::Node>{*node};
  for (const config::Node& item : items) {
    if (!item.IsBool()) {
      r.Bad(Item(r, key, values.size()), "is no switch", "true, false or a list of them");
    }
    values.push_back(item.AsBool());
  }
  RequireSome(r, key, values.empty());
  return values;
}

std::vector<std::string> Models(const Reader& r, std::vector<std::string> fallback) {
  std::vector<std::string> models = r.Strings("models", std::move(fallback));
  RequireEach(r, "models", models, [](const std::string& model) -> Verdict {
    try {
      models::FindInZoo(model);
    } catch (const Error& e) {
      return {"names no model", e.text().expected};
    }
    return {};
  });
  return models;
}

std::vector<std::string> Precisions(const Reader& r, std::vector<std::string> fallback) {
  static const std::vector<std::string> known{"fp32", "tf32", "bf16", "fp16"};
  std::vector<std::string> precisions = r.Strings("precisions", std::move(fallback));
  RequireEach(r, "precisions", precisions, [](const std::string& p) -> Verdict {
    if (std::find(known.begin(), known.end(), p) != known.end()) return {};
    return {"names no precision", "fp32, tf32, bf16 or fp16"};
  });
  return precisions;
}

double Positive(const Reader& r, const char* key, double fallback) {
  double value = r.Double(key, fallback);
  if (!(value > 0) || value > 3600) r.Bad(key, "is out of range", "seconds, above 0");
  return value;
}

void ReadPart(const Reader& r, LoaderPart* part) {
  part->images = r.String("images", "");
  std::error_code error;
  if (!part->images.empty() && !std::filesystem::is_directory(part->images, error)) {
    r.Bad("images", "is no folder: " + part->images, "a folder with .jpg files");
  }
  if (!part->images.empty() && FindJpegs(part->images).empty()) {
    r.Bad("images", "holds no JPEG: " + part->images, "a folder with .jpg files");
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
};

Lists ReadLists(const Reader& r, const Lists& outer) {
  Lists l = outer;
  l.devices = r.Strings("devices", outer.devices);
  RequireEach(r, "devices", l.devices, [](const std::string& device) -> Verdict {
    if (train::IsDeviceName(device)) return {};
    return {"names no device", "auto, cpu, cuda or cuda:N"};
  });
  l.models = Models(r, outer.models);
  l.precisions = Precisions(r, outer.precisions);
  if (r.Has("batches")) l.batches = Numbers(r, "batches", {}, 65536);
  if (r.Has("graph")) l.captured = Switches(r, "graph");
  if (r.Has("fusion")) l.fusion = Switches(r, "fusion");
  if (r.Has("deterministic")) l.deterministic = Switches(r, "deterministic");
  return l;
}

// Where only height or width is given, the other one is the model's own.
void FillSize(const Case& given, Case* c) {
  c->height = given.height, c->width = given.width;
  if ((given.height > 0) == (given.width > 0)) return;
  const models::ZooEntry& entry = models::FindInZoo(c->model);
  if (c->height == 0) c->height = entry.height;
  if (c->width == 0) c->width = entry.width;
}

void AddProduct(const Lists& l, const Case& base, std::vector<Case>* cases) {
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
  c->seconds_a_case = Positive(r, "seconds_a_case", 0);
  const double least = c->repeats * c->seconds_a_repeat;
  if (c->seconds_a_case > least) return;
  r.Bad("seconds_a_case", "is too little",
        fmt::format("more than {:g} seconds: {} repeats of {:g}", least, c->repeats,
                    c->seconds_a_repeat));
}

void ReadSteps(const Reader& r, const Case& base, Matrix* m) {
  Lists l = ReadLists(r, {{base.device},
                          {base.model},
                          {base.precision},
                          {base.batch},
                          {base.captured},
                          {base.fusion},
                          {base.deterministic}});
  Case c = base;
  c.seconds_a_repeat = Positive(r, "seconds_a_repeat", c.seconds_a_repeat);
  c.settle_seconds = Positive(r, "settle_seconds", c.settle_seconds);
  c.repeats = Number(r, "repeats", c.repeats, 1000);
  c.warmup = Number(r, "warmup", c.warmup, 100000);
  c.threads = Number(r, "threads", c.threads, 4096, 0);
  c.height = Number(r, "height", c.height, 65536, 0);
  c.width = Number(r, "width", c.width, 65536, 0);
  c.profile = r.Bool("profile", c.profile);
  ReadBound(r, &c);
  if (r.Has("parts")) {
    std::vector<Reader> parts = r.Children("parts");
    RequireSome(r, "parts", parts.empty());
    for (const Reader& part : parts) AddProduct(ReadLists(part, l), c, &m->cases);
  } else {
    AddProduct(l, c, &m->cases);
  }
  LeaveOutRepeated(&m->cases);
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
  part->models = Models(r, {"resnet50"});
  RequireEach(r, "models", part->models, [](const std::string& model) -> Verdict {
    if (models::CreateFromZoo(model)->task() == models::Task::kClassification) return {};
    return {"names a detector", "classifiers; `exp run` of a detector reports its img/s an epoch"};
  });
  part->precisions = Precisions(r, {base.precision});
  part->epochs = Number(r, "epochs", part->epochs, 1000);
  part->images_an_epoch = Number(r, "images_an_epoch", part->images_an_epoch, 10000000);
}

}  // namespace

Matrix ReadMatrix(const config::Node& root, const Case& base) {
  Reader r(root);
  Matrix m;
  ReadSteps(r, base, &m);
  if (r.Bool("largest_batch", false)) m.largest = EachCombination(m.cases);
  m.largest_batch_limit = Number(r, "largest_batch_limit", m.largest_batch_limit, 65536);
  m.torch_modes = r.Strings("torch_modes", m.torch_modes);
  RequireEach(r, "torch_modes", m.torch_modes, [](const std::string& mode) -> Verdict {
    if (mode == "eager" || mode == "compile") return {};
    return {"names no mode", "eager or compile"};
  });
  if (r.Has("loader")) {
    ReadPart(r.Child("loader"), &m.loader_part);
    m.loader = LoaderCases(m.loader_part, m.cases.front());
  }
  if (r.Has("end_to_end")) {
    ReadEndToEnd(r.Child("end_to_end"), base, &m.end_to_end_part);
    m.end_to_end = EndToEndCases(m.end_to_end_part, m.cases.front());
  }
  std::vector<config::UnusedKey> unused = r.UnusedKeys();
  if (!unused.empty()) {
    throw UsageError({.what = "`" + unused.front().path + "` is no key of a bench matrix",
                      .where = unused.front().where,
                      .expected =
                          "models, batches, precisions, devices, graph, fusion, "
                          "deterministic, repeats, warmup, seconds_a_repeat, "
                          "settle_seconds, seconds_a_case, threads, height, width, profile, parts, "
                          "largest_batch, largest_batch_limit, torch_modes, loader, end_to_end",
                      .next = "docs/bench.md lists them"});
  }
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
