#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/base/file.h"
#include "exp/record/maintain.h"
#include "exp/record/query.h"
#include "exp/record/reader.h"
#include "exp/record/store.h"
#include "exp/record/writer.h"
#include "src/record/folder_lock.h"
#include "src/record/migrate.h"
#include "temporary.h"

namespace fs = std::filesystem;
using namespace xp::record;

namespace {

std::string AddRun(const fs::path& store, const std::string& name, double lr, double map) {
  RunInfo info{.name = name};
  info.config = {{"optimizer.lr", std::to_string(lr), "a.yaml:1:1"},
                 {"optimizer.type", "\"SGD\"", "a.yaml:2:1"}};
  info.tags = {"t" + name};
  RunWriter run(store, info);
  EpochRow row{.epoch = 0, .step = 10};
  row.metrics = {{"bbox_mAP", map}};
  run.Epoch(row);
  run.End(EndState::kFinished);
  return run.id();
}

std::vector<std::string> Names(const Store& store, const std::string& where) {
  std::vector<std::string> out;
  for (const RunLine& r : ListRuns(store, {.where = where})) out.push_back(r.name);
  return out;
}

}  // namespace

TEST_CASE("sixteen processes that start on an absent store all get in, with exact counts",
          "[report3]") {
  TemporaryFolder t;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    pid_t pid = ::fork();
    if (pid == 0) {
      int code = 1;
      try {
        RunWriter run(t.path / ".exp", {.name = "p" + std::to_string(i)});
        for (int s = 0; s < 100; ++s) run.Point("loss", s, 0.5);
        code = run.End(EndState::kFinished).points_written == 100 ? 0 : 2;
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  Store store = Store::Open(t.path / ".exp");
  QueryResult q = Query(store, "SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM point)");
  CHECK(q.rows[0][0] == Value(int64_t{16}));
  CHECK(q.rows[0][1] == Value(int64_t{1600}));
}

TEST_CASE("a newer store is refused, a foreign file is refused, a missing one says what to do",
          "[input]") {
  TemporaryFolder t;
  CHECK_THROWS_WITH(Store::Open(t.path), ContainsSubstring("no store"));
  { Store::OpenOrCreate(t.path / "a"); }
  {
    Database db(t.path / "a" / "exp.db", Database::Mode::kReadWrite);
    db.Exec("PRAGMA user_version=99");
  }
  CHECK_THROWS_WITH(Store::Open(t.path / "a"), ContainsSubstring("version 99"));
  CHECK_THROWS_AS(RunWriter(t.path / "a", {.name = "x"}), xp::Error);
  fs::create_directories(t.path / "b");
  std::ofstream(t.path / "b" / "exp.db") << "this is no database, but a text that is long enough";
  CHECK_THROWS_AS(Store::Open(t.path / "b"), xp::Error);
  fs::create_directories(t.path / "c");
  {
    Database db(t.path / "c" / "exp.db", Database::Mode::kReadWrite);
    db.Exec("CREATE TABLE other(x)");
  }
  CHECK_THROWS_WITH(Store::Open(t.path / "c"), ContainsSubstring("not a store of exp"));
}

TEST_CASE("a store that was cut off to nothing is no new one") {
  TemporaryFolder t;
  AddRun(t.path, "a", 0.01, 0.3);
  for (uintmax_t bytes : {99u, 1u, 0u}) {
    for (const char* log : {"exp.db-wal", "exp.db-shm"}) fs::remove(t.path / log);
    fs::resize_file(t.path / "exp.db", bytes);
    CHECK_THROWS_WITH(Store::Open(t.path), ContainsSubstring("cut off"));
    CHECK_THROWS_WITH(Store::OpenOrCreate(t.path), ContainsSubstring("cut off"));
    CHECK(fs::file_size(t.path / "exp.db") == bytes);
  }
}

TEST_CASE("a store's lock that is never given back is an error, not a hang") {
  TemporaryFolder t;
  auto first = std::make_unique<FolderLock>(t.path);
  CHECK_THROWS_WITH(FolderLock(t.path, std::chrono::milliseconds(20)),
                    ContainsSubstring("another process holds the store's lock") &&
                        ContainsSubstring("fuser " + (t.path / "lock").string()));
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first.reset();
  });
  CHECK_NOTHROW(FolderLock(t.path));
  release.join();
  CHECK_THROWS_WITH(FolderLock(t.path / "none"), ContainsSubstring("can't be made"));
}

