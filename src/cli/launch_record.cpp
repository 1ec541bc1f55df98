#include "src/cli/launch_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/base/hash.h"
#include "exp/base/resources.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "exp/snapshot/code.h"
#include "exp/snapshot/environment.h"
#include "src/cli/inputs.h"
#include "src/cli/signals.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

int ThreadCount(const Launch& launch) { return launch.threads > 0 ? launch.threads : UsableCpus(); }

// One folder's name, whatever the run is called: `a/b`, `../c`.
std::string FolderName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  constexpr size_t kMost = 200;  // of 255 bytes that file systems have
  return name.size() <= kMost ? name : ValidUtf8(name.substr(0, kMost));
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
  // Outputs and images are no code; images have their own fingerprint.
  p.options.code.exclude.push_back(fs::absolute(launch.store).lexically_normal());
  p.options.code.exclude.push_back(p.work_dir);
  p.options.code.exclude.push_back(fs::absolute("work_dirs").lexically_normal());
  for (const char* role : {"train", "val", "test"}) {
    const config::Node* prefix = launch.config.root.At(fmt::format("data.{}.img_prefix", role));
    if (!prefix || !prefix->IsString() || prefix->AsString().empty()) continue;
    fs::path folder = fs::absolute(prefix->AsString()).lexically_normal();
    if (folder != fs::current_path()) p.options.code.exclude.push_back(folder);
  }
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
