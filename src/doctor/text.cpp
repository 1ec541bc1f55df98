#include "src/doctor/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "exp/base/utf8.h"

namespace xp::doctor {
namespace {

std::vector<int64_t> Parts(const std::string& version) {
  std::vector<int64_t> parts;
  for (size_t at = 0; at < version.size();) {
    size_t end = std::min(version.find('.', at), version.size());
    int64_t value = 0;
    std::from_chars(version.data() + at, version.data() + end, value);
    parts.push_back(value);
    at = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::string Trimmed(const std::string& text) {
  size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::string VersionAfter(const std::string& text, const std::string& mark) {
  size_t at = text.find(mark);
  if (at == std::string::npos) return "";
  at = text.find_first_of("0123456789", at + mark.size());
  if (at == std::string::npos) return "";
  size_t end = text.find_first_not_of("0123456789.", at);
  std::string version = text.substr(at, end == std::string::npos ? end : end - at);
  while (version.ends_with('.')) version.pop_back();
  return version;
}

std::string MajorOf(const std::string& version) { return version.substr(0, version.find('.')); }

int CompareVersions(const std::string& a, const std::string& b) {
  std::vector<int64_t> x = Parts(a), y = Parts(b);
  for (size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
    int64_t left = i < x.size() ? x[i] : 0, right = i < y.size() ? y[i] : 0;
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

std::string Gib(double bytes) {
  double gib = bytes / (1u << 30);
  if (bytes < (1u << 20)) return fmt::format("{:.1f} KiB", bytes / 1024);
  if (gib < 0.1) return fmt::format("{:.1f} MiB", bytes / (1u << 20));
  return gib < 100 ? fmt::format("{:.1f} GiB", gib) : fmt::format("{:.0f} GiB", gib);
}

Finding Shortened(Finding finding) {
  constexpr size_t kMost = 2000;
  for (std::string* text : {&finding.found, &finding.needed, &finding.why, &finding.fix})
    *text = Abridged(*text, kMost);
  return finding;
}

std::string Listed(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return out;
}

}  // namespace xp::doctor
