// Collects files and repositories into one CodeState; private to src/snapshot.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "exp/snapshot/code.h"
#include "src/snapshot/git.h"
#include "src/snapshot/no_code.h"
#include "src/snapshot/path_text.h"

namespace xp::snapshot {

class Capture {
 public:
  Capture(const CodeOptions& options, Redactor& redactor)
      : options_(options), redactor_(redactor), no_code_(options) {}

  // A repository whose work tree lies at `prefix` ("" or "sub/module/") below the code's root.
  void AddRepository(git_repository* repo, const std::string& prefix);
  // A work tree whose repository can't be read: all its files but those that it ignores. False
  // where no folder can be made to look at it from.
  bool AddUnreadable(const std::filesystem::path& folder, const std::string& reason);
  // A folder without a repository; says what of it was taken.
  std::string AddFolder(const std::filesystem::path& folder);
  CodeState Finish(const std::string& kind, const std::string& root, const std::string& reason);

 private:
  struct Paths {
    std::set<std::string> changed;    // to be looked at in the work tree
    std::set<std::string> untracked;  // of these, what git doesn't know
    std::set<std::string> sparse;
    std::set<std::string> nested;                      // repositories inside, submodules or not
    bool lost_index = false, sparse_checkout = false;  // then what is absent was never there
  };

  void Describe(git_repository* repo, nlohmann::json& out);
  void DescribeHead(git_repository* repo, nlohmann::json& out);
  Paths FindPaths(git_repository* repo, git_tree* head, const std::string& prefix,
                  nlohmann::json& out);
  void AddDeltas(git_diff* diff, git_index* index, const std::string& workdir, Paths& paths,
                 nlohmann::json& out);
  void AddTracked(git_repository* repo, git_index* index, const std::string& workdir,
                  const std::string& prefix, Paths& paths);
  void AddUnder(const std::string& workdir, const std::string& folder, Paths& paths);
  std::vector<std::pair<std::string, Repository>> OpenNested(const std::string& workdir,
                                                             const std::string& prefix,
                                                             Paths& paths);
  void AddTree(git_repository* repo, const std::string& prefix, nlohmann::json& out);
  void AddFolders(git_repository* repo, const std::string& workdir, const std::string& prefix,
                  const Paths& paths);
  void AddPatches(git_repository* repo, git_tree* head, const std::string& prefix,
                  const Paths& paths, nlohmann::json& out);
  std::string PatchText(git_repository* repo, git_diff* diff, const std::string& prefix,
                        const char* what, const Paths& paths, nlohmann::json& out);
  bool HoldsSecret(git_repository* repo, const git_oid& id);
  std::string CleanName(const std::string& path);
  std::string CleanUrl(std::string url, const std::string& place);
  std::string Reason(const std::string& what);
  // `untracked`: those of `paths` that nobody called code yet.
  void AddFiles(const std::string& workdir, const std::set<std::string>& paths,
                const std::set<std::string>& untracked, const std::string& prefix);
  void AddFile(const std::string& workdir, const std::string& path, const std::string& prefix,
               bool untracked, bool fits = true);
  std::set<std::string> BeyondLimit(const std::string& workdir,
                                    const std::set<std::string>& paths) const;
  void Omit(const std::string& path, const std::string& reason, int64_t bytes, bool code = true);
  std::string Store(const char* role, std::string bytes);

  const CodeOptions& options_;
  Redactor& redactor_;
  NoCode no_code_;
  std::vector<ManifestEntry> entries_;
  std::vector<CodeObject> objects_;
  std::set<std::string> stored_;
  std::set<std::string> redacted_paths_;
  nlohmann::json repositories_ = nlohmann::json::array();
  std::vector<nlohmann::json> omitted_code_, omitted_other_;  // not more than are listed
  int64_t omitted_code_count_ = 0, omitted_count_ = 0, omitted_bytes_ = 0, total_bytes_ = 0;
};

}  // namespace xp::snapshot
