#include "exp/graph/params.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "exp/base/hash.h"
#include "exp/base/parallel.h"
#include "exp/base/philox.h"
#include "exp/base/resources.h"

namespace xp::graph {
namespace {

int64_t Aligned(int64_t n) { return (n + kParamAlignment - 1) / kParamAlignment * kParamAlignment; }

// Visits (memory index, file index) of every element of a convolution weight.
template <typename Visit>
void ForEachConvElement(const Shape& s, Visit visit) {  // s: O, KH, KW, I
  int64_t memory = 0;
  for (int64_t o = 0; o < s[0]; ++o) {
    for (int64_t y = 0; y < s[1]; ++y) {
      for (int64_t x = 0; x < s[2]; ++x) {
        for (int64_t i = 0; i < s[3]; ++i, ++memory) {
          visit(memory, ((o * s[3] + i) * s[1] + y) * s[2] + x);
        }
      }
    }
  }
}

template <typename Visit>
void ForEachLinearElement(const Param& p, Visit visit) {
  int64_t channels = p.chw[0], height = p.chw[1], width = p.chw[2];
  int64_t memory = 0;
  for (int64_t o = 0; o < p.shape[0]; ++o) {
    for (int64_t pixel = 0; pixel < height * width; ++pixel) {
      for (int64_t c = 0; c < channels; ++c, ++memory) {
        visit(memory, (o * channels + c) * height * width + pixel);
      }
    }
  }
}

template <typename Visit>
void ForEachElement(const Param& p, Visit visit) {
  switch (p.layout) {
    case WeightLayout::kPlain:
      for (int64_t i = 0; i < p.elements(); ++i) visit(i, i);
      return;
    case WeightLayout::kConv:
      return ForEachConvElement(p.shape, visit);
    case WeightLayout::kLinearHwc:
      return ForEachLinearElement(p, visit);
  }
}

}  // namespace

int ParamLayout::AddParam(Param param) {
  if (auto it = param_index_.find(param.name); it != param_index_.end()) {
    if (params_[static_cast<size_t>(it->second)].shape != param.shape) {
      throw std::logic_error("parameter " + param.name + " has two shapes");
    }
    return it->second;
  }
  param.offset = param_elements_;
  param_elements_ += Aligned(param.elements());
  int index = static_cast<int>(params_.size());
  param_index_.emplace(param.name, index);
  params_.push_back(std::move(param));
  return index;
}

int ParamLayout::AddState(StateVar state) {
  if (auto it = state_index_.find(state.name); it != state_index_.end()) return it->second;
  state.offset = state_elements_;
  state_elements_ += Aligned(NumElements(state.shape));
  int index = static_cast<int>(states_.size());
  state_index_.emplace(state.name, index);
  states_.push_back(std::move(state));
  return index;
}

int64_t ParamLayout::AddGrad(int param) {
  auto [known, is_new] = grad_offset_.try_emplace(param, grad_elements_);
  if (is_new) grad_elements_ += Aligned(params_[static_cast<size_t>(param)].elements());
  return known->second;
}

int ParamLayout::FindParam(const std::string& name) const {
  auto it = param_index_.find(name);
  return it == param_index_.end() ? -1 : it->second;
}

int ParamLayout::FindState(const std::string& name) const {
  auto it = state_index_.find(name);
  return it == state_index_.end() ? -1 : it->second;
}

namespace {

// Values begin .. end - 1 of a parameter, in file order: each is a function of its place alone.
void Draw(const Param& p, uint64_t seed, size_t begin, size_t end, float* values) {
  Hash128 name = HashBytes(p.name);
  RandomStream random(seed, RandomPurpose::kInit, static_cast<uint32_t>(name.high),
                      static_cast<uint32_t>(name.low));
  bool normal = p.init.kind == InitKind::kNormal;
  random.Seek(begin * (normal ? RandomStream::kWordsPerNormal : RandomStream::kWordsPerDouble));
  for (size_t i = begin; i < end; ++i) {
    double x = normal ? random.Normal() : random.Uniform(-1, 1);
    values[i] = static_cast<float>(x * p.init.value);
  }
}

}  // namespace

void InitializeParams(const ParamLayout& layout, uint64_t seed, float* flat) {
  constexpr size_t kChunk = 1 << 16;
  const int threads = std::min(16, UsableCpus());
  struct Part {
    const Param* param;
    size_t begin, end;
  };
  std::vector<Part> parts;
  std::vector<const Param*> drawn;
  std::fill(flat, flat + layout.param_elements(), 0.0f);
  for (const Param& p : layout.params()) {
    auto size = static_cast<size_t>(p.elements());
    if (p.init.kind == InitKind::kConstant) {
      std::fill(flat + p.offset, flat + p.offset + size, p.init.value);
      continue;
    }
    drawn.push_back(&p);
    for (size_t i = 0; i < size; i += kChunk) parts.push_back({&p, i, std::min(size, i + kChunk)});
  }
  std::vector<float> file(static_cast<size_t>(layout.param_elements()));
  ForEachInParallel(parts.size(), threads, [&](size_t i) {
    Draw(*parts[i].param, seed, parts[i].begin, parts[i].end, file.data() + parts[i].param->offset);
  });
  ForEachInParallel(drawn.size(), threads, [&](size_t i) {
    FromFileOrder(*drawn[i], file.data() + drawn[i]->offset, flat + drawn[i]->offset);
  });
}

void InitializeStates(const ParamLayout& layout, float* flat) {
  std::fill(flat, flat + layout.state_elements(), 0.0f);
  for (const StateVar& s : layout.states()) {
    std::fill(flat + s.offset, flat + s.offset + NumElements(s.shape), s.init);
  }
}

void ToFileOrder(const Param& param, const float* memory, float* file) {
  ForEachElement(param, [&](int64_t m, int64_t f) { file[f] = memory[m]; });
}

void FromFileOrder(const Param& param, const float* file, float* memory) {
  ForEachElement(param, [&](int64_t m, int64_t f) { memory[m] = file[f]; });
}

Shape FileShape(const Param& param) {
  if (param.layout != WeightLayout::kConv) return param.shape;
  return {param.shape[0], param.shape[3], param.shape[1], param.shape[2]};
}

}  // namespace xp::graph
