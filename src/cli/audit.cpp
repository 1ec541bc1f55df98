// `exp audit`: which run made this file, with which parameters, and how to get it again.
#include "exp/record/audit.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/printable.h"
#include "exp/record/reader.h"
#include "src/cli/command.h"
#include "src/cli/run_json.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::cli {
namespace {

struct Options {
  std::string store, target;
  bool as_json = false;
};

bool IsHash(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void PrintParameters(const record::Run& r) {
  fmt::print("\nparameters and where each was set\n");
  size_t width = 0;
  for (const record::ConfigValue& v : r.config)
    width = std::max(width, std::min<size_t>(v.path.size(), 50));
  for (const record::ConfigValue& v : r.config) {
    fmt::print("  {:<{}}  {:<24}  {}\n", v.path, width, record::Show(record::JsonText{v.value}, 60),
               v.origin);
  }
}

void PrintRun(const record::Run& r, const record::Provenance& p) {
  fmt::print("made by run  {}  {}  ({}, {})\n", r.id, r.name, r.state,
             record::ShowTime(r.created_ns));
  fmt::print("after epoch  {} (step {})\n", p.epoch + 1, p.step);
  if (!p.recorded_path.empty()) fmt::print("written as   {}\n", p.recorded_path);
  fmt::print("config       {}  identity {}\n", r.config_file, r.config_hash);
  json code = json::parse(r.code_json, nullptr, false);
  if (code.is_object() && code.value("kind", "") == "git") {
    const json& repo = code["repositories"][0];
    fmt::print("code         {}{}\n", repo.value("commit", ""),
               repo.value("changes", json::object()).empty() ? "" : " with recorded changes");
  }
  for (const record::DatasetRecord& d : r.datasets) {
    if (record::HoldsWeights(d)) {
      fmt::print("weights      {}: {} ({})\n", d.role, d.ann_file, d.ann_hash);
      continue;
    }
    fmt::print("data         {}: {} ({} images, {})\n", d.role, d.ann_file, d.images,
               d.fingerprint.substr(0, 12));
  }
  fmt::print("seed         {}\n", r.seed);
  PrintParameters(r);
  fmt::print("\nto get it again\n  cd {} && exp reproduce {}{}\n", r.cwd, r.id,
             p.epoch + 1 < static_cast<int>(r.epochs.size())
                 ? fmt::format(" --epochs {}", p.epoch + 1)
                 : "");
}

json Describe(const record::Provenance& p, const record::Run& r) {
  return {{"run", r.id},
          {"name", r.name},
          {"state", r.state},
          {"epoch", p.epoch},
          {"step", p.step},
          {"recorded_path", p.recorded_path},
          {"config", RunToJson(r)["config"]},
          {"reproduce", {"exp", "reproduce", r.id, "--epochs", std::to_string(p.epoch + 1)}}};
}

// The checkpoint itself says what made it; the store may be elsewhere.
record::Provenance FromMetadata(const std::map<std::string, std::string>& metadata) {
  record::Provenance p;
  auto text = [&](const char* key) {
    auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  p.run_id = text("exp.run");
  std::string epoch = text("exp.epoch"), step = text("exp.step");
  p.epoch = std::atoi(epoch.c_str());
  p.step = std::atoll(step.c_str());
  return p;
}

void OnlyMetadata(const std::map<std::string, std::string>& metadata, const std::string& hash,
                  const Options& options) {
  if (options.as_json) {
    return fmt::print("{}\n", DumpJson({{"hash", hash},
                                        {"found_by", "metadata"},
                                        {"runs", json::array()},
                                        {"metadata", metadata}}));
  }
  fmt::print("no store here knows this file; it says of itself:\n");
  for (const auto& [key, value] : metadata) {
    if (key.rfind("exp.", 0) == 0)
      fmt::print("  {:<16} {}\n", Printable(key),
                 Printable(record::Show(record::JsonText{value}, 100)));
  }
  fmt::print("next: name the store with --store, then `exp reproduce {}`\n",
             Printable(metadata.at("exp.run")));
}

void Run(const Options& options) {
  std::error_code error;
  bool is_file = fs::is_regular_file(options.target, error);
  if (!is_file && !IsHash(options.target)) {
    throw UsageError({.what = "there is no such file, and it is no hash",
                      .where = options.target,
                      .expected = "a checkpoint, or its xxh128 (32 hex digits)",
                      .next = "give the file's path; `exp show RUN` lists a run's checkpoints"});
  }
  std::string hash = is_file ? HashFile(options.target).Hex() : options.target;
  std::map<std::string, std::string> metadata;
  if (is_file) metadata = record::SafetensorsMetadata(options.target);
  fs::path folder = record::FindStore(options.store, fs::current_path());
  bool has_store = !folder.empty() && fs::exists(folder / "exp.db", error);
  if (!options.store.empty() && !has_store) record::Store::Open(folder);  // says what is wrong
  std::vector<record::Provenance> found;
  std::string by = "content";
  if (has_store) {
    record::Store store = record::Store::Open(folder);
    found = record::FindByHash(store, hash);
    if (found.empty() && metadata.count("exp.run")) {
      try {
        record::Provenance p = FromMetadata(metadata);
        p.run = record::ResolveRun(store, p.run_id);
        // The id itself: "@" or a name would be some other run.
        if (record::LoadRun(store, p.run).id == p.run_id) {
          found.push_back(p);
          by = "metadata";
        }
      } catch (const Error&) {
      }
    }
    json list = json::array();
    for (size_t i = 0; i < found.size(); ++i) {
      record::Run r = record::LoadRun(store, found[i].run);
      if (options.as_json) {
        list.push_back(Describe(found[i], r));
      } else if (i == 0) {
        fmt::print("file hash    {}{}\n", hash,
                   by == "metadata"
                       ? "  (its content was never recorded; its own metadata names the run)"
                       : "");
        PrintRun(r, found[i]);
      } else {
        fmt::print("also made by {}  {}\n", r.id, r.name);
      }
    }
    if (options.as_json && !found.empty()) {
      return fmt::print(
          "{}\n",
          DumpJson({{"hash", hash}, {"found_by", by}, {"runs", list}, {"metadata", metadata}}));
    }
  }
  if (!found.empty()) return;
  if (metadata.count("exp.run")) return OnlyMetadata(metadata, hash, options);
  throw UsageError(
      {.what = "no recorded run wrote a file with this content (" + hash + ")",
       .where = options.target,
       .expected = "a checkpoint that a run in this store wrote, unchanged",
       .next = has_store ? "try another store with --store" : "name the store with --store"});
}

}  // namespace

void AddAuditCommand(Command app, Context&) {
  auto options = std::make_shared<Options>();
  Command command = app.AddCommand("audit", "which run and parameters produced this checkpoint");
  command.AddOption("target", options->target, "a file, wherever it is now, or its hash")
      .Required();
  command.AddOption("--store", options->store, "folder of the store");
  command.AddFlag("--json", options->as_json, "for programs; docs/record.md lists the keys");
  command.Footer("Example: exp audit ~/Downloads/renamed.safetensors");
  command.Callback([options] { Run(*options); });
}

}  // namespace xp::cli
