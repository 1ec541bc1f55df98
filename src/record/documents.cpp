#include "src/record/documents.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/record/value.h"

namespace xp::record {
namespace {

using nlohmann::json;

json Parsed(const std::string& text) {
  if (JsonDepth(text) > kDeepestJson) return json();
  return json::parse(text, nullptr, false);
}

bool Absent(const json& object, const char* key) { return !object.contains(key); }

bool TextOrAbsent(const json& object, std::initializer_list<const char*> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const char* key) {
    return Absent(object, key) || object[key].is_string();
  });
}

template <class Fits>
bool ListOrAbsent(const json& object, const char* key, Fits fits) {
  if (Absent(object, key)) return true;
  return object[key].is_array() && std::all_of(object[key].begin(), object[key].end(), fits);
}

bool IsText(const json& value) { return value.is_string(); }

bool UsableRepository(const json& repo) {
  auto remote = [](const json& r) { return r.is_object() && TextOrAbsent(r, {"name", "url"}); };
  auto changed = [](const json& c) { return c.is_object() && TextOrAbsent(c, {"path", "status"}); };
  auto object = [&](const char* key) {
    return Absent(repo, key) || (repo[key].is_object() && TextOrAbsent(repo[key], {"object"}));
  };
  return repo.is_object() && TextOrAbsent(repo, {"path", "commit", "branch", "head", "git_dir"}) &&
         ListOrAbsent(repo, "partial", IsText) && ListOrAbsent(repo, "remotes", remote) &&
         ListOrAbsent(repo, "changed", changed) && object("patch") && object("staged_patch") &&
         (Absent(repo, "changes") || repo["changes"].is_object());
}

bool UsableCode(const json& code) {
  if (!code.is_object() || !TextOrAbsent(code, {"kind", "root", "reason", "identity"}))
    return false;
  if (!ListOrAbsent(code, "repositories", UsableRepository)) return false;
  if (code.value("kind", "") == "git" &&
      (Absent(code, "repositories") || code["repositories"].empty()))
    return false;
  if (!Absent(code, "full") && !code["full"].is_boolean()) return false;
  if (!Absent(code, "manifest") &&
      !(code["manifest"].is_object() && TextOrAbsent(code["manifest"], {"object"})))
    return false;
  if (Absent(code, "omitted")) return true;
  const json& omitted = code["omitted"];
  auto file = [](const json& f) { return f.is_object() && TextOrAbsent(f, {"path", "reason"}); };
  return omitted.is_object() && omitted.value("count", json(0)).is_number_integer() &&
         !Absent(omitted, "files") && ListOrAbsent(omitted, "files", file);
}

}  // namespace

bool UsableDocument(const std::string& kind, const std::string& text) {
  json parsed = Parsed(text);
  if (kind == "config") return !parsed.is_discarded() && !parsed.is_null();
  if (kind == "code") return UsableCode(parsed);
  return parsed.is_object() && (kind != "verdict" || TextOrAbsent(parsed, {"summary"}));
}

bool UsableRedactions(const std::string& text) {
  json parsed = Parsed(text);
  return parsed.is_array() && std::all_of(parsed.begin(), parsed.end(), [](const json& r) {
           return r.is_object() && TextOrAbsent(r, {"kind", "place"});
         });
}

}  // namespace xp::record
