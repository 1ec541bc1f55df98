#include "exp/record/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exp/snapshot/dataset.h"
#include "src/record/compare_numbers.h"
#include "src/record/same_images.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

constexpr const char* kCheckpoints = "checkpoints";

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

// Files that may be code and whose content isn't in the record.
int64_t LeftOutCode(const json& code) {
  const json count = code.value("/omitted/code"_json_pointer, json());
  return count.is_number_integer() ? count.get<int64_t>() : 0;
}

VerdictRow CodeRow(const Run& a, const Run& b) {
  json x = json::parse(a.code_json, nullptr, false), y = json::parse(b.code_json, nullptr, false);
  auto recorded = [](const json& code) {
    return code.is_object() && (code.value("kind", "") == "git" || code.contains("manifest"));
  };
  if (!recorded(x) || !recorded(y))
    return {"code", Sameness::kUnknown, "no git repository was recorded"};
  std::string before = CommitOf(x), after = CommitOf(y);
  if (x.value("identity", "?") == y.value("identity", "")) {
    const int64_t unknown = LeftOutCode(x);
    if (unknown == 0) return {"code", Sameness::kSame, before};
    return {"code", Sameness::kUnknown,
            fmt::format("{}{} files weren't kept, so not compared; the rest is the same",
                        before.empty() ? "" : before + ": ", unknown)};
  }
  if (before == after) {
    return {"code", Sameness::kDiffers,
            (before.empty() ? "" : before + ": ") + "changed or untracked files differ"};
  }
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
    } else if (!SameImages(d, *other)) {
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
  auto names_only = [](const DatasetRecord& d) { return d.mode == "cheap"; };
  bool cheap = std::any_of(a.datasets.begin(), a.datasets.end(), names_only) ||
               std::any_of(b.datasets.begin(), b.datasets.end(), names_only);
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
    detail += fmt::format("{}{} {} -> {}", i ? ", " : "", d.path, Show(JsonText{d.before}),
                          Show(JsonText{d.after}));
  }
  if (differences.size() > shown)
    detail += fmt::format(", and {} more", differences.size() - shown);
  return {"environment", Sameness::kDiffers, detail};
}

void Explain(const Verdict& partial, const std::vector<EnvironmentDifference>& environment,
             std::vector<std::string>& suspects) {
  for (const VerdictRow& row : partial.rows) {
    const bool cause = row.what != "environment" && row.what != kCheckpoints;
    if (row.sameness == Sameness::kDiffers && cause) {
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

// The hash of each checkpoint's newest content, by its name in the run's own folder.
std::map<std::string, std::string> CheckpointsByName(const Run& run) {
  std::map<std::string, std::string> out;
  for (const CheckpointRecord& c : run.checkpoints) {
    const std::filesystem::path path = c.path, inside = path.lexically_relative(run.work_dir);
    const bool outside = inside.empty() || *inside.begin() == "..";
    out[(outside ? path : inside).string()] = c.hash;
  }
  return out;
}

// Of another program, whose weights no hash in its epochs may tell. Its files can hold more than
// weights (times, names), so that numbers have the last word where there are any.
std::optional<VerdictRow> CheckpointsRow(const Run& a, const Run& b) {
  const std::map<std::string, std::string> before = CheckpointsByName(a),
                                           after = CheckpointsByName(b);
  std::vector<std::string> other;
  for (const auto& [name, hash] : before) {
    auto found = after.find(name);
    if (found == after.end()) other.push_back(name + " (absent now)");
    if (found != after.end() && found->second != hash) other.push_back(name);
  }
  for (const auto& [name, hash] : after)
    if (!before.count(name)) other.push_back(name + " (new)");
  if (before.empty() && after.empty()) return std::nullopt;
  if (other.empty())
    return VerdictRow{kCheckpoints, Sameness::kSame, fmt::format("{} files", before.size())};
  constexpr size_t kShown = 3;
  const size_t shown = std::min(other.size(), kShown);
  std::string detail = fmt::format("{}", fmt::join(other.begin(), other.begin() + shown, ", "));
  if (other.size() > shown) detail += fmt::format(", and {} more", other.size() - shown);
  return VerdictRow{kCheckpoints, Sameness::kDiffers, detail};
}

std::string Diverged(const Verdict& v) {
  for (const EpochVerdict& e : v.epochs) {
    if (e.same) continue;
    std::string text = fmt::format("diverged in epoch {}: {} {} -> {}", e.epoch + 1, e.quantity,
                                   e.before, e.after);
    if (v.step)
      text += fmt::format(" (first at step {}: {} {} -> {})", v.step->step, v.step->name,
                          v.step->before, v.step->after);
    return text;
  }
  if (!v.step) return "";
  return fmt::format("diverged at step {}: {} {} -> {}", v.step->step, v.step->name, v.step->before,
                     v.step->after);
}

std::string Summarize(const Verdict& v, size_t wanted, const VerdictRow* checkpoints) {
  if (!v.comparable) return "nothing to compare: the runs recorded no number";
  std::string diverged = Diverged(v);
  if (!diverged.empty()) return diverged;
  if (v.epochs.size() < wanted) {
    return fmt::format("incomplete: {} of {} epochs were run again, and they are the same",
                       v.epochs.size(), wanted);
  }
  const std::string files = checkpoints ? checkpoints->detail : "";
  if (!v.same) return "diverged: other checkpoints: " + files;
  if (v.epochs.empty() && v.steps_compared == 0)
    return "the same, bit for bit: all checkpoints, " + files;
  std::string text = "the same, bit for bit: ";
  text += v.epochs.empty() ? fmt::format("all {} recorded numbers", v.steps_compared)
                           : fmt::format("all {} epochs", v.epochs.size());
  if (checkpoints && checkpoints->sameness == Sameness::kDiffers)
    text += "; its checkpoint files differ: " + files;
  return text;
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
  const size_t wanted = CompareNumbers(first, second, first_curves, second_curves, max_epochs, v);
  std::optional<VerdictRow> checkpoints;
  if (first.kind == "command" && first.state == "finished" && max_epochs < 0)
    checkpoints = CheckpointsRow(first, second);
  if (checkpoints) v.rows.push_back(*checkpoints);
  const bool numbers = v.step || v.steps_compared > 0 ||
                       std::any_of(v.epochs.begin(), v.epochs.end(), [](const EpochVerdict& e) {
                         return !e.same || !e.compared.empty();
                       });
  v.comparable = numbers || checkpoints;
  v.same = v.comparable && Diverged(v).empty() && v.epochs.size() >= wanted &&
           (numbers || checkpoints->sameness == Sameness::kSame);
  if (!v.same) Explain(v, environment, v.suspects);
  v.summary = Summarize(v, wanted, checkpoints ? &*checkpoints : nullptr);
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
