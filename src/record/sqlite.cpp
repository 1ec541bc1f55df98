#include "src/record/sqlite.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "exp/base/resources.h"
#include "src/record/room.h"

namespace xp::record {
namespace {

// Short sleeps, so that many writers take turns and none waits long (SQLite's own handler backs off
// to 100 ms, which starves the unlucky). Gives up after a minute.
int WaitWhileBusy(void*, int tries) {
  constexpr int kMillis = 2, kGiveUp = 60000 / kMillis;
  if (tries > kGiveUp) return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(kMillis));
  return 1;
}

std::string Advice(int code, const std::filesystem::path& file) {
  switch (code & 0xff) {
    case SQLITE_IOERR:
      // SQLite doesn't hand on what the system said of a write.
      if (DiskFull(file.parent_path())) return "its disk is full: free space there";
      return FileSizeLimit() == UINT64_MAX
                 ? "look at the disk (`exp doctor --look`)"
                 : fmt::format("raise the limit of file sizes (`ulimit -f`), which is {} KiB",
                               FileSizeLimit() >> 10);
    case SQLITE_FULL:
      return "free space on the disk; `exp gc` removes what no run needs";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process holds the store for over a minute; see who uses it";
    case SQLITE_READONLY:
      return "make the store's folder and files writable, or only read it";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "the file is damaged or no store: restore a copy, or save what can be read of it with "
             "`sqlite3 exp.db .recover`";
    case SQLITE_CANTOPEN:
      return "check that the folder exists and can be written";
    default:
      return "";
  }
}

}  // namespace

Database::Database(const std::filesystem::path& file, Mode mode) : file_(file) {
  int flags = mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
                                      : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  int rc = sqlite3_open_v2(file.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (rc != SQLITE_OK) {
    std::string reason = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(rc);
    int code = db_ ? sqlite3_extended_errcode(db_) : rc;
    sqlite3_close_v2(db_);
    throw SqliteError(code, {.what = "the store can't be opened: " + reason,
                             .where = file.string(),
                             .next = Advice(code, file)});
  }
  sqlite3_extended_result_codes(db_, 1);
  sqlite3_busy_handler(db_, WaitWhileBusy, nullptr);
}

Database::~Database() { sqlite3_close_v2(db_); }

void Database::Exec(const std::string& sql) {
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) Fail("");
}

void Database::Fail(const std::string& doing) const {
  int code = sqlite3_extended_errcode(db_);
  std::string what = std::string("the store reports: ") + sqlite3_errmsg(db_);
  if (!doing.empty()) what += " (" + doing + ")";
  throw SqliteError(code, {.what = what, .where = file_.string(), .next = Advice(code, file_)});
}

Statement::Statement(const Database& db, std::string_view sql) : db_(db) {
  if (sqlite3_prepare_v2(db.handle(), sql.data(), static_cast<int>(sql.size()), &stmt_, nullptr) !=
      SQLITE_OK) {
    db.Fail("");
  }
}

Statement::~Statement() { sqlite3_finalize(stmt_); }

Statement& Statement::Bind(int index, int64_t value) {
  if (sqlite3_bind_int64(stmt_, index, value) != SQLITE_OK) db_.Fail("bind");
  return *this;
}

Statement& Statement::Bind(int index, std::string_view text) {
  // A null pointer would bind NULL; an empty text is not NULL.
  const char* data = text.data() ? text.data() : "";
  if (sqlite3_bind_text64(stmt_, index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8) !=
      SQLITE_OK) {
    db_.Fail("bind");
  }
  return *this;
}

Statement& Statement::BindReal(int index, double value) {
  if (sqlite3_bind_double(stmt_, index, value) != SQLITE_OK) db_.Fail("bind");
  return *this;
}

Statement& Statement::BindBlob(int index, std::string_view bytes) {
  const char* data = bytes.data() ? bytes.data() : "";
  if (sqlite3_bind_blob64(stmt_, index, data, bytes.size(), SQLITE_TRANSIENT) != SQLITE_OK) {
    db_.Fail("bind");
  }
  return *this;
}

Statement& Statement::BindNull(int index) {
  sqlite3_bind_null(stmt_, index);
  return *this;
}

Statement& Statement::BindOptional(int index, std::string_view text) {
  return text.empty() ? BindNull(index) : Bind(index, text);
}

Statement& Statement::BindValue(int index, const Value& value) {
  if (const double* x = std::get_if<double>(&value)) {
    // SQLite turns NaN into NULL, and may store -0.0 as the integer 0.
    if (!std::isnan(*x) && !(*x == 0 && std::signbit(*x))) return BindReal(index, *x);
    uint64_t bits = std::bit_cast<uint64_t>(*x);
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(bits >> (8 * i));
    return BindBlob(index, std::string_view(bytes, 8));
  }
  if (const int64_t* i = std::get_if<int64_t>(&value)) return Bind(index, *i);
  return Bind(index, std::string_view(std::get<JsonText>(value).text));
}

bool Statement::Step() {
  int rc = sqlite3_step(stmt_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  // The message must be taken before the reset, which may clear it.
  try {
    db_.Fail("");
  } catch (...) {
    sqlite3_reset(stmt_);
    throw;
  }
}

void Statement::Run() {
  while (Step()) {
  }
  Reset();
}

void Statement::Reset() {
  sqlite3_reset(stmt_);
  sqlite3_clear_bindings(stmt_);
}

std::string Statement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(stmt_, column);
  if (!text) return "";
  return std::string(reinterpret_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(stmt_, column)));
}

std::string Statement::Blob(int column) const {
  const void* data = sqlite3_column_blob(stmt_, column);
  if (!data) return "";
  return std::string(static_cast<const char*>(data),
                     static_cast<size_t>(sqlite3_column_bytes(stmt_, column)));
}

std::optional<int64_t> Statement::OptionalInt(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Int(column);
}

Value Statement::GetValue(int column) const {
  switch (sqlite3_column_type(stmt_, column)) {
    case SQLITE_INTEGER:
      return Int(column);
    case SQLITE_FLOAT:
      return Real(column);
    case SQLITE_BLOB: {
      std::string bytes = Blob(column);
      if (bytes.size() != 8) return std::nan("");
      uint64_t bits = 0;
      for (int i = 0; i < 8; ++i) {
        bits |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
      }
      return std::bit_cast<double>(bits);
    }
    case SQLITE_NULL:
      return std::nan("");
    default:
      return JsonText{Text(column)};
  }
}

Transaction::Transaction(Database& db) : db_(db) { db.Exec("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (open_ && !sqlite3_get_autocommit(db_.handle())) {
    sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

void Transaction::Commit() {
  db_.Exec("COMMIT");
  open_ = false;
}

}  // namespace xp::record
