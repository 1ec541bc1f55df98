#include "exp/snapshot/checkout.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exp/base/error.h"
#include "exp/base/system_advice.h"
#include "exp/snapshot/code.h"
#include "src/snapshot/capture.h"
#include "src/snapshot/exact.h"
#include "src/snapshot/git.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

constexpr uint32_t kLink = 0120000, kExecutable = 0100755;

// Manifests and trees may come from elsewhere: nothing is written outside of the target or into a
// .git.
bool SafePath(const std::string& path) {
  if (path.empty() || path[0] == '/') return false;
  for (const fs::path& part : fs::path(path)) {
    std::string name = part.string();
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name == ".." || name == "." || name == ".git" || name.empty()) return false;
  }
  return true;
}

[[noreturn]] void Leaves(const std::string& path) {
  throw UsageError({.what = "the path `" + path + "` would leave the target",
                    .expected = "the paths of a work tree of git",
                    .next = "the record was edited, or the repository is hostile: don't trust it"});
}

// Collects what the tree shall hold, then writes it: files first and links last, so that no file is
// ever written through a link.
class TreeWriter {
 public:
  explicit TreeWriter(fs::path target) : target_(std::move(target)) {}

  void Put(const std::string& path, uint32_t mode, std::string content) {
    if (!SafePath(path)) Leaves(path);
    files_[path] = {mode, std::move(content)};
  }
  void PutFolder(const std::string& path) {
    if (!SafePath(path)) Leaves(path);
    folders_.insert(path);
  }
  void Drop(const std::string& path) { files_.erase(path); }
  void ToCrlf(const std::string& path) {
    auto found = files_.find(path);
    if (found != files_.end()) found->second.content = WithCrlf(found->second.content);
  }

  void Write(CheckoutReport& report) const {
    for (const auto& [path, file] : files_) {
      if (file.mode != kLink) WriteFile(path, file);
    }
    std::error_code error;
    for (const std::string& path : folders_) {
      const fs::path folder = Place(path + "/");
      fs::create_directories(folder, error);
      if (error)
        throw JobError({.what = "can't be made: " + error.message(),
                        .where = folder.string(),
                        .next = WriteAdvice(error.value())});
    }
    for (const auto& [path, file] : files_) {
      if (file.mode == kLink) WriteLink(path, file);
    }
    report.files = static_cast<int64_t>(files_.size());
    for (const auto& [path, file] : files_)
      report.bytes += static_cast<int64_t>(file.content.size());
  }

 private:
  struct File {
    uint32_t mode;
    std::string content;
  };
  [[noreturn]] static void Fail(const fs::path& path) {
    throw JobError({.what = std::string("can't be written: ") + std::strerror(errno),
                    .where = path.string(),
                    .next = WriteAdvice(errno)});
  }
  // Where the path lies, with its folders made. None of them may be a link: in a clone one that git
  // ignores may be there already, and a hostile record may hold one with something behind it.
  fs::path Place(const std::string& path) const {
    fs::path folder = target_;
    std::error_code error;
    for (const fs::path& part : fs::path(path).parent_path()) {
      folder /= part;
      if (!fs::is_symlink(folder, error)) continue;
      throw UsageError({.what = "a folder of the tree would lie behind a link",
                        .where = folder.string(),
                        .expected = "a folder, so that nothing is written outside of the target",
                        .next = "remove the link, or name an empty folder"});
    }
    fs::create_directories(folder, error);
    return target_ / path;
  }
  void WriteFile(const std::string& path, const File& file) const {
    fs::path full = Place(path);
    ::unlink(full.c_str());
    std::ofstream out(full, std::ios::binary);
    out.write(file.content.data(), static_cast<std::streamsize>(file.content.size()));
    out.close();
    if (!out) Fail(full);
    if (file.mode == kExecutable && ::chmod(full.c_str(), 0755) != 0) Fail(full);
  }
  void WriteLink(const std::string& path, const File& file) const {
    fs::path full = Place(path);
    ::unlink(full.c_str());
    if (::symlink(file.content.c_str(), full.c_str()) != 0) Fail(full);
  }

  fs::path target_;
  std::map<std::string, File> files_;
  std::set<std::string> folders_;
};

struct TreeVisit {
  git_repository* repo;
  const std::string* prefix;
  TreeWriter* writer;
  const std::set<std::string>* replaced;  // by what the record holds: the commit's isn't needed
  std::string error;
};

int VisitEntry(const char* root, const git_tree_entry* entry, void* payload) {
  TreeVisit& visit = *static_cast<TreeVisit*>(payload);
  if (git_tree_entry_type(entry) != GIT_OBJECT_BLOB) return 0;
  std::string path = std::string(root) + git_tree_entry_name(entry);
  if (visit.replaced->count(*visit.prefix + path)) return 0;
  git_blob* blob = nullptr;
  if (git_blob_lookup(&blob, visit.repo, git_tree_entry_id(entry)) != 0) {
    visit.error = path + ": " + GitReason();
    return -1;
  }
  Blob owned(blob);
  uint32_t mode = git_tree_entry_filemode(entry);
  try {
    // The bytes of the commit: files that git had converted on checkout are in the manifest.
    visit.writer->Put(*visit.prefix + path, mode,
                      std::string(static_cast<const char*>(git_blob_rawcontent(blob)),
                                  static_cast<size_t>(git_blob_rawsize(blob))));
  } catch (const Error& e) {
    visit.error = e.what();
    return -1;
  }
  return 0;
}

