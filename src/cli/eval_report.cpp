#include "src/cli/eval_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/base/escape.h"
#include "exp/base/file.h"
#include "src/cli/table.h"

namespace xp::cli {
namespace {

std::string Number(double v) { return v < 0 ? "-" : fmt::format("{:.4f}", v); }

std::vector<std::string> WithBackground(std::vector<std::string> names) {
  names.emplace_back("(background)");
  return names;
}

void PrintConfusion(const std::vector<std::string>& names, const std::vector<int64_t>& counts) {
  if (names.size() > 21) return;  // too wide to read; confusion.csv has it
  std::vector<std::string> header{"TRUE \\ FOUND"};
  header.insert(header.end(), names.begin(), names.end());
  std::vector<std::vector<std::string>> rows;
  for (size_t r = 0; r < names.size(); ++r) {
    std::vector<std::string> row{names[r]};
    for (size_t c = 0; c < names.size(); ++c)
      row.push_back(std::to_string(counts[r * names.size() + c]));
    rows.push_back(std::move(row));
  }
  fmt::print("\n");
  PrintTable(header, rows, 160);
}

nlohmann::json ConfusionJson(const std::vector<std::string>& names,
                             const std::vector<int64_t>& counts) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t r = 0; r < names.size(); ++r) {
    auto begin = counts.begin() + static_cast<std::ptrdiff_t>(r * names.size());
    rows.push_back(std::vector<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(names.size())));
  }
  return {{"classes", names}, {"counts", rows}};
}

// Precision at 101 recalls, a class and threshold a line.
std::string PrecisionCsv(const train::CocoResult& result) {
  std::string out = "class,iou,recall,precision\n";
  size_t classes = result.classes.size();
  for (size_t c = 0; c < classes; ++c) {
    for (size_t t = 0; t < 10; ++t) {
      for (size_t r = 0; r < 101; ++r) {
        double p = result.precision[(t * 101 + r) * classes + c];
        if (p < 0) continue;
        out += fmt::format("{},{:.2f},{:.2f},{}\n", CsvCell(result.classes[c].name),
                           0.5 + 0.05 * static_cast<double>(t), 0.01 * static_cast<double>(r), p);
      }
    }
  }
  return out;
}

}  // namespace

nlohmann::json BboxJson(const train::CocoResult& result, const train::Confusion& confusion) {
  nlohmann::json out;
  for (size_t i = 0; i < result.stats.size(); ++i)
    out["metrics"][train::kCocoStatNames[i]] = result.stats[i];
  out["classes"] = nlohmann::json::array();
  for (const train::ClassResult& c : result.classes) {
    out["classes"].push_back({{"id", c.category_id},
                              {"name", c.name},
                              {"ap", c.ap},
                              {"ap50", c.ap50},
                              {"ap75", c.ap75},
                              {"ap_small", c.ap_small},
                              {"ap_medium", c.ap_medium},
                              {"ap_large", c.ap_large},
                              {"ar100", c.ar100}});
  }
  out["confusion"] = ConfusionJson(WithBackground(confusion.classes), confusion.counts);
  return out;
}

void PrintBbox(const train::CocoResult& result, const train::Confusion& confusion) {
  std::vector<std::vector<std::string>> rows;
  for (const train::ClassResult& c : result.classes) {
    rows.push_back({c.name, Number(c.ap), Number(c.ap50), Number(c.ap75), Number(c.ap_small),
                    Number(c.ap_medium), Number(c.ap_large), Number(c.ar100)});
  }
  const auto& s = result.stats;
  rows.push_back({"all", Number(s[0]), Number(s[1]), Number(s[2]), Number(s[3]), Number(s[4]),
                  Number(s[5]), Number(s[8])});
  PrintTable({"CLASS", "AP", "AP50", "AP75", "SMALL", "MEDIUM", "LARGE", "AR100"}, rows, 120);
  PrintConfusion(WithBackground(confusion.classes), confusion.counts);
}

