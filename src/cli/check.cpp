// `exp check`: what can be said about configs without training.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

#include "exp/base/error.h"
#include "exp/config/canonical.h"
#include "exp/config/check.h"
#include "exp/config/reader.h"
#include "exp/data/coco.h"
#include "exp/data/image_list.h"
#include "exp/models/model.h"
#include "exp/train/schedule.h"
#include "exp/train/update.h"
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

// Reads a part of the config as a run would. What it refuses is an error, what it never asked for
// under `keys` a warning.
void ReadPart(const config::Resolved& resolved, const char* part, const char* reads,
              const std::vector<std::string>& keys,
              const std::function<void(const config::Reader&)>& read,
              std::vector<config::Finding>& findings) {
  config::Reader reader(resolved.root);
  try {
    read(reader);
  } catch (const Error& error) {
    findings.push_back({part, config::Level::kError, part, error.text().where, error.text().what,
                        error.text().next});
    return;
  }
  for (const config::UnusedKey& key : reader.UnusedKeys()) {
    bool own = std::any_of(keys.begin(), keys.end(),
                           [&](const std::string& begin) { return key.path.starts_with(begin); });
    if (!own) continue;
    findings.push_back({"unused-key", config::Level::kWarning, key.path, key.where,
                        fmt::format("{} never reads `{}`", reads, key.path),
                        "remove it, or check its spelling and place"});
  }
}

// Model, optimizer and schedule, as a run reads them.
void ReadParts(const config::Resolved& resolved, std::vector<config::Finding>& findings) {
  for (const config::Finding& finding : findings) {
    if (finding.rule == "schema") return;  // the builder would only repeat it
  }
  if (resolved.root.Has("model")) {
    ReadPart(
        resolved, "model", "the model", {"model."},
        [](const config::Reader& reader) { models::CreateModel(reader.Child("model")); }, findings);
  }
  if (resolved.root.At("optimizer.lr") == nullptr) return;
  ReadPart(
      resolved, "optimizer", "training by this optimizer and schedule",
      {"optimizer.", "lr_config."},
      [](const config::Reader& reader) {
        train::ReadOptimizer(reader);
        // How many steps an epoch has depends on the data; what is out of range doesn't.
        constexpr int64_t kSteps = 1000;
        const int64_t epochs = std::clamp<int64_t>(reader.Int("runner.max_epochs", 1), 1, 1000000);
        train::Schedule(train::ReadSchedule(reader, epochs, kSteps));
      },
      findings);
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
    fmt::print("{} file{} checked: {} errors, {} warnings\n", options.files.size(),
               options.files.size() == 1 ? "" : "s", errors, warnings);
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
  command.AddOption("--devices", options->devices,
                    "how many devices the run will use (default 1, or what the name says: 8xb2)");
  command.AddFlag("--json", options->json,
                  "a list of {file, rule, level, path, where, message, next}");
  command.AddFlag("--strict", options->strict, "warnings fail too");
  command.Footer(
      "Silence a rule on a line with `# exp: ignore[rule]`.\nExample:\n  exp check configs/*.yaml "
      "--devices 4");
  command.Callback([options, &context] { Run(*options, context); });
}

}  // namespace xp::cli
