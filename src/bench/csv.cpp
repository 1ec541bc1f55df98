// Rows as CSV (RFC 4180): all numbers, and for each row when, where and in which state it was
// measured, since files of several calls are read together.
#include <fmt/format.h>

#include <cmath>

#include "exp/base/escape.h"
#include "exp/bench/report.h"
#include "src/bench/cells.h"

namespace xp::bench {
namespace {

// Empty where it wasn't measured.
std::string Number(double v) { return v != 0 && std::isfinite(v) ? fmt::format("{:.6g}", v) : ""; }

// Of a quantity a step, 1e12 of it a second.
std::string Rate(double a_step, const Row& r) {
  return Number(r.milliseconds > 0 ? a_step / r.milliseconds * 1e-9 : 0);
}

const Column kCase[] = {
    {"program", [](const Row& r) { return r.c.program; }},
    {"kind", [](const Row& r) { return r.c.kind; }},
    {"model", [](const Row& r) { return r.c.model; }},
    {"batch", [](const Row& r) { return std::to_string(r.c.batch); }},
    {"largest", [](const Row& r) { return std::string(r.c.largest ? "1" : "0"); }},
    {"precision", [](const Row& r) { return r.c.precision; }},
    {"mode", [](const Row& r) { return Mode(r.c); }},
};

const Column kResult[] = {
    {"device", [](const Row& r) { return r.device; }},
    {"status", [](const Row& r) { return std::string(StatusText(r.status)); }},
    {"images_per_second", [](const Row& r) { return Number(r.images_per_second); }},
    {"milliseconds", [](const Row& r) { return Number(r.milliseconds); }},
    {"fastest_milliseconds", [](const Row& r) { return Number(r.fastest); }},
    {"slowest_milliseconds", [](const Row& r) { return Number(r.slowest); }},
    {"spread",
     [](const Row& r) { return r.repeats > 0 ? fmt::format("{:.6g}", r.spread) : std::string(); }},
    {"repeats", [](const Row& r) { return std::to_string(r.repeats); }},
    {"outliers", [](const Row& r) { return std::to_string(r.outliers); }},
    {"bytes", [](const Row& r) { return r.bytes > 0 ? std::to_string(r.bytes) : std::string(); }},
    {"watts", [](const Row& r) { return Number(r.watts); }},
    {"celsius", [](const Row& r) { return Number(r.celsius); }},
    {"sm_mhz", [](const Row& r) { return Number(r.sm_mhz); }},
    {"tflop_per_second", [](const Row& r) { return Rate(r.flop, r); }},
    {"matrix_share", [](const Row& r) { return Number(r.matrix_share); }},
    {"tb_per_second", [](const Row& r) { return Rate(r.moved_bytes, r); }},
    {"copy_share", [](const Row& r) { return Number(r.copy_share); }},
    {"setup_seconds", [](const Row& r) { return Number(r.setup_seconds); }},
    {"first_epoch_seconds", [](const Row& r) { return Number(r.first_epoch_seconds); }},
    {"epoch_seconds", [](const Row& r) { return Number(r.epoch_seconds); }},
    {"loss",
     [](const Row& r) {
       return std::isfinite(r.loss) ? fmt::format("{:.6g}", r.loss) : std::string();
     }},
    {"throttled", [](const Row& r) { return Joined(r.throttled); }},
    {"reason", [](const Row& r) { return OneLine(r.reason); }},
    {"measured_at", [](const Row& r) { return TimeText(r.measured_ns); }},
};

template <size_t kCount>
void Names(const Column (&columns)[kCount], std::string* line) {
  for (const Column& c : columns) *line += fmt::format("{}{}", line->empty() ? "" : ",", c.name);
}

template <size_t kCount>
void Cells(const Column (&columns)[kCount], const Row& row, bool begins, std::string* out) {
  for (const Column& c : columns) {
    if (!begins) *out += ',';
    begins = false;
    *out += CsvCell(c.text(row));
  }
}

// "driver: 580.159.04; cuDNN: 9.19.0"
std::string StateText(const Call& call) {
  std::string text;
  for (const auto& [name, value] : call.state) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name, value);
  }
  return OneLine(text);
}

// That of the row, which may come from another machine than the call was begun on.
const std::string& MachineOf(const Call& call, const Row& row) {
  return row.machine.empty() ? call.machine : row.machine;
}

}  // namespace

std::string Csv(const std::vector<Call>& calls) {
  std::string out;
  Names(kCase, &out);
  Names(kResult, &out);
  out += ",call,label,machine,environment\n";
  for (const Call& call : calls) {
    const std::string of_call = CsvCell(call.name) + "," + CsvCell(OneLine(call.label)) + ",";
    const std::string state = CsvCell(StateText(call));
    for (const Row& r : call.rows) {
      Cells(kCase, r, true, &out);
      Cells(kResult, r, false, &out);
      out += fmt::format(",{}{},{}\n", of_call, CsvCell(MachineOf(call, r)), state);
    }
  }
  return out;
}

std::string CompareCsv(const Call& a, const Call& b, const std::vector<Pair>& pairs) {
  std::string out;
  Names(kCase, &out);
  out += fmt::format(",{},{},ratio", CsvCell(OneLine(a.Shown())), CsvCell(OneLine(b.Shown())));
  for (const char* side : {"a", "b"}) {
    out += fmt::format(",{0}_measured_at,{0}_machine,{0}_environment", side);
  }
  out += "\n";
  for (const Pair& p : pairs) {
    Cells(kCase, p.a ? *p.a : *p.b, true, &out);
    for (const Row* r : {p.a, p.b}) {
      out += r == nullptr               ? ","
             : r->status != Status::kOk ? fmt::format(",{}", StatusText(r->status))
                                        : fmt::format(",{:.6g}", r->images_per_second);
    }
    out += p.ratio > 0 ? fmt::format(",{:.6g}", p.ratio) : ",";
    for (auto [call, r] : {std::pair(&a, p.a), std::pair(&b, p.b)}) {
      out += r == nullptr ? ",,,"
                          : fmt::format(",{},{},{}", TimeText(r->measured_ns),
                                        CsvCell(MachineOf(*call, *r)), CsvCell(StateText(*call)));
    }
    out += "\n";
  }
  return out;
}

}  // namespace xp::bench
