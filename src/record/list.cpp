// ListRuns: few statements whatever the number of runs, so that ten thousand are listed at once.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "exp/record/reader.h"
#include "src/record/begin.h"
#include "src/record/sqlite.h"
#include "src/record/state.h"
#include "src/record/where.h"

namespace xp::record {
namespace {

using Values = std::unordered_map<int64_t, Value>;  // by run.seq

std::vector<RunLine> LoadLines(const Database& db) {
  std::vector<RunLine> lines;
  Statement s(
      db,
      "SELECT seq,id,name,kind,created_ns,work_dir,config_file,config_hash,device,parent_id,"
      "relation,seed,threads FROM run ORDER BY seq DESC");
  std::unordered_map<int64_t, size_t> index;
  while (s.Step()) {
    RunLine r;
    s.Read(r.seq, r.id, r.name, r.kind, r.created_ns, r.work_dir, r.config_file, r.config_hash,
           r.device, r.parent_id, r.relation, r.seed, r.threads);
    r.state = "killed";
    r.reason = "it never began";
    index[r.seq] = lines.size();
    lines.push_back(std::move(r));
  }
  // In order of number, so that a run's newest attempt is the one that stays.
  Statement a(db, fmt::format("SELECT run,{} FROM attempt ORDER BY run,number", kStatusColumns));
  while (a.Step()) {
    auto found = index.find(a.Int(0));
    if (found == index.end()) continue;
    RunStatus status = StatusFromRow(a, 1);
    RunLine& r = lines[found->second];
    r.state = status.state;
    r.reason = status.reason;
    r.pid = status.pid;
    r.host = status.host;
    r.ended_ns = status.ended_ns;
  }
  Statement t(db, "SELECT run,tag FROM tag ORDER BY tag");
  while (t.Step()) {
    auto found = index.find(t.Int(0));
    if (found != index.end()) lines[found->second].tags.push_back(t.Text(1));
  }
  return lines;
}

Value JsonString(const std::string& text) { return JsonText{nlohmann::json(text).dump()}; }

// What RunLine itself holds; false for names that are elsewhere.
bool OwnValues(const RunLine& r, const std::string& name, std::vector<Value>& out) {
  auto text = [&](const std::string& t) {
    if (!t.empty()) out.push_back(JsonString(t));
    return true;
  };
  if (name == "id") return text(r.id);
  if (name == "name") return text(r.name);
  if (name == "state") return text(r.state);
  if (name == "kind") return text(r.kind);
  if (name == "device") return text(r.device);
  if (name == "config") return text(r.config_file);
  if (name == "work_dir") return text(r.work_dir);
  if (name == "host") return text(r.host);
  if (name == "relation") return text(r.relation);
  if (name == "parent") return text(r.parent_id);
  if (name == "created") return text(ShowTime(r.created_ns));
  if (name == "seed") {
    int64_t seed = 0;
    if (!r.seed.empty() && r.seed.size() < 19)
      seed = std::stoll(r.seed), out.push_back(seed);
    else
      text(r.seed);
    return true;
  }
  if (name == "threads") {
    if (r.threads > 0) out.push_back(int64_t{r.threads});
    return true;
  }
  if (name == "seconds") {
    int64_t end = r.ended_ns > 0 ? r.ended_ns : WallClockNs();
    out.push_back(static_cast<double>(end - r.created_ns) * 1e-9);
    return true;
  }
  if (name == "tag") {
    for (const std::string& tag : r.tags) text(tag);
    return true;
  }
  return false;
}

Values Collect(const Database& db, const char* sql, const std::string& a, const std::string& b) {
  Values out;
  Statement s(db, sql);
  s.Bind(1, a);
  if (!b.empty()) s.Bind(2, b);
  while (s.Step()) {
    Value value = s.GetValue(1);
    // config_value.value is JSON text; numbers in it are numbers.
    if (const JsonText* text = std::get_if<JsonText>(&value)) {
      nlohmann::json parsed = nlohmann::json::parse(text->text, nullptr, false);
      if (parsed.is_number()) value = FromJson(parsed);
    }
    out[s.Int(0)] = std::move(value);
  }
  return out;
}

// Of `img_scale.0`: a list of plain values is one row.
Values ElementsOf(const Database& db, const std::string& name) {
  Values out;
  size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot + 1 == name.size()) return out;
  int index = 0;
  auto [p, error] = std::from_chars(name.data() + dot + 1, name.data() + name.size(), index);
  if (error != std::errc() || p != name.data() + name.size()) return out;
  for (auto& [run, list] :
       Collect(db, "SELECT run,value FROM config_value WHERE path=?1", name.substr(0, dot), "")) {
    const JsonText* text = std::get_if<JsonText>(&list);
    nlohmann::json parsed = text ? nlohmann::json::parse(text->text, nullptr, false) : nullptr;
    if (!parsed.is_array()) continue;
    int64_t at = index < 0 ? index + static_cast<int64_t>(parsed.size()) : index;
    if (at >= 0 && at < static_cast<int64_t>(parsed.size()))
      out[run] = FromJson(parsed[static_cast<size_t>(at)]);
  }
  return out;
}

Values ValuesOf(const Database& db, const std::string& name) {
  if (name == "epoch") {  // how many are done
    return Collect(db, "SELECT run, max(epoch)+1 FROM live_epoch WHERE ?1='' GROUP BY run", "", "");
  }
  for (const char* kind : {"metric", "loss", "step", "gpu"}) {
    std::string prefix = std::string(kind) + '.';
    if (name.rfind(prefix, 0) != 0) continue;
    std::string rest = name.substr(prefix.size());
    bool quoted = rest.size() > 2 && rest.front() == '"' && rest.back() == '"';
    if (quoted) rest = rest.substr(1, rest.size() - 2);
    Values found =
        Collect(db, "SELECT run,last FROM summary WHERE kind=?1 AND name=?2", kind, rest);
    if (!found.empty()) return found;
  }
  Values found = Collect(db, "SELECT run,value FROM config_value WHERE path=?1", name, "");
  return found.empty() ? ElementsOf(db, name) : found;
}

}  // namespace

