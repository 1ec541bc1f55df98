// What no repository lists: folders without one, empty folders, and what can't be kept at all.
#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "exp/base/temporary_folder.h"
#include "src/snapshot/capture.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace xp::snapshot {
namespace {

// git takes no such name, in any case of letters.
bool IsDotGit(const std::string& name) {
  return name.size() == 4 && ::strcasecmp(name.c_str(), ".git") == 0;
}

// Goes through the folders of a work tree that git doesn't ignore.
class FolderWalk {
 public:
  // `holding`: folders with files that are recorded, and all above them; `nested`: repositories
  // inside, which are walked by themselves. Paths are relative to `workdir`, without a slash at the
  // end.
  FolderWalk(git_repository* repo, const std::string& workdir, const std::set<std::string>& holding,
             const std::set<std::string>& nested, std::function<bool(const std::string&)> excluded)
      : repo_(repo),
        workdir_(workdir),
        holding_(holding),
        nested_(nested),
        excluded_(std::move(excluded)) {}

  std::vector<std::string> empty, special;
  std::vector<std::pair<std::string, std::string>> unreadable;  // path, reason

  // Whether the folder will be there again because of what is in it.
  bool Visit(const std::string& folder) {
    bool holds = folder.empty() || holding_.count(folder) > 0;
    if (!holds && Ignored(folder + "/")) return false;
    std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir((workdir_ + folder).c_str()), ::closedir);
    if (!dir) {
      unreadable.emplace_back(folder + "/", std::string("can't be read: ") + std::strerror(errno));
      return holds;
    }
    std::vector<std::string> folders;
    while (const dirent* entry = ::readdir(dir.get())) Sort(folder, entry, folders);
    dir.reset();
    // A folder that is there for outputs is as little code as they are.
    for (const std::string& inner : folders)
      holds = excluded_(workdir_ + inner) || Visit(inner) || holds;
    if (!holds) empty.push_back(folder);
    return true;
  }

 private:
  void Sort(const std::string& folder, const dirent* entry, std::vector<std::string>& folders) {
    std::string name = entry->d_name, path = folder.empty() ? name : folder + "/" + name;
    if (name == "." || name == ".." || path == ".git" || nested_.count(path)) return;
    if (IsDotGit(name)) {
      unreadable.emplace_back(path, "git takes no such name");
      return;
    }
    int type = entry->d_type;
    struct stat info;
    if (type == DT_UNKNOWN && ::lstat((workdir_ + path).c_str(), &info) == 0)
      type = IFTODT(info.st_mode);
    if (type == DT_DIR) {
      folders.push_back(path);
    } else if (type != DT_REG && type != DT_LNK && !Ignored(path)) {
      special.push_back(path);
    }
  }
  bool Ignored(const std::string& path) const {
    int ignored = 0;
    return git_ignore_path_is_ignored(&ignored, repo_, path.c_str()) == 0 && ignored == 1;
  }

  git_repository* repo_;
  const std::string& workdir_;
  const std::set<std::string>& holding_;
  const std::set<std::string>& nested_;
  std::function<bool(const std::string&)> excluded_;
};

void AddParents(std::string path, std::set<std::string>& folders) {
  for (size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
    path.resize(slash);
    if (!folders.insert(path).second) return;
  }
}

}  // namespace

// What is in the place of a submodule that isn't checked out, or of a repository that can't be
// opened: no repository lists it.
void Capture::AddUnder(const std::string& workdir, const std::string& folder, Paths& paths) {
  std::error_code error;
  if (fs::is_symlink(workdir + folder, error) || fs::is_regular_file(workdir + folder, error)) {
    paths.changed.insert(folder);
    paths.untracked.insert(folder);
    return;
  }
  auto it = fs::recursive_directory_iterator(workdir + folder,
                                             fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    bool directory = fs::is_directory(it->symlink_status(error));
    if (IsDotGit(it->path().filename().string())) {  // AddFolders names it
      if (directory) it.disable_recursion_pending();
      continue;
    }
    if (directory) continue;
    const std::string path = it->path().string().substr(workdir.size());
    paths.changed.insert(path);
    paths.untracked.insert(path);
  }
}

// Folders that hold nothing that is recorded, and what can't be recorded.
void Capture::AddFolders(git_repository* repo, const std::string& workdir,
                         const std::string& prefix, const Paths& paths) {
  std::set<std::string> holding;
  std::string reason;
  struct stat info;
  for (const std::string& path : paths.changed) {
    bool there = ::lstat((workdir + path).c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
    if (there) AddParents(path, holding);
  }
  for (const std::string& path : paths.nested) AddParents(path, holding);
  Index index = ReadIndex(repo, nullptr, reason);
  for (size_t i = 0; index && i < git_index_entrycount(index.get()); ++i) {
    const git_index_entry* entry = git_index_get_byindex(index.get(), i);
    bool there = entry->mode != GIT_FILEMODE_COMMIT && !paths.changed.count(entry->path) &&
                 !paths.sparse.count(entry->path);
    if (there) AddParents(entry->path, holding);
  }
  FolderWalk walk(repo, workdir, holding, paths.nested, [&](const std::string& path) {
    return no_code_.Excluded(path) || no_code_.IsOutput(path, workdir, index.get());
  });
  walk.Visit("");
  for (const std::string& path : walk.empty) {
    entries_.push_back({.kind = 'E', .path = redactor_.Text(prefix + path, "a file's name")});
  }
  for (const std::string& path : walk.special) {
    if (!paths.changed.count(path)) AddFile(workdir, path, prefix, true);
  }
  for (const auto& [path, why] : walk.unreadable) Omit(prefix + path, why, 0);
}

bool Capture::AddUnreadable(const fs::path& folder, const std::string& reason) {
  // A repository that knows nothing, with this folder for its work tree, so that ignore rules hold.
  TemporaryFolder scratch("git");
  git_repository* repo = nullptr;
  git_repository_init_options o = GIT_REPOSITORY_INIT_OPTIONS_INIT;
  if (scratch.path().empty() || git_repository_init_ext(&repo, scratch.path().c_str(), &o) != 0)
    return false;
  Repository owned(repo);
  if (git_repository_set_workdir(repo, folder.c_str(), 0) != 0) return false;
  json out = {{"path", ""},
              {"commit", ""},
              {"branch", ""},
              {"head", "unreadable"},
              {"partial", {reason}},
              {"changes", json::object()},
              {"changed", json::array()}};
  AddTree(repo, "", out);
  return true;
}

std::string Capture::AddFolder(const fs::path& folder) {
  constexpr size_t kMostFiles = 20000;
  bool full = options_.mode == CodeMode::kFull;
  const char* home = std::getenv("HOME");
  std::error_code error;
  if (!full && (folder == folder.root_path() || (home && fs::equivalent(folder, home, error)))) {
    Omit("...", "a home folder is not taken for code, so none of its files is kept", 0);
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
    const bool no_code =
        no_code_.Excluded(it->path()) || no_code_.IsOutput(it->path(), root, nullptr);
    if (hidden || name == ".git" || no_code) {
      if (fs::is_directory(status)) it.disable_recursion_pending();
      continue;
    }
    if (!fs::is_directory(status)) paths.insert(it->path().string().substr(root.size()));
    if (!full && paths.size() > kMostFiles) {
      Omit("...", fmt::format("more than {} files without a repository", kMostFiles), 0);
      break;
    }
  }
  AddFiles(root, paths, paths, "");
  return full ? "" : "; its files are kept, hidden ones aside";
}

}  // namespace xp::snapshot
