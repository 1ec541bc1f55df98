#include "exp/record/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/json_text.h"
#include "exp/record/machine.h"
#include "exp/record/verdict.h"
#include "exp/snapshot/dataset.h"
#include "src/record/compare_numbers.h"
#include "src/record/same_images.h"

namespace xp::record {
namespace {

using nlohmann::json;

bool AllEqual(const std::vector<std::string>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// What changes a result most comes first; paths and bookkeeping last.
int ConfigWeight(const std::string& path) {
  static constexpr std::array kOrder = {"optimizer", "lr_config", "model",  "data",
                                        "seed",      "precision", "runner", "optimizer_config",
                                        "evaluation"};
  for (size_t i = 0; i < kOrder.size(); ++i) {
    std::string_view group = kOrder[i];
    if (path.rfind(group, 0) == 0 && (path.size() == group.size() || path[group.size()] == '.')) {
      return 20 - static_cast<int>(i);
    }
  }
  return path.rfind("work_dir", 0) == 0 || path.rfind("log", 0) == 0 ? 0 : 5;
}

void DiffConfig(const std::vector<Run>& runs, std::vector<Difference>& out) {
  std::map<std::string, Difference> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const ConfigValue& v : runs[i].config) {
      Difference& d = rows[v.path];
      d.values.resize(runs.size());
      d.origins.resize(runs.size());
      d.values[i] = v.value;
      d.origins[i] = v.origin;
    }
  }
  for (auto& [path, d] : rows) {
    if (AllEqual(d.values)) continue;
    d.section = "config";
    d.name = path;
    d.weight = ConfigWeight(path);
    out.push_back(std::move(d));
  }
  std::vector<std::string> seeds;
  for (const Run& r : runs) seeds.push_back(r.seed);
  if (!AllEqual(seeds) && !rows.count("seed")) out.push_back({"config", "seed", seeds, {}, 16});
}

// Files by name, for two runs.
void DiffFiles(const Store& store, const Run& a, const Run& b, std::vector<Difference>& out) {
  snapshot::CodeComparison c = CompareFiles(store, a, b, false);
  using Kind = snapshot::CodeChange::Kind;
  for (const snapshot::CodeChange& change : c.changes) {
    std::string lines = change.added + change.removed > 0
                            ? fmt::format("+{} -{} lines", change.added, change.removed)
                            : "other content";
    out.push_back(
        {"code",
         "file " + change.path,
         {change.kind == Kind::kAdded ? "" : "there", change.kind == Kind::kRemoved ? "" : lines},
         {},
         4});
  }
  if (!c.note.empty()) out.push_back({"code", "not compared", {"", c.note}, {}, 1});
}

void DiffCode(const Store& store, const std::vector<Run>& runs, std::vector<Difference>& out) {
  size_t before = out.size();
  struct Field {
    const char *name, *pointer;
    int weight;
  };
  static constexpr std::array kFields = {Field{"commit", "/repositories/0/commit", 9},
                                         Field{"branch", "/repositories/0/branch", 3},
                                         Field{"changes", "/repositories/0/changes", 7},
                                         Field{"patch", "/repositories/0/patch/object", 6},
                                         Field{"files beside the commit", "/manifest/object", 5},
                                         Field{"kind", "/kind", 2},
                                         Field{"omitted files", "/omitted/count", 2}};
  std::vector<json> codes;
  for (const Run& r : runs) codes.push_back(json::parse(r.code_json, nullptr, false));
  for (const Field& f : kFields) {
    Difference d{"code", f.name, {}, {}, f.weight};
    for (const json& code : codes) d.values.push_back(TextAt(code, f.pointer));
    if (!AllEqual(d.values)) out.push_back(std::move(d));
  }
  if (out.size() > before && runs.size() == 2) DiffFiles(store, runs[0], runs[1], out);
}

void DiffEnvironment(const std::vector<Run>& runs, std::vector<Difference>& out) {
  std::map<std::string, Difference> rows;
  for (size_t i = 1; i < runs.size(); ++i) {
    for (const EnvironmentDifference& e :
         CompareEnvironments(runs[0].environment_json, runs[i].environment_json)) {
      Difference& d = rows[e.path];
      if (d.values.empty()) d.values.assign(runs.size(), e.before);
      d.values[i] = e.after;
      d.section = "environment";
      d.name = e.path;
      d.weight = e.weight;
    }
  }
  for (auto& [path, d] : rows) out.push_back(std::move(d));
}

// Names of images that differ, for two runs.
void DiffImages(const DatasetRecord& a, const DatasetRecord& b, std::vector<Difference>& out) {
  if (a.image_list.empty() || b.image_list.empty()) return;
  std::vector<snapshot::DatasetChange> changes =
      snapshot::CompareImageLists(a.image_list, b.image_list);
  size_t shown = std::min<size_t>(changes.size(), 20);
  for (size_t i = 0; i < shown; ++i) {
    using Kind = snapshot::DatasetChange::Kind;
    Kind kind = changes[i].kind;
    out.push_back({"data",
                   a.role + " " + changes[i].name,
                   {kind == Kind::kAdded ? "" : "there", kind == Kind::kRemoved ? ""
                                                         : kind == Kind::kAdded ? "there"
                                                                                : "other content"},
                   {},
                   1});
  }
  if (changes.size() > shown) {
    out.push_back({"data",
                   fmt::format("{} images, and {} more", a.role, changes.size() - shown),
                   {"", "differ"},
                   {},
                   0});
  }
}

void DiffData(const std::vector<Run>& runs, std::vector<Difference>& out) {
  std::map<std::string, std::vector<const DatasetRecord*>> roles;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const DatasetRecord& d : runs[i].datasets) {
      roles[d.role].resize(runs.size());
      roles[d.role][i] = &d;
    }
  }
  for (auto& entry : roles) {
    const std::string& role = entry.first;
    std::vector<const DatasetRecord*>& sets = entry.second;
    sets.resize(runs.size());
    auto compare = [&](const char* name, int weight, auto field) {
      Difference d{"data", role + " " + name, {}, {}, weight};
      for (const DatasetRecord* set : sets) d.values.push_back(set ? field(*set) : "");
      bool differs = !AllEqual(d.values);
      if (differs) out.push_back(std::move(d));
      return differs;
    };
    using D = const DatasetRecord&;
    if (HoldsWeights(role)) {
      compare("weights", 9, [](D d) { return d.ann_file + " " + d.ann_hash.substr(0, 12); });
      continue;
    }
    compare("annotations", 9, [](D d) { return d.ann_file + " " + d.ann_hash.substr(0, 12); });
    compare("image count", 8, [](D d) { return std::to_string(d.images); });
    const bool same = std::all_of(sets.begin(), sets.end(), [&](const DatasetRecord* set) {
      return set && sets[0] && SameImages(*sets[0], *set);
    });
    bool images = !same && compare("images", 7, [](D d) { return d.fingerprint.substr(0, 12); });
    if (images && runs.size() == 2 && sets[0] && sets[1]) DiffImages(*sets[0], *sets[1], out);
  }
}

