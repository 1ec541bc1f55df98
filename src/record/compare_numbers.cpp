#include "src/record/compare_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

namespace xp::record {
namespace {

constexpr const char* kAbsent = "absent";

// Two values that differ, as people can tell them apart. nullptr: absent.
std::pair<std::string, std::string> BothTexts(const Value* a, const Value* b) {
  std::vector<std::string> texts = ShowApart({a, b}, kAbsent);
  return {std::move(texts[0]), std::move(texts[1])};
}

const Value* FindValue(const Named& list, const std::string& name) {
  for (const auto& [n, value] : list) {
    if (n == name) return &value;
  }
  return nullptr;
}

int64_t Counted(const Named& list) {
  return std::count_if(list.begin(), list.end(), [](const auto& v) { return !IsTiming(v.first); });
}

bool DifferIn(const std::string& kind, const Named& a, const Named& b, EpochVerdict& out) {
  auto differs = [&](const std::string& name, const Value* x, const Value* y) {
    if (IsTiming(name) || (x && y && SameBits(*x, *y))) return false;
    out.quantity = kind + " " + name;
    std::tie(out.before, out.after) = BothTexts(x, y);
    return true;
  };
  for (const auto& [name, value] : a)
    if (differs(name, &value, FindValue(b, name))) return true;
  for (const auto& [name, value] : b)
    if (!FindValue(a, name) && differs(name, nullptr, &value)) return true;
  return false;
}

// What of an epoch was held against the other run's; empty: nothing.
std::string Compared(const EpochRecord& a, bool metrics) {
  std::string out;
  auto add = [&](bool there, const std::string& what) {
    if (there) out += (out.empty() ? "" : ", ") + what;
  };
  const int64_t losses = Counted(a.losses), values = metrics ? Counted(a.metrics) : 0;
  add(losses > 0, fmt::format("{} losses", losses));
  add(values > 0, fmt::format("{} metrics", values));
  add(!a.weights_hash.empty(), "weights");
  add(!a.optimizer_hash.empty(), "optimizer state");
  return out;
}

// Losses first: they are what the weights were computed from.
EpochVerdict CompareEpoch(const EpochRecord& a, const EpochRecord& b) {
  // Equal weights evaluated by one run only (`--epochs N` ends with an evaluation) are no
  // difference of results; where no hash says that they are equal, metrics may be all there is.
  const bool known = !a.weights_hash.empty() && !b.weights_hash.empty();
  const bool metrics = !known || (!a.metrics.empty() && !b.metrics.empty());
  EpochVerdict out{.epoch = a.epoch, .compared = Compared(a, metrics)};
  if (DifferIn("loss", a.losses, b.losses, out)) return out;
  auto differ = [&](const char* what, const std::string& x, const std::string& y) {
    if (x == y) return false;
    out.quantity = what;
    out.before = x.empty() ? kAbsent : x;
    out.after = y.empty() ? kAbsent : y;
    return true;
  };
  if (differ("weights", a.weights_hash, b.weights_hash)) return out;
  if (differ("optimizer state", a.optimizer_hash, b.optimizer_hash)) return out;
  if (metrics && DifferIn("metric", a.metrics, b.metrics, out)) return out;
  if (differ("steps done", std::to_string(a.step), std::to_string(b.step))) return out;
  out.same = true;
  return out;
}

// Which points of a curve both runs must have.
struct Scope {
  int64_t end = std::numeric_limits<int64_t>::max();  // behind the last step that is compared
  bool more_allowed = false;  // the second run may have points that the first hasn't
  bool lost_allowed = false;  // a full disk took some of either
};

// In the order of steps; those of one step as they were written.
std::vector<const CurvePoint*> InOrder(const std::vector<CurvePoint>& points, int64_t end) {
  std::vector<const CurvePoint*> out;
  for (const CurvePoint& p : points)
    if (p.step < end) out.push_back(&p);
  std::stable_sort(out.begin(), out.end(), [](auto* a, auto* b) { return a->step < b->step; });
  return out;
}

// The first point that differs, or that only one run has.
std::optional<StepVerdict> CompareCurve(const std::string& name,
                                        const std::vector<CurvePoint>& first,
                                        const std::vector<CurvePoint>& second, const Scope& scope,
                                        int64_t& compared) {
  const std::vector<const CurvePoint*> a = InOrder(first, scope.end),
                                       b = InOrder(second, scope.end);
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool only_a = j == b.size() || (i < a.size() && a[i]->step < b[j]->step);
    const bool only_b = !only_a && (i == a.size() || b[j]->step < a[i]->step);
    const CurvePoint *x = only_b ? nullptr : a[i++], *y = only_a ? nullptr : b[j++];
    if ((only_a || only_b) && scope.lost_allowed) continue;
    if (only_b && scope.more_allowed) continue;
    if (x && y) ++compared;
    if (x && y && SameBits(x->value, y->value)) continue;
    auto [before, after] = BothTexts(x ? &x->value : nullptr, y ? &y->value : nullptr);
    return StepVerdict{(x ? x : y)->step, name, before, after};
  }
  return std::nullopt;
}

void CompareSteps(const Curves& first, const Curves& second, const Scope& scope, Verdict& out) {
  std::set<std::string> names;
  for (const auto& [name, points] : first) names.insert(name);
  for (const auto& [name, points] : second) names.insert(name);
  static const std::vector<CurvePoint> kNone;
  auto points = [](const Curves& curves, const std::string& name) -> const auto& {
    auto found = curves.find(name);
    return found == curves.end() ? kNone : found->second;
  };
  for (const std::string& name : names) {
    if (IsTiming(name)) continue;
    std::optional<StepVerdict> found =
        CompareCurve(name, points(first, name), points(second, name), scope, out.steps_compared);
    if (found && (!out.step || found->step < out.step->step)) out.step = std::move(found);
  }
}

bool LostPoints(const Run& run) {
  return std::any_of(run.attempts.begin(), run.attempts.end(),
                     [](const Attempt& a) { return a.lost_points > 0; });
}

const EpochRecord* FindEpoch(const Run& run, int epoch) {
  auto found = std::find_if(run.epochs.begin(), run.epochs.end(),
                            [&](const EpochRecord& e) { return e.epoch == epoch; });
  return found == run.epochs.end() ? nullptr : &*found;
}

}  // namespace

