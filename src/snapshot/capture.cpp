#include "src/snapshot/capture.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "exp/base/hash.h"
#include "src/snapshot/exact.h"
#include "src/snapshot/redact_file.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

constexpr int64_t kListedOmissions = 1000;

const char* StatusName(git_delta_t status) {
  switch (status) {
    case GIT_DELTA_ADDED:
      return "added";
    case GIT_DELTA_DELETED:
      return "deleted";
    case GIT_DELTA_UNTRACKED:
      return "untracked";
    case GIT_DELTA_TYPECHANGE:
      return "type changed";
    case GIT_DELTA_CONFLICTED:
      return "conflicted";
    case GIT_DELTA_UNREADABLE:
      return "unreadable";
    default:
      return "modified";
  }
}

void Count(json& out, const char* what) {
  json& n = out["changes"][what];
  n = n.is_number() ? n.get<int64_t>() + 1 : 1;
}

}  // namespace

std::string PathText(const std::string& bytes) {
  // nlohmann's check is strict UTF-8; only names that fail it need the escapes.
  json probe = bytes;
  try {
    static_cast<void>(probe.dump());
    return bytes;
  } catch (const json::exception&) {
  }
  std::string out;
  for (unsigned char c : bytes) {
    if (c == '\\')
      out += "\\\\";
    else if (c < 0x80)
      out += static_cast<char>(c);
    else
      out += fmt::format("\\x{:02x}", c);
  }
  return out;
}

