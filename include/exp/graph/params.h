// The parameters of a model: one flat fp32 buffer with named views, and a second one for the state
// that isn'"'"'t trained by gradients (batch-norm running statistics).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "exp/graph/tensor.h"

namespace xp::graph {

// How a parameter'"'"'s memory order differs from the order in files (torchvision'"'"'s).
enum class WeightLayout : uint8_t {
  kPlain,      // the same: vectors, and matrices [out, in]
  kConv,       // memory [O, KH, KW, I], file [O, I, KH, KW]
  kLinearHwc,  // memory [O, H*W*C], file [O, C*H*W]: the first layer after flattening a feature map
};

enum class InitKind : uint8_t { kConstant, kNormal, kUniform };

// kConstant: value. kNormal: mean 0, standard deviation value. kUniform: in [-value, value).
struct Init {
  InitKind kind = InitKind::kConstant;
  float value = 0;
};

struct Param {
  std::string name;  // torchvision'"'"'s: "backbone.body.layer1.0.conv1.weight"
  Shape shape;       // in memory order
  WeightLayout layout = WeightLayout::kPlain;
  Shape chw;  // kLinearHwc: {C, H, W} of the map that was flattened
  Init init;
  bool trainable = true;
  bool is_norm = false;  // belongs to a normalisation layer (parameter groups)
  bool is_bias = false;
  int64_t offset = 0;  // elements, a multiple of kParamAlignment
  int64_t elements() const { return NumElements(shape); }
};

struct StateVar {
  std::string name;  // "backbone.body.bn1.running_mean"
  Shape shape;
  float init = 0;
  int64_t offset = 0;
};

// Offsets are aligned so that every view can be read with 16-byte loads in every type; the gaps
// stay zero.
inline constexpr int64_t kParamAlignment = 64;

class ParamLayout {
 public:
  // Adding a name that exists returns the existing one, so that a training and an evaluation graph
  // built by the same code share their parameters; the shapes must agree then.
  int AddParam(Param param);
  int AddState(StateVar state);

  const std::vector<Param>& params() const { return params_; }
  const std::vector<StateVar>& states() const { return states_; }
  // Where a parameter's fp32 gradient lies when most gradients are of another type: those that
  // aren't are packed. The same offset each time.
  int64_t AddGrad(int param);
  int64_t grad_elements() const { return grad_elements_; }  // of those, gaps included

  int64_t param_elements() const { return param_elements_; }  // of the flat buffer, gaps included
  int64_t state_elements() const { return state_elements_; }
  int FindParam(const std::string& name) const;  // -1 when absent
  int FindState(const std::string& name) const;

 private:
  std::vector<Param> params_;
  std::vector<StateVar> states_;
  std::unordered_map<std::string, int> param_index_, state_index_;
  std::unordered_map<int, int64_t> grad_offset_;
  int64_t param_elements_ = 0, state_elements_ = 0, grad_elements_ = 0;
};

// Fills `flat` (param_elements() floats) with initial values: each a pure function of the seed, the
// parameter'"'"'s name and the element'"'"'s index in file order.
void InitializeParams(const ParamLayout& layout, uint64_t seed, float* flat);
void InitializeStates(const ParamLayout& layout, float* flat);

// Between memory order and file order; both have param.elements() floats.
void ToFileOrder(const Param& param, const float* memory, float* file);
void FromFileOrder(const Param& param, const float* file, float* memory);
// The shape that torchvision'"'"'s state dict has.
Shape FileShape(const Param& param);

}  // namespace xp::graph