class Rebuild {
 public:
  Rebuild(const json& code, const fs::path& repository, fs::path target)
      : code_(code), repository_(repository), target_(std::move(target)), writer_(target_) {}

  CheckoutReport Run(const std::function<std::string(const std::string&)>& load) {
    PrepareTarget();
    if (code_.contains("manifest"))
      manifest_ = ReadManifest(load(code_["manifest"].value("object", "")));
    for (const ManifestEntry& e : manifest_) {
      if (e.kind != 'C' && e.kind != 'L' && e.kind != 'E') replaced_.insert(e.path);
    }
    bool full = code_.value("full", false);
    for (const json& repo : code_.value("repositories", json::array())) {
      std::string commit = repo.value("commit", "");
      if (!full && !commit.empty()) AddCommit(repo, commit);
    }
    AddManifest(load);
    if (clone_) RemoveTracked();
    writer_.Write(report_);
    if (clone_) MoveHead();
    return std::move(report_);
  }

 private:
  void PrepareTarget() {
    std::error_code error;
    if (!fs::exists(target_, error) || fs::is_empty(target_, error)) {
      fs::create_directories(target_, error);
      if (error)
        throw JobError({.what = "can't be made: " + error.message(),
                        .where = target_.string(),
                        .next = "name another folder"});
      return;
    }
    std::string reason;
    clone_ = OpenAt(target_.string(), reason);
    if (!clone_ || git_repository_is_bare(clone_.get())) {
      throw UsageError({.what = "the folder isn't empty and is no work tree of git",
                        .where = target_.string(),
                        .expected = "a folder that is absent or empty, or a clean clone",
                        .next = "name another folder"});
    }
    git_status_options o = GIT_STATUS_OPTIONS_INIT;
    o.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED;
    git_status_list* list = nullptr;
    size_t changes =
        git_status_list_new(&list, clone_.get(), &o) == 0 ? git_status_list_entrycount(list) : 1;
    git_status_list_free(list);
    if (changes > 0) {
      throw UsageError({.what = "the clone has changes or untracked files, which would be lost",
                        .where = target_.string(),
                        .next = "commit or remove them, or name an empty folder"});
    }
  }

  std::vector<std::string> Candidates(const json& repo) const {
    std::string prefix = PathBytes(repo.value("path", ""));
    std::vector<std::string> out;
    if (clone_) out.push_back((target_ / prefix).string());
    if (!repository_.empty()) out.push_back((repository_ / prefix).string());
    out.push_back((fs::path(PathBytes(code_.value("root", ""))) / prefix).string());
    out.push_back(PathBytes(repo.value("git_dir", "")));
    return out;
  }

  void AddCommit(const json& repo, const std::string& commit) {
    std::string prefix = PathBytes(repo.value("path", "")), reason, tried;
    for (const std::string& place : Candidates(repo)) {
      if (place.empty()) continue;
      Repository source = OpenAt(place, reason);
      Tree tree = source ? FindCommitTree(source.get(), commit) : nullptr;
      if (!tree) {
        tried += "\n    " + PathText(place);
        continue;
      }
      lfs_[prefix] = fs::path(git_repository_commondir(source.get())) / "lfs" / "objects";
      TreeVisit visit{source.get(), &prefix, &writer_, &replaced_, ""};
      if (git_tree_walk(tree.get(), GIT_TREEWALK_PRE, VisitEntry, &visit) != 0) {
        throw UsageError({.what = "commit " + commit + " is incomplete: " +
                                  (visit.error.empty() ? GitReason() : visit.error),
                          .where = place,
                          .next = "fetch it whole there (`git fetch --unshallow`), or name another "
                                  "clone with --repo"});
      }
      return;
    }
    std::string remotes;
    for (const json& r : repo.value("remotes", json::array())) remotes += " " + r.value("url", "");
    throw UsageError({.what = fmt::format("commit {} is not at hand; looked in:{}", commit, tried),
                      .expected = "a clone that has the commit" +
                                  (remotes.empty() ? "" : ", for instance of" + remotes),
                      .next = "fetch it and name the clone with --repo; snapshot.code: full would "
                              "have kept all files"});
  }

  void AddManifest(const std::function<std::string(const std::string&)>& load) {
    std::map<std::string, std::string> omitted;  // path as shown, reason
    for (const json& f : code_.value("/omitted/files"_json_pointer, json::array()))
      omitted[f.value("path", "")] = f.value("reason", "");
    AddEntries(load, omitted);
    for (const auto& [path, reason] : omitted)
      report_.missing.push_back(fmt::format("{}: {}", path, reason));
  }

