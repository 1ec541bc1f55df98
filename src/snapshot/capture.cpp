#include "src/snapshot/capture.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "exp/base/hash.h"
#include "src/snapshot/exact.h"
#include "src/snapshot/may_be_code.h"
#include "src/snapshot/redact_file.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

constexpr size_t kListedOmissions = 1000;

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

// git_remote_list leaks a match of PCRE2 for each entry of the config that is no remote
// (libgit2 1.5).
std::set<std::string> RemoteNames(git_repository* repo) {
  std::set<std::string> names;
  git_config* config = nullptr;
  git_config_iterator* entries = nullptr;
  if (git_repository_config_snapshot(&config, repo) != 0) return names;
  GitHandle<git_config, git_config_free> owned(config);
  if (git_config_iterator_new(&entries, config) != 0) return names;
  GitHandle<git_config_iterator, git_config_iterator_free> owned_entries(entries);
  constexpr std::string_view kBegin = "remote.";
  git_config_entry* entry = nullptr;
  while (git_config_next(&entry, entries) == 0) {
    std::string_view key = entry->name;
    for (std::string_view end : {".url", ".pushurl"}) {
      if (key.size() > kBegin.size() + end.size() && key.starts_with(kBegin) && key.ends_with(end))
        names.emplace(key.substr(kBegin.size(), key.size() - kBegin.size() - end.size()));
    }
  }
  return names;
}

// Whether a folder on the way to the file is a link, so that what is found there isn't the work
// tree's.
bool BehindLink(const std::string& workdir, const std::string& path) {
  struct stat info;
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    if (::lstat((workdir + path.substr(0, at)).c_str(), &info) == 0 && S_ISLNK(info.st_mode))
      return true;
  }
  return false;
}

}  // namespace

void Capture::Omit(const std::string& path, const std::string& reason, int64_t bytes, bool code) {
  ++omitted_count_;
  if (code) ++omitted_code_count_;
  omitted_bytes_ += bytes;
  std::vector<json>& list = code ? omitted_code_ : omitted_other_;
  if (list.size() >= kListedOmissions) return;
  list.push_back({{"path", CleanName(path)}, {"reason", reason}, {"bytes", bytes}, {"code", code}});
}

// Names hold secrets, too.
std::string Capture::CleanName(const std::string& path) {
  return redactor_.Text(PathText(path), "a name");
}

// Also of "me:password@host:path", which is no URL.
std::string Capture::CleanUrl(std::string url, const std::string& place) {
  const size_t at = url.find('@'), colon = url.find(':');
  if (at != std::string::npos && colon < at && url.find("://") == std::string::npos &&
      url.find('/') > at)
    url = redactor_.Secret(url.substr(0, at), "url-credentials", place) + url.substr(at);
  return redactor_.Text(url, place);
}

std::string Capture::Reason(const std::string& what) {
  return redactor_.Text(what + GitReason(), "a message of git");
}

std::string Capture::Store(const char* role, std::string bytes) {
  std::string hash = HashBytes(bytes).Hex();
  if (stored_.insert(hash).second) objects_.push_back({role, std::move(bytes)});
  return hash;
}

// Of the files that aren't too large by themselves, those that don't fit into what is left, the
// smallest first: data in a work tree doesn't push its code out.
std::set<std::string> Capture::BeyondLimit(const std::string& workdir,
                                           const std::set<std::string>& paths) const {
  std::vector<std::pair<int64_t, std::string>> files;
  struct stat info;
  int64_t sum = total_bytes_;
  for (const std::string& path : paths) {
    if (::lstat((workdir + path).c_str(), &info) != 0 || info.st_size > options_.max_file_bytes)
      continue;
    files.emplace_back(info.st_size, path);
    sum += info.st_size;
  }
  std::set<std::string> beyond;
  if (sum <= options_.max_total_bytes) return beyond;
  std::sort(files.begin(), files.end());
  sum = total_bytes_;
  for (const auto& [size, path] : files) {
    sum += size;
    if (sum > options_.max_total_bytes) beyond.insert(path);
  }
  return beyond;
}

void Capture::AddFiles(const std::string& workdir, const std::set<std::string>& paths,
                       const std::set<std::string>& untracked, const std::string& prefix) {
  std::set<std::string> beyond = BeyondLimit(workdir, paths);
  for (const std::string& path : paths)
    AddFile(workdir, path, prefix, untracked.count(path) > 0, beyond.count(path) == 0);
}

