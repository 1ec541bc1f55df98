// The patches of a repository, for people and for `git apply`; the files themselves are stored,
// too.
#include <fmt/format.h>

#include <algorithm>

#include "src/snapshot/capture.h"
#include "src/snapshot/redact_file.h"

using nlohmann::json;

namespace xp::snapshot {

bool Capture::HoldsSecret(git_repository* repo, const git_oid& id) {
  git_blob* blob = nullptr;
  if (git_oid_is_zero(&id) || git_blob_lookup(&blob, repo, &id) != 0) return false;
  Blob owned(blob);
  std::string text(static_cast<const char*>(git_blob_rawcontent(blob)),
                   static_cast<size_t>(git_blob_rawsize(blob)));
  return RedactFile(text, "a former content", redactor_) != text;
}

std::string Capture::PatchText(git_repository* repo, git_diff* diff, const std::string& prefix,
                               const char* what, const Paths& paths, json& out) {
  std::string text;
  for (size_t i = 0; i < git_diff_num_deltas(diff); ++i) {
    const git_diff_delta* d = git_diff_get_delta(diff, i);
    std::string path = d->new_file.path ? d->new_file.path : d->old_file.path;
    if (paths.sparse.count(path)) continue;  // not there, and not deleted
    auto skip = [&](const char* reason) {
      out["partial"].push_back(fmt::format("{} leaves out {}: {}", what, CleanName(path), reason));
    };
    if (static_cast<int64_t>(std::max(d->old_file.size, d->new_file.size)) >
        options_.max_file_bytes) {
      skip("larger than snapshot.max_file_bytes");
      continue;
    }
    git_patch* patch = nullptr;
    if (git_patch_from_diff(&patch, diff, i) != 0 || !patch) continue;
    Patch owned(patch);
    bool binary = (git_patch_get_delta(patch)->flags & GIT_DIFF_FLAG_BINARY) != 0;
    // A binary patch hides what it holds, the former content included; of a text, the lines of a
    // key that changed in part are learned here.
    bool secret = redacted_paths_.count(prefix + path) > 0 || HoldsSecret(repo, d->old_file.id) ||
                  HoldsSecret(repo, d->new_file.id);
    if (binary && secret) {
      skip("a secret was removed from it");
      continue;
    }
    Buffer buffer;
    if (git_patch_to_buf(&buffer.buf, patch) != 0) continue;
    text += redactor_.Text(buffer.Text(), std::string(what) + " " + PathText(prefix + path));
    if (static_cast<int64_t>(text.size()) > options_.max_patch_bytes) {
      out["partial"].push_back(fmt::format(
          "{} is larger than snapshot.max_patch_bytes ({} bytes); the files themselves are "
          "stored within their limits",
          what, options_.max_patch_bytes));
      return "";
    }
  }
  return text;
}

void Capture::AddPatches(git_repository* repo, git_tree* head, const std::string& prefix,
                         const Paths& paths, json& out) {
  git_diff_options o = GIT_DIFF_OPTIONS_INIT;
  o.flags = GIT_DIFF_SHOW_BINARY | GIT_DIFF_INCLUDE_TYPECHANGE | GIT_DIFF_IGNORE_SUBMODULES;
  git_diff* diff = nullptr;
  auto put = [&](const char* key, const char* role, const char* what) {
    Diff owned(diff);
    std::string text = PatchText(repo, diff, prefix, what, paths, out);
    if (text.empty()) return;
    int64_t size = static_cast<int64_t>(text.size());
    out[key] = {{"object", Store(role, std::move(text))}, {"bytes", size}};
  };
  if (git_diff_tree_to_workdir_with_index(&diff, repo, head, &o) == 0) {
    put("patch", "patch", "patch");
  } else {
    out["partial"].push_back(Reason("no patch: "));
  }
  if (git_diff_tree_to_index(&diff, repo, head, nullptr, &o) == 0) {
    put("staged_patch", "staged-patch", "staged patch");
  }
}

}  // namespace xp::snapshot
