#include "exp/record/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "exp/base/temporary_folder.h"
#include "src/record/folder_lock.h"
#include "src/record/migrate.h"
#include "src/record/room.h"

namespace fs = std::filesystem;

namespace xp::record {
namespace {

bool Writable(const fs::path& folder) {
  fs::path file = folder / "exp.db";
  return ::access(folder.c_str(), W_OK) == 0 &&
         (::access(file.c_str(), F_OK) != 0 || ::access(file.c_str(), W_OK) == 0);
}

void Configure(Database& db) {
  db.Exec("PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16000");
  // A batch is on the disk when its commit returns: batches are few, so this costs little.
  db.Exec(
      "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=2000; PRAGMA "
      "journal_size_limit=33554432");
}

// SQLite takes an empty file for a new database. Where runs were written before (they leave
// `reserve`), it is one that lost its content.
void RefuseEmptied(const fs::path& folder) {
  constexpr uintmax_t kHeader = 100;  // https://sqlite.org/fileformat2.html
  std::error_code error;
  uintmax_t size = fs::file_size(folder / "exp.db", error);
  if (error || size >= kHeader || !fs::exists(folder / kReserveName, error)) return;
  throw JobError(
      {.what = fmt::format("the store's database has only {} bytes: it was cut off", size),
       .where = (folder / "exp.db").string(),
       .next = "restore a copy; or, to begin anew, move the folder away"});
}

std::unique_ptr<Database> OpenWritable(const fs::path& folder) {
  // Even looking at the version counts as a reader, and with one the switch to WAL fails at once,
  // whatever the busy handler says: so nobody looks while somebody else creates the store.
  FolderLock lock(folder);
  RefuseEmptied(folder);
  auto db = std::make_unique<Database>(folder / "exp.db", Database::Mode::kReadWrite);
  int newest = static_cast<int>(EmbeddedMigrations().size());
  CheckVersion(*db, newest);
  if (SchemaVersion(*db) < newest) {
    if (SchemaVersion(*db) == 0) db->Exec("PRAGMA auto_vacuum=INCREMENTAL");
    db->Exec("PRAGMA journal_mode=WAL");
    Migrate(*db, EmbeddedMigrations());
  }
  Configure(*db);
  return db;
}

// As a URI, in which SQLite takes options; '?', '#' and '%' of the path are escaped.
std::string ImmutableUri(const fs::path& file) {
  std::string out = "file:";
  for (char c : file.string()) {
    if (c == '?' || c == '#' || c == '%') {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "?immutable=1";
}

// A copy to look at, of this program's version: of a store whose killed writer left its last
// batches in the log, which can't be read where it can't be taken into the file, or of an older one
// that can't be migrated where it is. nullptr: it can't be copied.
std::unique_ptr<Database> OpenCopy(const fs::path& file) {
  TemporaryFolder place("store");  // gone at the end: open files stay readable
  if (place.path().empty()) return nullptr;
  fs::path copy = fs::path(place.path()) / "exp.db";
  for (const char* part : {"", "-wal"}) {
    const fs::path from = file.string() + part, to = copy.string() + part;
    std::error_code error;
    if (*part != '\0' && !fs::exists(from, error)) continue;
    if (!fs::copy_file(from, to, error)) return nullptr;
    fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write, error);
  }
  try {
    auto db = std::make_unique<Database>(copy, Database::Mode::kReadWrite);
    Migrate(*db, EmbeddedMigrations(), KeepCopy::kNo);
    Statement(*db, "SELECT count(*) FROM sqlite_master").Step();
    db->NameAs(file);
    return db;
  } catch (const SqliteError&) {  // no room for it
    return nullptr;
  }
}

std::unique_ptr<Database> OpenForReading(const fs::path& folder) {
  RefuseEmptied(folder);
  fs::path file = folder / "exp.db";
  std::unique_ptr<Database> db;
  try {
    db = std::make_unique<Database>(file, Database::Mode::kReadOnly);
    SchemaVersion(*db);
    Statement(*db, "SELECT count(*) FROM sqlite_master").Step();
  } catch (const SqliteError&) {
    // No WAL index can be made in a folder that can't be written; nobody else can write there
    // either.
    std::error_code error;
    uintmax_t log = fs::file_size(file.string() + "-wal", error);
    db = !error && log > 0 ? OpenCopy(file) : nullptr;
    if (!db) {
      db = std::make_unique<Database>(ImmutableUri(file), Database::Mode::kReadOnly);
      db->NameAs(file);
    }
  }
  int newest = static_cast<int>(EmbeddedMigrations().size());
  CheckVersion(*db, newest);
  if (SchemaVersion(*db) < newest) {
    if (std::unique_ptr<Database> migrated = OpenCopy(file)) return migrated;
    throw UsageError(
        {.what = fmt::format("the store has version {}, this program needs {}, and it "
                             "can be migrated neither there, which can't be written, nor in a copy",
                             SchemaVersion(*db), newest),
         .where = file.string(),
         .next = "copy the folder to a place that you can write, name it with --store; or let "
                 "TMPDIR name a folder with room for it"});
  }
  return db;
}

}  // namespace

Store::Store(fs::path folder, std::unique_ptr<Database> db, bool read_only)
    : folder_(std::move(folder)), db_(std::move(db)), read_only_(read_only) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

void Store::RequireWritable() const {
  if (!read_only_) return;
  if (DiskFull(folder_)) {
    throw JobError({.what = "the store can't be written: its disk is full",
                    .where = folder_.string(),
                    .next = "free space there, then try again"});
  }
  throw UsageError({.what = "the store can't be written",
                    .where = folder_.string(),
                    .next = "check the owner and mode of the folder and of exp.db"});
}

Store Store::OpenToRemove(const fs::path& folder) {
  std::error_code error;
  if (DiskFull(folder)) fs::remove(folder / kReserveName, error);
  return Open(folder);
}

Store Store::Open(const fs::path& folder) {
  std::error_code error;
  fs::path absolute = fs::absolute(folder);
  if (!fs::exists(absolute / "exp.db", error)) {
    throw UsageError(
        {.what = "there is no store",
         .where = absolute.string(),
         .expected = "a folder with a file exp.db",
         .next = "`exp run CONFIG` makes one; --store or EXP_STORE names another place"});
  }
  if (!Writable(absolute)) return Store(absolute, OpenForReading(absolute), true);
  try {
    return Store(absolute, OpenWritable(absolute), false);
  } catch (const Error& e) {
    // The log's index needs a little room, even to read. Whoever needs to write says so.
    if (e.kind() != ErrorKind::kJob || !DiskFull(absolute)) throw;
    return Store(absolute, OpenForReading(absolute), true);
  }
}

Store Store::OpenOrCreate(const fs::path& folder) {
  fs::path absolute = fs::absolute(folder);
  std::error_code error;
  fs::create_directories(absolute, error);
  if (error || !fs::is_directory(absolute)) {
    throw UsageError({.what = "the store's folder can't be made: " +
                              (error ? error.message() : std::string("a file is in its place")),
                      .where = absolute.string(),
                      .next = "name another place with --store"});
  }
  if (!Writable(absolute)) {
    throw UsageError({.what = "the store can't be written",
                      .where = absolute.string(),
                      .next = "check its owner and mode, or name another place with --store"});
  }
  // Keeps the store out of the user's `git status` without touching their .gitignore; in a folder
  // that holds other things it would hide these, too.
  if (fs::is_empty(absolute, error)) {
    int fd = ::open((absolute / ".gitignore").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) {
      ssize_t written = ::write(fd, "*\n", 2);
      static_cast<void>(written);
      ::close(fd);
    }
  }
  return Store(absolute, OpenWritable(absolute), false);
}

fs::path FindStore(const std::string& flag, const fs::path& from) {
  if (!flag.empty()) return flag;
  if (const char* named = std::getenv("EXP_STORE"); named && *named) return named;
  std::error_code error;
  for (fs::path dir = fs::absolute(from, error);; dir = dir.parent_path()) {
    if (fs::exists(dir / ".exp" / "exp.db", error)) return dir / ".exp";
    if (dir == dir.parent_path()) return {};
  }
}

fs::path PlaceForNewStore(const fs::path& from) {
  std::error_code error;
  fs::path start = fs::absolute(from, error);
  for (fs::path dir = start;; dir = dir.parent_path()) {
    if (fs::exists(dir / ".git", error)) return dir / ".exp";
    if (dir == dir.parent_path()) return start / ".exp";
  }
}

namespace {

fs::path RequireStore(const std::string& flag) {
  fs::path folder = FindStore(flag, fs::current_path());
  if (folder.empty()) {
    throw UsageError(
        {.what = "no store found here or in a folder above",
         .where = fs::current_path().string(),
         .expected = "a folder .exp with a file exp.db",
         .next = "`exp run CONFIG` makes one; --store or EXP_STORE names another place"});
  }
  return folder;
}

}  // namespace

Store OpenFoundStore(const std::string& flag) { return Store::Open(RequireStore(flag)); }

Store OpenFoundStoreToRemove(const std::string& flag) {
  return Store::OpenToRemove(RequireStore(flag));
}

const char* NetworkFileSystemName(uint32_t magic) {
  // Magic numbers: linux/magic.h and statfs(2).
  static const std::map<uint32_t, const char*> kNames = {
      {0x6969, "NFS"},        {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB"},  {0x517B, "SMB"},
      {0x0BD00BD0, "Lustre"}, {0x00C36400, "Ceph"},   {0x47504653, "GPFS"}, {0x5346414F, "AFS"},
      {0x01021997, "9p"},     {0x19830326, "BeeGFS"}, {0x65735546, "FUSE"}, {0x1980, "Coda"}};
  auto found = kNames.find(magic);
  return found == kNames.end() ? nullptr : found->second;
}

std::string NetworkFileSystemWarning(const fs::path& folder) {
  struct statfs info;
  if (::statfs(folder.c_str(), &info) != 0) return "";
  const char* name = NetworkFileSystemName(static_cast<uint32_t>(info.f_type));
  if (!name) return "";
  return fmt::format(
      "the store {} is on a network or user-space file system ({}), where SQLite's locks "
      "may not hold; use a local disk (--store) when several processes write",
      folder.string(), name);
}

}  // namespace xp::record
