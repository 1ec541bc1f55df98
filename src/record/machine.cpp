#include "exp/record/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exp/base/error.h"
#include "exp/base/hash.h"
#include "exp/base/json_text.h"
#include "src/record/begin.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

using nlohmann::json;

constexpr const char* kColumns =
    "d.id,d.created_ns,d.machine,d.host,d.level,d.deep,d.seconds,coalesce(e.json,''),d.report,"
    "coalesce(CASE WHEN json_valid(d.report) THEN json_extract(d.report,'$.interrupted') END,0) "
    "AS interrupted "
    "FROM doctor d LEFT JOIN document e ON e.hash=d.environment_document";

DoctorReport FromRow(const Statement& s) {
  DoctorReport r;
  s.Read(r.id, r.created_ns, r.machine, r.host, r.level, r.deep, r.seconds, r.environment_json,
         r.report_json, r.interrupted);
  return r;
}

struct Found {
  std::string group, level, found;
};

struct Findings {
  std::map<std::string, Found> by_id;
  bool interrupted = false;
  bool measured = false;  // not `exp doctor --look`, which leaves tests out
};

Findings FindingsOf(const DoctorReport& report) {
  Findings out;
  out.interrupted = report.interrupted;
  json parsed = json::parse(report.report_json, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("findings")) return out;
  for (const json& f : parsed["findings"]) {
    if (!f.is_object()) continue;
    Found found{TextAt(f, "/group"), TextAt(f, "/level"), TextAt(f, "/found")};
    out.measured = out.measured || found.group == "speed";
    out.by_id[TextAt(f, "/id")] = std::move(found);
  }
  return out;
}

// Is it a row that only measuring gives?
bool ByTest(const std::string& id, const Found& f) {
  auto gpu = [&](const char* end) { return id.starts_with("gpu.") && id.ends_with(end); };
  return f.group == "smoke" || f.group == "speed" || id == "cpu.threads" || gpu(".load") ||
         gpu(".pcie") || gpu(".speed");
}

// Does the report lack the finding, which another one has, only because it wasn't looked for?
bool NotLookedFor(const Findings& report, const std::string& id, const Found& elsewhere) {
  return report.interrupted || (!report.measured && ByTest(id, elsewhere));
}

// Speeds and temperatures differ from minute to minute: they tell machines apart only when the
// judgement differs.
bool Measured(const std::string& id) {
  for (const char* prefix : {"disk.", "decode", "loader", "device.speed", "memory", "swap",
                             "smoke.", "shm", "cpu.processes"}) {
    if (id.rfind(prefix, 0) == 0) return true;
  }
  for (const char* end : {".heat", ".use", ".throttle", ".load", ".speed", ".memory"}) {
    if (id.rfind("gpu.", 0) == 0 && id.ends_with(end)) return true;
  }
  return false;
}

// What of a finding is compared.
std::string Compared(const std::string& id, const std::string& level, const std::string& found) {
  if (Measured(id)) return level;
  // "limit 700 W, default 700 W, drawing 76 W": what it draws at that moment is no difference.
  const bool power = id.starts_with("gpu.") && id.ends_with(".power");
  return level + ": " + (power ? found.substr(0, found.find(", drawing")) : found);
}

}  // namespace

std::string MachineIdentity(const std::string& environment_json) {
  json e = json::parse(environment_json, nullptr, false);
  std::vector<std::string> uuids;
  if (e.is_object() && e.contains("/gpu/devices"_json_pointer)) {
    for (const json& gpu : e.at("/gpu/devices"_json_pointer)) uuids.push_back(TextAt(gpu, "/uuid"));
  }
  std::sort(uuids.begin(), uuids.end());
  std::string text;
  for (const std::string& uuid : uuids) text += uuid + "\n";
  if (text.find_first_not_of('\n') == std::string::npos) {
    std::string host = TextAt(e, "/os/host"), cpu = TextAt(e, "/cpu/model");
    if (host.empty() && cpu.empty()) return "";
    text = host + "\n" + cpu;
  }
  return HashBytes(text).Hex().substr(0, 16);
}

int64_t SaveDoctorReport(const Store& store, const DoctorReport& report) {
  store.RequireWritable();
  Database& db = store.db();
  json e = json::parse(report.environment_json, nullptr, false);
  Transaction t(db);
  Statement s(db,
              "INSERT INTO doctor(created_ns,machine,host,level,deep,seconds,environment_document,"
              "report) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)");
  s.Bind(1, WallClockNs()).Bind(2, MachineIdentity(report.environment_json));
  s.Bind(3, TextAt(e, "/os/host")).Bind(4, report.level).Bind(5, report.deep ? 1 : 0);
  s.BindReal(6, report.seconds);
  s.BindOptional(7, PutDocument(db, "environment", report.environment_json));
  s.Bind(8, report.report_json).Run();
  int64_t id = db.LastRowId();
  t.Commit();
  return id;
}

std::optional<DoctorReport> FindDoctorReport(const Store& store, const std::string& machine,
                                             int64_t before_ns) {
  if (machine.empty()) return std::nullopt;
  const std::string select =
      std::string("SELECT ") + kColumns + " WHERE d.machine=?1 AND NOT interrupted AND ";
  for (const char* which : {"d.created_ns<=?2 ORDER BY d.created_ns DESC, d.id DESC LIMIT 1",
                            "d.created_ns>?2 ORDER BY d.created_ns, d.id LIMIT 1"}) {
    Statement s(store.db(), select + which);
    s.Bind(1, machine).Bind(2, before_ns);
    if (s.Step()) return FromRow(s);
  }
  return std::nullopt;
}

