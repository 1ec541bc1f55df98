#include "src/snapshot/git.h"

#include <git2/sys/repository.h>

#include <mutex>

namespace xp::snapshot {

void StartGit() {
  static std::once_flag once;
  std::call_once(once, [] {
    git_libgit2_init();
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
    const char* extensions[] = {"worktreeconfig", "partialclone", "preciousobjects"};
    git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, extensions, static_cast<size_t>(3));
  });
}

std::string GitReason() {
  const git_error* e = git_error_last();
  return e && e->message ? e->message : "unknown reason";
}

std::string OidText(const git_oid* oid) {
  char text[GIT_OID_HEXSZ + 1];
  git_oid_tostr(text, sizeof(text), oid);
  return text;
}

Repository OpenAround(const std::string& path, std::string& reason) {
  StartGit();
  git_repository* repo = nullptr;
  if (git_repository_open_ext(&repo, path.c_str(), GIT_REPOSITORY_OPEN_CROSS_FS, nullptr) != 0) {
    reason = GitReason();
    return nullptr;
  }
  return Repository(repo);
}

Repository OpenAt(const std::string& path, std::string& reason) {
  StartGit();
  git_repository* repo = nullptr;
  if (git_repository_open(&repo, path.c_str()) != 0) {
    reason = GitReason();
    return nullptr;
  }
  return Repository(repo);
}

Index ReadIndex(git_repository* repo, git_tree* head, std::string& reason) {
  git_index* index = nullptr;
  if (git_repository_index(&index, repo) == 0) return Index(index);
  reason = GitReason();
  if (git_index_new(&index) != 0) return nullptr;
  Index owned(index);
  if (head && git_index_read_tree(index, head) != 0) return nullptr;
  return git_repository_set_index(repo, index) == 0 ? std::move(owned) : nullptr;
}

Tree FindCommitTree(git_repository* repo, const std::string& commit) {
  git_oid oid;
  git_commit* object = nullptr;
  git_tree* tree = nullptr;
  if (git_oid_fromstr(&oid, commit.c_str()) != 0 || git_commit_lookup(&object, repo, &oid) != 0)
    return nullptr;
  Commit owned(object);
  return git_commit_tree(&tree, object) == 0 ? Tree(tree) : nullptr;
}

}  // namespace xp::snapshot
