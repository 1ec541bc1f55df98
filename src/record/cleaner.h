// Takes secrets out of what a running program reports; private to src/record.
#pragma once

#include <string>

#include "exp/record/writer.h"

namespace xp::record {

class Cleaner {
 public:
  // `options` must outlive it.
  explicit Cleaner(const WriterOptions& options) : options_(options) {}

  bool active() const { return static_cast<bool>(options_.clean); }
  void Text(std::string& text, const std::string& place) { Text(text, "", place); }
  // JSON stays valid: each text in it is cleaned under its key.
  void Json(std::string& text, const std::string& key, const std::string& place);
  // Names and texts of values.
  void Values(std::vector<std::pair<std::string, Value>>& values, const std::string& place);
  void Point(const std::string& name, Value& value);
  // Whether anything was taken out.
  bool changed() const { return changed_; }

 private:
  void Text(std::string& text, const std::string& key, const std::string& place);

  const WriterOptions& options_;
  bool changed_ = false;
};

}  // namespace xp::record
