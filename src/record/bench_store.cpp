#include "exp/record/bench_store.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/record/machine.h"
#include "exp/record/writer.h"
#include "src/record/begin.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

constexpr const char* kColumns =
    "b.id,b.created_ns,b.name,b.label,b.machine,b.host,b.device,b.command,b.matrix,b.speeds,"
    "coalesce(e.json,'') FROM bench b LEFT JOIN document e ON e.hash=b.environment_document";

BenchRecord FromRow(const Statement& s) {
  BenchRecord r;
  s.Read(r.id, r.created_ns, r.name, r.label, r.machine, r.host, r.device, r.command_json,
         r.matrix_json, r.speeds_json, r.environment_json);
  return r;
}

[[noreturn]] void NoSuch(const std::string& selector, const std::vector<BenchRecord>& all,
                         const char* what) {
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(all.size(), 10); ++i) {
    names += (i == 0 ? "" : ", ") + all[i].name;
    if (!all[i].label.empty()) names += " (" + all[i].label + ")";
  }
  throw UsageError({.what = "`" + selector + "` names " + what,
                    .expected = names.empty() ? "a store with results of `exp bench`" : names,
                    .next = "`exp bench --history` lists them"});
}

void BindNumber(Statement& s, int index, double value) {
  value > 0 ? s.BindReal(index, value) : s.BindNull(index);
}

void PutBenchRow(const Store& store, const std::string& insert, int64_t id, int position,
                 const BenchRow& r) {
  Statement s(store.db(), insert +
                              " INTO bench_row VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,"
                              "?14,?15,?16,?17,?18)");
  s.Bind(1, id).Bind(2, position).Bind(3, r.program).Bind(4, r.kind).Bind(5, ValidUtf8(r.model));
  s.Bind(6, r.batch).Bind(7, r.precision).Bind(8, r.device).Bind(9, r.mode).Bind(10, r.status);
  s.Bind(11, ValidUtf8(r.reason));
  BindNumber(s, 12, r.images_per_second);
  BindNumber(s, 13, r.milliseconds);
  r.images_per_second > 0 ? s.BindReal(14, r.spread) : s.BindNull(14);
  r.bytes > 0 ? s.Bind(15, r.bytes) : s.BindNull(15);
  BindNumber(s, 16, r.watts);
  s.Bind(17, r.throttled).Bind(18, r.result_json).Run();
}

}  // namespace

BenchRecord BeginBench(const Store& store, BenchRecord record) {
  store.RequireWritable();
  Database& db = store.db();
  json e = json::parse(record.environment_json, nullptr, false);
  record.machine = MachineIdentity(record.environment_json);
  if (e.is_object() && e.contains("os") && e["os"].is_object()) {
    record.host = e["os"].value("host", "");
  }
  Transaction t(db);
  Statement taken(db, "SELECT 1 FROM bench WHERE name=?1");
  do {
    record.name = NewRunId().substr(0, 8);
    taken.Reset();
  } while (taken.Bind(1, record.name).Step());
  record.created_ns = WallClockNs();
  Statement s(db,
              "INSERT INTO bench(name,created_ns,label,machine,host,device,command,matrix,speeds,"
              "environment_document) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)");
  s.Bind(1, record.name).Bind(2, record.created_ns).Bind(3, ValidUtf8(record.label));
  s.Bind(4, record.machine).Bind(5, record.host).Bind(6, record.device);
  s.Bind(7, record.command_json).Bind(8, record.matrix_json).Bind(9, record.speeds_json);
  s.BindOptional(10, PutDocument(db, "environment", record.environment_json)).Run();
  record.id = db.LastRowId();
  t.Commit();
  return record;
}

void SetBenchDevice(const Store& store, int64_t id, const std::string& device,
                    const std::string& speeds_json) {
  Statement s(store.db(), "UPDATE bench SET device=?2, speeds=?3 WHERE id=?1");
  s.Bind(1, id).Bind(2, device).Bind(3, speeds_json).Run();
}

void AddBenchRow(const Store& store, int64_t id, int position, const BenchRow& r) {
  PutBenchRow(store, "INSERT", id, position, r);
}

void ReplaceBenchRow(const Store& store, int64_t id, int position, const BenchRow& r) {
  PutBenchRow(store, "INSERT OR REPLACE", id, position, r);
}

std::vector<BenchRecord> ListBenches(const Store& store) {
  std::vector<BenchRecord> out;
  Statement s(store.db(), std::string("SELECT ") + kColumns + " ORDER BY b.id DESC");
  while (s.Step()) out.push_back(FromRow(s));
  return out;
}

BenchRecord FindBench(const Store& store, const std::string& selector) {
  std::vector<BenchRecord> all = ListBenches(store);
  if (selector.starts_with('@')) {
    size_t back = 0;
    std::string number = selector == "@"                 ? "0"
                         : selector.substr(0, 2) == "@~" ? selector.substr(2)
                                                         : "";
    auto result = std::from_chars(number.data(), number.data() + number.size(), back);
    bool whole = result.ec == std::errc() && result.ptr == number.data() + number.size();
    if (!whole || back >= all.size()) NoSuch(selector, all, "no call of `exp bench`");
    return all[back];
  }
  const BenchRecord* found = nullptr;
  for (const BenchRecord& r : all) {
    if (r.label == selector && !selector.empty()) return r;
  }
  for (const BenchRecord& r : all) {
    if (selector.empty() || !r.name.starts_with(selector)) continue;
    if (found != nullptr) NoSuch(selector, all, "several");
    found = &r;
  }
  if (found == nullptr) NoSuch(selector, all, "no call of `exp bench`");
  return *found;
}

std::vector<BenchRow> LoadBenchRows(const Store& store, int64_t id) {
  std::vector<BenchRow> out;
  Statement s(store.db(),
              "SELECT program,kind,model,batch,precision,device,mode,status,reason,"
              "images_per_second,milliseconds,spread,bytes,watts,throttled,result FROM bench_row "
              "WHERE bench=?1 ORDER BY position");
  s.Bind(1, id);
  while (s.Step()) {
    BenchRow r;
    s.Read(r.program, r.kind, r.model, r.batch, r.precision, r.device, r.mode, r.status, r.reason,
           r.images_per_second, r.milliseconds, r.spread, r.bytes, r.watts, r.throttled,
           r.result_json);
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace xp::record
