#include "src/cli/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/resources.h"
#include "exp/base/utf8.h"
#include "exp/config/canonical.h"
#include "exp/record/diff.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "exp/record/writer.h"
#include "exp/snapshot/code.h"
#include "exp/snapshot/environment.h"
#include "exp/snapshot/gpu_sampler.h"
#include "exp/snapshot/redact.h"
#include "exp/train/checkpoint.h"
#include "exp/train/trainer.h"
#include "src/cli/command.h"
#include "src/cli/describe_config.h"
#include "src/cli/external_command.h"
#include "src/cli/inputs.h"
#include "src/cli/progress.h"
#include "src/cli/recording_observer.h"
#include "src/cli/signals.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

// Tells everyone what the trainer says; the recorder first, so that the record never lags what was
// shown.
class Everyone : public train::Observer {
 public:
  explicit Everyone(std::vector<train::Observer*> all) : all_(std::move(all)) {}
  void OnStart(const train::StartEvent& e) override {
    for (auto* o : all_) o->OnStart(e);
  }
  void OnStep(const train::StepEvent& e) override {
    for (auto* o : all_) o->OnStep(e);
  }
  void OnEpoch(const train::EpochEvent& e) override {
    for (auto* o : all_) o->OnEpoch(e);
  }
  void OnCheckpoint(const train::CheckpointEvent& e) override {
    for (auto* o : all_) o->OnCheckpoint(e);
  }
  void OnWarning(const train::WarningEvent& e) override {
    for (auto* o : all_) o->OnWarning(e);
  }
  void OnEnd(const train::EndEvent& e) override {
    for (auto* o : all_) o->OnEnd(e);
  }

 private:
  std::vector<train::Observer*> all_;
};

int ThreadCount(const Launch& launch) { return launch.threads > 0 ? launch.threads : UsableCpus(); }

// Shared by everything that writes texts while the run goes on, from any thread.
struct SharedRedactor {
  explicit SharedRedactor(snapshot::Redactor first) : redactor(std::move(first)) {}
  std::mutex mutex;
  snapshot::Redactor redactor;
};

struct Prepared {
  record::RunInfo info;
  SnapshotOptions options;
  fs::path work_dir;
  std::shared_ptr<SharedRedactor> secrets;
};

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
                   ? fs::path("work_dirs") / (launch.name + "-" + info.id.substr(0, 8))
                   : launch.work_dir;
  p.work_dir = fs::absolute(p.work_dir).lexically_normal();
  info.work_dir = redactor.Text(p.work_dir.string(), "the work_dir's name");
  info.seed = launch.seed;
  info.threads = ThreadCount(launch);
  info.device = launch.device;
  for (const std::string& tag : launch.tags) info.tags.push_back(redactor.Text(tag, "a tag"));
  info.parent_id = launch.parent_id;
  info.relation = launch.relation;
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

bool Terminal() { return ::isatty(STDOUT_FILENO) == 1; }

int Columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

std::unique_ptr<record::RunWriter> Open(const Launch& launch, const Prepared& p) {
  record::WriterOptions options;
  options.on_problem = [](const std::string& text) { Tell("record: {}\n", text); };
  options.clean = [secrets = p.secrets](const std::string& text, const std::string& key,
                                        const std::string& place) {
    std::lock_guard lock(secrets->mutex);
    std::string clean = secrets->redactor.Text(text, place);
    bool secret = clean == text && snapshot::Redactor::SecretName(key);
    return secret ? secrets->redactor.Secret(text, "named-secret", place) : clean;
  };
  options.redactions = [secrets = p.secrets] {
    std::lock_guard lock(secrets->mutex);
    return secrets->redactor.FoundJson();
  };
  if (launch.resume_run.empty())
    return std::make_unique<record::RunWriter>(launch.store, p.info, options);
  record::ResumePoint from{.epoch = launch.resume_epoch,
                           .step = launch.resume_step,
                           .checkpoint_hash = launch.resume_hash,
                           .environment_json = p.info.environment_json,
                           .code_json = p.info.code_json,
                           .objects = p.info.objects,
                           .redactions_json = p.info.redactions_json};
  return record::RunWriter::Resume(launch.store, launch.resume_run, from, options);
}

// Samples count on from the step that a run is resumed at, so that none stands twice.
snapshot::GpuSamplerOptions SamplerOptions(double interval, int64_t first,
                                           record::RunWriter& writer) {
  return {.interval_seconds = interval,
          .on_value = [&writer, first](const std::string& name, int64_t n,
                                       double value) { writer.Point(name, first + n, value); },
          .on_warning = [&](const std::string& code,
                            const std::string& message) { writer.Warning(code, message); }};
}

