#include "src/bench/matrix_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "exp/base/error.h"
#include "exp/models/zoo.h"
#include "src/config/suggest.h"
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

template <class T>
std::vector<T> Once(const std::vector<T>& values) {
  std::vector<T> out;
  for (const T& value : values) {
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  }
  return out;
}

}  // namespace

std::vector<int> Numbers(const Reader& r, const char* key, std::vector<int64_t> fallback,
                         int64_t most, int64_t least) {
  std::vector<int> out;
  for (int64_t n : r.Ints(key, std::move(fallback))) {
    if (n < least || n > most) {
      r.Bad(Item(r, key, out.size()), "is out of range",
            fmt::format("whole numbers from {} to {}", least, most));
    }
    out.push_back(static_cast<int>(n));
  }
  RequireSome(r, key, r.Has(key) && out.empty());
  return Once(out);
}

int Number(const Reader& r, const char* key, int fallback, int64_t most, int64_t least) {
  if (r.Has(key) && r.Raw(key)->IsList()) r.Bad(key, "is a list", "one number: it makes no rows");
  return Numbers(r, key, {fallback}, most, least).front();
}

std::vector<bool> Switches(const Reader& r, const char* key, std::vector<bool> fallback) {
  if (!r.Has(key)) return fallback;
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
  return Once(values);
}

std::vector<std::string> Words(const Reader& r, const char* key, std::vector<std::string> fallback,
                               const std::function<Verdict(const std::string&)>& judge) {
  std::vector<std::string> values = r.Strings(key, std::move(fallback));
  RequireSome(r, key, values.empty());
  for (size_t i = 0; i < values.size(); ++i) {
    auto [wrong, expected] = judge(values[i]);
    if (!wrong.empty()) r.Bad(Item(r, key, i), wrong, expected);
  }
  return Once(values);
}

std::vector<std::string> Models(const Reader& r, std::vector<std::string> fallback,
                                bool classifiers) {
  return Words(r, "models", std::move(fallback), [&](const std::string& model) -> Verdict {
    try {
      models::FindInZoo(model);
    } catch (const Error& e) {
      return {"names no model", e.text().expected};
    }
    if (!classifiers || models::CreateFromZoo(model)->task() == models::Task::kClassification) {
      return {};
    }
    return {"names a detector", "classifiers; `exp run` of a detector reports its img/s an epoch"};
  });
}

std::vector<std::string> Precisions(const Reader& r, std::vector<std::string> fallback) {
  return Words(r, "precisions", std::move(fallback), [](const std::string& p) -> Verdict {
    for (const char* known : {"fp32", "tf32", "bf16", "fp16"}) {
      if (p == known) return {};
    }
    return {"names no precision", "fp32, tf32, bf16 or fp16"};
  });
}

std::vector<std::string> Devices(const Reader& r, std::vector<std::string> fallback) {
  return Words(r, "devices", std::move(fallback), [](const std::string& device) -> Verdict {
    if (train::IsDeviceName(device)) return {};
    return {"names no device", "auto, cpu, cuda or cuda:N"};
  });
}

double Seconds(const Reader& r, const char* key, double fallback) {
  constexpr double kMost = 3600;
  double value = r.Double(key, fallback);
  if (!(value > 0) || value > kMost) {
    r.Bad(key, "is out of range", fmt::format("seconds, above 0, at most {:g}", kMost));
  }
  return value;
}

void RequireKnownKeys(const Reader& r) {
  const std::vector<config::UnusedKey> unused = r.UnusedKeys();
  if (unused.empty()) return;
  static const std::vector<std::string> kOfParts{"devices", "models", "precisions",   "batches",
                                                 "graph",   "fusion", "deterministic"},
      kOfAll{"parts",       "seconds_a_repeat", "settle_seconds", "repeats",
             "warmup",      "seconds_a_case",   "threads",        "height",
             "width",       "profile",          "largest_batch",  "largest_batch_limit",
             "torch_modes", "loader",           "end_to_end"},
      kOfLoader{"images", "count", "size", "workers", "batches"},
      kOfEndToEnd{"models", "precisions", "epochs", "images_an_epoch"};
  const std::string& path = unused.front().path;
  const bool part = path.starts_with("parts."), end_to_end = path.starts_with("end_to_end.");
  const bool loader = path.starts_with("loader.");
  std::vector<std::string> known = loader || end_to_end ? kOfLoader : kOfParts;
  if (end_to_end) known.insert(known.end(), kOfEndToEnd.begin(), kOfEndToEnd.end());
  if (!loader && !end_to_end && !part) known.insert(known.end(), kOfAll.begin(), kOfAll.end());
  const std::string meant = config::DidYouMean(
      config::Nearest(std::string_view(path).substr(path.rfind('.') + 1), known));
  throw UsageError({.what = "`" + path + "` is no key of a bench matrix",
                    .where = unused.front().where,
                    .expected = fmt::format("{}", fmt::join(known, ", ")),
                    .next = meant.empty() ? "docs/bench.md lists them" : meant});
}

}  // namespace xp::bench
