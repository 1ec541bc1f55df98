// `exp checkout`: the tree that ran, again.
#include "exp/snapshot/checkout.h"

#include <fmt/format.h>

#include <memory>

#include "exp/record/reader.h"
#include "src/cli/command.h"

namespace xp::cli {
namespace {

struct Options {
  std::string store, run, folder, repository;
};

void Run(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  record::Run run = record::LoadRun(store, record::ResolveRun(store, options.run));
  snapshot::CheckoutReport report = snapshot::RebuildTree(
      run.code_json, [&](const std::string& hash) { return record::LoadObject(store, hash); },
      options.repository, options.folder);
  fmt::print("{} files, {} bytes in {}\n", report.files, report.bytes, options.folder);
  for (const std::string& text : report.missing) fmt::print("not as it was: {}\n", text);
}

}  // namespace

void AddCheckoutCommand(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("checkout", "build the source tree of a run again");
  command->add_option("run", options->run, "id, beginning of one, name, @ (newest), @~1")
      ->required();
  command->add_option("folder", options->folder, "absent or empty, or a clean clone")->required();
  command->add_option("--repo", options->repository, "a clone that has the commit");
  command->add_option("--store", options->store, "folder of the store");
  command->footer("Example: exp checkout @ /tmp/as-it-was");
  command->callback([options] { Run(*options); });
}

}  // namespace xp::cli