TEST_CASE("an older store is migrated, and a copy is kept") {
  TemporaryFolder t;
  fs::path file = t.path / "exp.db";
  std::vector<Migration> one = {{"001", "CREATE TABLE a(x); INSERT INTO a VALUES(7);"}};
  std::vector<Migration> two = one;
  two.push_back({"002", "ALTER TABLE a ADD COLUMN y DEFAULT 8;"});
  {
    Database db(file, Database::Mode::kReadWrite);
    Migrate(db, one);
    CHECK(SchemaVersion(db) == 1);
    CHECK_FALSE(fs::exists(file.string() + ".before-v1"));
    // A process that was killed while it made such a copy left these.
    for (const char* name : {".before-v2.tmp", ".before-v1.tmp", ".before-v1.tmp-journal"})
      xp::WriteFileAtomic(file.string() + name, "half");
    Migrate(db, two);
    CHECK_FALSE(fs::exists(file.string() + ".before-v2.tmp"));
    CHECK_FALSE(fs::exists(file.string() + ".before-v1.tmp"));
    CHECK_FALSE(fs::exists(file.string() + ".before-v1.tmp-journal"));
    CHECK(SchemaVersion(db) == 2);
    Statement s(db, "SELECT x,y FROM a");
    REQUIRE(s.Step());
    CHECK(s.Int(0) == 7);
    CHECK(s.Int(1) == 8);
  }
  Database copy(file.string() + ".before-v2", Database::Mode::kReadWrite);
  CHECK(SchemaVersion(copy) == 1);
  // A migration that fails leaves the version before it.
  std::vector<Migration> three = two;
  three.push_back({"003", "ALTER TABLE none ADD COLUMN z;"});
  Database db(file, Database::Mode::kReadWrite);
  CHECK_THROWS_AS(Migrate(db, three), xp::Error);
  CHECK(SchemaVersion(db) == 2);
}

TEST_CASE("a selector names one run or says which ones it could be", "[report12]") {
  TemporaryFolder t;
  std::string a = AddRun(t.path, "first", 0.01, 0.3), b = AddRun(t.path, "second", 0.02, 0.2);
  AddRun(t.path, "second", 0.03, 0.1);
  Store store = Store::Open(t.path);
  CHECK(ResolveRun(store, "@") == 3);
  CHECK(ResolveRun(store, "@~2") == 1);
  for (const char* bad : {"@~", "@~-1", "@~1x", "@~99999999999999999999", "@~ 1"})
    CHECK_THROWS_WITH(ResolveRun(store, bad), ContainsSubstring("names no run"));
  CHECK_THROWS_WITH(ResolveRun(store, "@best"), ContainsSubstring("no run is called"));
  RunWriter(t.path, {.name = "@best"});
  CHECK(ResolveRun(store, "@best") == 4);  // a name like any other
  RemoveRuns(store, {4});
  RunWriter(t.path, {.name = "latin \xe9"});
  CHECK(ResolveRun(store, "latin \xe9") > 3);  // as it was given, though it is no UTF-8
  RemoveRuns(store, {ResolveRun(store, "@")});
  CHECK(ResolveRun(store, "first") == 1);
  CHECK(ResolveRun(store, a) == 1);
  CHECK(ResolveRun(store, b.substr(0, 11)) == 2);
  CHECK_THROWS_WITH(ResolveRun(store, "second"), ContainsSubstring(b));  // report 12: it lists them
  CHECK_THROWS_WITH(ResolveRun(store, ""), ContainsSubstring("no run is called"));
  CHECK_THROWS_WITH(ResolveRun(store, "@~3"), ContainsSubstring("holds 3 runs"));
  CHECK_THROWS_WITH(ResolveRun(store, "nobody"), ContainsSubstring("no run is called"));
}