void WriteBbox(const std::filesystem::path& out, const train::CocoResult& result,
               const train::Confusion& confusion, const train::Detections& detections) {
  WriteFileAtomic(out / "precision.csv", PrecisionCsv(result));
  WriteFileAtomic(out / "confusion.csv",
                  ConfusionCsv(WithBackground(confusion.classes), confusion.counts));
  WriteFileAtomic(out / "detections.json", CocoResultsJson(detections));
}

ClassReport ReportOf(const std::vector<train::ClassScores>& scores,
                     const std::vector<std::string>& classes) {
  ClassReport r{.classes = classes};
  r.confusion.resize(classes.size() * classes.size());
  int64_t first = 0, five = 0;
  for (const train::ClassScores& s : scores) {
    auto truth = static_cast<size_t>(s.label);
    size_t above = 0, best = 0;
    for (size_t k = 0; k < s.scores.size(); ++k) {
      if (s.scores[k] > s.scores[best]) best = k;
      if (s.scores[k] > s.scores[truth] || (s.scores[k] == s.scores[truth] && k < truth)) ++above;
    }
    ++r.images;
    ++r.confusion[truth * classes.size() + best];
    if (above < 1) ++first;
    if (above < 5) ++five;
  }
  double n = static_cast<double>(std::max<int64_t>(r.images, 1));
  r.top1 = static_cast<double>(first) / n;
  r.top5 = static_cast<double>(five) / n;
  return r;
}

nlohmann::json ClassJson(const ClassReport& r) {
  return {{"metrics", {{"top1", r.top1}, {"top5", r.top5}}},
          {"images", r.images},
          {"confusion", ConfusionJson(r.classes, r.confusion)}};
}

void PrintClasses(const ClassReport& r) {
  std::vector<std::vector<std::string>> rows;
  for (size_t c = 0; c < r.classes.size() && r.classes.size() <= 100; ++c) {
    int64_t images = 0;
    for (size_t k = 0; k < r.classes.size(); ++k) images += r.confusion[c * r.classes.size() + k];
    double right = static_cast<double>(r.confusion[c * r.classes.size() + c]);
    rows.push_back({r.classes[c], std::to_string(images),
                    images > 0 ? Number(right / static_cast<double>(images)) : "-"});
  }
  rows.push_back({"all", std::to_string(r.images), Number(r.top1)});
  PrintTable({"CLASS", "IMAGES", "TOP1"}, rows, 100);
  if (r.classes.size() > 5) fmt::print("top5 {}\n", Number(r.top5));
  PrintConfusion(r.classes, r.confusion);
}

void WriteClasses(const std::filesystem::path& out, const ClassReport& report,
                  const std::vector<train::ClassScores>& scores) {
  WriteFileAtomic(out / "confusion.csv", ConfusionCsv(report.classes, report.confusion));
  std::string text = "file,label,first,score\n";
  for (const train::ClassScores& s : scores) {
    auto best = std::max_element(s.scores.begin(), s.scores.end());
    text += fmt::format(
        "{},{},{},{}\n", CsvCell(s.file), CsvCell(report.classes[static_cast<size_t>(s.label)]),
        CsvCell(report.classes[static_cast<size_t>(best - s.scores.begin())]), *best);
  }
  WriteFileAtomic(out / "predictions.csv", text);
}

std::string CocoResultsJson(const train::Detections& d) {
  std::string out = "[";
  for (size_t i = 0; i < d.size(); ++i) {
    const double* b = &d.boxes[4 * i];
    out += fmt::format(
        "{}\n{{\"image_id\": {}, \"category_id\": {}, \"bbox\": [{}, {}, {}, {}], \"score\": {}}}",
        i == 0 ? "" : ",", d.image_ids[i], d.category_ids[i], b[0], b[1], b[2], b[3], d.scores[i]);
  }
  return out + "\n]\n";
}

std::string ConfusionCsv(const std::vector<std::string>& names,
                         const std::vector<int64_t>& counts) {
  std::string out = "true";
  for (const std::string& name : names) out += "," + CsvCell(name);
  out += '\n';
  for (size_t r = 0; r < names.size(); ++r) {
    out += CsvCell(names[r]);
    for (size_t c = 0; c < names.size(); ++c)
      out += fmt::format(",{}", counts[r * names.size() + c]);
    out += '\n';
  }
  return out;
}

}  // namespace xp::cli