void AddStatistics(snapshot::GpuSampler& gpu, record::EpochRow& row) {
  for (const auto& [name, value] : gpu.TakeStatistics()) row.gpu.emplace_back(name, value);
}

void TrainHere(const Launch& launch, const Prepared& p, record::RunWriter& writer,
               LaunchResult& result) {
  RecordingObserver recorder(writer);
  snapshot::GpuSampler gpu(SamplerOptions(p.options.gpu_interval, launch.resume_step, writer));
  recorder.add_to_epoch = [&](record::EpochRow& row) { AddStatistics(gpu, row); };
  const config::Node* interval = launch.config.root.At("log_config.interval");
  Progress progress(
      {.terminal = Terminal(),
       .columns = Columns(),
       .interval = interval && interval->IsInt() ? static_cast<int>(interval->AsInt()) : 50,
       .temperature = [&] { return gpu.Celsius(); }});
  Everyone everyone({&recorder, &progress});
  train::TrainOptions options;
  options.device = launch.device;
  options.seed = launch.seed;
  options.work_dir = p.work_dir;
  options.resume_checkpoint = launch.resume_checkpoint;
  options.threads = p.info.threads;
  options.plans = launch.plans;
  options.max_epochs = launch.max_epochs;
  options.stop = &StopSignals::flag();
  options.record_metadata = {{"exp.run", writer.id()}, {"exp.config", p.info.config_hash}};
  train::Train(launch.config.root, options, everyone);
  result.state = recorder.end_state();
  result.reason = recorder.end_reason();
}

std::string Shortened(const std::string& value) {
  constexpr size_t kMost = 60;
  if (value.empty()) return "(absent)";
  return value.size() <= kMost ? value : ValidUtf8(value.substr(0, kMost)) + "...";
}

// The state that was prepared to be recorded, in the form of one that was read.
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

// Where our own trainer runs, files beside the commit (logs, say) change no number.
bool Matters(const record::Difference& d, bool ours) {
  if (d.section == "environment") return d.weight >= 2;
  return d.section == "code" && (!ours || d.name == "commit" || d.name == "patch");
}

// One run's numbers can come from two states of code and machine: its record says so. Each attempt
// has its own state there, too.
void TellOtherState(const Launch& launch, const Prepared& p, record::RunWriter& writer) {
  record::Store store = record::Store::Open(launch.store);
  record::Run before = record::LoadRun(store, record::ResolveRun(store, launch.resume_run));
  std::map<std::string, std::vector<std::string>> told;
  for (const record::Difference& d : record::DiffRuns(store, {before, AsRun(p, before)})) {
    if (!Matters(d, launch.command.empty())) continue;
    told[d.section].push_back(
        fmt::format("{}: {} -> {}", d.name, Shortened(d.values[0]), Shortened(d.values[1])));
  }
  for (auto& [section, lines] : told) {
    constexpr size_t kShown = 5;
    if (lines.size() > kShown) {
      lines[kShown] = fmt::format("and {} more", lines.size() - kShown);
      lines.resize(kShown + 1);
    }
    const std::string text =
        fmt::format("the {} isn't what the run began with: {}", section, fmt::join(lines, "; "));
    Tell("warning: {}\n", text);
    writer.Warning("resume." + section, text);
  }
}

record::EndState ToRecord(train::EndState state) {
  switch (state) {
    case train::EndState::kFinished:
      return record::EndState::kFinished;
    case train::EndState::kFailed:
      return record::EndState::kFailed;
    default:
      return record::EndState::kInterrupted;
  }
}

void End(record::RunWriter& writer, train::EndState state, const std::string& reason) {
  record::WriteReport report = writer.End(ToRecord(state), reason);
  if (report.points_lost > 0) {
    Tell("record: {} points were lost{}{}\n", report.points_lost,
         report.problem.empty() ? "" : ": ", report.problem);
  }
  if (!report.end_written) {
    Tell("record: the end could not be written; the run will be listed as killed: {}\n",
         report.problem);
  }
}

void CheckWorkDir(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0) {
    throw UsageError({.what = "the folder for checkpoints can't be " +
                              std::string(error ? "made: " + error.message() : "written"),
                      .where = folder.string(),
                      .next = "name another one with --work-dir"});
  }
}

}  // namespace

