// Rows as tables: for a terminal, Markdown, CSV and an HTML page; and two calls side by side.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exp/bench/row.h"

namespace xp::bench {

// The head of a table and a row of it, in columns of fixed width.
std::string HeadLine();
std::string RowLine(const Row& row);
// Times by kind of operation, then the twenty longest operations; several lines.
std::string ProfileText(const Row& row);

// What stands above a table: name and text ("device", "NVIDIA H200, ...").
using Facts = std::vector<std::pair<std::string, std::string>>;

std::string Markdown(const Facts& facts, const std::vector<Row>& rows);
std::string Csv(const std::vector<Row>& rows);
// One page without scripts or other files, with bars, that prints well.
std::string Html(const std::string& title, const Facts& facts, const std::vector<Row>& rows);

// What two machines or versions differ in; "-" where one tells nothing.
struct Difference {
  std::string name, a, b;
};
std::vector<Difference> Differences(const Facts& a, const Facts& b);

// Cases that both have, and what one of them lacks.
struct Pair {
  std::string key;
  const Row* a = nullptr;
  const Row* b = nullptr;
  double ratio = 0;  // b / a of img/s; 0 where one has none
};
std::vector<Pair> PairUp(const std::vector<Row>& a, const std::vector<Row>& b);
// "1.24 x" geometric mean over pairs that both measured; 0 where there is none.
double MeanRatio(const std::vector<Pair>& pairs);
std::string CompareText(const std::string& name_a, const std::string& name_b,
                        const std::vector<Pair>& pairs);
std::string CompareMarkdown(const std::string& name_a, const std::string& name_b,
                            const std::vector<Pair>& pairs);

std::string CompareCsv(const std::string& name_a, const std::string& name_b,
                       const std::vector<Pair>& pairs);
std::string CompareHtml(const std::string& name_a, const std::string& name_b,
                        const std::vector<Difference>& differences, const std::vector<Pair>& pairs);

}  // namespace xp::bench
