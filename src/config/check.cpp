#include "exp/config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <regex>

#include "exp/base/error.h"
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

// Whether `text` has "WORD[a, rule]".
bool NamesRule(std::string_view text, std::string_view word, const std::string& rule) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    std::string_view list = text.substr(at + word.size());
    list = list.substr(0, list.find_first_of("]\n"));
    while (!list.empty()) {
      std::string_view name = list.substr(0, list.find(','));
      list.remove_prefix(std::min(list.size(), name.size() + 1));
      while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
      while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
      if (name == rule) return true;
    }
  }
  return false;
}

std::string_view LineOf(std::string_view text, int line) {
  size_t at = 0;
  for (int i = 1; i < line && at != std::string_view::npos; ++i) {
    at = text.find('\n', at);
    if (at != std::string_view::npos) ++at;
  }
  if (at == std::string_view::npos) return {};
  return text.substr(at).substr(0, text.substr(at).find('\n'));
}

// "# exp: ignore[rule]" on the line, "# exp: ignore-file[rule]" in the file.
bool Silenced(const Resolved& resolved, const Finding& finding) {
  if (!resolved.sources.empty() &&
      NamesRule(resolved.sources.front().content, "exp: ignore-file[", finding.rule))
    return true;
  for (const SourceFile& source : resolved.sources) {
    if (finding.where.rfind(source.path + ":", 0) != 0) continue;
    int line = 0;
    const char* digits = finding.where.c_str() + source.path.size() + 1;
    std::from_chars(digits, finding.where.c_str() + finding.where.size(), line);
    return NamesRule(LineOf(source.content, line), "exp: ignore[", finding.rule);
  }
  return false;
}

}  // namespace

bool IsOwnConfig(const Node& root, const std::string& path) {
  for (const char* key :
       {"train_dataloader", "val_dataloader", "test_dataloader", "default_scope", "default_hooks",
        "optim_wrapper", "param_scheduler", "dist_params", "workflow",
        "custom_imports",                                            // mmengine, mmcv
        "MODEL", "SOLVER", "DATASETS",                               // detectron2
        "architecture", "TrainReader", "TrainDataset", "metric"}) {  // PaddleDetection
    if (root.Has(key)) return false;
  }
  // mmcv's data parts, and their wrappers such as RepeatDataset.
  if (root.At("data.train.pipeline") != nullptr || root.At("data.train.dataset") != nullptr)
    return false;
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
  if (checker.own) Schema(checker);
  CheckLearningRate(checker);
  CheckSchedule(checker);
  CheckData(checker);
  if (checker.own && options.more) options.more(resolved, checker.findings);
  std::vector<Finding>& findings = checker.findings;
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [&](const Finding& f) { return Silenced(resolved, f); }),
                 findings.end());
  return std::move(findings);
}

}  // namespace xp::config
