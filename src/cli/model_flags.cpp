#include "src/cli/model_flags.h"

namespace xp::cli {

void AddModelFlags(CLI::App& command, ModelRequest& request) {
  command.add_option("--config", request.config, "a config, instead of the recorded one");
  command.add_option("--set", request.set, "change the config, K=V")
      ->allow_extra_args(false)
      ->type_name("K=V");
  command.add_option("--checkpoint", request.which, "which of a run's")
      ->check(CLI::IsMember({"last", "best"}))
      ->capture_default_str();
  command.add_option("--store", request.store, "folder of the store");
}

}  // namespace xp::cli
