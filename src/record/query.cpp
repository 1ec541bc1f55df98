#include "exp/record/query.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "src/record/sqlite.h"
#include "src/record/state.h"

namespace xp::record {
namespace {

// Only what reads may be compiled; ATTACH and PRAGMA would reach other files and settings.
int OnlyRead(void*, int action, const char*, const char*, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

void RunState(sqlite3_context* context, int, sqlite3_value** arguments) {
  const Database* db = static_cast<const Database*>(sqlite3_user_data(context));
  try {
    std::string state = CurrentStatus(*db, sqlite3_value_int64(arguments[0])).state;
    sqlite3_result_text(context, state.c_str(), static_cast<int>(state.size()), SQLITE_TRANSIENT);
  } catch (const std::exception& e) {
    sqlite3_result_error(context, e.what(), -1);
  }
}

// Texts of the user's columns are texts, not JSON.
Value Cell(sqlite3_stmt* stmt, const Statement& s, int column) {
  if (sqlite3_column_type(stmt, column) == SQLITE_TEXT) {
    return JsonText{nlohmann::json(s.Text(column))
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
  }
  if (sqlite3_column_type(stmt, column) == SQLITE_BLOB && sqlite3_column_bytes(stmt, column) != 8) {
    std::string text = "(" + std::to_string(sqlite3_column_bytes(stmt, column)) + " bytes)";
    return JsonText{nlohmann::json(text).dump()};
  }
  return s.GetValue(column);
}

// Whether more than blanks, comments and semicolons is there.
bool HoldsStatement(const Database& db, const char* sql) {
  while (sql && *sql) {
    sqlite3_stmt* stmt = nullptr;
    const char* rest = nullptr;
    const bool any = sqlite3_prepare_v2(db.handle(), sql, -1, &stmt, &rest) != SQLITE_OK || stmt;
    sqlite3_finalize(stmt);
    if (any || rest == sql) return any;
    sql = rest;
  }
  return false;
}

// Of columns that are called the same (`SELECT a.id, b.id`) the later ones get a number.
std::vector<std::string> ColumnNames(const Statement& s) {
  std::vector<std::string> names;
  auto taken = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (int c = 0; c < sqlite3_column_count(s.handle()); ++c) {
    const std::string own = sqlite3_column_name(s.handle(), c);
    std::string name = own;
    for (int i = 2; taken(name); ++i) name = own + "_" + std::to_string(i);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

QueryResult Query(const Store& store, const std::string& sql) {
  Database& db = store.db();
  sqlite3_create_function_v2(db.handle(), "run_state", 1, SQLITE_UTF8, &db, RunState, nullptr,
                             nullptr, nullptr);
  sqlite3_set_authorizer(db.handle(), OnlyRead, nullptr);
  sqlite3_stmt* stmt = nullptr;
  const char* rest = nullptr;
  int rc =
      sqlite3_prepare_v2(db.handle(), sql.c_str(), static_cast<int>(sql.size()) + 1, &stmt, &rest);
  std::string reason = sqlite3_errmsg(db.handle());
  int column = sqlite3_error_offset(db.handle());
  sqlite3_finalize(stmt);
  bool more = rc == SQLITE_OK && HoldsStatement(db, rest);
  if (rc != SQLITE_OK || !stmt || more) {
    sqlite3_set_authorizer(db.handle(), nullptr, nullptr);
    throw UsageError({.what = rc == SQLITE_AUTH ? "only SELECT is allowed"
                              : more            ? "more than one statement"
                              : rc == SQLITE_OK ? "the statement is empty"
                                                : "the statement is wrong: " + reason,
                      .where = column >= 0 ? "SQL, column " + std::to_string(column + 1) : "SQL",
                      .expected = "one SELECT over the tables of schema/README.md",
                      .next = "exp query \"SELECT name, sql FROM sqlite_master\" lists them"});
  }
  QueryResult result;
  {
    Statement s(db, sql);
    sqlite3_set_authorizer(db.handle(), nullptr, nullptr);
    result.columns = ColumnNames(s);
    while (s.Step()) {
      std::vector<std::optional<Value>>& row = result.rows.emplace_back();
      for (int c = 0; c < static_cast<int>(result.columns.size()); ++c) {
        row.push_back(s.IsNull(c) ? std::nullopt : std::optional<Value>(Cell(s.handle(), s, c)));
      }
    }
  }
  return result;
}

}  // namespace xp::record
