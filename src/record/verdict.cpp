#include "exp/record/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/snapshot/dataset.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

// Enough digits to tell any two doubles apart.
std::string Exact(const Value& value) {
  if (const double* x = std::get_if<double>(&value)) return fmt::format("{}", *x);
  return Show(value, 40);
}

// Elapsed times and what the machine felt like differ between equal runs.
bool IsTiming(const std::string& name) {
  if (name.rfind("time/", 0) == 0 || name.rfind("gpu/", 0) == 0) return true;
  std::string last = name.substr(name.rfind('/') + 1);
  for (const char* word :
       {"time", "data_time", "eta", "seconds", "memory", "throughput", "images_per_second"}) {
    if (last == word) return true;
  }
  return last.ends_with("_time") || last.ends_with("_seconds") || last.ends_with("_per_second");
}

const Value* FindValue(const Named& list, const std::string& name) {
  for (const auto& [n, value] : list) {
    if (n == name) return &value;
  }
  return nullptr;
}

VerdictRow ConfigRow(const Run& a, const Run& b) {
  if (a.config_hash == b.config_hash) {
    return {"config", a.config_hash.empty() ? Sameness::kUnknown : Sameness::kSame, a.config_hash};
  }
  std::map<std::string, std::string> before, after;
  for (const ConfigValue& v : a.config) before[v.path] = v.value;
  for (const ConfigValue& v : b.config) after[v.path] = v.value;
  std::string detail;
  int count = 0;
  for (const auto& [path, value] : before) {
    auto found = after.find(path);
    if (found != after.end() && found->second == value) continue;
    if (++count <= 3) {
      detail += fmt::format("{}{} {} -> {}", detail.empty() ? "" : ", ", path, value,
                            found == after.end() ? "absent" : found->second);
    }
  }
  for (const auto& [path, value] : after) {
    if (!before.count(path) && ++count <= 3) {
      detail += fmt::format("{}{} absent -> {}", detail.empty() ? "" : ", ", path, value);
    }
  }
  if (count > 3) detail += fmt::format(", and {} more", count - 3);
  return {"config", Sameness::kDiffers, detail.empty() ? "another identity" : detail};
}

std::string CommitOf(const json& code) {
  if (!code.is_object() || !code.contains("repositories") || code["repositories"].empty())
    return "";
  const json& first = code["repositories"][0];
  std::string commit = first.value("commit", "").substr(0, 10);
  bool dirty = first.contains("changes") && !first["changes"].empty();
  return commit.empty() ? "" : commit + (dirty ? " with changes" : "");
}

VerdictRow CodeRow(const Run& a, const Run& b) {
  json x = json::parse(a.code_json, nullptr, false), y = json::parse(b.code_json, nullptr, false);
  auto recorded = [](const json& code) {
    return code.is_object() && (code.value("kind", "") == "git" || code.contains("manifest"));
  };
  if (!recorded(x) || !recorded(y))
    return {"code", Sameness::kUnknown, "no git repository was recorded"};
  if (x.value("identity", "?") == y.value("identity", "")) {
    return {"code", Sameness::kSame, CommitOf(x)};
  }
  std::string before = CommitOf(x), after = CommitOf(y);
  if (before == after)
    return {"code", Sameness::kDiffers, before + ": changed or untracked files differ"};
  return {"code", Sameness::kDiffers, fmt::format("{} -> {}", before, after)};
}

// By name where the lists were loaded.
std::string ChangedImages(const DatasetRecord& a, const DatasetRecord& b) {
  if (a.image_list.empty() || b.image_list.empty()) return "other images";
  std::vector<snapshot::DatasetChange> changes =
      snapshot::CompareImageLists(a.image_list, b.image_list);
  std::string names;
  size_t shown = std::min<size_t>(changes.size(), 3);
  for (size_t i = 0; i < shown; ++i) names += (i ? ", " : "") + changes[i].name;
  if (changes.size() > shown) names += fmt::format(" and {} more", changes.size() - shown);
  return fmt::format("{} images changed: {}", changes.size(), names);
}

