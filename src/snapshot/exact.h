// Where a work tree's bytes may differ from the commit's although git calls the file unchanged:
// line ends, filters, ident, encodings, assume-unchanged, modes that git was told to ignore.
// Private to src/snapshot.
#pragma once

#include <string>

#include "src/snapshot/git.h"

namespace xp::snapshot {

class ExactCheck {
 public:
  // `changed_attributes`: an attributes file is among what differs from the commit.
  ExactCheck(git_repository* repo, git_index* index, bool changed_attributes);

  enum class Result {
    kSame,     // byte for byte what the commit holds
    kCrlf,     // the same with LF written as CRLF
    kLfs,      // git-lfs put its content there, and keeps it; `lfs_oid` names it
    kDiffers,  // anything else: the file itself must be kept
  };
  // Of a file that git calls unchanged. Looks at the content only where it may differ.
  Result Compare(const git_index_entry* entry, const std::string& file, std::string& lfs_oid) const;

 private:
  bool Convertible(const git_index_entry* entry, bool& any_content) const;

  git_repository* repo_;
  bool attributes_ = false, autocrlf_ = false, modes_ = true, links_ = true;
  bool trusts_mtime_ = false;  // git was told to call a file unchanged by size and mtime alone
};

bool ReadRegular(const std::string& file, int64_t size, std::string& content);
bool ReadTarget(const std::string& link, int64_t size, std::string& target);
// The content with every LF that has no CR before it written as CRLF.
std::string WithCrlf(const std::string& content);

}  // namespace xp::snapshot