LaunchResult Execute(const Launch& launch) {
  StopSignals signals;
  Prepared p = Prepare(launch);
  CheckWorkDir(p.work_dir);
  record::Store::OpenOrCreate(launch.store);  // what it can't be is told before data are hashed
  p.info.datasets = launch.inputs ? *launch.inputs
                                  : FingerprintInputs(launch.config.root, p.options, launch.store,
                                                      p.secrets->redactor);
  if (launch.command.empty()) RefuseMissing(p.info.datasets, launch.config.root);
  p.info.redactions_json = p.secrets->redactor.FoundJson();
  const std::string left_out = snapshot::LeftOut(p.info.code_json);
  if (!left_out.empty()) {
    Tell("warning: {}\n  next: {}\n", left_out,
         "run in a work tree of git, or see snapshot.exclude, .max_file_bytes and .code in "
         "docs/record.md");
  }
  std::string warning = record::NetworkFileSystemWarning(launch.store);
  if (!warning.empty()) Tell("warning: {}\n", warning);
  std::unique_ptr<record::RunWriter> writer = Open(launch, p);
  if (!launch.resume_run.empty()) train::RemoveUnfinished(p.work_dir);
  if (!warning.empty()) writer->Warning("store.network", warning);
  if (!left_out.empty()) writer->Warning("code.left_out", left_out);
  for (const config::Notice& n : launch.config.warnings) {
    writer->Warning("config." + n.code, n.where.empty() ? n.message : n.where + ": " + n.message);
  }
  for (const config::Notice& n : launch.notes) writer->Warning(n.code, n.message);
  if (!launch.resume_run.empty()) TellOtherState(launch, p, *writer);
  LaunchResult result{.run_id = writer->id()};
  Say("run {}  {}\n", result.run_id, launch.name);
  try {
    if (launch.command.empty()) {
      TrainHere(launch, p, *writer, result);
    } else {
      snapshot::GpuSampler gpu(SamplerOptions(p.options.gpu_interval, launch.resume_step, *writer));
      ExternalResult external =
          RunExternal({.command = launch.command,
                       .config = launch.config.root,
                       .work_dir = p.work_dir,
                       .run_id = result.run_id,
                       .seed = launch.seed,
                       .resume = launch.resume_checkpoint,
                       .add_to_epoch = [&](record::EpochRow& row) { AddStatistics(gpu, row); }},
                      *writer);
      result.state = external.state;
      result.reason = external.reason;
    }
  } catch (const std::bad_alloc&) {
    End(*writer, train::EndState::kFailed, "out of memory");
    throw JobError({.what = "out of memory", .next = "a smaller batch, or a limit that is higher"});
  } catch (const std::exception& e) {
    End(*writer, train::EndState::kFailed, e.what());
    throw;
  }
  if (result.state == train::EndState::kInterrupted && !StopSignals::Name().empty()) {
    result.reason = StopSignals::Name() + (result.reason.empty() ? "" : ": " + result.reason);
  }
  End(*writer, result.state, result.reason);
  result.exit_code = result.state == train::EndState::kFinished      ? 0
                     : result.state == train::EndState::kInterrupted ? 130
                                                                     : 1;
  return result;
}

void PrintResult(const LaunchResult& result, const std::string& resume, Context& context) {
  static constexpr const char* kNames[] = {"finished", "failed", "interrupted"};
  Say("run {} {}{}{}\n", result.run_id, kNames[static_cast<int>(result.state)],
      result.reason.empty() ? "" : ": ", result.reason);
  if (result.state == train::EndState::kInterrupted) {
    bool whole = resume.starts_with("exp resume");
    Say("next: {}{} goes on from the last checkpoint\n", whole ? "exp resume" : resume,
        " " + result.run_id);
  }
  context.exit_code = result.exit_code;
  context.recorded = true;
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

std::vector<std::string> RecordedPlans(const record::Run& run) {
  std::vector<std::string> plans;
  if (run.attempts.empty()) return plans;
  nlohmann::json start = nlohmann::json::parse(run.attempts.back().start, nullptr, false);
  if (!start.is_object() || !start.contains("plans") || !start["plans"].is_array()) return plans;
  for (const nlohmann::json& plan : start["plans"]) {
    if (plan.is_string()) plans.push_back(plan.get<std::string>());
  }
  return plans;
}

record::Run DescribeNow(const Launch& launch, const record::Run& like) {
  Prepared p = Prepare(launch);
  record::Run now = AsRun(p, like);
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