TEST_CASE("a short name is a name, whatever ids begin with", "[report12]") {
  TemporaryFolder t;
  for (const char* id : {"ab0000000001", "ab0000000002"})
    RunWriter(t.path, {.id = id, .name = "x"});
  std::string one = RunWriter(t.path, {.id = "cd0000000003", .name = "ab"}).id();
  Store store = Store::Open(t.path);
  CHECK(ResolveRun(store, "ab") == 3);
  CHECK_THROWS_WITH(ResolveRun(store, "ab0"), ContainsSubstring("any of 2 runs"));
  RunWriter(t.path, {.id = "ef0000000004", .name = "ab"});
  CHECK_THROWS_WITH(ResolveRun(store, "ab"), ContainsSubstring("any of 2 runs"));
  CHECK(ResolveRun(store, one) == 3);
}

TEST_CASE("lists are filtered, sorted and cut", "[input]") {
  TemporaryFolder t;
  AddRun(t.path, "a", 0.01, 0.3);
  AddRun(t.path, "b", 0.02, 0.2);
  AddRun(t.path, "c", 0.03, 0.4);
  Store store = Store::Open(t.path);
  using V = std::vector<std::string>;
  CHECK(Names(store, "") == V{"c", "b", "a"});
  CHECK(Names(store, "optimizer.lr > 0.01 and metric.bbox_mAP > 0.3") == V{"c"});
  CHECK(Names(store, "optimizer.lr <= 0.02 and not name = 'b'") == V{"a"});
  CHECK(Names(store, "(name = a or name = b) and optimizer.type = SGD") == V{"b", "a"});
  CHECK(Names(store, "tag = tb") == V{"b"});
  CHECK(Names(store, "state != finished").empty());
  CHECK(Names(store, "nothing.there > 1").empty());
  CHECK(Names(store, "optimizer.type ~ 'GD'").size() == 3);
  std::vector<RunLine> sorted = ListRuns(
      store, {.sort = "metric.bbox_mAP", .reverse = true, .limit = 2, .keys = {"optimizer.lr"}});
  REQUIRE(sorted.size() == 2);
  CHECK(sorted[0].name == "c");
  CHECK(sorted[1].name == "a");
  CHECK(AsDouble(sorted[0].values.at("optimizer.lr")) == 0.03);
  CHECK_THROWS_WITH(Names(store, "optimizer.lr >"), ContainsSubstring("column 15"));
  // What is wrong is said with its column, in characters.
  for (auto [text, column] : std::vector<std::pair<const char*, const char*>>{
           {"and", "column 1:"},
           {"name = a and or b", "column 14:"},
           {"\u0442\u0435\u0441\u0442 = 1 )", "column 10:"},
           {"name = 'a", "column 8:"},
           {"name = `a", "column 8:"},
           {"metric.\"a = 1", "column 8:"},
           {"optimizer.lr <> 1", "column 15:"},
           {"name = a && name = b", "column 10:"},
           {"not", "column 4:"}}) {
    INFO(text);
    CHECK_THROWS_WITH(Names(store, text), ContainsSubstring(column));
  }
  CHECK(Names(store, "NAME = a OR name = b And NOT tag = tb").empty());  // names aren't folded
  CHECK(Names(store, "name = a OR name = b And NOT tag = tb") == V{"a"});
  CHECK(NamesThatNoRunHas(store, NamesOfCondition("metric.bbox_map > 1 and state = killed and "
                                                  "name = x and epoch > 1")) ==
        V{"metric.bbox_map"});
  CHECK_THROWS_AS(Names(store, "(a"), xp::Error);
  CHECK_THROWS_AS(Names(store, std::string(5000, '(')), xp::Error);
  CHECK_THROWS_AS(Names(store, "a = 'open"), xp::Error);
}