  // Takes what it finds out of `omitted`.
  void AddEntries(const std::function<std::string(const std::string&)>& load,
                  std::map<std::string, std::string>& omitted) {
    for (const ManifestEntry& e : manifest_) {
      switch (e.kind) {
        case 'F': {
          std::string content = load(e.object);
          if (content.find("[redacted:") != std::string::npos) {
            report_.missing.push_back(PathText(e.path) +
                                      ": may hold a mark where a secret was removed");
          }
          writer_.Put(e.path, e.mode, std::move(content));
          break;
        }
        case 'L':
          AddLfs(e);
          break;
        case 'C':
          writer_.ToCrlf(e.path);
          break;
        case 'E':
          writer_.PutFolder(e.path);
          break;
        case 'X': {
          writer_.Drop(e.path);
          auto reason = omitted.extract(PathText(e.path));
          report_.missing.push_back(
              PathText(e.path) + ": " +
              (reason.empty() ? "was left out of the record" : reason.mapped()));
          break;
        }
        default:
          writer_.Drop(e.path);
      }
    }
  }

  // Of the innermost repository that holds the path. An object's name becomes a path: only the hex
  // digits of SHA-256 do, else a record from elsewhere could name any file.
  fs::path LfsFile(const ManifestEntry& e) const {
    const bool digest = e.object.size() == 64 &&
                        e.object.find_first_not_of("0123456789abcdef") == std::string::npos;
    const fs::path* objects = nullptr;
    for (const auto& [prefix, folder] : lfs_)  // of two that hold it, the longer comes later
      if (e.path.starts_with(prefix)) objects = &folder;
    if (!digest || !objects) return {};
    return *objects / e.object.substr(0, 2) / e.object.substr(2, 2) / e.object;
  }
  void AddLfs(const ManifestEntry& e) {
    std::ifstream in(LfsFile(e), std::ios::binary);
    std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (!in || static_cast<int64_t>(content.size()) != e.size) {
      report_.missing.push_back(PathText(e.path) + ": its git-lfs object " + e.object +
                                " is not at hand; the pointer is there");
      return;
    }
    writer_.Put(e.path, e.mode, std::move(content));
  }

  void RemoveTracked() {
    git_index* index = nullptr;
    if (git_repository_index(&index, clone_.get()) != 0) return;
    Index owned(index);
    for (size_t i = 0; i < git_index_entrycount(index); ++i) {
      const git_index_entry* entry = git_index_get_byindex(index, i);
      if (entry->mode == GIT_FILEMODE_COMMIT) continue;
      fs::path file = target_ / entry->path;
      ::unlink(file.c_str());
      // A file may take the place of a folder that is empty now.
      std::error_code error;
      for (fs::path f = file.parent_path(); f != target_ && fs::is_empty(f, error);
           f = f.parent_path())
        if (!fs::remove(f, error)) break;
    }
  }

  // The clone stands on the commit, detached; what differs shows as changes, as it did.
  void MoveHead() {
    const json& repos = code_["repositories"];
    git_oid oid;
    if (repos.empty() || git_oid_fromstr(&oid, repos[0].value("commit", "").c_str()) != 0) return;
    git_index* index = nullptr;
    Tree tree = FindCommitTree(clone_.get(), repos[0].value("commit", ""));
    if (!tree || git_repository_set_head_detached(clone_.get(), &oid) != 0) return;
    if (git_repository_index(&index, clone_.get()) != 0) return;
    Index owned(index);
    if (git_index_read_tree(index, tree.get()) == 0) git_index_write(index);
  }

  const json& code_;
  fs::path repository_, target_;
  Repository clone_;
  std::map<std::string, fs::path> lfs_;  // by a repository's prefix, the objects of git-lfs
  TreeWriter writer_;
  std::vector<ManifestEntry> manifest_;
  std::set<std::string> replaced_;
  CheckoutReport report_;
};

}  // namespace

CheckoutReport RebuildTree(const std::string& code_json,
                           const std::function<std::string(const std::string&)>& load,
                           const fs::path& repository, const fs::path& target) {
  json code = json::parse(code_json, nullptr, false);
  bool nothing =
      !code.is_object() || (!code.contains("manifest") && code.value("kind", "") != "git");
  if (nothing) {
    std::string reason = code.is_object() ? code.value("reason", "") : "";
    throw UsageError({.what = "no code was recorded" + (reason.empty() ? "" : ": " + reason),
                      .next = "`exp show RUN --code` has what was"});
  }
  try {
    return Rebuild(code, repository, fs::absolute(target)).Run(load);
  } catch (const json::exception& e) {
    throw UsageError({.what = std::string("the code document is damaged: ") + e.what(),
                      .next = "`exp verify` lists what else is; restore a copy of the store"});
  }
}

}  // namespace xp::snapshot
