// `exp audit`: which run made this file, with which parameters, and how to get it again.
#include "exp/record/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "exp/base/error.h"
#include "exp/base/escape.h"
#include "exp/base/hash.h"
#include "exp/base/printable.h"
#include "exp/record/reader.h"
#include "exp/train/checkpoint.h"
#include "exp/train/tensor_file.h"
#include "src/cli/command.h"
#include "src/cli/run_json.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::cli {
namespace {

struct Options {
  std::string store, target;
  bool as_json = false;
};

// What is asked about.
struct Target {
  std::string hash;
  bool is_file = false;
  std::map<std::string, std::string> metadata;  // of a safetensors file
  std::string problem;  // why the file isn't whole, where it looks like one of weights
};

// A hash or its beginning, as messages cut it.
bool IsHash(const std::string& text) {
  constexpr size_t kLeast = 8, kWhole = 32;
  return text.size() >= kLeast && text.size() <= kWhole &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string ProblemOf(const fs::path& file, const std::map<std::string, std::string>& metadata) {
  const std::string ending = file.extension().string();
  try {
    if (metadata.contains("exp.content")) {
      train::LoadCheckpoint(file);
    } else if (ending == ".safetensors" || ending == ".pth" || ending == ".pt") {
      train::OpenTensorFile(file);
    }
  } catch (const Error& e) {
    const std::string& where = e.text().where;  // "<file>: tensor `a`"
    const std::string place =
        where.starts_with(file.string()) ? where.substr(file.string().size()) : ": " + where;
    return (place.size() > 2 ? place.substr(2) + ": " : "") + e.text().what;
  }
  return "";
}

Target ReadTarget(const std::string& text) {
  Target target;
  std::error_code error;
  const fs::file_status status = fs::status(text, error);
  target.is_file = fs::is_regular_file(status);
  if (target.is_file) {
    target.hash = HashFile(text).Hex();
    target.metadata = record::SafetensorsMetadata(text);
    return target;
  }
  target.hash = text;
  std::transform(text.begin(), text.end(), target.hash.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (IsHash(target.hash) && !fs::exists(status)) return target;
  throw UsageError({.what = fs::is_directory(status) ? "is a folder"
                            : fs::exists(status)     ? "is no regular file"
                                                     : "there is no such file, and it is no hash",
                    .where = text,
                    .expected = "a checkpoint, or its xxh128 (32 hex digits, or the first 8)",
                    .next = "give the file's path; `exp show RUN` lists a run's checkpoints"});
}

void PrintParameters(const record::Run& r) {
  fmt::print("\nparameters and where each was set\n");
  size_t width = 0;
  for (const record::ConfigValue& v : r.config)
    width = std::max(width, std::min<size_t>(v.path.size(), 50));
  for (const record::ConfigValue& v : r.config) {
    fmt::print("  {:<{}}  {:<24}  {}\n", Printable(v.path), width,
               Printable(record::Show(record::JsonText{v.value}, 60)), Printable(v.origin));
  }
}

// "after epoch 3", or in its middle, as an interrupted run is kept.
std::string EpochText(const record::Run& r, const record::Provenance& p) {
  const bool whole = std::any_of(r.epochs.begin(), r.epochs.end(), [&](const auto& e) {
    return e.epoch == p.epoch && e.step == p.step;
  });
  const bool within = r.kind == "train" && !whole;
  return fmt::format("{} epoch  {}{} (step {})", within ? "in" : "after", within ? "   " : "",
                     p.epoch + 1, p.step);
}

void PrintRun(const record::Run& r, const record::Provenance& p) {
  fmt::print("made by run  {}  {}  ({}, {})\n", r.id, Printable(r.name), r.state,
             record::ShowTime(r.created_ns));
  fmt::print("{}\n", EpochText(r, p));
  if (!p.recorded_path.empty()) fmt::print("written as   {}\n", Printable(p.recorded_path));
  fmt::print("config       {}  identity {}\n", Printable(r.config_file), Printable(r.config_hash));
  json code = json::parse(r.code_json, nullptr, false);
  if (code.is_object() && code.value("kind", "") == "git") {
    const json& repo = code["repositories"][0];
    const std::string commit = repo.value("commit", "");
    fmt::print("code         {}{}\n", commit.empty() ? "no commit yet" : Printable(commit),
               repo.value("changes", json::object()).empty() ? "" : ", with recorded changes");
  }
  for (const record::DatasetRecord& d : r.datasets) {
    if (record::HoldsWeights(d)) {
      fmt::print("weights      {}: {} ({})\n", Printable(d.role), Printable(d.ann_file),
                 Printable(d.ann_hash));
      continue;
    }
    fmt::print("data         {}: {} ({} images, {})\n", Printable(d.role), Printable(d.ann_file),
               d.images, Printable(d.fingerprint.substr(0, 12)));
  }
  fmt::print("seed         {}\n", r.seed);
  PrintParameters(r);
  fmt::print(
      "\nto get it again\n  cd {} && exp reproduce {}{}\n", Printable(ShellWord(r.cwd)), r.id,
      p.epoch + 1 < static_cast<int>(r.epochs.size()) ? fmt::format(" --epochs {}", p.epoch + 1)
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
  // Epochs done, and batches of the one under way; the store counts the epoch from 0.
  const int done = std::atoi(text("exp.epoch").c_str());
  p.epoch = std::atoi(text("exp.batch").c_str()) > 0 ? done : std::max(0, done - 1);
  p.step = std::atoll(text("exp.step").c_str());
  return p;
}

void OnlyMetadata(const Target& target, const Options& options) {
  if (options.as_json) {
    return fmt::print("{}\n", DumpJson({{"hash", target.hash},
                                        {"found_by", "metadata"},
                                        {"runs", json::array()},
                                        {"metadata", target.metadata},
                                        {"problem", target.problem}}));
  }
  fmt::print("no store here knows this file; it says of itself:\n");
  for (const auto& [key, value] : target.metadata) {
    if (key.rfind("exp.", 0) == 0)
      fmt::print("  {:<16} {}\n", Printable(key),
                 Printable(record::Show(record::JsonText{value}, 100)));
  }
  fmt::print("next: name the store with --store, then `exp reproduce {}`\n",
             Printable(target.metadata.at("exp.run")));
}

// The run that the file's metadata name, where the store has it.
std::optional<record::Provenance> FindByMetadata(const record::Store& store, const Target& target) {
  if (!target.metadata.contains("exp.run")) return std::nullopt;
  try {
    record::Provenance p = FromMetadata(target.metadata);
    p.run = record::ResolveRun(store, p.run_id);
    // The id itself: "@" or a name would be some other run.
    if (record::LoadRun(store, p.run).id == p.run_id) return p;
  } catch (const Error&) {
  }
  return std::nullopt;
}

// The beginning of a hash becomes the whole one.
void CompleteHash(const record::Store& store, Target& target) {
  std::vector<std::string> hashes = record::CheckpointHashes(store, target.hash);
  if (hashes.size() > 1) {
    throw UsageError(
        {.what = fmt::format("{} recorded checkpoints have hashes that begin so", hashes.size()),
         .where = target.hash,
         .expected = "one of " + fmt::format("{}", fmt::join(hashes, ", ")),
         .next = "give more of its digits"});
  }
  if (hashes.size() == 1) target.hash = hashes[0];
}

void PrintFound(const record::Store& store, const std::vector<record::Provenance>& found,
                const Target& target, const char* by, const Options& options) {
  json list = json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    record::Run r = record::LoadRun(store, found[i].run);
    if (options.as_json) {
      list.push_back(Describe(found[i], r));
    } else if (i == 0) {
      const bool by_content = std::string(by) == "content";
      fmt::print(
          "file hash    {}{}\n", target.hash,
          by_content ? "" : "  (its content was never recorded; its own metadata names the run)");
      PrintRun(r, found[i]);
    } else {
      fmt::print("also made by {}  {}\n", r.id, Printable(r.name));
    }
  }
  if (!options.as_json) return;
  fmt::print("{}\n", DumpJson({{"hash", target.hash},
                               {"found_by", by},
                               {"runs", list},
                               {"metadata", target.metadata},
                               {"problem", target.problem}}));
}

void Run(const Options& options) {
  Target target = ReadTarget(options.target);
  fs::path folder = record::FindStore(options.store, fs::current_path());
  std::error_code error;
  bool has_store = !folder.empty() && fs::exists(folder / "exp.db", error);
  if (!options.store.empty() && !has_store) record::Store::Open(folder);  // says what is wrong
  std::optional<record::Store> store;
  if (has_store) store = record::Store::Open(folder);
  std::vector<record::Provenance> found;
  if (store) {
    if (!target.is_file) CompleteHash(*store, target);
    found = record::FindByHash(*store, target.hash);
  }
  if (!found.empty()) return PrintFound(*store, found, target, "content", options);
  if (target.is_file) target.problem = ProblemOf(options.target, target.metadata);
  if (!target.problem.empty() && !options.as_json) {
    Tell("warning: {} isn't as it was written: {}\n", Printable(options.target),
         Printable(target.problem));
  }
  if (store) {
    if (std::optional<record::Provenance> named = FindByMetadata(*store, target))
      return PrintFound(*store, {*named}, target, "metadata", options);
  }
  if (target.metadata.contains("exp.run")) return OnlyMetadata(target, options);
  throw UsageError(
      {.what = "no recorded run wrote a file with this content (" + target.hash + ")",
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
