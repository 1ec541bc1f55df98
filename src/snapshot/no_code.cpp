#include "src/snapshot/no_code.h"

#include "src/snapshot/may_be_code.h"

namespace fs = std::filesystem;

namespace xp::snapshot {
namespace {

// Without a slash at its end.
std::string Plain(const fs::path& folder) {
  const fs::path normal = folder.lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

void Add(const std::vector<fs::path>& folders, std::set<std::string>& out) {
  for (const fs::path& folder : folders) {
    out.insert(Plain(folder));
    std::error_code error;
    const fs::path real = fs::weakly_canonical(folder, error);
    if (!error) out.insert(Plain(real));
  }
}

// Of what lies in a folder of outputs. What configures a run is in its record, and what a training
// writes down of its config is no code.
bool MayBeProgram(const fs::path& path) {
  const std::string ending = path.extension().string();
  for (const char* settings : {".yaml", ".yml", ".toml", ".ini", ".cfg"})
    if (ending == settings) return false;
  return MayBeCode(path.string());
}

// The innermost of `folders` that is the path or holds it; empty: none.
std::string FindAround(const std::set<std::string>& folders, const fs::path& path) {
  for (fs::path at = Plain(path); at.has_relative_path(); at = at.parent_path())
    if (folders.count(at.string())) return at.string();
  return "";
}

}  // namespace

NoCode::NoCode(const CodeOptions& options) {
  Add(options.exclude, exclude_);
  Add(options.outputs, outputs_);
}

bool NoCode::Excluded(const fs::path& path) const { return !FindAround(exclude_, path).empty(); }

bool NoCode::HoldsTracked(const std::string& folder, const std::string& workdir, git_index* index) {
  auto [known, fresh] = tracked_.try_emplace(workdir + '\0' + folder, false);
  if (!fresh || !index) return known->second;
  size_t at = 0;
  const bool inside = folder.starts_with(workdir);  // which ends with a slash
  const std::string below = inside ? folder.substr(workdir.size()) + "/" : "";
  known->second = inside ? git_index_find_prefix(&at, index, below.c_str()) == 0
                         : git_index_entrycount(index) > 0;
  return known->second;
}

bool NoCode::IsOutput(const fs::path& path, const std::string& workdir, git_index* index) {
  const std::string folder = FindAround(outputs_, path);
  return !folder.empty() && !(HoldsTracked(folder, workdir, index) && MayBeProgram(path));
}

}  // namespace xp::snapshot
