// `exp rm`, `exp gc`, `exp verify`: taking runs away, giving space back, checking what is stored.
#include "exp/record/maintain.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/printable.h"
#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/long_work.h"
#include "src/cli/run_json.h"

namespace xp::cli {
namespace {

struct Options {
  std::string store;
  std::vector<std::string> runs;
  bool as_json = false, dry_run = false, checkpoints = false;
};

void Remove(const Options& options) {
  record::Store store = record::OpenFoundStoreToRemove(options.store);
  std::vector<int64_t> runs;
  runs.reserve(options.runs.size());
  for (const std::string& r : options.runs) runs.push_back(record::ResolveRun(store, r));
  std::vector<std::string> ids;
  ids.reserve(runs.size());
  for (int64_t seq : runs) ids.push_back(record::LoadRun(store, seq).id);
  record::RemoveRuns(store, runs);
  if (options.as_json) return fmt::print("{}\n", DumpJson({{"removed", ids}}));
  for (const std::string& id : ids) fmt::print("removed {}\n", id);
  fmt::print("`exp gc` gives the space back; checkpoints' files were left alone\n");
}

void Collect(const Options& options) {
  record::Store store = record::OpenFoundStoreToRemove(options.store);
  record::GarbageReport r = record::CollectGarbage(store, options.dry_run);
  if (options.as_json) {
    return fmt::print("{}\n", DumpJson({{"objects", r.objects},
                                        {"documents", r.documents},
                                        {"bytes", r.bytes},
                                        {"unfinished", r.unfinished},
                                        {"closed", r.closed},
                                        {"dry_run", options.dry_run}}));
  }
  std::string files = r.unfinished == 0
                          ? ""
                          : fmt::format(", {} file{} that killed processes left half written",
                                        r.unfinished, r.unfinished == 1 ? "" : "s");
  fmt::print("{} {} objects and {} documents{}, {} bytes\n",
             options.dry_run ? "would remove" : "removed", r.objects, r.documents, files, r.bytes);
  if (r.closed > 0) fmt::print("marked {} attempts of killed processes\n", r.closed);
}

void Verify(const Options& options, Context& context) {
  record::Store store = record::OpenFoundStore(options.store);
  record::VerifyReport r;
  {
    LongWork shown("hashing", "checkpoints");
    r = record::VerifyStore(store, options.checkpoints, shown.Reporter());
  }
  if (!r.problems.empty()) context.exit_code = 1;
  if (options.as_json) {
    return fmt::print("{}\n", DumpJson({{"objects", r.objects},
                                        {"documents", r.documents},
                                        {"checkpoints", r.checkpoints},
                                        {"problems", r.problems},
                                        {"notes", r.notes}}));
  }
  for (const std::string& p : r.problems) fmt::print("problem: {}\n", Printable(p, true));
  for (const std::string& n : r.notes) fmt::print("note: {}\n", Printable(n, true));
  fmt::print("{} objects and {} documents read, {} problems\n", r.objects, r.documents,
             r.problems.size());
}

}  // namespace

void AddRmCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("rm", "remove runs from the store");
  command.AddOption("runs", options->runs, "ids, names, @").Required();
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--json", options->as_json, "for programs");
  command.Footer("Example: exp rm @ && exp gc");
  command.Callback([options] { Remove(*options); });
}

void AddGcCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("gc", "give back the space of what no run needs");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--dry-run", options->dry_run, "only say what would go");
  command.AddFlag("--json", options->as_json, "for programs");
  command.Footer("Example: exp gc --dry-run");
  command.Callback([options] { Collect(*options); });
}

void AddVerifyCommand(Command app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("verify", "check the store: tables, and every object's hash");
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--checkpoints", options->checkpoints, "also the files that checkpoints name");
  command.AddFlag("--json", options->as_json, "for programs");
  command.Footer("Example: exp verify --checkpoints");
  command.Callback([options, &context] { Verify(*options, context); });
}

}  // namespace xp::cli
