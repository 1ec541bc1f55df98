// `exp rm`, `exp gc`, `exp verify`: taking runs away, giving space back, checking what is stored.
#include "exp/record/maintain.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/run_json.h"

namespace xp::cli {
namespace {

struct Options {
  std::string store;
  std::vector<std::string> runs;
  bool as_json = false, dry_run = false, checkpoints = false;
};

void Remove(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  std::vector<int64_t> runs;
  for (const std::string& r : options.runs) runs.push_back(record::ResolveRun(store, r));
  std::vector<std::string> ids;
  for (int64_t seq : runs) ids.push_back(record::LoadRun(store, seq).id);
  record::RemoveRuns(store, runs);
  if (options.as_json) return fmt::print("{}\n", DumpJson({{"removed", ids}}));
  for (const std::string& id : ids) fmt::print("removed {}\n", id);
  fmt::print("`exp gc` gives the space back; checkpoints' files were left alone\n");
}

void Collect(const Options& options) {
  record::Store store = record::OpenFoundStore(options.store);
  record::GarbageReport r = record::CollectGarbage(store, options.dry_run);
  if (options.as_json) {
    return fmt::print("{}\n", DumpJson({{"objects", r.objects},
                                        {"documents", r.documents},
                                        {"bytes", r.bytes},
                                        {"closed", r.closed},
                                        {"dry_run", options.dry_run}}));
  }
  fmt::print("{} {} objects and {} documents, {} bytes\n",
             options.dry_run ? "would remove" : "removed", r.objects, r.documents, r.bytes);
  if (r.closed > 0) fmt::print("marked {} attempts of killed processes\n", r.closed);
}

void Verify(const Options& options, Context& context) {
  record::Store store = record::OpenFoundStore(options.store);
  record::VerifyReport r = record::VerifyStore(store, options.checkpoints);
  if (!r.problems.empty()) context.exit_code = 1;
  if (options.as_json) {
    return fmt::print("{}\n", DumpJson({{"objects", r.objects},
                                        {"documents", r.documents},
                                        {"checkpoints", r.checkpoints},
                                        {"problems", r.problems},
                                        {"notes", r.notes}}));
  }
  for (const std::string& p : r.problems) fmt::print("problem: {}\n", p);
  for (const std::string& n : r.notes) fmt::print("note: {}\n", n);
  fmt::print("{} objects and {} documents read, {} problems\n", r.objects, r.documents,
             r.problems.size());
}

}  // namespace

void AddRmCommand(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("rm", "remove runs from the store");
  command->add_option("runs", options->runs, "ids, names, @")->required();
  command->add_option("--store", options->store, "folder of the store");
  command->add_flag("--json", options->as_json, "for programs");
  command->footer("Example: exp rm @ && exp gc");
  command->callback([options] { Remove(*options); });
}

void AddGcCommand(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("gc", "give back the space of what no run needs");
  command->add_option("--store", options->store, "folder of the store");
  command->add_flag("--dry-run", options->dry_run, "only say what would go");
  command->add_flag("--json", options->as_json, "for programs");
  command->footer("Example: exp gc --dry-run");
  command->callback([options] { Collect(*options); });
}

void AddVerifyCommand(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("verify", "check the store: tables, and every object's hash");
  command->add_option("--store", options->store, "folder of the store");
  command->add_flag("--checkpoints", options->checkpoints, "also the files that checkpoints name");
  command->add_flag("--json", options->as_json, "for programs");
  command->footer("Example: exp verify --checkpoints");
  command->callback([options, &context] { Verify(*options, context); });
}

}  // namespace xp::cli
