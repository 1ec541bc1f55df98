// A VFS for SQLite that fails, or goes silently dead, at a chosen write: what a bad disk or a power
// cut do.
#pragma once

#include <sqlite3.h>

// While it lives, it is SQLite's default VFS.
class FaultVfs {
 public:
  enum class Mode {
    kOnce,      // one write fails with an I/O error, then the disk is well again
    kFull,      // from then on the disk is full
    kPowerCut,  // from then on nothing reaches the disk, and nobody is told
  };
  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  // The `n`-th write, sync or truncation from now on (1: the next); 0: none.
  void Arm(Mode mode, int n);
  // How many there were since Arm.
  int count() const;
};
