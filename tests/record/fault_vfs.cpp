#include "fault_vfs.h"

#include <atomic>
#include <cstring>
#include <memory>

namespace {

struct Plan {
  FaultVfs::Mode mode = FaultVfs::Mode::kOnce;
  std::atomic<int> at{0}, count{0};
};
Plan plan;
sqlite3_vfs* real_vfs = nullptr;

struct File {
  sqlite3_file base;
  sqlite3_file* real;
};
sqlite3_file* Real(sqlite3_file* f) { return reinterpret_cast<File*>(f)->real; }

enum class Fate { kPass, kFail, kDrop };

Fate Next() {
  int n = ++plan.count, at = plan.at;
  if (at == 0 || n < at) return Fate::kPass;
  switch (plan.mode) {
    case FaultVfs::Mode::kOnce:
      return n == at ? Fate::kFail : Fate::kPass;
    case FaultVfs::Mode::kFull:
      return Fate::kFail;
    default:
      return Fate::kDrop;
  }
}

int Failure(int io_error) { return plan.mode == FaultVfs::Mode::kFull ? SQLITE_FULL : io_error; }

int Close(sqlite3_file* f) {
  sqlite3_file* real = Real(f);
  int rc = real->pMethods->xClose(real);
  ::operator delete(real);
  return rc;
}
int Read(sqlite3_file* f, void* p, int n, sqlite3_int64 o) {
  return Real(f)->pMethods->xRead(Real(f), p, n, o);
}
int Write(sqlite3_file* f, const void* p, int n, sqlite3_int64 o) {
  Fate fate = Next();
  if (fate == Fate::kFail) return Failure(SQLITE_IOERR_WRITE);
  return fate == Fate::kDrop ? SQLITE_OK : Real(f)->pMethods->xWrite(Real(f), p, n, o);
}
int Truncate(sqlite3_file* f, sqlite3_int64 n) {
  Fate fate = Next();
  if (fate == Fate::kFail && plan.mode == FaultVfs::Mode::kOnce) return SQLITE_IOERR_TRUNCATE;
  return fate == Fate::kDrop ? SQLITE_OK : Real(f)->pMethods->xTruncate(Real(f), n);
}
int Sync(sqlite3_file* f, int flags) {
  Fate fate = Next();
  if (fate == Fate::kFail && plan.mode == FaultVfs::Mode::kOnce) return SQLITE_IOERR_FSYNC;
  return fate == Fate::kDrop ? SQLITE_OK : Real(f)->pMethods->xSync(Real(f), flags);
}
int FileSize(sqlite3_file* f, sqlite3_int64* n) { return Real(f)->pMethods->xFileSize(Real(f), n); }
int Lock(sqlite3_file* f, int l) { return Real(f)->pMethods->xLock(Real(f), l); }
int Unlock(sqlite3_file* f, int l) { return Real(f)->pMethods->xUnlock(Real(f), l); }
int CheckReserved(sqlite3_file* f, int* r) {
  return Real(f)->pMethods->xCheckReservedLock(Real(f), r);
}
int Control(sqlite3_file* f, int op, void* p) {
  return Real(f)->pMethods->xFileControl(Real(f), op, p);
}
int Sector(sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); }
int Traits(sqlite3_file* f) { return Real(f)->pMethods->xDeviceCharacteristics(Real(f)); }
int ShmMap(sqlite3_file* f, int page, int size, int extend, void volatile** p) {
  return Real(f)->pMethods->xShmMap(Real(f), page, size, extend, p);
}
int ShmLock(sqlite3_file* f, int o, int n, int flags) {
  return Real(f)->pMethods->xShmLock(Real(f), o, n, flags);
}
void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
int ShmUnmap(sqlite3_file* f, int remove) { return Real(f)->pMethods->xShmUnmap(Real(f), remove); }

const sqlite3_io_methods kMethods = {
    2,       Close,  Read,   Write,  Truncate, Sync,       FileSize, Lock,    Unlock, CheckReserved,
    Control, Sector, Traits, ShmMap, ShmLock,  ShmBarrier, ShmUnmap, nullptr, nullptr};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* f, int flags, int* out) {
  File* file = reinterpret_cast<File*>(f);
  file->base.pMethods = nullptr;
  file->real = static_cast<sqlite3_file*>(::operator new(static_cast<size_t>(real_vfs->szOsFile)));
  std::memset(file->real, 0, static_cast<size_t>(real_vfs->szOsFile));
  int rc = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
  if (rc == SQLITE_OK)
    file->base.pMethods = &kMethods;
  else
    ::operator delete(file->real);
  return rc;
}
int Delete(sqlite3_vfs*, const char* name, int sync) {
  bool dead = plan.mode == FaultVfs::Mode::kPowerCut && plan.at > 0 && plan.count >= plan.at;
  return dead ? SQLITE_OK : real_vfs->xDelete(real_vfs, name, sync);
}

sqlite3_vfs shim;

}  // namespace

FaultVfs::FaultVfs() {
  Arm(Mode::kOnce, 0);
  real_vfs = sqlite3_vfs_find(nullptr);
  shim = *real_vfs;
  shim.zName = "fault";
  shim.pNext = nullptr;
  shim.szOsFile = sizeof(File);
  shim.xOpen = Open;
  shim.xDelete = Delete;
  sqlite3_vfs_register(&shim, 1);
}

FaultVfs::~FaultVfs() {
  sqlite3_vfs_unregister(&shim);
  sqlite3_vfs_register(real_vfs, 1);
}

void FaultVfs::Arm(Mode mode, int n) {
  plan.mode = mode;
  plan.count = 0;
  plan.at = n;
}

int FaultVfs::count() const { return plan.count; }