bool Capture::Excluded(const fs::path& path) const {
  for (const fs::path& folder : options_.exclude) {
    auto [mismatch, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
    if (mismatch == folder.end()) return true;
  }
  return false;
}

void Capture::Omit(const std::string& path, const std::string& reason, int64_t bytes) {
  ++omitted_count_;
  omitted_bytes_ += bytes;
  if (omitted_count_ > kListedOmissions) return;
  omitted_.push_back({{"path", CleanName(path)}, {"reason", reason}, {"bytes", bytes}});
}

// Names hold secrets, too.
std::string Capture::CleanName(const std::string& path) {
  return redactor_.Text(PathText(path), "a name");
}

std::string Capture::Reason(const std::string& what) {
  return redactor_.Text(what + GitReason(), "a message of git");
}

std::string Capture::Store(const char* role, std::string bytes) {
  std::string hash = HashBytes(bytes).Hex();
  if (stored_.insert(hash).second) objects_.push_back({role, std::move(bytes)});
  return hash;
}

void Capture::AddFile(const std::string& workdir, const std::string& path,
                      const std::string& prefix) {
  std::string file = workdir + path, full = prefix + path, content;
  ManifestEntry entry{.path = redactor_.Text(full, "a file's name")};
  struct stat info;
  if (::lstat(file.c_str(), &info) != 0) {
    entry.kind = 'D';
    entries_.push_back(entry);
    return;
  }
  if (S_ISDIR(info.st_mode)) {  // a folder took the file's place; what is in it is listed by itself
    entry.kind = 'D';
    entries_.push_back(entry);
    return;
  }
  entry.kind = 'X';
  entry.size = info.st_size;
  bool link = S_ISLNK(info.st_mode);
  entry.mode = link ? 0120000 : (info.st_mode & S_IXUSR) ? 0100755 : 0100644;
  auto omit = [&](const std::string& reason) {
    Omit(full, reason, info.st_size);
    entries_.push_back(entry);
  };
  if (!link && !S_ISREG(info.st_mode)) return Omit(full, "neither file nor link", 0);
  if (info.st_size > options_.max_file_bytes) return omit("larger than snapshot.max_file_bytes");
  if (total_bytes_ + info.st_size > options_.max_total_bytes) {
    return omit("snapshot.max_total_bytes is used up");
  }
  if (!(link ? ReadTarget(file, info.st_size, content)
             : ReadRegular(file, info.st_size, content))) {
    return omit(std::string("can't be read: ") + std::strerror(errno));
  }
  std::string clean = RedactFile(content, "file " + PathText(full), redactor_);
  if (clean != content) redacted_paths_.insert(full);
  entry.kind = 'F';
  entry.size = static_cast<int64_t>(clean.size());
  total_bytes_ += entry.size;
  entry.object = Store("file", std::move(clean));
  entries_.push_back(entry);
}

void Capture::DescribeHead(git_repository* repo, json& out) {
  git_reference* head = nullptr;
  int rc = git_repository_head(&head, repo);
  Reference owned(head);
  out["commit"] = "";
  out["branch"] = "";
  if (rc == GIT_EUNBORNBRANCH) {
    out["head"] = "no commits yet";
    git_reference* symbolic = nullptr;
    if (git_reference_lookup(&symbolic, repo, "HEAD") == 0) {
      Reference target(symbolic);
      const char* name = git_reference_symbolic_target(symbolic);
      if (name) out["branch"] = CleanName(fs::path(name).filename().string());
    }
    return;
  }
  if (rc != 0) {
    out["head"] = "unreadable";
    out["partial"].push_back(Reason("HEAD can't be read: "));
    return;
  }
  bool detached = git_repository_head_detached(repo) == 1;
  out["head"] = detached ? "detached" : "branch";
  if (!detached) out["branch"] = CleanName(git_reference_shorthand(head));
  if (const git_oid* oid = git_reference_target(head)) out["commit"] = OidText(oid);
}

void Capture::Describe(git_repository* repo, json& out) {
  out["partial"] = json::array();
  DescribeHead(repo, out);
  out["shallow"] = git_repository_is_shallow(repo) == 1;
  out["linked_worktree"] = git_repository_is_worktree(repo) == 1;
  out["git_dir"] = CleanName(git_repository_commondir(repo));
  json remotes = json::array();
  git_strarray names = {nullptr, 0};
  if (git_remote_list(&names, repo) == 0) {
    for (size_t i = 0; i < names.count; ++i) {
      git_remote* remote = nullptr;
      if (git_remote_lookup(&remote, repo, names.strings[i]) != 0) continue;
      Remote owned(remote);
      const char* url = git_remote_url(remote);
      std::string name = CleanName(names.strings[i]);
      remotes.push_back(
          {{"name", name}, {"url", PathText(redactor_.Text(url ? url : "", "remote " + name))}});
    }
    git_strarray_dispose(&names);
  }
  out["remotes"] = remotes;
}

void Capture::AddDeltas(git_diff* diff, git_index* index, const std::string& workdir, Paths& paths,
                        json& out) {
  for (size_t i = 0; i < git_diff_num_deltas(diff); ++i) {
    const git_diff_delta* d = git_diff_get_delta(diff, i);
    std::string path = d->new_file.path ? d->new_file.path : d->old_file.path;
    if (d->status == GIT_DELTA_DELETED && d->old_file.path) path = d->old_file.path;
    if (Excluded(workdir + path)) continue;
    if (!path.empty() && path.back() == '/') {  // an untracked repository inside
      paths.nested.insert(path.substr(0, path.size() - 1));
      continue;
    }
    if (d->new_file.mode == GIT_FILEMODE_COMMIT || d->old_file.mode == GIT_FILEMODE_COMMIT)
      continue;
    const git_index_entry* entry = git_index_get_bypath(index, path.c_str(), 0);
    bool skipped = entry && (entry->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE);
    if (d->status == GIT_DELTA_DELETED && skipped) {
      paths.sparse.insert(path);
      continue;
    }
    if (d->status == GIT_DELTA_UNREADABLE) Omit(path, "can't be read", 0);
    if (paths.changed.insert(path).second) {
      Count(out, StatusName(d->status));
      json& list = out["changed"];
      if (list.size() < 200) {
        list.push_back({{"path", CleanName(path)}, {"status", StatusName(d->status)}});
      }
    }
  }
}

// Submodules, files that differ though git calls them unchanged, and in full mode every file.
void Capture::AddTracked(git_repository* repo, git_index* index, const std::string& workdir,
                         const std::string& prefix, Paths& paths) {
  bool attributes = std::any_of(paths.changed.begin(), paths.changed.end(), [](const auto& path) {
    return fs::path(path).filename() == ".gitattributes";
  });
  ExactCheck exact(repo, index, attributes);
  struct stat info;
  std::string oid;
  for (size_t i = 0; i < git_index_entrycount(index); ++i) {
    const git_index_entry* entry = git_index_get_byindex(index, i);
    std::string path = entry->path;
    if (entry->mode == GIT_FILEMODE_COMMIT) {
      if (::stat((workdir + path + "/.git").c_str(), &info) == 0) {
        paths.nested.insert(path);
      } else {
        AddUnder(workdir, path, paths);
      }
      continue;
    }
    if (Excluded(workdir + path) || paths.sparse.count(path)) continue;
    if (paths.changed.count(path)) continue;
    if (options_.mode == CodeMode::kFull) {
      paths.changed.insert(path);
      continue;
    }
    switch (exact.Compare(entry, workdir + path, oid)) {
      case ExactCheck::Result::kSame:
        break;
      case ExactCheck::Result::kDiffers:
        paths.changed.insert(path);
        break;
      case ExactCheck::Result::kCrlf:
        entries_.push_back({.kind = 'C', .mode = entry->mode, .path = prefix + path});
        break;
      case ExactCheck::Result::kLfs:
        if (::lstat((workdir + path).c_str(), &info) == 0)
          entries_.push_back({'L', entry->mode, oid, info.st_size, prefix + path});
    }
  }
}

// Files in the place of a submodule that isn't checked out: no repository lists them.
void Capture::AddUnder(const std::string& workdir, const std::string& folder, Paths& paths) {
  std::error_code error;
  auto it = fs::recursive_directory_iterator(workdir + folder,
                                             fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (!fs::is_directory(it->symlink_status(error)))
      paths.changed.insert(it->path().string().substr(workdir.size()));
  }
}

Capture::Paths Capture::FindPaths(git_repository* repo, git_tree* head, const std::string& prefix,
                                  json& out) {
  Paths paths;
  std::string workdir = git_repository_workdir(repo);
  git_index* index = nullptr;
  if (git_repository_index(&index, repo) != 0) {
    out["partial"].push_back(Reason("the index can't be read: "));
    return paths;
  }
  Index owned(index);
  git_diff_options o = GIT_DIFF_OPTIONS_INIT;
  o.flags = GIT_DIFF_INCLUDE_UNTRACKED | GIT_DIFF_RECURSE_UNTRACKED_DIRS |
            GIT_DIFF_INCLUDE_TYPECHANGE | GIT_DIFF_INCLUDE_UNREADABLE;
  o.ignore_submodules = GIT_SUBMODULE_IGNORE_ALL;  // they are looked at one by one
  git_diff* diff = nullptr;
  if (git_diff_tree_to_index(&diff, repo, head, index, &o) == 0) {
    Diff staged(diff);
    AddDeltas(diff, index, workdir, paths, out);
  } else {
    out["partial"].push_back(Reason("staged changes can't be read: "));
  }
  if (git_diff_index_to_workdir(&diff, repo, index, &o) == 0) {
    Diff unstaged(diff);
    AddDeltas(diff, index, workdir, paths, out);
  } else {
    out["partial"].push_back(Reason("changes of the work tree can't be read: "));
  }
  AddTracked(repo, index, workdir, prefix, paths);
  return paths;
}

bool Capture::HoldsSecret(git_repository* repo, const git_oid& id) {
  git_blob* blob = nullptr;
  if (git_oid_is_zero(&id) || git_blob_lookup(&blob, repo, &id) != 0) return false;
  Blob owned(blob);
  std::string text(static_cast<const char*>(git_blob_rawcontent(blob)),
                   static_cast<size_t>(git_blob_rawsize(blob)));
  return RedactFile(text, "a former content", redactor_) != text;
}

std::string Capture::PatchText(git_repository* repo, git_diff* diff, const std::string& prefix,
                               const char* what, json& out) {
  std::string text;
  for (size_t i = 0; i < git_diff_num_deltas(diff); ++i) {
    const git_diff_delta* d = git_diff_get_delta(diff, i);
    std::string path = d->new_file.path ? d->new_file.path : d->old_file.path;
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
                         json& out) {
  git_diff_options o = GIT_DIFF_OPTIONS_INIT;
  o.flags = GIT_DIFF_SHOW_BINARY | GIT_DIFF_INCLUDE_TYPECHANGE | GIT_DIFF_IGNORE_SUBMODULES;
  git_diff* diff = nullptr;
  auto put = [&](const char* key, const char* role, const char* what) {
    Diff owned(diff);
    std::string text = PatchText(repo, diff, prefix, what, out);
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

void Capture::AddRepository(git_repository* repo, const std::string& prefix) {
  json out = {{"path", CleanName(prefix)}, {"changes", json::object()}, {"changed", json::array()}};
  Describe(repo, out);
  if (git_repository_is_bare(repo)) {
    out["head"] = "bare";
    out["partial"].push_back("a bare repository has no work tree");
    repositories_.push_back(out);
    return;
  }
  git_object* object = nullptr;
  Tree head;
  if (!out["commit"].get<std::string>().empty()) {
    if (git_revparse_single(&object, repo, "HEAD^{tree}") == 0) {
      head.reset(reinterpret_cast<git_tree*>(object));
    } else {
      out["partial"].push_back(Reason("the commit's tree can't be read: "));
    }
  }
  Paths paths = FindPaths(repo, head.get(), prefix, out);
  std::string workdir = git_repository_workdir(repo);
  for (const std::string& path : paths.changed) AddFile(workdir, path, prefix);
  for (const std::string& path : paths.sparse) {
    entries_.push_back({.kind = 'S', .path = redactor_.Text(prefix + path, "a file's name")});
  }
  out["sparse"] = !paths.sparse.empty();
  AddPatches(repo, head.get(), prefix, out);
  repositories_.push_back(out);
  for (const std::string& path : paths.nested) {
    std::string reason;
    Repository inner = OpenAt(workdir + path, reason);
    if (inner) {
      AddRepository(inner.get(), prefix + path + "/");
    } else {
      repositories_.push_back({{"path", CleanName(prefix + path + "/")},
                               {"commit", ""},
                               {"partial", {redactor_.Text("can't be opened: " + reason, "git")}}});
    }
  }
}

std::string Capture::AddFolder(const fs::path& folder) {
  constexpr size_t kMostFiles = 20000;
  bool full = options_.mode == CodeMode::kFull;
  const char* home = std::getenv("HOME");
  std::error_code error;
  if (!full && (folder == folder.root_path() || (home && fs::equivalent(folder, home, error)))) {
    return "; a home folder is not taken for code";
  }
  std::string root = folder.string() + "/";
  std::set<std::string> paths;
  auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied,
                                             error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename().string();
    bool hidden = name[0] == '.' && !full;
    fs::file_status status = it->symlink_status(error);
    if (hidden || name == ".git" || Excluded(it->path())) {
      if (fs::is_directory(status)) it.disable_recursion_pending();
      continue;
    }
    if (!fs::is_directory(status)) paths.insert(it->path().string().substr(root.size()));
    if (!full && paths.size() > kMostFiles) {
      Omit("...", fmt::format("more than {} files without a repository", kMostFiles), 0);
      break;
    }
  }
  for (const std::string& path : paths) AddFile(root, path, "");
  return full ? "" : "; its files are kept, hidden ones aside";
}

CodeState Capture::Finish(const std::string& kind, const std::string& root,
                          const std::string& reason) {
  std::sort(entries_.begin(), entries_.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.path < b.path; });
  std::string manifest = WriteManifest(entries_);
  // What makes two states the same code: commits and the files beside them, not where they lie.
  Hasher identity;
  for (const json& r : repositories_) {
    identity.Update(r["path"].get<std::string>() + '\0' + r["commit"].get<std::string>() + '\0');
  }
  identity.Update(manifest);
  json doc = {
      {"kind", kind},
      {"root", CleanName(root)},
      {"reason", reason},
      {"repositories", repositories_},
      {"identity", identity.Digest().Hex()},
      {"full", options_.mode == CodeMode::kFull},
      {"omitted", {{"count", omitted_count_}, {"bytes", omitted_bytes_}, {"files", omitted_}}}};
  if (!entries_.empty()) {
    doc["manifest"] = {{"entries", entries_.size()},
                       {"bytes", total_bytes_},
                       {"object", Store("manifest", manifest)}};
  }
  return {doc.dump(-1, ' ', false, json::error_handler_t::replace), std::move(objects_)};
}

}  // namespace xp::snapshot
