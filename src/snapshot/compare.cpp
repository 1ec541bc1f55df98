#include "exp/snapshot/compare.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "exp/base/error.h"
#include "exp/snapshot/code.h"
#include "src/snapshot/capture.h"
#include "src/snapshot/exact.h"
#include "src/snapshot/git.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

// One side: the manifest, and the commits' trees where they are at hand.
class Side {
 public:
  Side(const std::string& code_json, const LoadObject& load) : load_(load) {
    json code = json::parse(code_json, nullptr, false);
    if (!code.is_object()) return;
    if (code.contains("manifest")) {
      for (ManifestEntry& e : ReadManifest(load(code["manifest"].value("object", "")))) {
        std::string path = e.path;
        entries_[path] = std::move(e);
      }
    }
    for (const json& r : code.value("repositories", json::array())) {
      Repo repo;
      repo.prefix = PathBytes(r.value("path", ""));
      repo.commit = r.value("commit", "");
      std::string reason;
      for (const std::string& place :
           {(fs::path(PathBytes(code.value("root", ""))) / repo.prefix).string(),
            PathBytes(r.value("git_dir", ""))}) {
        repo.repository = place.empty() ? nullptr : OpenAt(place, reason);
        if (repo.repository) repo.tree = FindCommitTree(repo.repository.get(), repo.commit);
        if (repo.tree) break;
      }
      repos_.push_back(std::move(repo));
    }
  }

  const std::map<std::string, ManifestEntry>& entries() const { return entries_; }

  // The commit of a repository and its tree, if at hand.
  std::pair<std::string, git_tree*> Commit(const std::string& prefix) const {
    for (const Repo& r : repos_) {
      if (r.prefix == prefix) return {r.commit, r.tree.get()};
    }
    return {"", nullptr};
  }
  git_repository* Repository(const std::string& prefix) const {
    for (const Repo& r : repos_) {
      if (r.prefix == prefix) return r.repository.get();
    }
    return nullptr;
  }
  std::set<std::string> Prefixes() const {
    std::set<std::string> out;
    for (const Repo& r : repos_) out.insert(r.prefix);
    return out;
  }

  // Empty: not in the tree. Sets `known` to false where that can't be told.
  std::optional<std::string> Content(const std::string& path, bool& known) const {
    auto entry = entries_.find(path);
    if (entry != entries_.end()) {
      char kind = entry->second.kind;
      if (kind == 'F') return load_(entry->second.object);
      if (kind == 'L') return "git-lfs " + entry->second.object + "\n";
      if (kind == 'X') known = false;
      if (kind != 'C') return std::nullopt;
    }
    const Repo* best = nullptr;
    for (const Repo& r : repos_) {
      bool holds = path.rfind(r.prefix, 0) == 0;
      if (holds && (!best || r.prefix.size() > best->prefix.size())) best = &r;
    }
    if (!best || best->commit.empty()) return std::nullopt;
    git_tree_entry* found = nullptr;
    git_blob* blob = nullptr;
    if (!best->tree) {
      known = false;
      return std::nullopt;
    }
    std::string inner = path.substr(best->prefix.size());
    if (git_tree_entry_bypath(&found, best->tree.get(), inner.c_str()) != 0) return std::nullopt;
    TreeEntry owned(found);
    if (git_blob_lookup(&blob, best->repository.get(), git_tree_entry_id(found)) != 0)
      return std::nullopt;
    Blob owned_blob(blob);
    std::string bytes(static_cast<const char*>(git_blob_rawcontent(blob)),
                      static_cast<size_t>(git_blob_rawsize(blob)));
    return entry != entries_.end() ? WithCrlf(bytes) : bytes;
  }

 private:
  struct Repo {
    std::string prefix, commit;
    xp::snapshot::Repository repository;
    Tree tree;
  };
  const LoadObject& load_;
  std::map<std::string, ManifestEntry> entries_;
  std::vector<Repo> repos_;
};

// Paths that two commits of a repository hold differently.
void AddTreeChanges(git_repository* repo, git_tree* a, git_tree* b, const std::string& prefix,
                    std::set<std::string>& paths) {
  git_diff* diff = nullptr;
  if (git_diff_tree_to_tree(&diff, repo, a, b, nullptr) != 0) return;
  Diff owned(diff);
  for (size_t i = 0; i < git_diff_num_deltas(diff); ++i) {
    const git_diff_delta* d = git_diff_get_delta(diff, i);
    if (d->old_file.mode == GIT_FILEMODE_COMMIT || d->new_file.mode == GIT_FILEMODE_COMMIT)
      continue;
    paths.insert(prefix + (d->new_file.path ? d->new_file.path : d->old_file.path));
  }
}

void Describe(const std::optional<std::string>& a, const std::optional<std::string>& b,
              bool patches, CodeChange& change) {
  git_patch* patch = nullptr;
  std::string name = change.path;
  if (git_patch_from_buffers(&patch, a ? a->data() : nullptr, a ? a->size() : 0, name.c_str(),
                             b ? b->data() : nullptr, b ? b->size() : 0, name.c_str(),
                             nullptr) != 0 ||
      !patch) {
    return;
  }
  Patch owned(patch);
  size_t context = 0;
  git_patch_line_stats(&context, &change.added, &change.removed, patch);
  Buffer text;
  if (patches && git_patch_to_buf(&text.buf, patch) == 0) change.patch = text.Text();
}

}  // namespace

CodeComparison CompareCode(const std::string& code_a, const LoadObject& load_a,
                           const std::string& code_b, const LoadObject& load_b, bool patches) {
  CodeComparison out;
  StartGit();
  try {
    Side a(code_a, load_a), b(code_b, load_b);
    std::set<std::string> paths, prefixes = a.Prefixes();
    for (const auto& [path, entry] : a.entries()) paths.insert(path);
    for (const auto& [path, entry] : b.entries()) paths.insert(path);
    prefixes.merge(b.Prefixes());
    for (const std::string& prefix : prefixes) {
      auto [before, tree_a] = a.Commit(prefix);
      auto [after, tree_b] = b.Commit(prefix);
      if (before == after) continue;
      bool at_hand = (before.empty() || tree_a) && (after.empty() || tree_b);
      git_repository* repo = a.Repository(prefix) ? a.Repository(prefix) : b.Repository(prefix);
      if (!at_hand || !repo) {
        out.note = "commit " + (tree_a ? after : before) +
                   " is not at hand: only files beside the commits are compared";
        continue;
      }
      AddTreeChanges(repo, tree_a, tree_b, prefix, paths);
    }
    int64_t unknown = 0;
    for (const std::string& path : paths) {
      bool known = true;
      std::optional<std::string> before = a.Content(path, known), now = b.Content(path, known);
      if (!known) ++unknown;
      if (before == now) continue;
      CodeChange change{.path = PathText(path)};
      change.kind = !before ? CodeChange::Kind::kAdded
                    : !now  ? CodeChange::Kind::kRemoved
                            : CodeChange::Kind::kChanged;
      if (!known) change.kind = CodeChange::Kind::kChanged;
      if (known) Describe(before, now, patches, change);
      out.changes.push_back(std::move(change));
    }
    if (patches && unknown > 0 && out.note.empty()) {
      out.note = fmt::format("{} whose content wasn't kept {} not compared",
                             unknown == 1 ? "one file" : fmt::format("{} files", unknown),
                             unknown == 1 ? "is" : "are");
    }
  } catch (const std::exception& e) {
    out.note = std::string("the files can't be compared: ") + e.what();
  }
  return out;
}

}  // namespace xp::snapshot
