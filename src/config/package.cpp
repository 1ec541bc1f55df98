#include "src/config/package.h"

#include <cstdlib>

namespace xp::config {
namespace {

namespace fs = std::filesystem;

// lib/python3.*/site-packages and dist-packages below a prefix.
void AddSites(const fs::path& prefix, std::vector<fs::path>& roots) {
  std::error_code error;
  for (fs::directory_iterator it(prefix / "lib", error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename().string().rfind("python3", 0) != 0) continue;
    roots.push_back(it->path() / "site-packages");
    roots.push_back(it->path() / "dist-packages");
  }
}

std::vector<fs::path> Roots(const fs::path& from, const std::vector<std::string>& search_paths) {
  std::vector<fs::path> roots(search_paths.begin(), search_paths.end());
  if (const char* list = std::getenv("EXP_CONFIG_PATH")) {
    std::string text = list;
    for (size_t at = 0; at <= text.size();) {
      size_t end = std::min(text.find(':', at), text.size());
      if (end > at) roots.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  // SITE/pkg/.mim/configs/x.py: other packages lie in SITE too.
  fs::path absolute = fs::absolute(from).lexically_normal();
  for (fs::path at = absolute; at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() == ".mim") roots.push_back(at.parent_path().parent_path());
  }
  if (const char* venv = std::getenv("VIRTUAL_ENV")) AddSites(venv, roots);
  AddSites("/usr/local", roots);
  AddSites("/usr", roots);
  return roots;
}

}  // namespace

fs::path FindInPackages(const std::string& relative, const fs::path& from,
                        const std::vector<std::string>& search_paths) {
  std::error_code error;
  for (const fs::path& root : Roots(from, search_paths)) {
    if (fs::is_regular_file(root / relative, error)) return root / relative;
  }
  return {};
}

fs::path FindPackageConfig(const std::string& package, const std::string& path,
                           const fs::path& from, const std::vector<std::string>& search_paths) {
  if (package.find('/') != std::string::npos) return {};
  for (const char* folder : {"/.mim/configs/", "/configs/", "/.mim/", "/"}) {
    std::string relative = package;
    relative.append(folder).append(path);
    fs::path found = FindInPackages(relative, from, search_paths);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace xp::config
