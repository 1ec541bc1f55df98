// The way back of ExportJson. What comes from outside is checked to the last cell: a mangled export
// is an error, and nothing of it stays.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "exp/base/base64.h"
#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/record/export.h"
#include "exp/record/value.h"
#include "src/record/begin.h"
#include "src/record/documents.h"
#include "src/record/export_tables.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

[[noreturn]] void Newer(const std::string& what) {
  throw UsageError({.what = "the export is of a newer program: " + what,
                    .expected = "what this program knows, so that nothing is left out",
                    .next = "import it with that program or a newer one"});
}

[[noreturn]] void Bad(const std::string& why) {
  throw UsageError({.what = "the export is damaged: " + why,
                    .expected = "what `exp export --format json` wrote, unchanged",
                    .next = "export the run again where it was recorded"});
}

struct Column {
  std::string name, type;
  bool not_null;
};

std::string FromBase64(const std::string& text) {
  std::optional<std::string> bytes = DecodeBase64(text);
  if (!bytes) Bad("what should be base64 is none");
  return *std::move(bytes);
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
    s.BindReal(index, cell.at("real") == "Infinity" ? HUGE_VAL : -HUGE_VAL);
  } else {
    s.BindBlob(index, FromBase64(cell.at("blob").get<std::string>()));
  }
}

bool IsJson(const std::string& text) {
  return JsonDepth(text) <= kDeepestJson && json::accept(text);
}

// Columns whose text is JSON, and those that hold one of few words.
void CheckText(const std::string& table, const std::string& column, const std::string& text) {
  static const std::map<std::string, std::vector<std::string>> kWords = {
      {"attempt.state", {"finished", "failed", "interrupted", "killed"}},
      {"summary.kind", {"step", "loss", "metric", "gpu"}},
      {"epoch_value.kind", {"loss", "metric", "gpu"}},
      {"dataset.mode", {"full", "cheap"}}};
  std::string name = table + "." + column;
  auto words = kWords.find(name);
  bool fits = true;
  if (words != kWords.end()) {
    fits = std::count(words->second.begin(), words->second.end(), text) > 0;
  } else if (name == "run.redactions") {
    fits = UsableRedactions(text);
  } else if (name == "run.seed") {
    uint64_t seed = 0;
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, seed);
    fits = error == std::errc() && last == end;
  } else if (name == "run.command" || name == "run.verdict" || name == "attempt.start" ||
             name == "config_value.value" || name == "config_value.history" ||
             name == "evaluation.command" || name == "evaluation.report") {
    fits = IsJson(text);
  }
  if (!fits) Bad(name + " is `" + text.substr(0, 40) + "`");
}

// What isn't any 64-bit integer: what is counted with fits into an int, and times can be added.
void CheckRange(const std::string& table, const std::string& column, int64_t number) {
  const std::string name = table + "." + column;
  constexpr int64_t kLatest = INT64_MAX / 4;  // of milliseconds, too
  const bool epoch =
      name == "epoch.epoch" || name == "checkpoint.epoch" || name == "attempt.start_epoch";
  const bool counts = epoch || name == "run.threads" || name == "attempt.number";
  const bool time = column.ends_with("_ns") || column.ends_with("_ms");
  if (counts ? number >= INT32_MIN && number < INT32_MAX
             : !time || (number >= 0 && number < kLatest))
    return;
  Bad(fmt::format("{} is {}", name, number));
}

void CheckCell(const std::string& table, const Column& column, const json& cell) {
  bool special =
      cell.is_object() && cell.size() == 1 &&
      ((cell.contains("real") && (cell["real"] == "Infinity" || cell["real"] == "-Infinity")) ||
       (cell.contains("blob") && cell["blob"].is_string()));
  bool real = special && cell.contains("real");
  bool too_large = cell.is_number_unsigned() && cell.get<uint64_t>() > uint64_t{INT64_MAX};
  bool fits = cell.is_null()             ? !column.not_null
              : column.type == "INTEGER" ? cell.is_number_integer() && !too_large
              : column.type == "REAL"    ? cell.is_number() || real
              : column.type == "TEXT"    ? cell.is_string()
              : column.type == "BLOB"    ? special && !real
                                         : (cell.is_number() && !too_large) || special ||
                                            (cell.is_string() && IsJson(cell.get<std::string>()));
  if (!fits) {
    Bad(fmt::format("{}.{} is {}", table, column.name,
                    cell.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60)));
  }
  // A number's blob is the 8 bytes of a double.
  if (special && !real && FromBase64(cell["blob"].get<std::string>()).size() != 8)
    Bad(table + "." + column.name + " is a blob of another size");
  if (cell.is_string()) CheckText(table, column.name, cell.get<std::string>());
  if (column.type == "INTEGER" && cell.is_number())
    CheckRange(table, column.name, cell.get<int64_t>());
}

