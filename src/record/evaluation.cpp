#include "exp/record/evaluation.h"

#include <unistd.h>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/record/value.h"
#include "src/record/begin.h"
#include "src/record/sqlite.h"

namespace xp::record {

Evaluation AddEvaluation(const Store& store, int64_t seq, Evaluation e) {
  store.RequireWritable();
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  e.host = host;
  e.at_ns = WallClockNs();
  Database& db = store.db();
  Transaction t(db);
  Statement last(db, "SELECT coalesce(max(number),0) FROM evaluation WHERE run=?1");
  last.Bind(1, seq).Step();
  e.number = last.Int(0) + 1;
  last.Reset();
  Statement s(db,
              "INSERT INTO evaluation(run,number,at_ns,host,device,command,weights,weights_hash,"
              "part,ann_file,ann_hash,report) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)");
  s.Bind(1, seq).Bind(2, e.number).Bind(3, e.at_ns).Bind(4, ValidUtf8(e.host));
  s.Bind(5, ValidUtf8(e.device)).Bind(6, ValidUtf8(e.command_json));
  s.Bind(7, ValidUtf8(e.weights)).Bind(8, e.weights_hash).Bind(9, e.part);
  s.Bind(10, ValidUtf8(e.ann_file)).Bind(11, e.ann_hash).Bind(12, ValidUtf8(e.report_json)).Run();
  t.Commit();
  return e;
}

std::vector<Evaluation> ListEvaluations(const Store& store, int64_t seq) {
  // A store of an older program that can't be written stays as it was.
  Statement there(store.db(), "SELECT 1 FROM sqlite_master WHERE name='evaluation'");
  if (!there.Step()) return {};
  Statement s(store.db(),
              "SELECT number,at_ns,host,device,command,weights,weights_hash,part,ann_file,ann_hash,"
              "report FROM evaluation WHERE run=?1 ORDER BY number");
  std::vector<Evaluation> list;
  for (s.Bind(1, seq); s.Step();) {
    Evaluation& e = list.emplace_back();
    s.Read(e.number, e.at_ns, e.host, e.device, e.command_json, e.weights, e.weights_hash, e.part,
           e.ann_file, e.ann_hash, e.report_json);
  }
  return list;
}

}  // namespace xp::record
