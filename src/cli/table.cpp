#include "src/cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace xp::cli {

size_t Width(const std::string& text) {
  size_t n = 0;
  for (unsigned char c : text) n += (c & 0xC0) != 0x80;
  return n;
}

std::string Cut(const std::string& text, size_t limit) {
  std::string out;
  size_t n = 0;
  bool cut = Width(text) > limit;
  size_t keep = cut && limit > 3 ? limit - 3 : limit;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xC0) != 0x80 && ++n > keep) break;
    const bool space = c == '\n' || c == '\t';
    // U+0080 .. U+009F, which some terminals obey too, are 0xC2 0x80 .. 0xC2 0x9F.
    const bool c1 =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    out += space ? ' ' : c1 || c < 0x20 || c == 0x7f ? '?' : text[i];
  }
  return cut ? out + "..." : out;
}

void PrintTable(const std::vector<std::string>& header,
                const std::vector<std::vector<std::string>>& rows, size_t limit) {
  std::vector<size_t> widths;
  std::vector<std::string> heads;  // names of metrics, too
  for (const std::string& h : header) {
    heads.push_back(Cut(h, limit));
    widths.push_back(Width(heads.back()));
  }
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (size_t c = 0; c < header.size(); ++c) {
      line.push_back(c < row.size() ? Cut(row[c], limit) : "");
      widths[c] = std::max(widths[c], Width(line[c]));
    }
  }
  auto print = [&](const std::vector<std::string>& line) {
    std::string out;
    for (size_t c = 0; c < line.size(); ++c) {
      out += line[c];
      if (c + 1 < line.size()) out.append(widths[c] + 2 - Width(line[c]), ' ');
    }
    out.erase(out.find_last_not_of(' ') + 1);
    fmt::print("{}\n", out);
  };
  print(heads);
  for (const auto& line : cells) print(line);
}

std::string Plot(const std::vector<double>& values, size_t width, size_t height) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> finite;
  for (double v : values) {
    if (std::isfinite(v)) finite.push_back(v);
  }
  if (finite.empty()) return "";
  width = std::min(width, values.size());
  // Each column is the mean of its share; a column without a finite value stays empty.
  std::vector<double> columns(width, std::nan(""));
  for (size_t c = 0; c < width; ++c) {
    size_t begin = c * values.size() / width,
           end = std::max(begin + 1, (c + 1) * values.size() / width);
    double sum = 0;
    int count = 0;
    for (size_t i = begin; i < end; ++i) {
      if (std::isfinite(values[i])) sum += values[i], ++count;
    }
    if (count > 0) columns[c] = sum / count;
  }
  double low = *std::min_element(finite.begin(), finite.end());
  double high = *std::max_element(finite.begin(), finite.end());
  double range = high > low ? high - low : 1;
  std::string out;
  for (size_t row = 0; row < height; ++row) {
    std::string label = row == 0            ? fmt::format("{:.4g}", high)
                        : row + 1 == height ? fmt::format("{:.4g}", low)
                                            : "";
    out += fmt::format("  {:>10} |", label);
    for (double v : columns) {
      double level =
          std::isnan(v) ? -1 : (v - low) / range * static_cast<double>(height * 8 - 1) + 1;
      double here = level - static_cast<double>((height - 1 - row) * 8);
      out += kBlocks[static_cast<int>(std::clamp(here, 0.0, 8.0))];
    }
    out += '\n';
  }
  return out;
}

}  // namespace xp::cli
