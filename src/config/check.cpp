#include "exp/config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string_view>
#include <utility>

#include "exp/base/error.h"
#include "exp/config/foreign.h"
#include "exp/config/schema.h"
#include "src/config/checker.h"

namespace xp::config {
namespace {

// What reading the files already said, under the same names.
void Loading(Checker& checker) {
  for (const Notice& notice : checker.resolved.warnings) {
    checker.findings.push_back(
        {notice.code, Level::kWarning, "", notice.where, notice.message, ""});
  }
  for (const Dropped& dropped : checker.resolved.dropped) {
    if (!dropped.value.IsNull() || dropped.by.line == 0) continue;
    checker.findings.push_back(
        {"leftover-delete", Level::kWarning, dropped.path, dropped.by.Text(),
         fmt::format("`_delete_` in `{}` deletes nothing: the bases have no such key",
                     dropped.path),
         "remove it; mmengine would pass it on as an argument"});
  }
}

void Schema(Checker& checker) {
  for (const Problem& problem : Validate(checker.root)) {
    std::string message = problem.what;
    if (!problem.expected.empty()) message += "; expected " + problem.expected;
    checker.findings.push_back(
        {"schema", Level::kError, problem.path, problem.where, message, problem.next});
  }
}

// What comments silence: "# exp: ignore[rule, rule]" on a line, "# exp: ignore-file[rule]" in the
// config's own file. The files are looked through once, however many findings there are.
class Silences {
 public:
  explicit Silences(const Resolved& resolved) {
    for (const SourceFile& source : resolved.sources) {
      Read(source, &source == &resolved.sources.front());
    }
  }

  // `where` of a finding is "file:line:column" or "file:line".
  bool Cover(const Finding& finding) const {
    const std::string line = finding.where.substr(0, finding.where.rfind(':'));
    return file_.count(finding.rule) > 0 || lines_.count({finding.where, finding.rule}) > 0 ||
           lines_.count({line, finding.rule}) > 0;
  }

 private:
  void Read(const SourceFile& source, bool own) {
    constexpr std::string_view kMark = "exp: ignore", kLine = "[", kFile = "-file[";
    const std::string_view text = source.content;
    int line = 1;
    size_t counted = 0;
    for (size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at + 1)) {
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                          text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
      counted = at;
      const std::string_view rest = text.substr(at + kMark.size());
      if (rest.starts_with(kLine)) {
        const std::string where = fmt::format("{}:{}", source.path, line);
        for (std::string& rule : Rules(rest.substr(kLine.size())))
          lines_.emplace(where, std::move(rule));
      } else if (own && rest.starts_with(kFile)) {
        for (std::string& rule : Rules(rest.substr(kFile.size()))) file_.insert(std::move(rule));
      }
    }
  }

  // "a, b]..." as a list.
  static std::vector<std::string> Rules(std::string_view list) {
    list = list.substr(0, list.find_first_of("]\n"));
    std::vector<std::string> rules;
    while (!list.empty()) {
      std::string_view name = list.substr(0, list.find(','));
      list.remove_prefix(std::min(list.size(), name.size() + 1));
      while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
      while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
      rules.emplace_back(name);
    }
    return rules;
  }

  std::set<std::string> file_;
  std::set<std::pair<std::string, std::string>> lines_;  // "file:line" and rule
};

}  // namespace

bool IsOwnConfig(const Node& root, const std::string& path) {
  if (FindForeignKey(root)) return false;
  // A part of somebody's Python config says too little to be held against exp's schema.
  return std::filesystem::path(path).extension() != ".py" ||
         (root.Has("model") && root.Has("data"));
}

void Checker::Add(const char* rule, Level level, const std::string& at, const std::string& message,
                  const std::string& next) {
  const Node* node = at.empty() ? nullptr : root.At(at);
  findings.push_back({rule, level, at, node == nullptr ? "" : SetAt(*node), message, next});
}

