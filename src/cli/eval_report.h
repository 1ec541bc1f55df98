// What `exp eval` prints and writes.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "exp/data/image_list.h"
#include "exp/train/coco_eval.h"
#include "exp/train/confusion.h"
#include "exp/train/inference.h"

namespace xp::cli {

nlohmann::json BboxJson(const train::CocoResult& result, const train::Confusion& confusion);
void PrintBbox(const train::CocoResult& result, const train::Confusion& confusion);
// precision.csv, confusion.csv and detections.json (COCO's results format).
void WriteBbox(const std::filesystem::path& out, const train::CocoResult& result,
               const train::Confusion& confusion, const train::Detections& detections);

// The share of right answers among the first one and five, and the confusion of classes.
struct ClassReport {
  std::vector<std::string> classes;
  double top1 = 0, top5 = 0;
  int64_t images = 0;
  std::vector<int64_t> confusion;  // [true, first answer]
};
ClassReport ReportOf(const std::vector<train::ClassScores>& scores,
                     const std::vector<std::string>& classes);
nlohmann::json ClassJson(const ClassReport& report);
void PrintClasses(const ClassReport& report);
void WriteClasses(const std::filesystem::path& out, const ClassReport& report,
                  const std::vector<train::ClassScores>& scores);

// [{"image_id", "category_id", "bbox": [x, y, w, h], "score"}], one a line.
std::string CocoResultsJson(const train::Detections& detections);
std::string ConfusionCsv(const std::vector<std::string>& names, const std::vector<int64_t>& counts);

}  // namespace xp::cli