std::vector<RunLine> ListRuns(const Store& store, const ListOptions& options) {
  Where where(options.where);
  std::vector<RunLine> lines = LoadLines(store.db());
  std::set<std::string> names(options.keys.begin(), options.keys.end());
  names.insert(where.names().begin(), where.names().end());
  if (!options.sort.empty()) names.insert(options.sort);
  std::unordered_map<std::string, Values> elsewhere;
  RunLine probe;
  for (const std::string& name : names) {
    std::vector<Value> unused;
    if (!OwnValues(probe, name, unused)) elsewhere[name] = ValuesOf(store.db(), name);
  }
  auto get = [&](const RunLine& r, const std::string& name) {
    std::vector<Value> out;
    if (OwnValues(r, name, out)) return out;
    const Values& values = elsewhere[name];
    auto found = values.find(r.seq);
    if (found != values.end()) out.push_back(found->second);
    return out;
  };
  std::erase_if(lines, [&](const RunLine& r) {
    return !where.Matches([&](const std::string& name) { return get(r, name); });
  });
  if (!options.sort.empty()) {
    std::stable_sort(lines.begin(), lines.end(), [&](const RunLine& a, const RunLine& b) {
      std::vector<Value> x = get(a, options.sort), y = get(b, options.sort);
      if (x.empty() || y.empty()) return !x.empty() && y.empty();  // the ones without come last
      return options.reverse ? SortsBefore(y[0], x[0]) : SortsBefore(x[0], y[0]);
    });
  } else if (options.reverse) {
    std::reverse(lines.begin(), lines.end());
  }
  if (options.limit >= 0 && lines.size() > static_cast<size_t>(options.limit)) {
    lines.resize(static_cast<size_t>(options.limit));
  }
  for (const std::string& key : options.keys) {
    auto values = elsewhere.find(key);
    for (RunLine& r : lines) {
      if (values == elsewhere.end()) {  // the line's own
        std::vector<Value> own = get(r, key);
        if (!own.empty()) r.values[key] = own[0];
        continue;
      }
      auto found = values->second.find(r.seq);
      if (found != values->second.end()) r.values[key] = found->second;
    }
  }
  return lines;
}

std::vector<std::string> NamesThatNoRunHas(const Store& store, const std::string& where) {
  std::vector<std::string> out;
  Where condition(where);
  for (const std::string& name : condition.subjects()) {
    std::vector<Value> unused;
    bool known = OwnValues(RunLine{}, name, unused) || !ValuesOf(store.db(), name).empty();
    if (!known && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

}  // namespace xp::record
