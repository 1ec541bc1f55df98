#include "src/cli/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/printable.h"
#include "exp/base/utf8.h"
#include "exp/graph/backend.h"
#include "exp/record/diff.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "exp/record/writer.h"
#include "exp/snapshot/code.h"
#include "exp/snapshot/gpu_sampler.h"
#include "exp/snapshot/nvml.h"
#include "exp/train/checkpoint.h"
#include "exp/train/config_check.h"
#include "src/cli/command.h"
#include "src/cli/external_command.h"
#include "src/cli/inputs.h"
#include "src/cli/launch_record.h"
#include "src/cli/own_training.h"
#include "src/cli/signals.h"
#include "src/cli/tell.h"
#include "src/train/device.h"

namespace fs = std::filesystem;

namespace xp::cli {
namespace {

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
                           .redactions_json = p.info.redactions_json,
                           .attempts = launch.resume_attempts,
                           .sole_work_dir = true};
  return record::RunWriter::Resume(launch.store, launch.resume_run, from, options);
}

// Samples count on from the step that a run is resumed at, so that none stands twice.
snapshot::GpuSamplerOptions SamplerOptions(const Launch& launch, double interval,
                                           record::RunWriter& writer) {
  const int64_t first = launch.resume_step;
  const int cuda = launch.command.empty() ? train::CudaNumber(launch.device) : -1;
  return {.interval_seconds = interval,
          .cuda = cuda,
          .pci_bus_id = graph::CudaPciBusId(cuda),
          .on_value = [&writer, first](const std::string& name, int64_t n,
                                       double value) { writer.Point(name, first + n, value); },
          .on_warning = [&](const std::string& code,
                            const std::string& message) { writer.Warning(code, message); }};
}

std::string Shortened(const std::string& value) {
  constexpr size_t kMost = 60;
  if (value.empty()) return "(absent)";
  return ValidUtf8(Abridged(value, kMost));
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
    Tell("warning: {}\n", Printable(text));
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

// The folder for checkpoints. What of it wasn't there goes again where no run came of it.
class WorkDir {
 public:
  explicit WorkDir(const fs::path& folder) : folder_(folder) {
    std::error_code error;
    for (fs::path at = folder; !fs::exists(at, error) && !error; at = at.parent_path())
      made_.push_back(at);
    error = MakeFolders(folder);
    if (!error && ::access(folder.c_str(), W_OK) == 0) return;
    RemoveMade();
    throw UsageError({.what = "the folder for checkpoints can't be " +
                              std::string(error ? "made: " + error.message() : "written"),
                      .where = folder.string(),
                      .next = "name another one with --work-dir"});
  }
  ~WorkDir() { RemoveMade(); }
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;

  // Another launch that looked whether it could make it may have taken it away again.
  void Keep() {
    made_.clear();
    MakeFolders(folder_);
  }

 private:
  // Others that only look take away what they made, also between two steps of this.
  static std::error_code MakeFolders(const fs::path& folder) {
    constexpr int kTries = 1000;
    std::error_code error = std::make_error_code(std::errc::no_such_file_or_directory);
    for (int i = 0; i < kTries && error == std::errc::no_such_file_or_directory; ++i)
      fs::create_directories(folder, error);
    return error;
  }
  void RemoveMade() {
    std::error_code error;  // one that isn't empty stays
    for (const fs::path& folder : made_) fs::remove(folder, error);
  }

  fs::path folder_;
  std::vector<fs::path> made_;  // the innermost first
};

// What can be refused without a look at code and data, which may take long.
void RefuseEarly(const Launch& launch) {
  if (!launch.command.empty()) return RequireProgram(launch.command[0]);
  train::RequireTrainable(launch.config.root, launch.resume_checkpoint.empty());
}

// Warnings that were shown before the run began.
using Early = std::vector<config::Notice>;

void TellLeftOut(const Prepared& p, Early& early) {
  const std::string left_out = snapshot::LeftOut(p.info.code_json);
  if (left_out.empty()) return;
  Tell("warning: {}\n  next: {}\n", left_out,
       left_out.find("snapshot.max_") != std::string::npos
           ? "snapshot.max_file_bytes and snapshot.max_total_bytes raise the limits; "
             "snapshot.exclude: [FOLDER, ...] names what is no code"
           : "run in a work tree of git that can be read whole; snapshot.exclude: [FOLDER, ...] "
             "names what is no code");
  early.push_back({"code.left_out", left_out, ""});
}

void TellNetwork(const fs::path& store, Early& early) {
  std::string warning = record::NetworkFileSystemWarning(store);
  if (warning.empty()) return;
  Tell("warning: {}\n", warning);
  early.push_back({"store.network", std::move(warning), ""});
}

std::unique_ptr<record::RunWriter> Begin(const Launch& launch, const Prepared& p,
                                         const Early& early) {
  std::unique_ptr<record::RunWriter> writer = Open(launch, p);
  if (!launch.resume_run.empty()) train::RemoveUnfinished(p.work_dir);
  for (const config::Notice& n : early) writer->Warning(n.code, n.message);
  for (const config::Notice& n : launch.config.warnings) {
    writer->Warning("config." + n.code, n.where.empty() ? n.message : n.where + ": " + n.message);
  }
  for (const config::Notice& n : launch.notes) writer->Warning(n.code, n.message);
  if (!launch.resume_run.empty()) TellOtherState(launch, p, *writer);
  Say("run {}  {}\n", writer->id(), Printable(launch.name));
  return writer;
}

// A run that would end before its first step isn't begun.
void RefuseStopped() {
  if (!StopSignals::flag()) return;
  throw Error(ErrorKind::kInterrupted,
              {.what = "stopped before the run began", .next = "start it again"});
}

// Makes our own trainer ready. What that refuses is thrown, before any run is recorded; another
// failure (of the GPU, of memory) is one of the run, and given back.
std::exception_ptr MakeReady(OwnTraining& own) {
  try {
    own.MakeReady();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kInterrupted) RefuseStopped();
    if (e.kind() == ErrorKind::kUsage) throw;
    return std::current_exception();
  } catch (const std::exception&) {
    return std::current_exception();
  }
  return nullptr;
}

