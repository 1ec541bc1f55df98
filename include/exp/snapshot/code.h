// The state of the code that runs: commit, what differs from it, what git doesn't know; enough to
// build the same tree again. The user's repository is only read: index, objects, stash and hooks
// stay as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exp/snapshot/redact.h"

namespace xp::snapshot {

enum class CodeMode {
  kOff,      // nothing
  kChanges,  // commit, and every file that differs from it or that git doesn't track
  kFull,     // every file, so that the tree can be rebuilt without the repository
};

struct CodeOptions {
  CodeMode mode = CodeMode::kChanges;
  int64_t max_file_bytes = 10 << 20;    // a larger file is left out, and named
  int64_t max_total_bytes = 100 << 20;  // of all files
  int64_t max_patch_bytes = 20 << 20;   // a larger patch is left out; the files are stored anyway
  std::vector<std::filesystem::path> exclude;  // files, and folders, that are no code: the store
  // Folders of outputs and images. What git tracks there is code as elsewhere; of the rest only
  // what may be code, where git tracks something beside it.
  std::vector<std::filesystem::path> outputs;
};

struct CodeObject {
  std::string role;  // "patch", "staged-patch", "file", "manifest"
  std::string bytes;
};

struct CodeState {
  std::string json;                 // docs/record.md, "The code document"
  std::vector<CodeObject> objects;  // named in it by their xxh128
};

// The code around `from`. Never throws for the state of a repository: what can't be taken is named
// in "partial" and "omitted" with the reason.
CodeState CaptureCode(const std::filesystem::path& from, const CodeOptions& options,
                      Redactor& redactor);

// What of the code a code document (`CodeState::json`) doesn't hold, in one sentence for people; ""
// where nothing was left out, or nothing was to be kept. Untracked files that are no code
// (archives, weights, images, pipes) are in the document's `omitted`, but not here.
std::string LeftOut(const std::string& code_json);

// One line of the manifest: how a file differs from the commit.
struct ManifestEntry {
  // 'F' a file with its content, 'C' the commit's content with CRLF line ends, 'D' deleted, 'S'
  // left out by a sparse checkout, 'L' content of git-lfs, 'X' omitted, 'E' a folder that holds
  // nothing that is recorded
  char kind = 'F';
  uint32_t mode = 0;   // 0100644, 0100755, 0120000 (a link, whose target is the content)
  std::string object;  // xxh128 of the content; for 'L' the SHA-256 that git-lfs knows
  int64_t size = 0;
  std::string path;  // bytes as in the file system, from the root, through submodules
};
std::string WriteManifest(const std::vector<ManifestEntry>& entries);
// Throws UsageError where it isn't a manifest.
std::vector<ManifestEntry> ReadManifest(const std::string& text);

}  // namespace xp::snapshot
