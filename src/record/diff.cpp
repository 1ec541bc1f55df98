#include "exp/record/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/record/machine.h"
#include "exp/record/verdict.h"
#include "exp/snapshot/dataset.h"

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

std::string At(const json& value, const char* pointer) {
  json::json_pointer p(pointer);
  if (!value.is_object() || !value.contains(p)) return "";
  const json& found = value.at(p);
  if (found.is_string()) return found.get<std::string>();
  return found.dump(-1, ' ', false, json::error_handler_t::replace);
}

void DiffCode(const std::vector<Run>& runs, std::vector<Difference>& out) {
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
    for (const json& code : codes) d.values.push_back(At(code, f.pointer));
    if (!AllEqual(d.values)) out.push_back(std::move(d));
  }
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

std::string List(const Store& store, const DatasetRecord& d) {
  if (d.image_list_object.empty()) return "";
  try {
    return LoadObject(store, d.image_list_object);
  } catch (const Error&) {
    return "";
  }
}

// Names of images that differ, for two runs.
void DiffImages(const Store& store, const DatasetRecord& a, const DatasetRecord& b,
                std::vector<Difference>& out) {
  std::string before = List(store, a), now = List(store, b);
  if (before.empty() || now.empty()) return;
  std::vector<snapshot::DatasetChange> changes = snapshot::CompareImageLists(before, now);
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

void DiffData(const Store& store, const std::vector<Run>& runs, std::vector<Difference>& out) {
  std::map<std::string, std::vector<const DatasetRecord*>> roles;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const DatasetRecord& d : runs[i].datasets) {
      roles[d.role].resize(runs.size());
      roles[d.role][i] = &d;
    }
  }
  for (auto& [role, sets] : roles) {
    sets.resize(runs.size());
    auto compare = [&](const char* name, int weight, auto field) {
      Difference d{"data", role + " " + name, {}, {}, weight};
      for (const DatasetRecord* set : sets) d.values.push_back(set ? field(*set) : "");
      bool differs = !AllEqual(d.values);
      if (differs) out.push_back(std::move(d));
      return differs;
    };
    using D = const DatasetRecord&;
    compare("annotations", 9, [](D d) { return d.ann_file + " " + d.ann_hash.substr(0, 12); });
    compare("image count", 8, [](D d) { return std::to_string(d.images); });
    bool images = compare("images", 7, [](D d) { return d.fingerprint.substr(0, 12); });
    if (images && runs.size() == 2 && sets[0] && sets[1])
      DiffImages(store, *sets[0], *sets[1], out);
  }
}

void DiffMetrics(const std::vector<Run>& runs, std::vector<Difference>& out) {
  std::map<std::string, Difference> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const SummaryRecord& s : runs[i].summaries) {
      if (s.kind == "gpu" || s.kind == "step") continue;
      std::string name = s.kind + "." + s.name;
      Difference& d = rows[name];
      d.section = "metrics";
      d.name = name;
      d.values.resize(runs.size());
      d.values[i] = Show(s.last);
      d.weight = s.kind == "metric" ? 2 : 1;
    }
  }
  for (auto& [name, d] : rows) {
    if (!AllEqual(d.values)) out.push_back(std::move(d));
  }
  Difference state{"metrics", "state", {}, {}, 3}, epochs{"metrics", "epochs", {}, {}, 3};
  for (const Run& r : runs) {
    state.values.push_back(r.state);
    epochs.values.push_back(std::to_string(r.epochs.size()));
  }
  for (Difference* d : {&state, &epochs}) {
    if (!AllEqual(d->values)) out.push_back(std::move(*d));
  }
}

}  // namespace

std::vector<Difference> DiffRuns(const Store& store, const std::vector<Run>& runs) {
  std::vector<Difference> out;
  auto section = [&](auto add) {
    size_t begin = out.size();
    add();
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
                     [](const Difference& a, const Difference& b) { return a.weight > b.weight; });
  };
  section([&] { DiffConfig(runs, out); });
  section([&] { DiffCode(runs, out); });
  section([&] { DiffData(store, runs, out); });
  section([&] { DiffEnvironment(runs, out); });
  section([&] { DiffMachines(store, runs, out); });
  section([&] { DiffMetrics(runs, out); });
  return out;
}

}  // namespace xp::record
