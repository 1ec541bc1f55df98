#include "src/cli/store_place.h"

#include <fmt/format.h>

#include "exp/record/store.h"
#include "src/cli/tell.h"

namespace fs = std::filesystem;

namespace xp::cli {

fs::path StoreToWrite(const std::string& flag) {
  fs::path here = fs::current_path(), found = record::FindStore(flag, here);
  return found.empty() ? record::PlaceForNewStore(here) : found;
}

void PrintNotStored(const std::string& what, const Error& problem) {
  const ErrorText& text = problem.text();
  Tell("note: {}: {}{}{}\n", what, text.what, text.next.empty() ? "" : "\n  next: ", text.next);
}

}  // namespace xp::cli
