#include "src/cli/run_json.h"

namespace xp::cli {
namespace {

using nlohmann::json;

json Parsed(const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_discarded() ? json() : parsed;
}

json Object(const record::Named& list) {
  json out = json::object();
  for (const auto& [name, value] : list) out[name] = record::ToJson(value);
  return out;
}

json Config(const record::Run& r) {
  json values = json::array();
  for (const record::ConfigValue& v : r.config) {
    values.push_back({{"path", v.path},
                      {"value", Parsed(v.value)},
                      {"origin", v.origin},
                      {"history", Parsed(v.history)}});
  }
  json sources = json::array();
  for (const auto& [path, object] : r.sources)
    sources.push_back({{"path", path}, {"object", object}});
  return {{"hash", r.config_hash}, {"file", r.config_file}, {"resolved", Parsed(r.config_json)},
          {"values", values},      {"sources", sources},    {"overrides", r.overrides}};
}

json Progress(const record::Run& r) {
  json epochs = json::array(), checkpoints = json::array(), warnings = json::array();
  for (const record::EpochRecord& e : r.epochs) {
    epochs.push_back({{"epoch", e.epoch},
                      {"step", e.step},
                      {"attempt", e.attempt},
                      {"ended_ns", e.ended_ns},
                      {"losses", Object(e.losses)},
                      {"metrics", Object(e.metrics)},
                      {"gpu", Object(e.gpu)},
                      {"train_seconds", record::ToJson(e.train_seconds)},
                      {"eval_seconds", record::ToJson(e.eval_seconds)},
                      {"data_seconds", record::ToJson(e.data_seconds)},
                      {"images_per_second", record::ToJson(e.images_per_second)},
                      {"weights_hash", e.weights_hash},
                      {"optimizer_hash", e.optimizer_hash}});
  }
  for (const record::CheckpointRecord& c : r.checkpoints) {
    checkpoints.push_back({{"path", c.path},
                           {"hash", c.hash},
                           {"epoch", c.epoch},
                           {"step", c.step},
                           {"bytes", c.bytes},
                           {"attempt", c.attempt},
                           {"at_ns", c.at_ns}});
  }
  for (const record::WarningRecord& w : r.warnings) {
    warnings.push_back(
        {{"code", w.code}, {"message", w.message}, {"step", w.step}, {"at_ns", w.at_ns}});
  }
  return {{"epochs", epochs}, {"checkpoints", checkpoints}, {"warnings", warnings}};
}

}  // namespace

json RunToJson(const record::Run& r) {
  json attempts = json::array(), datasets = json::array(), summary = json::object();
  for (const record::Attempt& a : r.attempts) {
    attempts.push_back({{"number", a.number},
                        {"started_ns", a.started_ns},
                        {"ended_ns", a.ended_ns},
                        {"state", a.state},
                        {"reason", a.reason},
                        {"pid", a.pid},
                        {"host", a.host},
                        {"start_epoch", a.start_epoch},
                        {"start_step", a.start_step},
                        {"checkpoint", a.checkpoint},
                        {"lost_points", a.lost_points},
                        {"start", Parsed(a.start)}});
  }
  for (const record::DatasetRecord& d : r.datasets) {
    datasets.push_back({{"role", d.role},
                        {"ann_file", d.ann_file},
                        {"ann_hash", d.ann_hash},
                        {"img_prefix", d.img_prefix},
                        {"images", d.images},
                        {"bytes", d.bytes},
                        {"missing", d.missing},
                        {"mode", d.mode},
                        {"fingerprint", d.fingerprint},
                        {"image_list", d.image_list_object}});
  }
  for (const record::SummaryRecord& s : r.summaries) {
    json row = {{"step", s.step}, {"count", s.count}, {"last", record::ToJson(s.last)}};
    if (s.low) row["min"] = record::ToJson(*s.low);
    if (s.high) row["max"] = record::ToJson(*s.high);
    summary[s.kind][s.name] = row;
  }
  json out = {{"id", r.id},
              {"name", r.name},
              {"kind", r.kind},
              {"state", r.state},
              {"reason", r.reason},
              {"created_ns", r.created_ns},
              {"ended_ns", r.ended_ns},
              {"pid", r.pid},
              {"host", r.host},
              {"command", r.command},
              {"cwd", r.cwd},
              {"work_dir", r.work_dir},
              {"seed", r.seed},
              {"threads", r.threads},
              {"device", r.device},
              {"tags", r.tags},
              {"parent", r.parent_id},
              {"relation", r.relation},
              {"config", Config(r)},
              {"environment", Parsed(r.environment_json)},
              {"code", Parsed(r.code_json)},
              {"datasets", datasets},
              {"attempts", attempts},
              {"summary", summary},
              {"redactions", Parsed(r.redactions_json)},
              {"verdict", Parsed(r.verdict_json)}};
  out.update(Progress(r));
  return out;
}

std::string DumpJson(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace xp::cli
