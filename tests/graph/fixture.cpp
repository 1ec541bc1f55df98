#include "graph/fixture.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace xp::graph {

Fixture::Fixture(const std::string& file) {
  const std::filesystem::path folder = EXP_SOURCE_DIR "/tests/fixtures";
  std::ifstream in(folder / file, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  uint64_t header = 0;
  if (bytes.size() < 8) throw std::runtime_error("no fixture " + file);
  std::memcpy(&header, bytes.data(), 8);
  auto json =
      nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<long>(header));
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    entries_[name] = {value["dtype"], value["shape"].get<Shape>(), value["data_offsets"][0],
                      value["data_offsets"][1]};
  }
  data_.assign(bytes.begin() + 8 + static_cast<long>(header), bytes.end());
}

const Fixture::Entry& Fixture::Find(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) throw std::runtime_error("no tensor " + name + " in the fixture");
  return found->second;
}

const Shape& Fixture::shape(const std::string& name) const { return Find(name).shape; }

std::vector<float> Fixture::Floats(const std::string& name) const {
  const Entry& e = Find(name);
  std::vector<float> out;
  if (e.dtype == "F32") {
    out.resize((e.end - e.begin) / 4);
    if (!out.empty()) std::memcpy(out.data(), data_.data() + e.begin, e.end - e.begin);
  } else if (e.dtype == "U8") {
    for (uint8_t v : Bytes(name)) out.push_back(v);
  } else {
    for (int32_t v : Ints(name)) out.push_back(static_cast<float>(v));
  }
  return out;
}

std::vector<int32_t> Fixture::Ints(const std::string& name) const {
  const Entry& e = Find(name);
  if (e.dtype != "I64") throw std::runtime_error(name + " is " + e.dtype);
  std::vector<int32_t> out;
  for (size_t at = e.begin; at < e.end; at += 8) {
    int64_t v;
    std::memcpy(&v, data_.data() + at, 8);
    out.push_back(static_cast<int32_t>(v));
  }
  return out;
}

std::vector<uint8_t> Fixture::Bytes(const std::string& name) const {
  const Entry& e = Find(name);
  if (e.dtype != "U8") throw std::runtime_error(name + " is " + e.dtype);
  const auto* begin = reinterpret_cast<const uint8_t*>(data_.data());
  return {begin + e.begin, begin + e.end};
}

std::vector<float> Fixture::Nhwc(const std::string& name) const {
  return NchwToNhwc(Floats(name), shape(name));
}

namespace {

template <typename Move>
void ForEachElement(const Shape& s, const Move& move) {
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t y = 0; y < s[2]; ++y) {
        for (int64_t x = 0; x < s[3]; ++x) {
          move(static_cast<size_t>(((n * s[1] + c) * s[2] + y) * s[3] + x),
               static_cast<size_t>(((n * s[2] + y) * s[3] + x) * s[1] + c));
        }
      }
    }
  }
}

}  // namespace

std::vector<float> NchwToNhwc(const std::vector<float>& values, const Shape& shape) {
  std::vector<float> out(values.size());
  ForEachElement(shape, [&](size_t nchw, size_t nhwc) { out[nhwc] = values[nchw]; });
  return out;
}

std::vector<float> NhwcToNchw(const std::vector<float>& values, const Shape& shape) {
  std::vector<float> out(values.size());
  ForEachElement(shape, [&](size_t nchw, size_t nhwc) { out[nchw] = values[nhwc]; });
  return out;
}

}  // namespace xp::graph
