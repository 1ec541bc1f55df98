#include "exp/train/flat_state.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <future>

#include "exp/base/error.h"
#include "exp/train/checkpoint.h"

namespace xp::train {
namespace {

using graph::Param;
using graph::ParamLayout;
using graph::Shape;
using graph::StateVar;

NamedTensor ExportParam(const Param& p, const std::string& name, const float* flat) {
  NamedTensor t{name, graph::FileShape(p), std::vector<float>(static_cast<size_t>(p.elements()))};
  graph::ToFileOrder(p, flat + p.offset, t.values.data());
  return t;
}

void CheckShape(const NamedTensor& t, const Shape& expected, const std::string& where) {
  if (SameShape(t.shape, expected)) return;
  throw UsageError(
      {.what = t.name + " has shape " + graph::ShapeText(t.shape),
       .where = where,
       .expected = graph::ShapeText(expected),
       .next = "use weights of the same model, or reset this layer (`reset:` beside load_from)"});
}

}  // namespace

std::optional<Shape> ShapeInFiles(const ParamLayout& layout, const std::string& name) {
  if (int index = layout.FindParam(name); index >= 0)
    return graph::FileShape(layout.params()[static_cast<size_t>(index)]);
  if (int index = layout.FindState(name); index >= 0)
    return layout.states()[static_cast<size_t>(index)].shape;
  return std::nullopt;
}

bool SameShape(Shape a, Shape b) {
  for (Shape* shape : {&a, &b}) {
    while (shape->size() > 1 && shape->back() == 1) shape->pop_back();
  }
  return a == b;
}

std::vector<NamedTensor> ExportState(const ParamLayout& layout, const FlatState& state,
                                     const std::vector<std::string>& slot_names) {
  std::vector<NamedTensor> tensors;
  for (const Param& p : layout.params())
    tensors.push_back(ExportParam(p, p.name, state.params.data()));
  for (const StateVar& s : layout.states()) {
    const float* begin = state.states.data() + s.offset;
    tensors.push_back({s.name, s.shape, {begin, begin + graph::NumElements(s.shape)}});
  }
  for (size_t slot = 0; slot < slot_names.size(); ++slot) {
    const float* flat = state.optimizer.data() + slot * state.params.size();
    for (const Param& p : layout.params()) {
      tensors.push_back(ExportParam(p, SlotTensorName(slot_names[slot], p.name), flat));
    }
  }
  return tensors;
}

bool ImportTensor(const ParamLayout& layout, const NamedTensor& t,
                  const std::vector<std::string>& slot_names, const std::string& where,
                  FlatState* state) {
  auto load = [&](const std::string& name, float* flat) {
    int index = layout.FindParam(name);
    if (index < 0) return false;
    const Param& p = layout.params()[static_cast<size_t>(index)];
    CheckShape(t, graph::FileShape(p), where);
    graph::FromFileOrder(p, t.values.data(), flat + p.offset);
    return true;
  };
  if (load(t.name, state->params.data())) return true;
  if (int index = layout.FindState(t.name); index >= 0) {
    const StateVar& s = layout.states()[static_cast<size_t>(index)];
    CheckShape(t, s.shape, where);
    std::copy(t.values.begin(), t.values.end(), state->states.begin() + s.offset);
    return true;
  }
  for (size_t slot = 0; slot < slot_names.size(); ++slot) {
    std::string prefix = SlotTensorName(slot_names[slot], "");
    if (t.name.starts_with(prefix)) {
      return load(t.name.substr(prefix.size()),
                  state->optimizer.data() + slot * state->params.size());
    }
  }
  return false;
}

Hash128 WeightsHash(const FlatState& state) {
  Hasher hasher;
  hasher.Update(state.params.data(), state.params.size() * sizeof(float));
  hasher.Update(state.states.data(), state.states.size() * sizeof(float));
  return hasher.Digest();
}

namespace {

bool AllFiniteBetween(const float* values, size_t begin, size_t end) {
  constexpr size_t kChunk = 65536;
  for (; begin < end; begin += kChunk) {
    uint32_t most = 0;  // the largest magnitude's bits: a loop that compilers turn into vectors
    for (size_t i = begin; i < std::min(begin + kChunk, end); ++i)
      most = std::max(most, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
    if (most >= 0x7f800000u) return false;
  }
  return true;
}

}  // namespace

bool AllFinite(const std::vector<float>& values) {
  constexpr size_t kPart = size_t{8} << 20;  // memory is faster than one core reads it
  std::vector<std::future<bool>> parts;
  for (size_t begin = kPart; begin < values.size(); begin += kPart) {
    parts.push_back(std::async(std::launch::async, AllFiniteBetween, values.data(), begin,
                               std::min(begin + kPart, values.size())));
  }
  bool finite = AllFiniteBetween(values.data(), 0, std::min(kPart, values.size()));
  for (auto& part : parts) finite = part.get() && finite;
  return finite;
}

Hash128 OptimizerHash(const FlatState& state) {
  return HashBytes(state.optimizer.data(), state.optimizer.size() * sizeof(float));
}

}  // namespace xp::train
