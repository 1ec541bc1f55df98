// `exp checkout`: the tree that ran, again.
#include "exp/snapshot/checkout.h"

#include <fmt/format.h>

#include <memory>

#include "exp/base/printable.h"
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
  for (const std::string& text : report.missing) fmt::print("not as it was: {}\n", Printable(text));
}

}  // namespace

void AddCheckoutCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("checkout", "build the source tree of a run again");
  command.AddOption("run", options->run, "id, beginning of one, name, @ (newest), @~1").Required();
  command.AddOption("folder", options->folder, "absent or empty, or a clean clone").Required();
  command.AddOption("--repo", options->repository, "a clone that has the commit");
  command.AddOption("--store", options->store, "folder of the store");
  command.Footer("Example: exp checkout @ /tmp/as-it-was");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
