// A thin, exception-safe face of SQLite's C interface. Private to src/record.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "exp/base/error.h"
#include "exp/record/value.h"

namespace xp::record {

// An error that SQLite reported, with its extended code: the writer retries some of them.
class SqliteError : public Error {
 public:
  SqliteError(int code, ErrorText text)
      : Error((code & 0xff) == 26 /* SQLITE_NOTADB: another file was named */ ? ErrorKind::kUsage
                                                                              : ErrorKind::kJob,
              std::move(text)),
        code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

class Database {
 public:
  enum class Mode { kReadWrite, kReadOnly };

  // Opens (and in kReadWrite creates) the file. A busy database is waited for up to a minute.
  Database(const std::filesystem::path& file, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  sqlite3* handle() const { return db_; }
  // What messages name; of a copy, or a URI, the file that the user knows.
  const std::filesystem::path& file() const { return file_; }
  void NameAs(const std::filesystem::path& file) { file_ = file; }
  void Exec(const std::string& sql);
  int64_t LastRowId() const { return sqlite3_last_insert_rowid(db_); }
  int Changes() const { return sqlite3_changes(db_); }
  [[noreturn]] void Fail(const std::string& doing) const;

 private:
  std::filesystem::path file_;
  sqlite3* db_ = nullptr;
};

// A prepared statement. Bind positions are 1-based, column positions 0-based, as in SQLite.
class Statement {
 public:
  Statement(const Database& db, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int index, int64_t value);
  Statement& Bind(int index, int value) { return Bind(index, static_cast<int64_t>(value)); }
  Statement& Bind(int index, std::string_view text);
  Statement& Bind(int index, const char* text) { return Bind(index, std::string_view(text)); }
  Statement& Bind(int index, const std::string& text) {
    return Bind(index, std::string_view(text));
  }
  Statement& BindReal(int index, double value);
  Statement& BindBlob(int index, std::string_view bytes);
  Statement& BindNull(int index);
  // NULL for an empty text.
  Statement& BindOptional(int index, std::string_view text);
  Statement& BindValue(int index, const Value& value);

  // True while there is a row.
  bool Step();
  // Runs to the end and resets, ready for the next bind.
  void Run();
  void Reset();

  int64_t Int(int column) const { return sqlite3_column_int64(stmt_, column); }
  double Real(int column) const { return sqlite3_column_double(stmt_, column); }
  std::string Text(int column) const;
  std::string Blob(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(stmt_, column) == SQLITE_NULL; }
  std::optional<int64_t> OptionalInt(int column) const;
  Value GetValue(int column) const;
  // The columns from `first` on into variables, each as its type asks.
  template <class... T>
  void ReadFrom(int first, T&... out) const {
    (Get(first++, out), ...);
  }
  template <class... T>
  void Read(T&... out) const {
    ReadFrom(0, out...);
  }
  sqlite3_stmt* handle() const { return stmt_; }

 private:
  void Get(int column, std::string& out) const { out = Text(column); }
  void Get(int column, int64_t& out) const { out = Int(column); }
  void Get(int column, int& out) const { out = static_cast<int>(Int(column)); }
  void Get(int column, bool& out) const { out = Int(column) != 0; }
  void Get(int column, double& out) const { out = Real(column); }
  void Get(int column, Value& out) const { out = GetValue(column); }
  void Get(int column, std::optional<double>& out) const {
    out = IsNull(column) ? std::nullopt : std::optional(Real(column));
  }

  const Database& db_;
  sqlite3_stmt* stmt_ = nullptr;
};

// BEGIN IMMEDIATE ... COMMIT; rolls back when it goes out of scope without Commit().
class Transaction {
 public:
  explicit Transaction(Database& db);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void Commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace xp::record