VerdictRow DataRow(const Run& a, const Run& b) {
  if (a.datasets.empty() && b.datasets.empty())
    return {"data", Sameness::kUnknown, "none recorded"};
  std::string detail;
  int64_t images = 0;
  for (const DatasetRecord& d : a.datasets) {
    images += d.images;
    auto other = std::find_if(b.datasets.begin(), b.datasets.end(),
                              [&](const DatasetRecord& o) { return o.role == d.role; });
    if (other == b.datasets.end()) {
      detail += d.role + ": absent now; ";
    } else if (other->ann_hash != d.ann_hash) {
      detail += d.role + (HoldsWeights(d) ? ": other weights; " : ": other annotations; ");
    } else if (other->fingerprint != d.fingerprint) {
      detail += d.role + ": " + ChangedImages(d, *other) + "; ";
    }
  }
  if (!detail.empty()) return {"data", Sameness::kDiffers, detail.substr(0, detail.size() - 2)};
  // Earlier versions didn't keep which weights a run began with.
  auto sets = [](const Run& run) {
    return std::count_if(run.datasets.begin(), run.datasets.end(),
                         [](const DatasetRecord& d) { return !HoldsWeights(d); });
  };
  if (sets(a) != sets(b)) return {"data", Sameness::kDiffers, "other sets"};
  bool cheap = std::any_of(a.datasets.begin(), a.datasets.end(),
                           [](const DatasetRecord& d) { return d.mode == "cheap"; });
  return {"data", Sameness::kSame,
          fmt::format("{} images{}", images, cheap ? ", names and sizes only" : "")};
}

VerdictRow EnvironmentRow(const std::vector<EnvironmentDifference>& differences, bool known) {
  if (!known) return {"environment", Sameness::kUnknown, "none recorded"};
  if (differences.empty()) return {"environment", Sameness::kSame, ""};
  std::string detail;
  size_t shown = std::min<size_t>(differences.size(), 2);
  for (size_t i = 0; i < shown; ++i) {
    const EnvironmentDifference& d = differences[i];
    detail += fmt::format("{}{} {} -> {}", i ? ", " : "", d.path, d.before.substr(0, 60),
                          d.after.substr(0, 60));
  }
  if (differences.size() > shown)
    detail += fmt::format(", and {} more", differences.size() - shown);
  return {"environment", Sameness::kDiffers, detail};
}

bool DifferIn(const std::string& kind, const Named& a, const Named& b, EpochVerdict& out) {
  for (const auto& [name, value] : a) {
    const Value* other = FindValue(b, name);
    if (IsTiming(name) || (other && SameBits(value, *other))) continue;
    out.quantity = kind + " " + name;
    out.before = Exact(value);
    out.after = other ? Exact(*other) : "absent";
    return true;
  }
  for (const auto& [name, value] : b) {
    if (IsTiming(name) || FindValue(a, name)) continue;
    out.quantity = kind + " " + name;
    out.before = "absent";
    out.after = Exact(value);
    return true;
  }
  return false;
}

std::string Compared(const EpochRecord& a, const EpochRecord& b) {
  std::string out;
  auto add = [&](bool there, const std::string& what) {
    if (there) out += (out.empty() ? "" : ", ") + what;
  };
  add(!a.losses.empty(), fmt::format("{} losses", a.losses.size()));
  add(!a.metrics.empty() && !b.metrics.empty(), fmt::format("{} metrics", a.metrics.size()));
  add(!a.weights_hash.empty(), "weights");
  add(!a.optimizer_hash.empty(), "optimizer state");
  return out;
}

// Losses first: they are what the weights were computed from.
EpochVerdict CompareEpoch(const EpochRecord& a, const EpochRecord& b) {
  EpochVerdict out{.epoch = a.epoch, .compared = Compared(a, b)};
  if (DifferIn("loss", a.losses, b.losses, out)) return out;
  auto hashes = [&](const char* what, const std::string& x, const std::string& y) {
    if (x == y) return false;
    out.quantity = what;
    out.before = x.empty() ? "absent" : x;
    out.after = y.empty() ? "absent" : y;
    return true;
  };
  if (hashes("weights", a.weights_hash, b.weights_hash)) return out;
  if (hashes("optimizer state", a.optimizer_hash, b.optimizer_hash)) return out;
  // Metrics of an epoch that only one run evaluated aren't a difference of results.
  if (!a.metrics.empty() && !b.metrics.empty() && DifferIn("metric", a.metrics, b.metrics, out))
    return out;
  out.same = true;
  return out;
}

void CompareSteps(const Curves& first, const Curves& second, int64_t last_step, Verdict& out) {
  for (const auto& [name, points] : first) {
    if (IsTiming(name)) continue;
    auto found = second.find(name);
    if (found == second.end()) continue;
    std::map<int64_t, const Value*> other;
    for (const CurvePoint& p : found->second) other[p.step] = &p.value;
    for (const CurvePoint& p : points) {
      if (last_step >= 0 && p.step >= last_step) continue;
      auto match = other.find(p.step);
      if (match == other.end()) continue;
      ++out.steps_compared;
      if (SameBits(p.value, *match->second)) continue;
      if (!out.step || p.step < out.step->step) {
        out.step = StepVerdict{p.step, name, Exact(p.value), Exact(*match->second)};
      }
      break;
    }
  }
}

