// `exp config`: resolves a config and prints it, nothing else.
#include <fmt/format.h>

#include <memory>

#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/config/canonical.h"
#include "exp/config/explain.h"
#include "exp/config/load.h"
#include "src/cli/command.h"
#include "src/cli/tell.h"

namespace xp::cli {
namespace {

struct Options {
  std::string file;
  std::vector<std::string> set;
  std::vector<std::string> set_files;
  std::vector<std::string> search_paths;
  std::string format = "yaml";
  std::string explain;
  std::string diff;
  bool hash = false;
  Argument explain_flag;
};

void PrintWarnings(const config::Resolved& resolved) {
  for (const config::Notice& notice : resolved.warnings) {
    Tell("warning: {}{}{} [{}]\n", notice.where, notice.where.empty() ? "" : ": ", notice.message,
         notice.code);
  }
}

void Run(const Options& options) {
  config::LoadOptions load;
  load.search_paths = options.search_paths;
  auto [set, places] = config::OverridesFromFiles(options.set_files);
  load.override_places = std::move(places);
  set.insert(set.end(), options.set.begin(), options.set.end());
  config::Resolved resolved = config::Load(options.file, set, load);
  PrintWarnings(resolved);
  if (!options.diff.empty()) {
    fmt::print("{}", config::Difference(resolved, config::Load(options.diff, {}, load)));
  } else if (options.explain_flag.given()) {
    fmt::print("{}", options.explain.empty() ? config::ExplainAll(resolved)
                                             : config::Explain(resolved, options.explain));
  } else if (options.hash) {
    fmt::print("{}\n", config::Identity(resolved.root).Hex());
  } else if (options.format == "canonical") {
    fmt::print("{}\n", config::CanonicalJson(resolved.root));
  } else {
    fmt::print("{}", options.format == "json" ? config::PrettyJson(resolved.root)
                                              : config::PrettyYaml(resolved.root));
  }
}

}  // namespace

void AddConfigCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command =
      app.AddCommand("config", "resolve a config and print it, or say where values came from");
  command.AddOption("file", options->file, "the config: .yaml, .json, .toml or .py").Required();
  command
      .AddOption("--set", options->set,
                 "KEY=VALUE changes, +KEY=VALUE adds, ~KEY deletes, KEY+=[VALUE] appends")
      .OneEachTime()
      .Placeholder("K=V");
  command
      .AddOption("--set-file", options->set_files,
                 "file with one override a line; # begins a comment")
      .OneEachTime();
  command
      .AddOption("--search-path", options->search_paths,
                 "folder in which pkg:: bases are looked up")
      .OneEachTime();
  command
      .AddOption("--format", options->format, "yaml, json or canonical (what the hash is taken of)")
      .OneOf({"yaml", "json", "canonical"});
  options->explain_flag =
      command.AddOption("--explain", options->explain, "history of KEY, or of every value")
          .Words(0, 1)
          .Placeholder("[KEY]");
  command.AddFlag("--hash", options->hash, "print the config's identity only");
  command.AddOption("--diff", options->diff, "print what differs in another config, and why");
  command.Footer(
      "Example:\n  exp config configs/quickstart.yaml --set optimizer.lr=0.01 --explain "
      "optimizer.lr");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
