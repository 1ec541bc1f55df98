// The peer, by programs that stand for Python.
#include <sys/stat.h>

#include <chrono>
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
  CHECK(rows[2].reason ==
        "PyTorch isn't there (ModuleNotFoundError: torch): --python names the "
        "Python that has it");
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
      R"(echo '{"status":"ok","images_per_second":7,"milliseconds":1}')"
      "\nelse\ntouch once\n"
      R"(echo '{"status":"ok","images_per_second":5,"milliseconds":1}')"
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

TEST_CASE("what a peer can't have measured is a failed row") {
  for (const char* line :
       {R"({"status":"ok"})", R"({"status":"ok","images_per_second":-5,"milliseconds":1})",
        R"({"status":"ok","images_per_second":5,"milliseconds":1,"repeats":-3})",
        R"({"status":"ok","images_per_second":"fast","milliseconds":1})", R"({"status":"fine"})",
        R"({"status":"fail"})", "{", R"({"missing")"}) {
    Peer peer(std::string("echo '") + line + "'\n");
    const std::vector<Row> rows = Measured(peer.path, Cases(1));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].status == Status::kFailed);
    CHECK(!rows[0].reason.empty());
    CHECK(rows[0].measured_ns > 0);
  }
  Peer number(R"(echo '{"missing": 3}')");
  CHECK(Measured(number.path, Cases(1)).at(0).reason.starts_with("PyTorch isn't there (3)"));
}

TEST_CASE("a peer that only prints something else, or prints nothing and goes on, is given up") {
  for (const char* script : {"yes\n", "yes | tr -d '\\n'\n", "exec >&-\nexec sleep 100\n"}) {
    Peer peer(script);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Row> rows = Measured(peer.path, Cases(1));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].status == Status::kFailed);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  }
}

TEST_CASE("more cases than an argument holds go to the peer in several processes") {
  // Each answers as many as it was given, and says in a file how many those were.
  Peer peer(
      "echo \"$3\" | tr -cd '{' | wc -c >>given\n"
      "for i in $(seq \"$(tail -1 given)\"); do\n"
      R"(echo '{"status":"ok","images_per_second":5,"milliseconds":1}')"
      "\ndone\n");
  const std::vector<Row> rows = Measured(peer.path, Cases(1500));
  REQUIRE(rows.size() == 1500);
  for (const Row& row : rows) CHECK(row.status == Status::kOk);
  std::ifstream given(peer.folder.path() + "/given");
  int sum = 0, processes = 0;
  for (int n = 0; given >> n; ++processes) sum += n;
  CHECK(sum == 1500);
  CHECK((processes >= 2 && processes < 20));
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