void Explain(const Verdict& partial, const std::vector<EnvironmentDifference>& environment,
             std::vector<std::string>& suspects) {
  for (const VerdictRow& row : partial.rows) {
    if (row.sameness == Sameness::kDiffers && row.what != "environment") {
      suspects.push_back(row.what + ": " + row.detail);
    }
  }
  for (const EnvironmentDifference& d : environment) {
    if (d.weight >= 2) {
      suspects.push_back(fmt::format("environment: {} {} -> {}", d.path, d.before.substr(0, 80),
                                     d.after.substr(0, 80)));
    }
  }
}

std::string Summarize(const Verdict& v, size_t wanted) {
  if (!v.comparable) return "nothing to compare: the runs have no epoch and no step in common";
  if (v.same) {
    std::string what = v.epochs.empty() ? fmt::format("all {} recorded numbers", v.steps_compared)
                                        : fmt::format("all {} epochs", v.epochs.size());
    return "the same, bit for bit: " + what;
  }
  for (const EpochVerdict& e : v.epochs) {
    if (!e.same) {
      std::string text = fmt::format("diverged in epoch {}: {} {} -> {}", e.epoch + 1, e.quantity,
                                     e.before, e.after);
      if (v.step)
        text += fmt::format(" (first at step {}: {} {} -> {})", v.step->step, v.step->name,
                            v.step->before, v.step->after);
      return text;
    }
  }
  if (v.step) {
    return fmt::format("diverged at step {}: {} {} -> {}", v.step->step, v.step->name,
                       v.step->before, v.step->after);
  }
  return fmt::format("incomplete: {} of {} epochs were run again, and they are the same",
                     v.epochs.size(), wanted);
}

}  // namespace

Verdict CompareRuns(const Run& first, const Run& second, const Curves& first_curves,
                    const Curves& second_curves, int max_epochs) {
  Verdict v;
  bool known = !first.environment_json.empty() && !second.environment_json.empty();
  std::vector<EnvironmentDifference> environment =
      CompareEnvironments(first.environment_json, second.environment_json);
  v.rows = {ConfigRow(first, second), CodeRow(first, second), EnvironmentRow(environment, known),
            DataRow(first, second)};
  if (first.seed != second.seed) {
    v.rows.push_back(
        {"seed", Sameness::kDiffers, fmt::format("{} -> {}", first.seed, second.seed)});
  }
  size_t wanted = 0;
  int64_t last_step = -1;
  bool same = true;
  for (const EpochRecord& a : first.epochs) {
    if (max_epochs >= 0 && a.epoch >= max_epochs) continue;
    ++wanted;
    auto b = std::find_if(second.epochs.begin(), second.epochs.end(),
                          [&](const EpochRecord& e) { return e.epoch == a.epoch; });
    if (b == second.epochs.end()) continue;
    v.epochs.push_back(CompareEpoch(a, *b));
    same = same && v.epochs.back().same;
    last_step = std::max(last_step, a.step);
  }
  // Steps after the last whole epoch count only where there is no epoch at all.
  CompareSteps(first_curves, second_curves, last_step, v);
  v.comparable = !v.epochs.empty() || v.steps_compared > 0;
  v.same = v.comparable && same && !v.step && v.epochs.size() == wanted;
  if (!v.same) Explain(v, environment, v.suspects);
  v.summary = Summarize(v, wanted);
  return v;
}

Curves LoadCurves(const Store& store, int64_t seq) {
  Curves out;
  for (const std::string& name : CurveNames(store, seq)) out[name] = LoadCurve(store, seq, name);
  return out;
}

std::string ToJson(const Verdict& v) {
  static constexpr const char* kNames[] = {"same", "differs", "unknown"};
  json out = {{"same", v.same},         {"comparable", v.comparable}, {"summary", v.summary},
              {"suspects", v.suspects}, {"rows", json::array()},      {"epochs", json::array()}};
  for (const VerdictRow& r : v.rows) {
    out["rows"].push_back({{"what", r.what},
                           {"verdict", kNames[static_cast<int>(r.sameness)]},
                           {"detail", r.detail}});
  }
  for (const EpochVerdict& e : v.epochs) {
    json row = {{"epoch", e.epoch}, {"same", e.same}};
    if (!e.same) row.update({{"quantity", e.quantity}, {"before", e.before}, {"after", e.after}});
    out["epochs"].push_back(row);
  }
  if (v.step) {
    out["first_step"] = {{"step", v.step->step},
                         {"name", v.step->name},
                         {"before", v.step->before},
                         {"after", v.step->after}};
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

void SaveVerdict(const Store& store, const std::string& run_id, const Verdict& verdict) {
  Statement s(store.db(), "UPDATE run SET verdict=?2 WHERE id=?1");
  s.Bind(1, run_id).Bind(2, ToJson(verdict)).Run();
}

}  // namespace xp::record
