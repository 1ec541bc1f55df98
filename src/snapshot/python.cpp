// The Python on the PATH and its packages, as the environment records them.
#include <fmt/format.h>

#include "exp/base/child_process.h"
#include "src/snapshot/probe.h"

using nlohmann::json;

namespace xp::snapshot {

// One child process, only when asked for (snapshot.python).
json ProbePython(double seconds) {
  constexpr const char* kScript = R"(import sys, json
try:
  import importlib.metadata as m
  p = sorted({(d.metadata["Name"] or "?") + "==" + d.version for d in m.distributions()})
except Exception: p = []
print(json.dumps({"version": sys.version.split()[0], "path": sys.executable, "packages": p})))";
  ChildProcess child({"python3", "-c", kScript});
  if (!child.started()) return json::object();
  const std::string text = child.Rest(seconds);
  const bool late = child.Wait(1) == -1 && text.empty();
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_object()) return parsed;
  if (!late) return json::object();
  return {{"problem", fmt::format("python3 didn't list its packages within {:g} s", seconds)}};
}

}  // namespace xp::snapshot
