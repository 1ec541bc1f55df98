#include "exp/snapshot/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "exp/base/error.h"
#include "src/snapshot/capture.h"

namespace fs = std::filesystem;

namespace xp::snapshot {

std::string WriteManifest(const std::vector<ManifestEntry>& entries) {
  std::string out;
  for (const ManifestEntry& e : entries) {
    out += fmt::format("{} {:o} {} {} ", e.kind, e.mode, e.object.empty() ? "-" : e.object, e.size);
    out += e.path;
    out += '\0';
  }
  return out;
}

std::vector<ManifestEntry> ReadManifest(const std::string& text) {
  std::vector<ManifestEntry> entries;
  auto bad = [&](size_t at) {
    return UsageError({.what = fmt::format("the manifest is damaged at byte {}", at),
                       .next = "`exp verify` lists what else is; restore a copy of the store"});
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\0', at);
    if (end == std::string::npos || end - at < 8) throw bad(at);
    size_t mode = at + 2, object = text.find(' ', mode);
    size_t size = object < end ? text.find(' ', object + 1) : std::string::npos;
    size_t path = size < end ? text.find(' ', size + 1) : std::string::npos;
    if (path >= end || text[at + 1] != ' ') throw bad(at);
    ManifestEntry e{.kind = text[at]};
    auto [p, error] = std::from_chars(text.data() + mode, text.data() + object, e.mode, 8);
    auto [q, error2] = std::from_chars(text.data() + size + 1, text.data() + path, e.size);
    if (error != std::errc() || error2 != std::errc()) throw bad(at);
    e.object = text.substr(object + 1, size - object - 1);
    if (e.object == "-") e.object.clear();
    e.path = text.substr(path + 1, end - path - 1);
    entries.push_back(std::move(e));
    at = end + 1;
  }
  return entries;
}

namespace {

// Where a repository should be, though it can't be read.
fs::path FolderWithGit(const fs::path& from) {
  std::error_code error;
  for (fs::path dir = fs::absolute(from, error);; dir = dir.parent_path()) {
    if (fs::exists(fs::symlink_status(dir / ".git", error))) return dir;
    if (dir == dir.parent_path()) return {};
  }
}

}  // namespace

std::string LeftOut(const std::string& code_json) {
  const nlohmann::json code = nlohmann::json::parse(code_json, nullptr, false);
  if (!code.is_object() || !code.contains("omitted")) return "";
  const nlohmann::json& omitted = code["omitted"];
  // Records of older programs don't tell code from the rest.
  const int64_t count = omitted.value("code", omitted.value("count", int64_t{0}));
  if (count == 0) return "";
  constexpr size_t kShown = 3;
  const nlohmann::json files = omitted.value("files", nlohmann::json::array());  // code first
  std::string text = "not all of the code is in the record: ";
  const size_t shown = std::min({files.size(), kShown, static_cast<size_t>(count)});
  for (size_t i = 0; i < shown; ++i) {
    const std::string path = files[i].value("path", ""), reason = files[i].value("reason", "");
    text += (i > 0 ? "; " : "") + (path == "..." ? reason : path + ": " + reason);
  }
  const int64_t more = count - static_cast<int64_t>(shown);
  return more > 0 ? fmt::format("{}; and {} more", text, more) : text;
}

CodeState CaptureCode(const fs::path& from, const CodeOptions& options, Redactor& redactor) {
  if (options.mode == CodeMode::kOff) {
    return Capture(options, redactor).Finish("off", "", "snapshot.code is off");
  }
  std::string reason;
  Repository repo = OpenAround(from.string(), reason);
  Capture capture(options, redactor);
  if (!repo) {
    reason = redactor.Text(reason, "git");
    fs::path top = FolderWithGit(from);
    if (!top.empty() && capture.AddUnreadable(top, reason)) {
      return capture.Finish("none", top.string(), reason + "; the files are kept");
    }
    std::string taken = capture.AddFolder(from);
    return capture.Finish("none", from.string(), reason + taken);
  }
  capture.AddRepository(repo.get(), "");
  const char* root = git_repository_workdir(repo.get());
  return capture.Finish("git", root ? root : git_repository_path(repo.get()), "");
}

}  // namespace xp::snapshot
