// Reads tests/fixtures/*.safetensors (their README.md says what is in them).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exp/graph/tensor.h"

namespace xp::graph {

class Fixture {
 public:
  explicit Fixture(const std::string& file);  // "ops.safetensors", or an absolute path

  bool Has(const std::string& name) const { return entries_.count(name) > 0; }
  const Shape& shape(const std::string& name) const;
  std::vector<float> Floats(const std::string& name) const;  // also of indices and bytes
  std::vector<int32_t> Ints(const std::string& name) const;
  std::vector<uint8_t> Bytes(const std::string& name) const;  // uint8 tensors
  float Scalar(const std::string& name) const { return Floats(name).at(0); }
  // A map [N, C, H, W] as [N, H, W, C].
  std::vector<float> Nhwc(const std::string& name) const;

 private:
  struct Entry {
    std::string dtype;
    Shape shape;
    size_t begin = 0, end = 0;
  };
  const Entry& Find(const std::string& name) const;

  std::map<std::string, Entry> entries_;
  std::vector<char> data_;
};

// Between the layouts of maps; shape is [N, C, H, W] in both.
std::vector<float> NchwToNhwc(const std::vector<float>& values, const Shape& shape);
std::vector<float> NhwcToNchw(const std::vector<float>& values, const Shape& shape);

}  // namespace xp::graph