void Capture::AddFile(const std::string& workdir, const std::string& path,
                      const std::string& prefix, bool untracked, bool fits) {
  std::string file = workdir + path, full = prefix + path, content;
  ManifestEntry entry{.path = redactor_.Text(full, "a file's name")};
  struct stat info = {};
  int error = ::lstat(file.c_str(), &info) == 0 ? 0 : errno;
  bool gone = error == ENOENT || error == ENOTDIR || error == ELOOP;
  // A folder or a link to one took its place: what is there is listed by itself.
  if (gone || (!error && S_ISDIR(info.st_mode)) || BehindLink(workdir, path)) {
    entry.kind = 'D';
    entries_.push_back(entry);
    return;
  }
  entry.kind = 'X';
  entry.size = info.st_size;
  bool link = S_ISLNK(info.st_mode);
  entry.mode = link ? 0120000 : (info.st_mode & S_IXUSR) ? 0100755 : 0100644;
  auto omit = [&](const std::string& reason) {
    Omit(full, reason, info.st_size, !untracked || MayBeCode(file));
    entries_.push_back(entry);
  };
  if (error) return omit(std::string("can't be read: ") + std::strerror(error));
  if (!link && !S_ISREG(info.st_mode)) return omit("neither file nor link");
  if (info.st_size > options_.max_file_bytes) return omit("larger than snapshot.max_file_bytes");
  if (!fits || total_bytes_ + info.st_size > options_.max_total_bytes) {
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
      const char* target_name = git_reference_symbolic_target(symbolic);
      std::string_view name = target_name ? target_name : "";
      constexpr std::string_view kBranches = "refs/heads/";
      if (name.starts_with(kBranches)) name.remove_prefix(kBranches.size());
      out["branch"] = CleanName(std::string(name));
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
  for (const std::string& own : RemoteNames(repo)) {
    git_remote* remote = nullptr;
    if (git_remote_lookup(&remote, repo, own.c_str()) != 0) continue;
    Remote owned(remote);
    const char* url = git_remote_url(remote);
    std::string name = CleanName(own);
    remotes.push_back(
        {{"name", name}, {"url", PathText(CleanUrl(url ? url : "", "remote " + name))}});
  }
  out["remotes"] = remotes;
}

namespace {

// Submodules are looked at one by one; a file in the place of one, or one in a file's, is a change
// of this repository, too.
bool OnlySubmodule(const git_diff_delta& d) {
  const auto submodule_or_none = [](const git_diff_file& f) {
    return f.mode == GIT_FILEMODE_COMMIT || f.mode == GIT_FILEMODE_UNREADABLE;
  };
  const bool any = d.old_file.mode == GIT_FILEMODE_COMMIT || d.new_file.mode == GIT_FILEMODE_COMMIT;
  return any && submodule_or_none(d.old_file) && submodule_or_none(d.new_file);
}

}  // namespace

void Capture::AddDeltas(git_diff* diff, git_index* index, const std::string& workdir, Paths& paths,
                        json& out) {
  for (size_t i = 0; i < git_diff_num_deltas(diff); ++i) {
    const git_diff_delta* d = git_diff_get_delta(diff, i);
    std::string path = d->new_file.path ? d->new_file.path : d->old_file.path;
    if (d->status == GIT_DELTA_DELETED && d->old_file.path) path = d->old_file.path;
    const bool untracked = d->status == GIT_DELTA_UNTRACKED;
    if (no_code_.Excluded(workdir + path) ||
        (untracked && no_code_.IsOutput(workdir + path, workdir, index)))
      continue;
    if (!path.empty() && path.back() == '/') {  // an untracked repository inside
      paths.nested.insert(path.substr(0, path.size() - 1));
      continue;
    }
    if (OnlySubmodule(*d)) continue;
    const git_index_entry* entry = git_index_get_bypath(index, path.c_str(), 0);
    bool skipped = (entry && (entry->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE)) ||
                   (paths.lost_index && paths.sparse_checkout);
    if (d->status == GIT_DELTA_DELETED && skipped) {
      paths.sparse.insert(path);
      continue;
    }
    if (paths.changed.insert(path).second) {
      if (untracked) paths.untracked.insert(path);
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
      bool folder = ::lstat((workdir + path).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
      if (folder && ::stat((workdir + path + "/.git").c_str(), &info) == 0) {
        paths.nested.insert(path);
      } else {
        AddUnder(workdir, path, paths);
      }
      continue;
    }
    if (no_code_.Excluded(workdir + path) || paths.sparse.count(path)) continue;
    if (paths.changed.count(path)) continue;
    if (options_.mode == CodeMode::kFull) {
      paths.changed.insert(path);
      continue;
    }
    ExactCheck::Result result = exact.Compare(entry, workdir + path, oid);
    // By the mark in a secret's place no content of the commit is found: this file's own is kept.
    if (result != ExactCheck::Result::kSame && CleanName(prefix + path) != PathText(prefix + path))
      result = ExactCheck::Result::kDiffers;
    switch (result) {
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

namespace {

bool SparseCheckout(git_repository* repo) {
  git_config* config = nullptr;
  if (git_repository_config_snapshot(&config, repo) != 0) return false;
  int sparse = 0;
  bool known = git_config_get_bool(&sparse, config, "core.sparsecheckout") == 0;
  git_config_free(config);
  return known && sparse != 0;
}

}  // namespace

Capture::Paths Capture::FindPaths(git_repository* repo, git_tree* head, const std::string& prefix,
                                  json& out) {
  Paths paths;
  std::string workdir = git_repository_workdir(repo), reason;
  Index owned = ReadIndex(repo, head, reason);
  git_index* index = owned.get();
  paths.lost_index = !reason.empty();
  paths.sparse_checkout = SparseCheckout(repo);
  if (!index || paths.lost_index) {
    out["partial"].push_back("the index can't be read, so files are compared with the commit: " +
                             redactor_.Text(reason, "a message of git"));
  }
  if (!index) return paths;
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

void Capture::AddRepository(git_repository* repo, const std::string& prefix) {
  json out = {{"path", CleanName(prefix)}, {"changes", json::object()}, {"changed", json::array()}};
  Describe(repo, out);
  if (git_repository_is_bare(repo)) {
    out["head"] = "bare";
    out["partial"].push_back("a bare repository has no work tree");
    repositories_.push_back(out);
    Omit(prefix + "...", "a bare repository has no work tree, so no file beside it is kept", 0);
    return;
  }
  AddTree(repo, prefix, out);
}

void Capture::AddTree(git_repository* repo, const std::string& prefix, json& out) {
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
  auto nested = OpenNested(workdir, prefix, paths);
  AddFiles(workdir, paths.changed, paths.untracked, prefix);
  for (const std::string& path : paths.sparse) {
    entries_.push_back({.kind = 'S', .path = redactor_.Text(prefix + path, "a file's name")});
  }
  AddFolders(repo, workdir, prefix, paths);
  out["sparse"] = !paths.sparse.empty();
  AddPatches(repo, head.get(), prefix, paths, out);
  repositories_.push_back(out);
  for (const auto& [path, inner] : nested) AddRepository(inner.get(), prefix + path + "/");
}

// Those that can't be opened are folders with files.
std::vector<std::pair<std::string, Repository>> Capture::OpenNested(const std::string& workdir,
                                                                    const std::string& prefix,
                                                                    Paths& paths) {
  std::vector<std::pair<std::string, Repository>> open;
  for (auto path = paths.nested.begin(); path != paths.nested.end();) {
    std::string reason;
    Repository inner = OpenAt(workdir + *path, reason);
    if (inner) {
      open.emplace_back(*path++, std::move(inner));
      continue;
    }
    repositories_.push_back({{"path", CleanName(prefix + *path + "/")},
                             {"commit", ""},
                             {"partial", {redactor_.Text("can't be opened: " + reason, "git")}}});
    AddUnder(workdir, *path, paths);
    path = paths.nested.erase(path);
  }
  return open;
}

CodeState Capture::Finish(const std::string& kind, const std::string& root,
                          const std::string& reason) {
  std::sort(entries_.begin(), entries_.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.path < b.path; });
  json omitted = omitted_code_;
  for (size_t i = 0; i < omitted_other_.size() && omitted.size() < kListedOmissions; ++i)
    omitted.push_back(omitted_other_[i]);
  std::string manifest = WriteManifest(entries_);
  std::vector<ManifestEntry> files;
  std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(files),
               [](const ManifestEntry& e) { return e.kind != 'E'; });
  // What makes two states the same code: commits and the files beside them, not where they lie, nor
  // empty folders.
  Hasher identity;
  for (const json& r : repositories_) {
    identity.Update(r["path"].get<std::string>() + '\0' + r["commit"].get<std::string>() + '\0');
  }
  identity.Update(WriteManifest(files));
  json doc = {{"kind", kind},
              {"root", CleanName(root)},
              {"reason", reason},
              {"repositories", repositories_},
              {"identity", identity.Digest().Hex()},
              {"full", options_.mode == CodeMode::kFull},
              {"omitted",
               {{"count", omitted_count_},
                {"code", omitted_code_count_},
                {"bytes", omitted_bytes_},
                {"files", omitted}}}};
  if (!entries_.empty()) {
    doc["manifest"] = {{"entries", entries_.size()},
                       {"bytes", total_bytes_},
                       {"object", Store("manifest", manifest)}};
  }
  return {doc.dump(-1, ' ', false, json::error_handler_t::replace), std::move(objects_)};
}

}  // namespace xp::snapshot
