#include "src/train/data_check.h"

#include <fmt/format.h>

#include "exp/base/error.h"
#include "exp/data/from_config.h"

namespace xp::train {
namespace {

using data::Finding;
using data::Policy;
using data::Problem;
using data::Severity;

// "annotation 12", "image 7", or the place in the file where the record has no id.
std::string Name(const Problem& p) {
  if (p.annotation_id >= 0) return fmt::format("annotation {}", p.annotation_id);
  if (p.image_id >= 0) return fmt::format("image {}", p.image_id);
  return p.where;
}

// One line: how many, the first of them in full, and the names of all that are left out.
std::string Line(const Finding& f, const std::string& part) {
  std::string line = fmt::format("{}{}{} {}", part, part.empty() ? "" : ": ", f.count, f.title);
  if (f.examples.empty()) return line;
  const Problem& first = f.examples[0];
  bool said = first.where.empty() || first.message.find(first.where) != std::string::npos;
  line += fmt::format(": {}{}{}", said ? "" : first.where + ": ", first.message,
                      f.count > 1 ? ", ..." : "");
  if (!first.dropped || f.count == 1) return line;
  line += "; all: ";
  for (size_t i = 0; i < f.examples.size(); ++i) line += (i == 0 ? "" : ", ") + Name(f.examples[i]);
  return line;
}

[[noreturn]] void Refuse(const Finding& f, const std::string& part, const std::string& next) {
  throw UsageError({.what = Line(f, part),
                    .where = part.empty() ? "data" : "data." + part,
                    .next = f.advice + (f.advice.empty() ? "" : ", or ") + next});
}

void Judge(const Finding& f, const std::string& part, Policy policy, bool skip, const Warn& warn) {
  bool refused_elsewhere = f.code == "classes.head" || f.code == "classes.differ";
  if (f.severity == Severity::kNote || refused_elsewhere) return;
  // Whoever wants to train on backgrounds alone may.
  if (f.severity == Severity::kError && !skip && f.code != "box.none")
    Refuse(f, part, "leave such images out with `on_error: skip`");
  if (policy == Policy::kStrict)
    Refuse(f, part, fmt::format("let the run go on with `policy: drop` ({})", f.code));
  if (policy != Policy::kIgnore) warn("data." + f.code, Line(f, part));
}

}  // namespace

void CheckData(const config::Reader& config, std::vector<data::AuditPart> parts, const Warn& warn) {
  data::AuditOptions options;
  options.parts = std::move(parts);
  options.contents = false;
  options.examples = 1;
  data::ReadModelForAudit(config, &options);
  data::AuditReport report = data::Audit(options);
  for (size_t i = 0; i < report.parts.size(); ++i) {
    const data::AuditPart& part = options.parts[i];
    bool skip = config.String("data." + part.name + ".on_error", "error") == "skip";
    for (const Finding& f : report.parts[i].findings) Judge(f, part.name, part.policy, skip, warn);
  }
  for (const Finding& f : report.findings) Judge(f, "", options.parts[0].policy, false, warn);
}

}  // namespace xp::train
