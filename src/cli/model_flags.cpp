#include "src/cli/model_flags.h"

namespace xp::cli {

void AddModelFlags(Command command, ModelRequest& request) {
  command.AddOption("--config", request.config, "a config, instead of the recorded one");
  command.AddOption("--set", request.set, "change the config, K=V")
      .OneEachTime()
      .Placeholder("K=V");
  command.AddOption("--checkpoint", request.which, "which of a run's")
      .OneOf({"last", "best"})
      .ShowDefault();
  command.AddOption("--store", request.store, "folder of the store");
}

}  // namespace xp::cli
