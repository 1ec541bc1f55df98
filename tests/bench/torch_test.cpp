// The peer, by programs that stand for Python.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/temporary_folder.h"
#include "exp/bench/throughput.h"

namespace xp::bench {
namespace {

std::vector<Case> Cases(int count) {
  std::vector<Case> cases(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) cases[static_cast<size_t>(i)].batch = i + 1;
  return cases;
}

std::vector<Row> Measured(const std::string& python, const std::vector<Case>& cases) {
  std::vector<Row> rows;
  MeasureTorch(python, cases, [&](const Row& r) { rows.push_back(r); });
  return rows;
}

// A shell script in the place of Python; its third argument is the list of cases.
struct Peer {
  explicit Peer(const std::string& script) : path(folder.path() + "/python") {
    std::ofstream(path) << "#!/bin/sh\ncd " << folder.path() << "\n" << script;
    ::chmod(path.c_str(), 0755);
  }
  TemporaryFolder folder{"bench-test"};
  std::string path;
};

TEST_CASE("a peer that isn't there is a row with the reason") {
  for (const Row& r : Measured("/no/such/python", Cases(2))) {
    CHECK(r.status == Status::kFailed);
    CHECK(r.reason.find("can't be started") != std::string::npos);
  }
  Peer missing(R"(echo '{"missing": "ModuleNotFoundError: torch"}')");
  std::vector<Row> rows = Measured(missing.path, Cases(3));
  REQUIRE(rows.size() == 3);
  CHECK(rows[2].reason == "PyTorch isn't there (ModuleNotFoundError: torch)");
}

TEST_CASE("what a library prints between the results shifts no row") {
  Peer peer(
      "echo 'a warning'\necho\n"
      R"(echo '{"status":"ok","images_per_second":5,"milliseconds":200}')"
      "\necho done\n"
      R"(echo '{"status":"mem lim","reason":"OutOfMemoryError: x"}')"
      "\n");
  std::vector<Row> rows = Measured(peer.path, Cases(2));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].images_per_second == 5);
  CHECK(rows[0].c.batch == 1);
  CHECK(rows[1].status == Status::kMemoryLimit);
  CHECK(rows[1].c.batch == 2);
}

TEST_CASE("a case that ends the peer costs its own row only") {
  // The second process is given the cases behind the one that killed the first.
  Peer peer(
      "if [ -e once ]; then\n"
      R"(echo '{"status":"ok","images_per_second":7}')"
      "\nelse\ntouch once\n"
      R"(echo '{"status":"ok","images_per_second":5}')"
      "\nkill -9 $$\nfi\n");
  std::vector<Row> rows = Measured(peer.path, Cases(3));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].images_per_second == 5);
  CHECK(rows[1].status == Status::kFailed);
  CHECK(rows[1].reason.find("killed") != std::string::npos);
  CHECK(rows[2].images_per_second == 7);
  CHECK(rows[2].c.batch == 3);
  Peer ends("exit 3\n");
  rows = Measured(ends.path, Cases(2));
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].reason == "the peer ended with exit code 3");
}

TEST_CASE("a peer is stopped, too") {
  std::atomic<bool> stop{true};
  Peer peer("echo '{\"status\":\"ok\"}'\n");
  try {
    MeasureTorch(
        peer.path, Cases(2), [](const Row&) { FAIL("a row"); }, &stop);
    FAIL("it wasn't stopped");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kInterrupted);
  }
}

}  // namespace
}  // namespace xp::bench
