#include "src/cli/machine_environment.h"

#include <nlohmann/json.hpp>

#include "exp/base/resources.h"
#include "exp/graph/cuda_build.h"
#include "exp/snapshot/environment.h"
#include "exp/snapshot/redact.h"

namespace xp::cli {

std::string MachineEnvironment(bool python) {
  snapshot::Redactor redactor;
  redactor.LearnEnvironment();
  snapshot::EnvironmentOptions options;
  options.threads = UsableCpus();
  options.python = python;
  nlohmann::json all =
      nlohmann::json::parse(snapshot::CaptureEnvironment(options, redactor), nullptr, false);
  graph::CudaBuild build = graph::DescribeCudaBuild();
  if (build.compiled_in && all.is_object()) {
    all["cuda_build"] = {{"runtime", build.runtime},
                         {"compiler", build.compiler},
                         {"machine_code", build.machine_code},
                         {"ptx", build.ptx}};
  }
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace xp::cli