bool IsTiming(const std::string& name) {
  if (name.rfind("time/", 0) == 0 || name.rfind("gpu/", 0) == 0) return true;
  std::string last = name.substr(name.rfind('/') + 1);
  for (const char* word :
       {"time", "data_time", "eta", "seconds", "memory", "throughput", "images_per_second"}) {
    if (last == word) return true;
  }
  return last.ends_with("_time") || last.ends_with("_seconds") || last.ends_with("_per_second");
}

size_t CompareNumbers(const Run& first, const Run& second, const Curves& first_curves,
                      const Curves& second_curves, int max_epochs, Verdict& out) {
  const bool finished = first.state == "finished", whole = finished && max_epochs < 0;
  size_t wanted = 0;
  int64_t last_step = 0;
  for (const EpochRecord& a : first.epochs) {
    if (max_epochs >= 0 && a.epoch >= max_epochs) continue;
    ++wanted;
    const EpochRecord* b = FindEpoch(second, a.epoch);
    if (!b) continue;
    out.epochs.push_back(CompareEpoch(a, *b));
    last_step = std::max(last_step, a.step);
  }
  const bool complete = out.epochs.size() == wanted;
  for (const EpochRecord& b : second.epochs) {
    if (!whole || FindEpoch(first, b.epoch)) continue;
    out.epochs.push_back(
        {.epoch = b.epoch, .quantity = "epoch", .before = kAbsent, .after = "there"});
  }
  // Our own trainer runs again only as many epochs as ended.
  const bool ends_early = max_epochs >= 0 || !complete || (!finished && first.kind == "train");
  Scope scope{.more_allowed = !whole, .lost_allowed = LostPoints(first) || LostPoints(second)};
  if (ends_early && wanted > 0) {
    scope.end = last_step;
    scope.more_allowed = false;
  }
  CompareSteps(first_curves, second_curves, scope, out);
  return wanted;
}

}  // namespace xp::record
