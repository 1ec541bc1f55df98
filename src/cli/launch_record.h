// What a launch records before its first step: config, code and machine, without secrets.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "exp/record/reader.h"
#include "exp/record/writer.h"
#include "exp/snapshot/redact.h"
#include "src/cli/describe_config.h"
#include "src/cli/launch.h"

namespace xp::cli {

// Shared by everything that writes texts while the run goes on, from any thread.
struct SharedRedactor {
  explicit SharedRedactor(snapshot::Redactor first) : redactor(std::move(first)) {}
  std::mutex mutex;
  snapshot::Redactor redactor;
};

struct Prepared {
  record::RunInfo info;
  SnapshotOptions options;
  std::filesystem::path work_dir;
  std::shared_ptr<SharedRedactor> secrets;
};

// All but the data sets.
Prepared Prepare(const Launch& launch);

// The state that was prepared to be recorded, in the form of one that was read.
record::Run AsRun(const Prepared& p, const record::Run& like);

}  // namespace xp::cli
