#include "exp/snapshot/environment.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/stopwatch.h"
#include "exp/base/temporary_folder.h"
#include "exp/snapshot/redact.h"

using namespace xp::snapshot;
using nlohmann::json;

TEST_CASE("the environment says what runs where, twice the same, without secrets") {
  ::setenv("MY_API_KEY", "k3yK3yK3yK3y", 1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  Redactor redactor;
  redactor.LearnEnvironment();
  EnvironmentOptions options{.threads = 2, .variables = {"MY_API_KEY"}};
  std::string text = CaptureEnvironment(options, redactor);
  CHECK(text == CaptureEnvironment(options, redactor));
  CHECK(text.find("k3yK3yK3yK3y") == std::string::npos);
  json e = json::parse(text);
  CHECK(e["cpu"]["threads_used"] == 2);
  CHECK(e["cpu"]["flags"].size() > 3);
  CHECK(e["variables"]["OMP_NUM_THREADS"] == "3");
  CHECK(e["variables"]["MY_API_KEY"] == "[redacted:environment-secret]");
  CHECK_FALSE(e["os"]["glibc"].get<std::string>().empty());
  CHECK_FALSE(e["program"]["compiler"].get<std::string>().empty());
  CHECK(e["libraries"]["libc"]["build_id"].get<std::string>().size() == 40);
  CHECK(e["memory"]["total_bytes"].get<int64_t>() > 0);
}

TEST_CASE("a Python that doesn't answer is waited for as long as was said, and named") {
  const xp::TemporaryFolder folder("python");
  const std::string program = folder.path() + "/python3";
  std::ofstream(program) << "#!/bin/sh\nexec sleep 100\n";
  REQUIRE(::chmod(program.c_str(), 0755) == 0);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path() + ":" + path).c_str(), 1);
  Redactor redactor;
  const xp::Stopwatch watch;
  auto python = [&] {
    const EnvironmentOptions options{.gpu = false, .python = true, .python_seconds = 0.5};
    return json::parse(CaptureEnvironment(options, redactor)).value("python", json());
  };
  CHECK(python()["problem"] == "python3 didn't list its packages within 0.5 s");
  CHECK(watch.Seconds() < 30);
  std::ofstream(program) << "#!/bin/sh\necho '{\"version\": \"3.99\"}'\n";
  CHECK(python()["version"] == "3.99");
  std::ofstream(program) << "#!/bin/sh\nexit 1\n";
  CHECK(python().is_null());
  ::setenv("PATH", path.c_str(), 1);
}
