#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "exp/base/base64.h"
#include "exp/record/export.h"
#include "src/record/export_tables.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

// Exact: texts are tagged, so that they can't be taken for special numbers, and NaN keeps its
// payload.
json Cell(const Statement& s, int column) {
  switch (sqlite3_column_type(s.handle(), column)) {
    case SQLITE_NULL:
      return nullptr;
    case SQLITE_INTEGER:
      return s.Int(column);
    case SQLITE_TEXT:
      return s.Text(column);
    case SQLITE_FLOAT:
      if (std::isfinite(s.Real(column))) return s.Real(column);
      return {{"real", s.Real(column) > 0 ? "Infinity" : "-Infinity"}};
    default:
      return {{"blob", EncodeBase64(s.Blob(column))}};
  }
}

json Rows(const Database& db, const ExportTable& table, int64_t run) {
  Statement s(db, fmt::format("SELECT * FROM {} WHERE {}", table.name, table.where));
  json rows = json::array();
  for (s.Bind(1, run); s.Step();) {
    json row = json::object();
    for (int c = 0; c < sqlite3_column_count(s.handle()); ++c) {
      row[sqlite3_column_name(s.handle(), c)] = Cell(s, c);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

json CurveCells(const Database& db, int64_t run) {
  Statement s(db,
              "SELECT s.name,p.step,p.at_ms,a.number,p.value FROM series s JOIN attempt a ON "
              "a.id=s.attempt "
              "JOIN point p ON p.series=s.id WHERE a.run=?1 ORDER BY s.id,p.n");
  json curves = json::object();
  for (s.Bind(1, run); s.Step();) {
    curves[s.Text(0)].push_back({s.Int(1), s.Int(2), s.Int(3), Cell(s, 4)});
  }
  return curves;
}

// In the order in which they began: a JSON object has none.
json CurveOrder(const Database& db, int64_t run) {
  Statement s(
      db,
      "SELECT a.number,s.name FROM series s JOIN attempt a ON a.id=s.attempt WHERE a.run=?1 "
      "ORDER BY s.id");
  json order = json::array();
  for (s.Bind(1, run); s.Step();) order.push_back({s.Int(0), s.Text(1)});
  return order;
}

}  // namespace

json ExportJson(const Store& store, int64_t run) {
  Database& db = store.db();
  json out = {{"format", "exp-run"},
              {"version", 1},
              {"tables", json::object()},
              {"objects", json::object()},
              {"documents", json::object()}};
  db.Exec("BEGIN");
  try {
    for (const ExportTable& table : kExportTables) out["tables"][table.name] = Rows(db, table, run);
    out["curves"] = CurveCells(db, run);
    out["curve_order"] = CurveOrder(db, run);
    Statement o(db,
                "SELECT hash,data FROM object WHERE hash IN (SELECT object FROM run_object WHERE "
                "run=?1 UNION "
                "SELECT object FROM config_source WHERE run=?1 UNION SELECT image_list FROM "
                "dataset WHERE run=?1)");
    for (o.Bind(1, run); o.Step();) out["objects"][o.Text(0)] = EncodeBase64(o.Blob(1));
    Statement d(
        db,
        "SELECT hash,kind,json FROM document WHERE hash IN (SELECT config_document FROM run WHERE "
        "seq=?1 "
        "UNION SELECT environment_document FROM run WHERE seq=?1 UNION SELECT code_document FROM "
        "run "
        "WHERE seq=?1 UNION SELECT environment_document FROM attempt WHERE run=?1 UNION SELECT "
        "code_document FROM attempt WHERE run=?1)");
    for (d.Bind(1, run); d.Step();)
      out["documents"][d.Text(0)] = {{"kind", d.Text(1)}, {"json", d.Text(2)}};
  } catch (...) {
    sqlite3_exec(db.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
  db.Exec("COMMIT");
  SealExport(out);
  return out;
}

void SealExport(json& exported) {
  exported.erase("checksum");
  exported["checksum"] = ExportChecksum(exported);
}

}  // namespace xp::record
