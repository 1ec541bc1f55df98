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

Value JsonString(const std::string& text) {
  return JsonText{
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

void AddText(const std::string& text, std::vector<Value>& out) {
  if (!text.empty()) out.push_back(JsonString(text));
}

// A number, from 0 to 2^64-1.
void AddSeed(const std::string& seed, std::vector<Value>& out) {
  const nlohmann::json number = nlohmann::json::parse(seed, nullptr, false);
  if (number.is_number_integer())
    out.push_back(FromJson(number));
  else
    AddText(seed, out);
}

// What RunLine itself holds, by name.
struct OwnName {
  const char* name;
  void (*values)(const RunLine& r, std::vector<Value>& out);
};

constexpr OwnName kOwnNames[] = {
    {"config", [](const RunLine& r, auto& out) { AddText(r.config_file, out); }},
    {"created", [](const RunLine& r, auto& out) { AddText(ShowTime(r.created_ns), out); }},
    {"device", [](const RunLine& r, auto& out) { AddText(r.device, out); }},
    {"host", [](const RunLine& r, auto& out) { AddText(r.host, out); }},
    {"id", [](const RunLine& r, auto& out) { AddText(r.id, out); }},
    {"kind", [](const RunLine& r, auto& out) { AddText(r.kind, out); }},
    {"name", [](const RunLine& r, auto& out) { AddText(r.name, out); }},
    {"parent", [](const RunLine& r, auto& out) { AddText(r.parent_id, out); }},
    {"relation", [](const RunLine& r, auto& out) { AddText(r.relation, out); }},
    {"seconds",
     [](const RunLine& r, auto& out) {
       const int64_t end = r.ended_ns > 0 ? r.ended_ns : WallClockNs();
       out.emplace_back(static_cast<double>(end - r.created_ns) * 1e-9);
     }},
    {"seed", [](const RunLine& r, auto& out) { AddSeed(r.seed, out); }},
    {"state", [](const RunLine& r, auto& out) { AddText(r.state, out); }},
    {"tag",
     [](const RunLine& r, auto& out) {
       for (const std::string& tag : r.tags) AddText(tag, out);
     }},
    {"threads",
     [](const RunLine& r, auto& out) {
       if (r.threads > 0) out.emplace_back(int64_t{r.threads});
     }},
    {"work_dir", [](const RunLine& r, auto& out) { AddText(r.work_dir, out); }},
};

// How many epochs are done: a name of every run, but of no column.
constexpr const char* kEpoch = "epoch";

// The kinds of summaries, which their names begin with: "metric.bbox_mAP".
constexpr const char* kSummaryKinds[] = {"metric", "loss", "step", "gpu"};

// nullptr for names that are elsewhere.
const OwnName* FindOwn(const std::string& name) {
  for (const OwnName& own : kOwnNames)
    if (name == own.name) return &own;
  return nullptr;
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

// `"a \"b\""` as where.h has it.
std::string Unquoted(const std::string& name) {
  if (name.size() < 3 || name.front() != '"' || name.back() != '"') return name;
  std::string out;
  for (size_t i = 1; i + 1 < name.size(); ++i) {
    if (name[i] == '\\' && i + 2 < name.size()) ++i;
    out += name[i];
  }
  return out;
}

Values ValuesOf(const Database& db, const std::string& name) {
  if (name == kEpoch) {
    return Collect(db, "SELECT run, max(epoch)+1 FROM live_epoch WHERE ?1='' GROUP BY run", "", "");
  }
  for (const char* kind : kSummaryKinds) {
    std::string prefix = std::string(kind) + '.';
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string rest = name.substr(prefix.size());
    for (const std::string& written : {rest, Unquoted(rest)}) {
      Values found =
          Collect(db, "SELECT run,last FROM summary WHERE kind=?1 AND name=?2", kind, written);
      if (!found.empty()) return found;
    }
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
  for (const std::string& name : names)
    if (!FindOwn(name)) elsewhere[name] = ValuesOf(store.db(), name);
  auto get = [&](const RunLine& r, const std::string& name) {
    std::vector<Value> out;
    if (const OwnName* own = FindOwn(name)) {
      own->values(r, out);
      return out;
    }
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
      return SortsBefore(x[0], y[0], options.reverse);
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

std::vector<std::string> NamesThatNoRunHas(const Store& store,
                                           const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const bool known = name == kEpoch || FindOwn(name) || !ValuesOf(store.db(), name).empty();
    if (!known && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

std::vector<std::string> NamesOfCondition(const std::string& where) {
  return Where(where).subjects();
}

KnownNames NamesOfRuns(const Store& store) {
  KnownNames out;
  for (const OwnName& own : kOwnNames) out.plain.emplace_back(own.name);
  out.plain.emplace_back(kEpoch);
  std::sort(out.plain.begin(), out.plain.end());
  for (const char* kind : kSummaryKinds) {
    Statement s(store.db(), "SELECT DISTINCT name FROM summary WHERE kind=?1 ORDER BY name");
    for (s.Bind(1, kind); s.Step();) out.plain.push_back(fmt::format("{}.{}", kind, s.Text(0)));
  }
  Statement s(store.db(), "SELECT DISTINCT path FROM config_value ORDER BY path");
  while (s.Step()) out.config_keys.push_back(s.Text(0));
  return out;
}

std::vector<std::string> WorkDirs(const Store& store) {
  std::vector<std::string> out;
  Statement s(store.db(), "SELECT DISTINCT work_dir FROM run WHERE work_dir<>''");
  while (s.Step()) out.push_back(s.Text(0));
  return out;
}

bool IsStillToCome(const std::string& name) {
  return std::any_of(std::begin(kSummaryKinds), std::end(kSummaryKinds),
                     [&](const char* kind) { return name.starts_with(std::string(kind) + '.'); });
}

}  // namespace xp::record
