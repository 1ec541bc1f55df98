// Taking runs away and checking what is left. Each change is one transaction and may be repeated.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exp/record/store.h"

namespace xp::record {

// Removes runs with everything recorded of them (checkpoints' files stay). Throws UsageError where
// one of them is running, and then removes none.
void RemoveRuns(const Store& store, const std::vector<int64_t>& runs);

struct GarbageReport {
  int64_t objects = 0, documents = 0, bytes = 0;  // removed, or that would be
  int64_t unfinished = 0;  // files beside the database that killed processes left half written
  int64_t closed = 0;      // attempts of killed processes, marked as such
};
// Removes objects and documents that no run names, and gives the space back to the disk; also files
// of the store's folder that nobody is writing any more.
GarbageReport CollectGarbage(const Store& store, bool dry_run);

struct VerifyReport {
  int64_t objects = 0, documents = 0, checkpoints = 0;
  std::vector<std::string> problems;  // damage: a wrong hash, a broken table
  std::vector<std::string> notes;  // checkpoints that were moved or changed: no fault of the store
};
// Reads everything: SQLite's integrity and foreign keys, each object's and document's hash; with
// `checkpoints`, also the files that checkpoints name; `progress` hears how many of the checkpoints
// are hashed; may be empty.
VerifyReport VerifyStore(const Store& store, bool checkpoints,
                         const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace xp::record
