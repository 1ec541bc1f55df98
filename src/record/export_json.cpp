#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/record/export.h"
#include "exp/record/reader.h"
#include "src/record/begin.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

// What belongs to one run; "run", "attempt" and "epoch" in it are numbers of this store.
struct Table {
  const char *name, *where;
};
constexpr Table kTables[] = {
    {"run", "seq=?1"},
    {"tag", "run=?1"},
    {"attempt", "run=?1"},
    {"config_value", "run=?1"},
    {"config_source", "run=?1"},
    {"override", "run=?1"},
    {"run_object", "run=?1"},
    {"dataset", "run=?1"},
    {"epoch", "attempt IN (SELECT id FROM attempt WHERE run=?1)"},
    {"epoch_value",
     "epoch IN (SELECT e.id FROM epoch e JOIN attempt a ON a.id=e.attempt WHERE a.run=?1)"},
    {"checkpoint", "attempt IN (SELECT id FROM attempt WHERE run=?1)"},
    {"warning", "attempt IN (SELECT id FROM attempt WHERE run=?1)"},
    {"summary", "run=?1"},
};

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string Base64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      v = v << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kAlphabet[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string FromBase64(const std::string& text) {
  static const std::string kAll = kAlphabet;
  std::string out;
  uint32_t v = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=') break;
    size_t digit = kAll.find(c);
    if (digit == std::string::npos) throw UsageError({.what = "the export is damaged: no base64"});
    v = v << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>(v >> bits & 0xff);
    }
  }
  return out;
}

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
      return {{"blob", Base64(s.Blob(column))}};
  }
}

void BindCell(Statement& s, int index, const json& cell) {
  if (cell.is_null()) {
    s.BindNull(index);
  } else if (cell.is_number_integer()) {
    s.Bind(index, cell.get<int64_t>());
  } else if (cell.is_number()) {
    s.BindReal(index, cell.get<double>());
  } else if (cell.is_string()) {
    s.Bind(index, cell.get_ref<const std::string&>());
  } else if (cell.contains("real")) {
    s.BindReal(index, cell["real"] == "Infinity" ? HUGE_VAL : -HUGE_VAL);
  } else {
    s.BindBlob(index, FromBase64(cell.at("blob").get<std::string>()));
  }
}

