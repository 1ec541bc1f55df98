#include "src/cli/launch_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/resources.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "exp/record/store.h"
#include "exp/snapshot/code.h"
#include "exp/snapshot/environment.h"
#include "src/cli/inputs.h"
#include "src/cli/signals.h"
#include "src/cli/work_dir_files.h"
#include "src/snapshot/may_be_code.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

int ThreadCount(const Launch& launch) { return launch.threads > 0 ? launch.threads : UsableCpus(); }

// One folder's name, whatever the run is called: `a/b`, `../c`.
std::string FolderName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  constexpr size_t kMost = 200;  // of 255 bytes that file systems have
  return name.size() <= kMost ? name : ValidUtf8(Utf8Head(name, kMost));
}

void TakeConfig(const Launch& launch, snapshot::Redactor& redactor, record::RunInfo& info) {
  config::Node clean = RedactConfig(launch.config.root, redactor);
  info.config_json = config::CanonicalJson(clean);
  info.config_hash = config::Identity(clean).Hex();
  info.config = DescribeConfig(clean, redactor);
  info.config_file = redactor.Text(launch.config_file, "the config's name");
  for (const config::SourceFile& s : launch.config.sources) {
    info.sources.push_back({"source", redactor.Text(s.content, "config file " + s.path),
                            redactor.Text(s.path, "a config file's name")});
  }
  for (const std::string& o : launch.config.overrides)
    info.overrides.push_back(redactor.Argv({o})[0]);
}

bool Holds(const fs::path& folder, const fs::path& path) {
  const fs::path below = path.lexically_relative(folder);
  return !below.empty() && *below.begin() != "..";
}

// A folder that a program is started in, or lies in, holds code, whatever else is written there.
bool HoldsProgram(const fs::path& folder, const Launch& launch) {
  if (Holds(folder, fs::current_path())) return true;
  return std::any_of(launch.command.begin(), launch.command.end(), [&](const std::string& word) {
    std::error_code error;
    const fs::path file = fs::absolute(word, error).lexically_normal();
    return !error && Holds(folder, file) && fs::is_regular_file(file, error) &&
           snapshot::MayBeCode(file.string());
  });
}

// Where the store's runs write: checkpoints and logs of one are no code of the next.
std::vector<fs::path> WorkDirs(const fs::path& store) {
  std::vector<fs::path> folders;
  std::error_code error;
  if (!fs::exists(store / "exp.db", error)) return folders;
  try {
    for (std::string& folder : record::WorkDirs(record::Store::Open(store)))
      folders.emplace_back(std::move(folder));
  } catch (const Error&) {  // whoever opens it to write says why it can't be
  }
  return folders;
}

// What runs wrote into a folder of code; a config that this one is made of is the user's.
void AddWrittenByRuns(const fs::path& folder, const Launch& launch, std::vector<fs::path>& out) {
  std::error_code error;
  for (fs::path& file : FindWorkDirFiles(folder)) {
    const auto& sources = launch.config.sources;
    const bool own = std::none_of(sources.begin(), sources.end(), [&](const config::SourceFile& s) {
      return fs::equivalent(s.path, file, error);
    });
    if (own) out.push_back(std::move(file));
  }
}

// Store, outputs and images are no code; images have their own fingerprint.
void NameNoCode(const Launch& launch, const fs::path& work_dir, snapshot::CodeOptions& code) {
  const fs::path store = fs::absolute(launch.store).lexically_normal();
  if (!HoldsProgram(store, launch)) code.exclude.push_back(store);
  for (const char* file : record::kStoreFiles) code.exclude.push_back(store / file);
  std::vector<fs::path> outputs = WorkDirs(store);
  outputs.push_back(work_dir);
  outputs.push_back(fs::absolute("work_dirs"));
  for (const char* role : {"train", "val", "test"}) {
    const config::Node* prefix = launch.config.root.At(fmt::format("data.{}.img_prefix", role));
    if (prefix && prefix->IsString() && !prefix->AsString().empty())
      outputs.push_back(fs::absolute(prefix->AsString()).lexically_normal());
  }
  for (fs::path& folder : outputs) {
    if (HoldsProgram(folder, launch))
      AddWrittenByRuns(folder, launch, code.outputs);
    else
      code.outputs.push_back(std::move(folder));
  }
}

}  // namespace