TEST_CASE("a condition can hold any text, and tags any number", "[input]") {
  TemporaryFolder t;
  const std::string quotes = R"(it's "so" \ and `more`)";
  auto add = [&](const std::string& name, std::vector<std::string> tags) {
    RunInfo info{.name = name};
    info.tags = std::move(tags);
    info.config = {{R"(a."b\"c")", "3", "x"}};
    RunWriter run(t.path, info);
    EpochRow row;
    row.metrics = {{quotes, 0.12345678}, {"\"x\"", 2.0}};
    run.Epoch(row);
    run.End(EndState::kFinished);
  };
  add(quotes, {"base", "old"});
  add("' or name ~ '", {"new"});
  add("c", {});
  Store store = Store::Open(t.path);
  using V = std::vector<std::string>;
  CHECK(Names(store, R"(name = 'it''s "so" \ and `more`')") == V{quotes});
  CHECK(Names(store, R"(name = "it's ""so"" \ and `more`")") == V{quotes});
  CHECK(Names(store, "name = ''' or name ~ '''") == V{"' or name ~ '"});
  CHECK(Names(store, "name = ''").empty());
  CHECK(Names(store, R"(`metric.it's "so" \ and ``more``` > 0)").size() == 3);
  CHECK(Names(store, R"(metric."it's \"so\" \\ and `more`" > 0)").size() == 3);
  CHECK(Names(store, R"(`metric."x"` = 2 and metric."\"x\"" = 2)").size() == 3);
  CHECK(Names(store, R"(a."b\"c" = 3)").size() == 3);
  CHECK(Names(store, R"(metric."it's \"so\" \\ and `more`" ~ '345678')").size() == 3);
  for (const char* open :
       {"name = 'a''", "name = 'a''''b", "`a``", R"(a."b\" = 3)", "a.\"b\\", "a.\"b"})
    CHECK_THROWS_AS(Names(store, open), xp::Error);
  // A run has a tag or it hasn't: != isn't "has another one, too".
  CHECK(Names(store, "tag = base") == V{quotes});
  CHECK(Names(store, "tag != base") == V{"' or name ~ '"});
  CHECK(Names(store, "not tag = base") == V{"c", "' or name ~ '"});
  CHECK(Names(store, "tag != nobody") == V{"' or name ~ '", quotes});
}

TEST_CASE("any name and any number can be asked for", "[input]") {
  TemporaryFolder t;
  for (int i = 0; i < 3; ++i) {
    RunInfo info{.name = std::string(1, static_cast<char>('a' + i))};
    info.config = {{"scale", "[" + std::to_string(i) + ",7]", "x"}, {"\"odd key\"", "3", "x"}};
    info.seed = 18446744073709551610u + static_cast<uint64_t>(i);
    RunWriter run(t.path, info);
    EpochRow row;
    double nan = std::nan(""), values[] = {0.5, nan, 2.5};
    row.metrics = {{"a b", values[i]}, {"big", int64_t{9007199254740992} + i}};
    if (i == 2) row.metrics.emplace_back("only", 1.0);
    run.Epoch(row);
    run.End(EndState::kFinished);
  }
  Store store = Store::Open(t.path);
  using V = std::vector<std::string>;
  CHECK(Names(store, "metric.\"a b\" > 1") == V{"c"});
  CHECK(Names(store, "`metric.a b` < 1") == V{"a"});
  CHECK(Names(store, "metric.\"a b\" = NaN") == V{"b"});
  CHECK(Names(store, "metric.\"a b\" != nan") == V{"c", "a"});
  CHECK(Names(store, "`\"odd key\"` = 3").size() == 3);
  CHECK(Names(store, "scale.0 >= 1") == V{"c", "b"});
  CHECK(Names(store, "scale.-1 = 7").size() == 3);
  CHECK(Names(store, "scale.2 = 7").empty());
  CHECK(Names(store, "metric.big = 9007199254740993") == V{"b"});
  CHECK(Names(store, "seed = 18446744073709551612") == V{"c"});
  CHECK(Names(store, "seed > 18446744073709551610") == V{"c", "b"});
  CHECK(Names(store, "seed > 9223372036854775807 and seed > 5 and seed > 1e19").size() == 3);
  CHECK(Names(store, "seed < 1e19 or seed < 7").empty());
  CHECK(Names(store, "metric.\"a b\" < 1e400") == V{"c", "a"});
  CHECK(Names(store, "metric.\"a b\" < 1e-400 or metric.\"a b\" > 2") == V{"c"});
  // What is written in all but endless length is no deep nesting.
  std::string longest = "(name = nobody";
  for (int i = 0; i < 200000; ++i) longest += " or scale";
  CHECK(Names(store, longest + ") and name = b") == V{"b"});
  auto order = [&](bool reverse, const char* key) {
    V out;
    for (const RunLine& r : ListRuns(store, {.sort = key, .reverse = reverse}))
      out.push_back(r.name);
    return out;
  };
  CHECK(order(false, "metric.a b") == V{"a", "c", "b"});
  CHECK(order(true, "metric.a b") == V{"c", "a", "b"});  // NaN is behind numbers either way
  CHECK(order(true, "metric.only").front() == "c");      // those without come last either way
  CHECK(order(false, "metric.only").front() == "c");
}

TEST_CASE("a number meets texts as it is written", "[input]") {
  TemporaryFolder t;
  RunInfo info{.name = "123"};
  info.tags = {"2024", "0x1"};
  info.seed = 9000000000000000000u;
  info.config = {{"lr", "0.01", "x"}, {"text", "\"0.01\"", "x"}, {"on", "false", "x"}};
  RunWriter(t.path, info).End(EndState::kFinished);
  Store store = Store::Open(t.path);
  for (const char* holds : {"name = 123",
                            "123 = name",
                            "tag = 2024",
                            "tag = 0x1",
                            "text = 0.01",
                            "lr = 0.010",
                            "created > 2020",
                            "seed = 9000000000000000000",
                            "seed > 8999999999999999999",
                            "on = false",
                            "true",
                            "not false",
                            "not null",
                            "name ~ 2",
                            "lr = +0.01",
                            "lr > -1",
                            "lr>-1",
                            "-1<lr",
                            "id != 12345678e901",
                            "0.001 < lr"}) {
    INFO(holds);
    CHECK(Names(store, holds).size() == 1);
  }
  for (const char* fails : {"name != 123", "text = 0.010", "lr = '0.01'", "name = 124", "false",
                            "id = 12345678e901", "on = true", "lr = 0", "0"}) {
    INFO(fails);
    CHECK(Names(store, fails).empty());
  }
  CHECK(NamesOfCondition("0.3 < metric.map and a = b") ==
        std::vector<std::string>{"metric.map", "a"});
  CHECK_THROWS_WITH(Names(store, "lr = +-1"), ContainsSubstring("column 6:"));
}

TEST_CASE("query only reads", "[input]") {
  TemporaryFolder t;
  AddRun(t.path, "a", 0.01, 0.3);
  Store store = Store::Open(t.path);
  QueryResult q = Query(store, "SELECT name, run_state(seq) AS state FROM run");
  CHECK(q.columns == std::vector<std::string>{"name", "state"});
  CHECK(q.rows[0][1] == Value(JsonText{"\"finished\""}));
  CHECK_THROWS_WITH(Query(store, "DELETE FROM run"), ContainsSubstring("only SELECT"));
  CHECK_THROWS_WITH(Query(store, "SELECT 1; SELECT 2"), ContainsSubstring("more than one"));
  CHECK_THROWS_AS(Query(store, "ATTACH '/tmp/x' AS y"), xp::Error);
  CHECK_THROWS_AS(Query(store, "PRAGMA user_version=3"), xp::Error);
  CHECK_THROWS_WITH(Query(store, "SELECT nope FROM run"), ContainsSubstring("column 8"));
  CHECK_THROWS_AS(Query(store, ""), xp::Error);
  CHECK(Query(store, "SELECT 1; ; -- done\n/* really */ ;").rows.size() == 1);
  CHECK_THROWS_WITH(Query(store, "SELECT 1; -- done\n DELETE FROM run"), ContainsSubstring("more"));
  CHECK(Query(store, "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a").columns ==
        std::vector<std::string>{"a", "a_2", "a_2_2", "a_3"});
}

TEST_CASE("rm and gc are transactional and repeatable; verify finds damage") {
  TemporaryFolder t;
  RunInfo info{.name = "x", .config_json = "{}", .environment_json = "{\"a\":1}"};
  info.objects = {{"file", "some bytes", ""}};
  info.sources = {{"source", "lr: 1", "a.yaml"}};
  for (int i = 0; i < 2; ++i) {
    RunWriter run(t.path, info);
    for (int s = 0; s < 10; ++s) run.Point("loss", s, 1.0);
    run.End(EndState::kFinished);
  }
  Store store = Store::Open(t.path);
  auto count = [&](const char* table) {
    return std::get<int64_t>(
        *Query(store, std::string("SELECT count(*) FROM ") + table).rows[0][0]);
  };
  CHECK(count("object") == 2);  // content-addressed: shared by both runs
  CHECK(VerifyStore(store, true).problems.empty());
  RemoveRuns(store, {1});
  CHECK(CollectGarbage(store, false).objects == 0);
  CHECK(count("point") == 10);
  RemoveRuns(store, {2});
  RemoveRuns(store, {2});  // again: nothing happens
  CHECK(CollectGarbage(store, true).objects == 2);
  CHECK(count("object") == 2);
  for (const char* name : {"image-hashes.tmp.4711", "image-hashes"})
    xp::WriteFileAtomic(store.folder() / name, "half");
  CHECK(CollectGarbage(store, true).unfinished == 1);
  GarbageReport report = CollectGarbage(store, false);
  CHECK(report.unfinished == 1);
  CHECK(fs::exists(store.folder() / "image-hashes"));
  CHECK_FALSE(fs::exists(store.folder() / "image-hashes.tmp.4711"));
  CHECK(report.objects == 2);
  CHECK(report.documents == 2);
  CHECK(CollectGarbage(store, false).objects == 0);
  for (const char* table : {"object", "document", "point", "series", "attempt", "config_source"}) {
    CHECK(count(table) == 0);
  }
  RunWriter run(t.path, info);
  CHECK_THROWS_WITH(RemoveRuns(store, {3}), ContainsSubstring("is running"));
  run.End(EndState::kFinished);
  store.db().Exec("UPDATE object SET data=x'00' WHERE bytes=10");
  VerifyReport damage = VerifyStore(store, false);
  REQUIRE(damage.problems.size() == 1);
  CHECK_THAT(damage.problems[0], ContainsSubstring("other content"));
}

TEST_CASE("a read-only store can be read and is not written") {
  TemporaryFolder t;
  AddRun(t.path, "a", 0.01, 0.3);
  ::chmod((t.path / "exp.db").c_str(), 0444);
  ::chmod(t.path.c_str(), 0555);
  if (::access(t.path.c_str(), W_OK) == 0) {
    WARN("root writes everywhere: the mode is not checked here");
  } else {
    Store store = Store::Open(t.path);
    CHECK(store.read_only());
    CHECK(ListRuns(store, {}).size() == 1);
    CHECK_THROWS_AS(RemoveRuns(store, {1}), xp::Error);
    CHECK_THROWS_WITH(RunWriter(t.path, {.name = "x"}), ContainsSubstring("can't be written"));
  }
  ::chmod(t.path.c_str(), 0755);
}

TEST_CASE("a store is found as git finds its folder") {
  TemporaryFolder t;
  fs::create_directories(t.path / "repo" / ".git");
  fs::create_directories(t.path / "repo" / "a" / "b");
  ::unsetenv("EXP_STORE");
  CHECK(PlaceForNewStore(t.path / "repo" / "a" / "b") == t.path / "repo" / ".exp");
  CHECK(FindStore("", t.path / "repo" / "a" / "b").empty());
  Store::OpenOrCreate(t.path / "repo" / ".exp");
  CHECK(FindStore("", t.path / "repo" / "a" / "b") == t.path / "repo" / ".exp");
  CHECK(FindStore("/other", t.path) == "/other");
  ::setenv("EXP_STORE", "/named", 1);
  CHECK(FindStore("", t.path / "repo") == "/named");
  ::unsetenv("EXP_STORE");
  CHECK(xp::record::NetworkFileSystemWarning("/proc").empty());
}

TEST_CASE("a network file system is named, a local one isn't", "[report14]") {
  CHECK(NetworkFileSystemName(0x6969) == std::string("NFS"));
  CHECK(NetworkFileSystemName(0x65735546) == std::string("FUSE"));
  CHECK(NetworkFileSystemName(0xEF53) == nullptr);      // ext4
  CHECK(NetworkFileSystemName(0x01021994) == nullptr);  // tmpfs
}