// Trains, whoever does; `failed`: why our own trainer isn't ready.
void TrainRecorded(const Launch& launch, const Prepared& p, OwnTraining* own,
                   const std::exception_ptr& failed, record::RunWriter& writer,
                   LaunchResult& result) {
  if (own != nullptr) own->RecordWith(writer);
  if (failed) std::rethrow_exception(failed);
  snapshot::GpuSampler gpu(SamplerOptions(launch, p.options.gpu_interval, writer));
  if (own != nullptr) {
    const train::EndEvent end = own->Run(gpu);
    result.state = end.state;
    result.reason = end.reason;
    return;
  }
  ExternalResult external =
      RunExternal({.command = launch.command,
                   .config = launch.config.root,
                   .work_dir = p.work_dir,
                   .run_id = result.run_id,
                   .seed = launch.seed,
                   .resume = launch.resume_checkpoint,
                   .add_to_epoch = [&](record::EpochRow& row) { AddStatistics(gpu, row); }},
                  writer);
  result.state = external.state;
  result.reason = external.reason;
}

}  // namespace

LaunchResult Execute(const Launch& launch) {
  StopSignals signals("no run has begun");
  RefuseEarly(launch);
  const auto nvml = snapshot::Nvml::Shared();  // for all that ask it
  Prepared p = Prepare(launch);
  { WorkDir can_be_made(p.work_dir); }  // what can't is told now; a kill from here on leaves none
  record::Store::OpenOrCreate(launch.store);  // what it can't be is told before data are hashed
  Early early;
  TellLeftOut(p, early);
  TellNetwork(launch.store, early);
  std::unique_ptr<OwnTraining> own;
  std::exception_ptr failed;
  if (launch.command.empty()) {  // before images are hashed, which may take minutes
    own = std::make_unique<OwnTraining>(launch, p);
    failed = MakeReady(*own);
  }
  p.info.datasets = launch.inputs ? *launch.inputs
                                  : FingerprintInputs(launch.config.root, p.options, launch.store,
                                                      p.secrets->redactor);
  p.info.redactions_json = p.secrets->redactor.FoundJson();
  RefuseStopped();
  WorkDir work_dir(p.work_dir);
  std::unique_ptr<record::RunWriter> writer = Begin(launch, p, early);
  work_dir.Keep();
  StopSignals::Keep("the state is being saved");
  LaunchResult result{.run_id = writer->id()};
  try {
    TrainRecorded(launch, p, own.get(), failed, *writer, result);
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
      result.reason.empty() ? "" : ": ", Printable(result.reason, true));
  if (result.state == train::EndState::kInterrupted) {
    bool whole = resume.starts_with("exp resume");
    Say("next: {}{} goes on from the last checkpoint\n", whole ? "exp resume" : resume,
        " " + result.run_id);
  }
  context.exit_code = result.exit_code;
  context.recorded = true;
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

}  // namespace xp::cli
