// libgit2 with owners; private to src/snapshot.
#pragma once

#include <git2.h>

#include <memory>
#include <string>

namespace xp::snapshot {

template <class T, void (*Free)(T*)>
struct GitFree {
  void operator()(T* p) const { Free(p); }
};
template <class T, void (*Free)(T*)>
using GitHandle = std::unique_ptr<T, GitFree<T, Free>>;

using Repository = GitHandle<git_repository, git_repository_free>;
using Diff = GitHandle<git_diff, git_diff_free>;
using Tree = GitHandle<git_tree, git_tree_free>;
using Commit = GitHandle<git_commit, git_commit_free>;
using Index = GitHandle<git_index, git_index_free>;
using Reference = GitHandle<git_reference, git_reference_free>;
using Patch = GitHandle<git_patch, git_patch_free>;
using Blob = GitHandle<git_blob, git_blob_free>;
using Remote = GitHandle<git_remote, git_remote_free>;
using TreeEntry = GitHandle<git_tree_entry, git_tree_entry_free>;

struct Buffer {
  git_buf buf = {nullptr, 0, 0};
  ~Buffer() { git_buf_dispose(&buf); }
  std::string Text() const { return buf.ptr ? std::string(buf.ptr, buf.size) : ""; }
};

// Initialises libgit2 once for the process, without its refusal of foreign owners (nothing of the
// repository is executed) and with the extensions that only matter to writers.
void StartGit();
// libgit2's last message.
std::string GitReason();
std::string OidText(const git_oid* oid);

// Opens the repository around `path`; nullptr with the reason when there is none or it can't be
// read.
Repository OpenAround(const std::string& path, std::string& reason);
Repository OpenAt(const std::string& path, std::string& reason);
// The index; where it can't be read, one that holds what the commit holds (the repository goes on
// with it, in memory), and the reason. `head` may be null.
Index ReadIndex(git_repository* repo, git_tree* head, std::string& reason);
// The tree of a commit, by its 40 hex digits; nullptr where the repository lacks it.
Tree FindCommitTree(git_repository* repo, const std::string& commit);

}  // namespace xp::snapshot
