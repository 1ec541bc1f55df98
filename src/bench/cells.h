// What the tables of a terminal, Markdown, CSV and HTML have in common: a row's cells as text;
// private to src/bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/bench/row.h"

namespace xp::bench {

struct Column {
  const char* name;
  std::string (*text)(const Row&);
};
// Of Markdown and HTML, in their order; those that no row has anything in are left out.
std::vector<const Column*> UsedColumns(const std::vector<Row>& rows);

// Empty for a number that wasn't measured.
std::string NumberText(double value, int digits);
std::string GibText(uint64_t bytes);
std::string ModelText(const Case& c);      // "resnet50 from JPEGs", "loader"
std::string BatchText(const Case& c);      // "32", "240 max"
std::string PrecisionText(const Case& c);  // empty for a loader
std::string CaseText(const Case& c);       // all of these and the mode
std::string TimeText(int64_t ns);          // "2026-12-02T23:08:56Z"; empty for 0
std::string TflopText(const Row& row);     // TFLOP/s and TB/s of any size
std::string TbText(const Row& row);
std::string WattText(const Row& row);   // img/s/W
std::string SpeedText(const Row* row);  // img/s or the status; "-" for null
std::string RatioText(double ratio);    // empty for 0: there is none
std::string NoteText(const Row& row);   // what held the clocks down, outliers, the reason

std::string Joined(const std::vector<std::string>& words);  // with commas
std::string OneLine(std::string text);
std::string MarkdownCell(const std::string& text);  // one line, and no HTML

}  // namespace xp::bench
