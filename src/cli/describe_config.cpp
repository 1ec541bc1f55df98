#include "src/cli/describe_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exp/config/canonical.h"
#include "exp/config/reader.h"

namespace xp::cli {
namespace {

using config::Node;

bool IsPlainList(const Node& node) {
  const auto& items = node.items();
  return std::none_of(items.begin(), items.end(), [](const Node& n) { return n.IsContainer(); });
}

// The name that decides: all that stands under "credentials" is one, and `wandb: {key: ...}` is a
// "wandb_key".
std::string SecretKey(const std::string& above, const std::string& key) {
  if (snapshot::Redactor::StrongSecretName(above)) return above;
  std::string both = above + "_" + key;
  return !snapshot::Redactor::SecretName(key) && snapshot::Redactor::StrongSecretName(both) ? both
                                                                                            : key;
}

// "password: 12345678"; but "pad_token: 0" is a parameter.
bool SecretNumber(const Node& node, const std::string& key) {
  return node.IsNumber() && snapshot::Redactor::StrongSecretName(key) &&
         config::CanonicalJson(node).size() >= 4;
}

Node Marked(const Node& like, std::string text) {
  Node out(std::move(text));
  out.set_origin(like.origin());
  out.set_history(nullptr);
  return out;
}

Node Redact(const Node& node, const std::string& path, const std::string& key,
            snapshot::Redactor& redactor) {
  Node out = node;
  if (node.IsString()) {
    std::string text = redactor.Text(node.AsString(), "config " + path);
    // A secret's name is enough, even where the value is short.
    if (snapshot::Redactor::SecretName(key) && text == node.AsString()) {
      text = redactor.Secret(text, "config-secret", "config " + path);
    }
    return text == node.AsString() ? out : Marked(node, text);
  }
  if (SecretNumber(node, key)) {
    std::string text = config::CanonicalJson(node);
    std::string mark = redactor.Secret(text, "config-secret", "config " + path);
    return mark == text ? out : Marked(node, mark);
  }
  if (node.IsDict()) {
    for (const config::Entry& e : node.entries()) {
      std::string name = redactor.Text(e.key, "a key of the config");
      if (name != e.key) out.Erase(e.key);
      out.Set(name, Redact(e.value, config::JoinPath(path, name), SecretKey(key, e.key), redactor));
    }
  } else if (node.IsList()) {
    std::vector<Node>& items = out.mutable_items();
    for (size_t i = 0; i < items.size(); ++i) {
      items[i] = Redact(items[i], config::JoinPath(path, std::to_string(i)), key, redactor);
    }
  }
  return out;
}

std::string HistoryJson(const Node& node, const std::string& path, const std::string& key,
                        snapshot::Redactor& redactor) {
  nlohmann::json out = nlohmann::json::array();
  for (const config::Layer& layer : node.History()) {
    std::string place = "config history " + path;
    nlohmann::json row = {{"origin", redactor.Text(layer.at.Text(), place)},
                          {"action", config::ActionName(layer.action)}};
    if (!layer.note.empty()) row["note"] = redactor.Text(layer.note, place);
    if (!layer.value.IsContainer()) {
      row["value"] = config::CanonicalJson(Redact(layer.value, path, key, redactor));
    }
    out.push_back(std::move(row));
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Flatten(const Node& node, const std::string& path, const std::string& key,
             snapshot::Redactor& redactor, std::vector<record::ConfigValue>& out) {
  if (node.IsDict() && node.size() > 0) {
    for (const config::Entry& entry : node.entries()) {
      Flatten(entry.value, config::JoinPath(path, entry.key), SecretKey(key, entry.key), redactor,
              out);
    }
    return;
  }
  if (node.IsList() && !IsPlainList(node)) {
    size_t index = 0;
    for (const Node& item : node.items()) {
      Flatten(item, config::JoinPath(path, std::to_string(index++)), key, redactor, out);
    }
    return;
  }
  out.push_back({path, config::CanonicalJson(node), redactor.Text(node.Where(), "config origin"),
                 HistoryJson(node, path, key, redactor)});
}

void Learn(const Node& node, const std::string& key, snapshot::Redactor& redactor) {
  auto learn = [&](const Node& value) {
    if (value.IsString() && snapshot::Redactor::SecretName(key))
      redactor.Learn(value.AsString(), "config-secret");
    if (SecretNumber(value, key)) redactor.Learn(config::CanonicalJson(value), "config-secret");
  };
  learn(node);
  for (const config::Layer& layer : node.History()) learn(layer.value);
  if (node.IsDict()) {
    for (const config::Entry& e : node.entries()) Learn(e.value, SecretKey(key, e.key), redactor);
  } else if (node.IsList()) {
    for (const Node& item : node.items()) Learn(item, key, redactor);
  }
}

}  // namespace

SnapshotOptions ReadSnapshotOptions(const Node& root) {
  config::Reader c(root);
  SnapshotOptions o;
  std::string code = c.Choice("snapshot.code", {"changes", "full", "off"}, "changes");
  o.code.mode = code == "full"  ? snapshot::CodeMode::kFull
                : code == "off" ? snapshot::CodeMode::kOff
                                : snapshot::CodeMode::kChanges;
  o.code.max_file_bytes = c.Int("snapshot.max_file_bytes", o.code.max_file_bytes);
  o.code.max_total_bytes = c.Int("snapshot.max_total_bytes", o.code.max_total_bytes);
  o.code.max_patch_bytes = c.Int("snapshot.max_patch_bytes", o.code.max_patch_bytes);
  for (const std::string& folder : c.Strings("snapshot.exclude", {})) {
    o.code.exclude.push_back(std::filesystem::absolute(folder).lexically_normal());
  }
  std::string data = c.Choice("snapshot.data", {"auto", "full", "cheap", "off"}, "auto");
  o.data_off = data == "off";
  o.data.mode = data == "full"    ? snapshot::DataMode::kFull
                : data == "cheap" ? snapshot::DataMode::kCheap
                                  : snapshot::DataMode::kAuto;
  o.python = c.Bool("snapshot.python", false);
  o.gpu_interval = c.Double("snapshot.gpu_interval", 1.0);
  o.variables = c.Strings("snapshot.variables", {});
  o.redact.enable = c.Bool("snapshot.redact.enable", true);
  o.redact.entropy = c.Bool("snapshot.redact.entropy", true);
  o.redact.patterns = c.Strings("snapshot.redact.patterns", {});
  o.redact.allow = c.Strings("snapshot.redact.allow", {});
  return o;
}

void LearnConfigSecrets(const Node& root, snapshot::Redactor& redactor) {
  Learn(root, "", redactor);
}

Node RedactConfig(const Node& root, snapshot::Redactor& redactor) {
  return Redact(root, "", "", redactor);
}

std::vector<record::ConfigValue> DescribeConfig(const Node& root, snapshot::Redactor& redactor) {
  std::vector<record::ConfigValue> out;
  Flatten(root, "", "", redactor, out);
  return out;
}

}  // namespace xp::cli
