// `exp check`: what can be said about configs without training.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/check.h"
#include "exp/data/coco.h"
#include "exp/data/image_list.h"
#include "exp/train/config_check.h"
#include "src/cli/command.h"

namespace xp::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> set;
  std::vector<std::string> search_paths;
  int64_t devices = 0;
  bool json = false;
  bool strict = false;
};

std::optional<config::DataFacts> ReadFacts(const std::string& path,
                                           const std::vector<std::string>& classes) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    data::ImageList list = data::ListImageFolder(path, classes);
    return config::DataFacts{list.classes, static_cast<int64_t>(list.files.size())};
  }
  if (!path.ends_with(".json") || !std::filesystem::exists(path, error)) return std::nullopt;
  data::CocoOptions options;
  options.classes = classes;
  options.policy = data::Policy::kIgnore;
  data::CocoDataset dataset = data::LoadCoco(path, options);
  config::DataFacts facts;
  for (const data::Category& category : dataset.categories) facts.classes.push_back(category.name);
  facts.images = static_cast<int64_t>(dataset.images.size());
  return facts;
}

// Model, data, optimizer and the rest, as a run reads them.
void ReadParts(const config::Resolved& resolved, std::vector<config::Finding>& findings) {
  for (const config::Finding& finding : findings) {
    if (finding.rule == "schema") return;  // the builder would only repeat it
  }
  for (config::Finding& finding : train::CheckConfig(resolved.root)) {
    // Told in the words of the metric's own rule.
    const bool known = std::any_of(findings.begin(), findings.end(), [&](const auto& other) {
      return other.where == finding.where && other.rule == "metric-model";
    });
    if (!known) findings.push_back(std::move(finding));
  }
}

config::Node ToJson(const std::string& file, const config::Finding& finding) {
  config::Node line = config::Node::Dict();
  line.Set("file", config::Node(file));
  line.Set("rule", config::Node(finding.rule));
  line.Set("level", config::Node(config::LevelName(finding.level)));
  line.Set("path", config::Node(finding.path));
  line.Set("where", config::Node(finding.where));
  line.Set("message", config::Node(finding.message));
  line.Set("next", config::Node(finding.next));
  return line;
}

void Run(const Options& options, Context& context) {
  config::LoadOptions load;
  load.search_paths = options.search_paths;
  config::CheckOptions check;
  check.devices = options.devices > 0 ? options.devices : 1;
  check.devices_given = options.devices > 0;
  check.facts = ReadFacts;
  check.more = ReadParts;
  size_t errors = 0;
  size_t warnings = 0;
  config::Node all = config::Node::List();
  for (const std::string& file : options.files) {
    std::vector<config::Finding> findings;
    try {
      findings = config::Check(config::Load(file, options.set, load), file, check);
    } catch (const Error& error) {
      findings.push_back({"load", config::Level::kError, "", error.text().where, error.text().what,
                          error.text().next});
    }
    for (const config::Finding& finding : findings) {
      errors += finding.level == config::Level::kError ? 1 : 0;
      warnings += finding.level == config::Level::kWarning ? 1 : 0;
      if (options.json) {
        all.Append(ToJson(file, finding));
        continue;
      }
      fmt::print("{}: {}: {} [{}]\n", finding.where.empty() ? file : finding.where,
                 config::LevelName(finding.level), finding.message, finding.rule);
      if (!finding.next.empty()) fmt::print("  next: {}\n", finding.next);
    }
  }
  if (options.json) {
    fmt::print("{}", config::PrettyJson(all));
  } else {
    const auto s = [](size_t count) { return count == 1 ? "" : "s"; };
    fmt::print("{} file{} checked: {} error{}, {} warning{}\n", options.files.size(),
               s(options.files.size()), errors, s(errors), warnings, s(warnings));
  }
  if (errors > 0 || (options.strict && warnings > 0))
    context.exit_code = static_cast<int>(ErrorKind::kUsage);
}

}  // namespace

void AddCheckCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("check", "find what is wrong with configs, without training");
  command.AddOption("files", options->files, "configs").Required();
  command.AddOption("--set", options->set, "override, as for exp config")
      .OneEachTime()
      .Placeholder("K=V");
  command
      .AddOption("--search-path", options->search_paths,
                 "folder in which pkg:: bases are looked up")
      .OneEachTime();
  command
      .AddOption("--devices", options->devices,
                 "how many devices the run will use (default 1, or what the name says: 8xb2)")
      .Range(1, 65536);
  command.AddFlag("--json", options->json,
                  "a list of {file, rule, level, path, where, message, next}");
  command.AddFlag("--strict", options->strict, "warnings fail too");
  command.Footer(
      "Silence a rule on a line with `# exp: ignore[rule]`.\nExample:\n  exp check configs/*.yaml "
      "--devices 4");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