class Importer {
 public:
  Importer(Database& db, const json& in) : db_(db), in_(in) {}

  std::string Run() {
    Transaction t(db_);
    const json& runs = in_.at("tables").at("run");
    std::string id = runs.at(0).at("id").get<std::string>();
    bool hex = !id.empty() && id.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex || id.size() > 64 || runs.size() != 1) Bad("it doesn't name one run");
    Statement known(db_, "SELECT 1 FROM run WHERE id=?1");
    if (known.Bind(1, id).Step())
      throw UsageError({.what = "the store has run " + id + " already",
                        .where = db_.file().string(),
                        .next = "`exp show " + id +
                                "` shows it; name another store with --store, "
                                "or remove it with `exp rm " +
                                id + "`"});
    for (const auto& [name, rows] : in_.at("tables").items())
      if (!IsExported(name)) Newer(fmt::format("it has a table `{}`", name));
    Objects();
    for (const ExportTable& table : kExportTables) {
      if (table.newer && !in_.at("tables").contains(table.name)) continue;
      for (const json& row : in_.at("tables").at(table.name)) Insert(table.name, row);
    }
    RequireNumbered();
    Curves();
    t.Commit();
    return id;
  }

 private:
  static bool IsExported(const std::string& table) {
    return std::any_of(std::begin(kExportTables), std::end(kExportTables),
                       [&](const ExportTable& t) { return t.name == table; });
  }
  // The next attempt gets the number behind them.
  void RequireNumbered() const {
    int64_t next = 1;
    for (const auto& [number, attempt] : numbers_)
      if (number != next++) Bad("its attempts aren't numbered 1, 2, ...");
  }
  void Objects() {
    for (const auto& [hash, text] : in_.at("objects").items()) {
      if (PutObject(db_, FromBase64(text.get<std::string>())) != hash) Damaged("object " + hash);
    }
    for (const auto& [hash, document] : in_.at("documents").items()) {
      std::string text = document.at("json").get<std::string>();
      std::string kind = document.at("kind").get<std::string>();
      if (!UsableDocument(kind, text)) Bad(fmt::format("document {} is no {}", hash, kind));
      if (PutDocument(db_, kind, text) != hash) Damaged("document " + hash);
    }
  }
  [[noreturn]] static void Damaged(const std::string& what) {
    Bad(what + " has other content than its hash says");
  }
  // A row with this store's numbers in place of the exporter's.
  void Insert(const std::string& table, json row) {
    if (!row.is_object() || row.empty()) Bad("table " + table + " holds what is no row");
    json own = nullptr;
    if (table == "run") {
      row.erase("seq");
      row["parent"] = Parent(row);
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
    const std::vector<Column>& columns = ColumnsOf(table);
    for (const auto& [name, cell] : row.items()) {
      if (std::none_of(columns.begin(), columns.end(), [&](auto& c) { return c.name == name; }))
        Newer(fmt::format("it has a column `{}.{}`", table, name));
    }
    for (const Column& column : columns) {
      auto cell = row.find(column.name);
      if (cell == row.end()) continue;  // of an older program; or NOT NULL, which SQLite checks
      CheckCell(table, column, *cell);
      names += (names.empty() ? "" : ",") + column.name;
      marks += (marks.empty() ? "?" : ",?");
      cells.push_back(*cell);
    }
    if (cells.empty()) Bad("table " + table + " holds a row without a known column");
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
  json Parent(const json& row) {
    auto id = row.find("parent_id");
    if (id == row.end() || !id->is_string()) return nullptr;
    Statement s(db_, "SELECT seq FROM run WHERE id=?1");
    return s.Bind(1, id->get<std::string>()).Step() ? json(s.Int(0)) : json();
  }
  const std::vector<Column>& ColumnsOf(const std::string& table) {
    std::vector<Column>& columns = columns_[table];
    if (!columns.empty()) return columns;
    Statement s(db_, fmt::format("PRAGMA table_info({})", table));
    while (s.Step()) columns.push_back({s.Text(1), s.Text(2), s.Int(3) != 0});
    return columns;
  }
  void Curves() {
    std::map<std::pair<int64_t, std::string>, int64_t>
        known;  // series by attempt's number and name
    Statement insert(db_, "INSERT INTO series(attempt,name) VALUES(?1,?2)");
    auto series = [&](int64_t number, const std::string& name) {
      auto [it, fresh] = known.try_emplace({number, name}, 0);
      if (!fresh) return it->second;
      insert.Bind(1, numbers_.at(number)).Bind(2, name).Run();
      return it->second = db_.LastRowId();
    };
    for (const json& curve : in_.value("curve_order", json::array()))  // absent in older ones
      series(curve.at(0).get<int64_t>(), curve.at(1).get<std::string>());
    Statement point(db_, "INSERT INTO point(series,n,step,at_ms,value) VALUES(?1,?2,?3,?4,?5)");
    for (const auto& [name, points] : in_.at("curves").items()) {
      std::map<int64_t, std::pair<int64_t, int64_t>> by_attempt;  // series, next n
      for (const json& p : points) {
        int64_t number = p.at(2).get<int64_t>();
        auto [it, fresh] = by_attempt.try_emplace(number);
        if (fresh) it->second = {series(number, name), 0};
        point.Bind(1, it->second.first).Bind(2, it->second.second++);
        CheckCell("point", {"step", "INTEGER", true}, p.at(0));
        CheckCell("point", {"at_ms", "INTEGER", true}, p.at(1));
        CheckCell("point", {"value", "", true}, p.at(3));
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
  std::map<std::string, std::vector<Column>> columns_;
};

}  // namespace

std::string ExportChecksum(const json& exported) {
  json rest = exported;
  rest.erase("checksum");
  return HashBytes(rest.dump(-1, ' ', false, json::error_handler_t::replace)).Hex();
}

json ParseExport(const std::string& text, const std::string& place) {
  std::string what = "is nested deeper than an export is";
  if (JsonDepth(text) <= kDeepestJson) {
    try {
      return json::parse(text);
    } catch (const json::parse_error& e) {
      what = text.empty()           ? "the file is empty"
             : e.byte > text.size() ? "the file ends in the middle: it was cut off"
                                    : fmt::format("the file isn't JSON, at byte {}", e.byte);
    } catch (const json::out_of_range& e) {
      what = std::string("the file holds a number beyond a double: ") + e.what();
    }
  }
  throw UsageError({.what = what,
                    .where = place,
                    .expected = "what `exp export --format json` wrote",
                    .next = "export it again: `exp export RUN --format json --out FILE`"});
}

std::string ImportJson(const Store& store, const json& exported) {
  store.RequireWritable();
  constexpr int64_t kVersion = 1;
  const bool ours = exported.is_object() && exported.value("format", json()) == "exp-run";
  const json version = ours ? exported.value("version", json()) : json();
  if (version.is_number_integer() && version > kVersion)
    Newer(fmt::format("its version is {}, this program reads {}", version.dump(), kVersion));
  if (version != kVersion) {
    throw UsageError({.what = "this is no exported run",
                      .expected = "what `exp export --format json` wrote",
                      .next = "exp export RUN --format json --out FILE"});
  }
  try {
    if (exported.value("checksum", json()) != ExportChecksum(exported))
      Bad("it isn't as it was written: its checksum differs");
    return Importer(store.db(), exported).Run();
  } catch (const json::exception& e) {
    Bad(e.what());
  } catch (const std::out_of_range&) {
    Bad("a row names another one that isn't there");
  } catch (const SqliteError& e) {
    int code = e.code() & 0xff;
    if (code != SQLITE_CONSTRAINT && code != SQLITE_MISMATCH && code != SQLITE_TOOBIG) throw;
    Bad(e.text().what);
  }
}

}  // namespace xp::record