int64_t Checker::Int(const char* at, int64_t fallback) const {
  const Node* node = root.At(at);
  return node != nullptr && node->IsInt() ? node->AsInt() : fallback;
}

bool Checker::Flag(const char* at) const {
  const Node* node = root.At(at);
  return node != nullptr && node->IsBool() && node->AsBool();
}

std::string Checker::Text(const char* at) const {
  const Node* node = root.At(at);
  return node != nullptr && node->IsString() ? node->AsString() : "";
}

std::optional<DataFacts> Checker::Facts(const std::string& part) {
  std::string at = part + ".ann_file";
  std::string file = Text(at.c_str());
  if (file.empty() && Text((part + ".type").c_str()) == "ImageFolder") {
    at = part + ".img_prefix";
    file = Text(at.c_str());
  }
  if (!options.facts || file.empty()) return std::nullopt;
  auto known = facts_of.find(file);
  if (known != facts_of.end()) return known->second;
  std::optional<DataFacts>& facts = facts_of[file];
  try {
    return facts = options.facts(file, {});
  } catch (const Error& error) {
    Add("classes", Level::kError, at, error.text().what, error.text().next);
    return std::nullopt;
  }
}

const DataFacts* Checker::TrainFacts() {
  if (!looked_for_facts) {
    looked_for_facts = true;
    train_facts = Facts("data.train");
  }
  return train_facts ? &*train_facts : nullptr;
}

std::vector<std::pair<std::string, const Node*>> Checker::Schedulers() const {
  std::vector<std::pair<std::string, const Node*>> found;
  const Node* list = root.Find("param_scheduler");
  if (list == nullptr) return found;
  if (list->IsDict()) found.emplace_back("param_scheduler", list);
  for (size_t i = 0; list->IsList() && i < list->size(); ++i) {
    if ((*list)[i].IsDict()) found.emplace_back(fmt::format("param_scheduler.{}", i), &(*list)[i]);
  }
  return found;
}

bool Checker::Named(int64_t* devices, int64_t* samples) const {
  static const std::regex kPattern("(?:^|[_-])(\\d{1,4})xb(\\d{1,5})(?:[_-]|$)");
  std::smatch match;
  std::string stem = std::filesystem::path(path).stem().string();
  if (!std::regex_search(stem, match, kPattern)) return false;
  *devices = std::stoll(match[1]);
  *samples = std::stoll(match[2]);
  return true;
}

std::string Checker::LrPath() const {
  for (const char* at : {"optimizer.lr", "optim_wrapper.optimizer.lr"}) {
    if (root.At(at) != nullptr) return at;
  }
  return "";
}

std::string SetAt(const Node& node) {
  return node.history() != nullptr ? node.history()->at.Text() : node.Where();
}

std::vector<Node> Elements(const Node& node) {
  return node.IsList() ? node.items() : std::vector<Node>{node};
}

const char* LevelName(Level level) {
  return level == Level::kError ? "error" : level == Level::kWarning ? "warning" : "info";
}

std::vector<Finding> Check(const Resolved& resolved, const std::string& path,
                           const CheckOptions& options) {
  Checker checker{resolved, resolved.root, path, options};
  checker.own = IsOwnConfig(resolved.root, path);
  Loading(checker);
  if (checker.own) {
    Schema(checker);
  } else if (std::optional<ForeignKey> foreign = FindForeignKey(resolved.root)) {
    checker.Add("foreign", Level::kInfo, foreign->path,
                fmt::format("a config of {}: only what it says of learning rate, schedule, classes "
                            "and metric is checked",
                            foreign->project));
  }
  CheckLearningRate(checker);
  CheckSchedule(checker);
  CheckData(checker);
  if (checker.own && options.more) options.more(resolved, checker.findings);
  std::vector<Finding>& findings = checker.findings;
  const Silences silences(resolved);
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [&](const Finding& f) { return silences.Cover(f); }),
                 findings.end());
  return std::move(findings);
}

}  // namespace xp::config
