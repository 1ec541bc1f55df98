// Rows as tables: for a terminal, Markdown, CSV and an HTML page; two calls side by side; and a
// case through all calls.
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

// A call of `exp bench`, with what tells its rows from those of others.
struct Call {
  std::string name, label;
  std::string machine;  // identity of the one that it was begun on
  Facts state;          // of machine and program: the same for all its rows
  Facts facts;          // what stands above its table
  std::vector<Row> rows;

  // For people: the label, which several may share, else the name; both.
  const std::string& Shown() const { return label.empty() ? name : label; }
  std::string Title() const { return label.empty() ? name : name + " (" + label + ")"; }
};

std::string Markdown(const Facts& facts, const std::vector<Row>& rows);
// One line a row, which also says when, on which machine and in which state it was measured.
std::string Csv(const std::vector<Call>& calls);
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
// The geometric mean of the ratios; 0 where there is none.
double MeanRatio(const std::vector<Pair>& pairs);
std::string CompareText(const std::string& name_a, const std::string& name_b,
                        const std::vector<Pair>& pairs);
std::string CompareMarkdown(const std::string& name_a, const std::string& name_b,
                            const std::vector<Difference>& differences,
                            const std::vector<Pair>& pairs);
std::string CompareCsv(const Call& a, const Call& b, const std::vector<Pair>& pairs);
std::string CompareHtml(const std::string& name_a, const std::string& name_b,
                        const std::vector<Difference>& differences, const std::vector<Pair>& pairs);

// A case through the calls: what each measured, the oldest first.
struct CaseHistory {
  struct Point {
    const Call* call;
    const Row* row;
    double ratio;  // of img/s to the oldest that there is; 0 where this one has none
  };
  std::string text;  // "resnet50 64 bf16 graph fused deterministic"
  std::vector<Point> points;
};
// By case, in the order in which they come first. `calls`: the newest first; of `models` alone
// where it isn't empty.
std::vector<CaseHistory> Through(const std::vector<Call>& calls,
                                 const std::vector<std::string>& models);
std::string HistoryMarkdown(const std::vector<Call>& calls, const std::vector<CaseHistory>& cases);
std::string HistoryHtml(const std::vector<Call>& calls, const std::vector<CaseHistory>& cases);

}  // namespace xp::bench
