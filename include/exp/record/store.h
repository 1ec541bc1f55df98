// The store: a folder `.exp/` with the SQLite database `exp.db` (schema/README.md) and its caches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace xp::record {

class Database;

class Store {
 public:
  // Opens the store in `folder`, waiting for others that create or migrate it at the same time. An
  // older store is migrated (a copy is kept beside it). Where the folder can't be written, or its
  // disk is full, it is opened for reading only. Throws UsageError: no store there, not a store,
  // newer than this program, damaged.
  static Store Open(const std::filesystem::path& folder);

  // As Open, to take something away: on a full disk what is set aside for the end of runs is given
  // back first, so that there is room to work in.
  static Store OpenToRemove(const std::filesystem::path& folder);

  // As Open, and makes an empty store first where there is none. Any number of processes may do so
  // at once.
  static Store OpenOrCreate(const std::filesystem::path& folder);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::filesystem::path& folder() const { return folder_; }
  bool read_only() const { return read_only_; }
  // Throws where the store is open for reading only: UsageError, JobError for a full disk.
  void RequireWritable() const;
  // One connection, to be used by one thread at a time.
  Database& db() const { return *db_; }

 private:
  Store(std::filesystem::path folder, std::unique_ptr<Database> db, bool read_only);

  std::filesystem::path folder_;
  std::unique_ptr<Database> db_;
  bool read_only_;
};

// What a store's folder holds, copies made before migrations aside.
inline constexpr const char* kStoreFiles[] = {"exp.db", "exp.db-wal",   "exp.db-shm",
                                              "lock",   "image-hashes", "reserve"};

// Where the store is: `flag` (--store) if not empty, else the environment's EXP_STORE, else the
// nearest
// `.exp/exp.db` upward from `from`. An empty path: none was found.
std::filesystem::path FindStore(const std::string& flag, const std::filesystem::path& from);

// Where a new store belongs: `.exp` beside the nearest `.git` upward, or in `from` itself.
std::filesystem::path PlaceForNewStore(const std::filesystem::path& from);

// FindStore and Open; throws UsageError with what to do where there is none.
Store OpenFoundStore(const std::string& flag);
// The same with OpenToRemove.
Store OpenFoundStoreToRemove(const std::string& flag);

// A sentence to warn with when the folder is on a network file system, where SQLite's locks and
// shared memory can't be relied on (https://sqlite.org/wal.html, "all processes must be on the same
// host").
std::string NetworkFileSystemWarning(const std::filesystem::path& folder);
// "NFS" of statfs's magic number 0x6969, ...; nullptr for a local one.
const char* NetworkFileSystemName(uint32_t magic);

}  // namespace xp::record