json Rows(const Database& db, const Table& table, int64_t run) {
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

class Importer {
 public:
  Importer(Database& db, const json& in) : db_(db), in_(in) {}

  std::string Run() {
    Transaction t(db_);
    std::string id = in_.at("tables").at("run").at(0).at("id").get<std::string>();
    Statement known(db_, "SELECT 1 FROM run WHERE id=?1");
    if (known.Bind(1, id).Step())
      throw UsageError({.what = "the store has run " + id + " already"});
    Objects();
    for (const Table& table : kTables) {
      for (const json& row : in_.at("tables").at(table.name)) Insert(table.name, row);
    }
    Curves();
    t.Commit();
    return id;
  }

 private:
  void Objects() {
    for (const auto& [hash, text] : in_.at("objects").items()) {
      if (PutObject(db_, FromBase64(text.get<std::string>())) != hash) Damaged("object " + hash);
    }
    for (const auto& [hash, document] : in_.at("documents").items()) {
      std::string text = document.at("json").get<std::string>();
      if (PutDocument(db_, document.at("kind").get<std::string>(), text) != hash)
        Damaged("document " + hash);
    }
  }
  [[noreturn]] static void Damaged(const std::string& what) {
    throw UsageError(
        {.what = "the export is damaged: " + what + " has other content than its hash says"});
  }
  // A row with this store's numbers in place of the exporter's.
  void Insert(const std::string& table, json row) {
    json own = nullptr;
    if (table == "run") {
      row.erase("seq");
      row["parent"] = nullptr;
    }
    bool numbered =
        table == "attempt" || table == "epoch" || table == "checkpoint" || table == "warning";
    if (numbered) {
      own = row.at("id");
      row.erase("id");
    }
    if (row.contains("run")) row["run"] = run_;
    if (row.contains("attempt")) row["attempt"] = attempts_.at(row["attempt"].get<int64_t>());
    if (table == "epoch_value") row["epoch"] = epochs_.at(row["epoch"].get<int64_t>());
    std::string names, marks;
    std::vector<json> cells;
    for (const auto& [name, cell] : row.items()) {
      if (!Known(table, name)) continue;  // of a newer program
      names += (names.empty() ? "" : ",") + name;
      marks += (marks.empty() ? "?" : ",?");
      cells.push_back(cell);
    }
    Statement s(db_, fmt::format("INSERT INTO {}({}) VALUES({})", table, names, marks));
    for (size_t i = 0; i < cells.size(); ++i) BindCell(s, static_cast<int>(i) + 1, cells[i]);
    s.Run();
    if (table == "run") run_ = db_.LastRowId();
    if (table == "attempt") {
      attempts_[own.get<int64_t>()] = db_.LastRowId();
      numbers_[row.at("number").get<int64_t>()] = db_.LastRowId();
    }
    if (table == "epoch") epochs_[own.get<int64_t>()] = db_.LastRowId();
  }
  bool Known(const std::string& table, const std::string& column) {
    std::vector<std::string>& columns = columns_[table];
    if (columns.empty()) {
      Statement s(db_, fmt::format("SELECT * FROM {} LIMIT 0", table));
      for (int c = 0; c < sqlite3_column_count(s.handle()); ++c) {
        columns.push_back(sqlite3_column_name(s.handle(), c));
      }
    }
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  }
  void Curves() {
    Statement series(db_, "INSERT INTO series(attempt,name) VALUES(?1,?2)");
    Statement point(db_, "INSERT INTO point(series,n,step,at_ms,value) VALUES(?1,?2,?3,?4,?5)");
    for (const auto& [name, points] : in_.at("curves").items()) {
      std::map<int64_t, std::pair<int64_t, int64_t>> by_attempt;  // series, next n
      for (const json& p : points) {
        int64_t number = p.at(2).get<int64_t>();
        auto [it, fresh] = by_attempt.try_emplace(number);
        if (fresh) {
          series.Bind(1, numbers_.at(number)).Bind(2, name).Run();
          it->second = {db_.LastRowId(), 0};
        }
        point.Bind(1, it->second.first).Bind(2, it->second.second++);
        point.Bind(3, p.at(0).get<int64_t>()).Bind(4, p.at(1).get<int64_t>());
        BindCell(point, 5, p.at(3));
        point.Run();
      }
    }
  }

  Database& db_;
  const json& in_;
  int64_t run_ = 0;
  std::map<int64_t, int64_t> attempts_, numbers_, epochs_;
  std::map<std::string, std::vector<std::string>> columns_;
};

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
    for (const Table& table : kTables) out["tables"][table.name] = Rows(db, table, run);
    out["curves"] = CurveCells(db, run);
    Statement o(db,
                "SELECT hash,data FROM object WHERE hash IN (SELECT object FROM run_object WHERE "
                "run=?1 UNION "
                "SELECT object FROM config_source WHERE run=?1 UNION SELECT image_list FROM "
                "dataset WHERE run=?1)");
    for (o.Bind(1, run); o.Step();) out["objects"][o.Text(0)] = Base64(o.Blob(1));
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
  return out;
}

std::string ImportJson(const Store& store, const json& exported) {
  if (!exported.is_object() || exported.value("format", "") != "exp-run" ||
      exported.value("version", 0) != 1) {
    throw UsageError(
        {.what = "this is no exported run", .expected = "what `exp export --format json` wrote"});
  }
  try {
    return Importer(store.db(), exported).Run();
  } catch (const json::exception& e) {
    throw UsageError({.what = std::string("the export is damaged: ") + e.what()});
  } catch (const std::out_of_range&) {
    throw UsageError({.what = "the export is damaged: a row names another one that isn't there"});
  } catch (const SqliteError& e) {
    if ((e.code() & 0xff) != SQLITE_CONSTRAINT) throw;
    throw UsageError({.what = std::string("the export is damaged: ") + e.text().what});
  }
}

}  // namespace xp::record