// Last values, by "metric.bbox_mAP"; those of steps are much the same as losses and stand in where
// no epoch was recorded.
std::map<std::string, std::vector<const Value*>> LastValues(const std::vector<Run>& runs) {
  const bool epochs = std::any_of(runs.begin(), runs.end(), [](const Run& r) {
    return std::any_of(r.summaries.begin(), r.summaries.end(), [](const SummaryRecord& s) {
      return s.kind == "metric" || s.kind == "loss";
    });
  });
  std::map<std::string, std::vector<const Value*>> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const SummaryRecord& s : runs[i].summaries) {
      const bool step = s.kind == "step" && !epochs && !IsTiming(s.name);
      if (s.kind != "metric" && s.kind != "loss" && !step) continue;
      std::vector<const Value*>& row = rows[s.kind + "." + s.name];
      row.resize(runs.size());
      row[i] = &s.last;
    }
  }
  return rows;
}

bool SameValues(const std::vector<const Value*>& values) {
  return std::adjacent_find(values.begin(), values.end(), [](const Value* a, const Value* b) {
           return !a || !b ? a != b : !SameBits(*a, *b);
         }) == values.end();
}

void DiffMetrics(const std::vector<Run>& runs, std::vector<Difference>& out) {
  for (const auto& [name, values] : LastValues(runs)) {
    if (SameValues(values)) continue;
    out.push_back(
        {"metrics", name, ShowApart(values, ""), {}, name.starts_with("metric.") ? 2 : 1});
  }
  Difference state{"metrics", "state", {}, {}, 3}, epochs{"metrics", "epochs", {}, {}, 3},
      weights{"metrics", "weights (their hash)", {}, {}, 0};
  for (const Run& r : runs) {
    state.values.push_back(r.state);
    epochs.values.push_back(std::to_string(r.epochs.size()));
    weights.values.push_back(r.epochs.empty() ? "" : r.epochs.back().weights_hash.substr(0, 12));
  }
  for (Difference* d : {&state, &epochs, &weights}) {
    if (!AllEqual(d->values)) out.push_back(std::move(*d));
  }
}

}  // namespace

snapshot::CodeComparison CompareFiles(const Store& store, const Run& a, const Run& b,
                                      bool patches) {
  auto loader = [&](const Run& run) {
    return [&](const std::string& hash) {
      auto own = run.objects.find(hash);
      return own != run.objects.end() ? own->second : LoadObject(store, hash);
    };
  };
  return snapshot::CompareCode(a.code_json, loader(a), b.code_json, loader(b), patches);
}

std::vector<Difference> DiffRuns(const Store& store, const std::vector<Run>& runs) {
  std::vector<Difference> out;
  auto section = [&](auto add) {
    size_t begin = out.size();
    add();
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
                     [](const Difference& a, const Difference& b) { return a.weight > b.weight; });
  };
  section([&] { DiffConfig(runs, out); });
  section([&] { DiffCode(store, runs, out); });
  section([&] { DiffData(runs, out); });
  section([&] { DiffEnvironment(runs, out); });
  section([&] { DiffMachines(store, runs, out); });
  section([&] { DiffMetrics(runs, out); });
  return out;
}

}  // namespace xp::record