std::optional<DoctorReport> FindDoctorReport(const Store& store, const Run& run) {
  return FindDoctorReport(store, MachineIdentity(run.environment_json), run.created_ns);
}

std::vector<DoctorReport> ListDoctorReports(const Store& store) {
  std::vector<DoctorReport> out;
  Statement s(store.db(),
              std::string("SELECT ") + kColumns + " ORDER BY d.created_ns DESC, d.id DESC");
  while (s.Step()) out.push_back(FromRow(s));
  return out;
}

DoctorReport NamedDoctorReport(const Store& store, const std::string& selector) {
  std::vector<DoctorReport> all = ListDoctorReports(store);
  auto number = [](const std::string& text) {
    int64_t value = -1;
    auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
    return whole ? value : -1;
  };
  const bool back = selector == "@" || selector.starts_with("@~");
  if (back) {
    int64_t steps = selector == "@" ? 0 : number(selector.substr(2));
    if (steps >= 0 && steps < static_cast<int64_t>(all.size()))
      return std::move(all[static_cast<size_t>(steps)]);
  }
  for (DoctorReport& report : all) {
    if (!back && report.id == number(selector)) return std::move(report);
  }
  std::string known;
  for (size_t i = 0; i < std::min<size_t>(all.size(), 5); ++i)
    known += (i == 0 ? "" : ", ") + std::to_string(all[i].id);
  throw UsageError(
      {.what = "`" + selector + "` names no report of `exp doctor`",
       .where = store.folder().string(),
       .expected = known.empty() ? "a store with reports" : "@, @~1, or one of " + known,
       .next = "`exp doctor --history` lists them"});
}

std::vector<Difference> DiffReports(const std::vector<const DoctorReport*>& reports) {
  std::vector<Findings> all;
  all.reserve(reports.size());
  for (const DoctorReport* report : reports) {
    all.push_back(report ? FindingsOf(*report) : Findings());
  }
  std::map<std::string, Difference> rows;
  std::map<std::string, Found> any;
  for (size_t i = 0; i < all.size(); ++i) {
    for (const auto& [id, finding] : all[i].by_id) {
      Difference& d = rows[id];
      d.section = "machine";
      d.name = id;
      d.values.resize(all.size());
      d.values[i] = finding.level + ": " + finding.found;
      any[id] = finding;
    }
  }
  std::vector<Difference> out;
  for (auto& [id, d] : rows) {
    std::vector<std::string> compared;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!reports[i]) continue;
      auto found = all[i].by_id.find(id);
      if (found != all[i].by_id.end()) {
        compared.push_back(Compared(id, found->second.level, found->second.found));
      } else if (!NotLookedFor(all[i], id, any[id])) {
        compared.emplace_back();
      }
    }
    bool differs = std::adjacent_find(compared.begin(), compared.end(), std::not_equal_to<>()) !=
                   compared.end();
    if (!differs) continue;
    // A worse judgement tells more than another text.
    for (const std::string& value : d.values) {
      d.weight = std::max(d.weight, value.rfind("error", 0) == 0     ? 3
                                    : value.rfind("warning", 0) == 0 ? 2
                                                                     : 1);
    }
    out.push_back(std::move(d));
  }
  return out;
}

std::string OtherState(const DoctorReport& report, const Run& run) {
  const json then = json::parse(report.environment_json, nullptr, false),
             now = json::parse(run.environment_json, nullptr, false);
  struct Part {
    const char *pointer, *name;
  };
  std::string text;
  for (const Part& part :
       {Part{"/gpu/driver", "driver"}, Part{"/gpu/cuda_driver", "CUDA"},
        Part{"/gpu/cudnn", "cuDNN"}, Part{"/os/glibc", "glibc"}, Part{"/os/kernel", "kernel"}}) {
    const std::string a = TextAt(then, part.pointer), b = TextAt(now, part.pointer);
    if (a.empty() || b.empty() || a == b) continue;
    text += fmt::format("{}{} {} (the run: {})", text.empty() ? "" : ", ", part.name, a, b);
  }
  return text;
}

void DiffMachines(const Store& store, const std::vector<Run>& runs, std::vector<Difference>& out) {
  std::vector<std::optional<DoctorReport>> found;
  std::vector<const DoctorReport*> reports;
  std::set<int64_t> ids;
  found.reserve(runs.size());
  for (const Run& run : runs) {
    found.push_back(FindDoctorReport(store, run));
    reports.push_back(found.back() ? &*found.back() : nullptr);
    if (found.back()) ids.insert(found.back()->id);
  }
  Difference other{
      .section = "machine", .name = "report", .values = {}, .origins = {}, .weight = 2};
  bool any = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string state = found[i] ? OtherState(*found[i], runs[i]) : "";
    any |= !state.empty();
    other.values.push_back(found[i] ? "report " + std::to_string(found[i]->id) +
                                          (state.empty() ? "" : " is of " + state)
                                    : "");
  }
  if (any) out.push_back(std::move(other));
  if (ids.size() < 2) return;
  for (Difference& d : DiffReports(reports)) out.push_back(std::move(d));
}

}  // namespace xp::record