Prepared Prepare(const Launch& launch) {
  Prepared p{.options = ReadSnapshotOptions(launch.config.root)};
  record::RunInfo& info = p.info;
  p.secrets = std::make_shared<SharedRedactor>(SecretsOf(launch));
  snapshot::Redactor& redactor = p.secrets->redactor;
  info.id = record::NewRunId();
  info.name = redactor.Text(launch.name, "the run's name");
  info.kind = launch.command.empty() ? "train" : "command";
  info.command = redactor.Argv(launch.argv);
  info.cwd = redactor.Text(fs::current_path().string(), "the folder's name");
  p.work_dir = launch.work_dir.empty()
                   ? fs::path("work_dirs") / (FolderName(launch.name) + "-" + info.id.substr(0, 8))
                   : launch.work_dir;
  p.work_dir = fs::absolute(p.work_dir).lexically_normal();
  info.work_dir = redactor.Text(p.work_dir.string(), "the work_dir's name");
  info.seed = launch.seed;
  info.threads = ThreadCount(launch);
  info.device = launch.device;
  for (const std::string& tag : launch.tags) info.tags.push_back(redactor.Text(tag, "a tag"));
  info.parent_id = launch.parent_id;
  info.relation = launch.relation;
  info.sole_config = launch.sole_config;
  info.sole_work_dir = true;
  TakeConfig(launch, redactor, info);
  NameNoCode(launch, p.work_dir, p.options.code);
  snapshot::CodeState code = snapshot::CaptureCode(fs::current_path(), p.options.code, redactor);
  info.code_json = std::move(code.json);
  for (snapshot::CodeObject& o : code.objects)
    info.objects.push_back({o.role, std::move(o.bytes), ""});
  snapshot::EnvironmentOptions environment{
      .threads = info.threads, .python = p.options.python, .variables = p.options.variables};
  info.environment_json = snapshot::CaptureEnvironment(environment, redactor);
  info.redactions_json = redactor.FoundJson();
  return p;
}

record::Run AsRun(const Prepared& p, const record::Run& like) {
  record::Run now;
  now.id = now.name = "now";
  now.config = like.config;
  now.config_hash = like.config_hash;
  now.seed = like.seed;
  now.environment_json = p.info.environment_json;
  now.code_json = p.info.code_json;
  for (const record::StoredObject& o : p.info.objects)
    now.objects.emplace(HashBytes(o.bytes).Hex(), o.bytes);
  return now;
}

snapshot::Redactor SecretsOf(const Launch& launch) {
  snapshot::Redactor redactor(ReadSnapshotOptions(launch.config.root).redact);
  redactor.LearnEnvironment();
  redactor.LearnArgv(launch.argv);
  LearnConfigSecrets(launch.config.root, redactor);
  return redactor;
}

config::Node CleanConfig(const Launch& launch) {
  snapshot::Redactor redactor = SecretsOf(launch);
  return RedactConfig(launch.config.root, redactor);
}

record::Run DescribeNow(const Launch& launch, const record::Run& like) {
  Prepared p = Prepare(launch);
  record::Run now = AsRun(p, like);
  StopSignals signals(kHashesKept);
  for (record::DatasetRow& d :
       FingerprintInputs(launch.config.root, p.options, launch.store, p.secrets->redactor)) {
    record::DatasetRecord& row = now.datasets.emplace_back();
    static_cast<record::DatasetRow&>(row) = std::move(d);
  }
  return now;
}

void Describe(const Launch& launch) {
  Prepared p = Prepare(launch);
  nlohmann::json code = nlohmann::json::parse(p.info.code_json, nullptr, false);
  fmt::print("would run   {}\n", launch.name);
  fmt::print("config      {}  identity {}\n", launch.config_file, p.info.config_hash);
  fmt::print("seed        {}\nthreads     {}\ndevice      {}\nwork_dir    {}\nstore       {}\n",
             launch.seed, p.info.threads, launch.device, p.work_dir.string(),
             launch.store.string());
  if (code.value("kind", "") == "git") {
    const nlohmann::json& repo = code["repositories"][0];
    fmt::print("code        {} {} {}\n", repo.value("commit", ""), repo.value("branch", ""),
               repo.value("changes", nlohmann::json::object()).dump());
  } else {
    fmt::print("code        {}\n", code.value("reason", ""));
  }
  const std::string left_out = snapshot::LeftOut(p.info.code_json);
  if (!left_out.empty()) fmt::print("left out    {}\n", left_out);
  if (p.info.redactions_json != "[]") fmt::print("removed     {}\n", p.info.redactions_json);
}

}  // namespace xp::cli
