#include "src/cli/store_place.h"

#include "exp/record/store.h"

namespace fs = std::filesystem;

namespace xp::cli {

fs::path StoreToWrite(const std::string& flag) {
  fs::path here = fs::current_path(), found = record::FindStore(flag, here);
  return found.empty() ? record::PlaceForNewStore(here) : found;
}

}  // namespace xp::cli
