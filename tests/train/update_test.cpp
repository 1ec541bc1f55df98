// The optimizers over 300 steps against torch.optim's own results
// (tests/fixtures/optim.safetensors), through the update that training graphs get, on every backend
// of this machine.
#include "exp/train/update.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "exp/base/error.h"
#include "exp/config/load.h"
#include "exp/config/reader.h"
#include "exp/graph/program.h"
#include "exp/train/safetensors.h"
#include "exp/train/schedule.h"

using namespace xp;
using namespace xp::train;
using nlohmann::json;

namespace {

const TensorFile& Reference() {
  static std::unique_ptr<TensorFile> file =
      OpenSafetensors(EXP_SOURCE_DIR "/tests/fixtures/optim.safetensors");
  return *file;
}

json Attributes(const std::string& name) {
  return json::parse(Reference().metadata().at("attrs")).at(name);
}

// The tensors w, b, v as the fixture has them one after another.
class Toy {
 public:
  Toy(graph::Backend& backend, const OptimizerOptions& options)
      : layout_(std::make_shared<graph::ParamLayout>()), options_(options) {
    AddParam({.name = "w", .shape = {6, 5}});
    AddParam({.name = "b", .shape = {6}, .is_bias = true});
    AddParam({.name = "v", .shape = {17}});
    graph::Graph g(layout_);
    for (const graph::Param& p : layout_->params()) {
      g.AddTensor(
          {.name = p.name, .shape = p.shape, .storage = graph::Storage::kGrad, .offset = p.offset});
    }
    AppendUpdate(g, options);
    params_ = std::make_unique<graph::ParamBuffers>(backend, layout_, graph::DType::kF32, true,
                                                    OptimizerSlotCount(options),
                                                    options.cumulative_iters > 1);
    std::vector<float> states(static_cast<size_t>(layout_->state_elements()));
    graph::InitializeStates(*layout_, states.data());
    if (!states.empty()) params_->Write(graph::Storage::kState, states);
    program_ = std::make_unique<graph::Program>(backend, std::move(g), *params_);
  }

  void Write(graph::Storage storage, const float* flat) {
    std::vector<float> buffer(static_cast<size_t>(layout_->param_elements()), 0.0f);
    for (const graph::Param& p : layout_->params()) {
      std::memcpy(buffer.data() + p.offset, flat, static_cast<size_t>(p.elements()) * 4);
      flat += p.elements();
    }
    params_->Write(storage, buffer);
  }

  void Step(const float* grad, double lr, bool first = true, bool last = true) {
    Write(graph::Storage::kGrad, grad);
    auto rate = static_cast<float>(lr);
    program_->SetInput("lr", &rate, sizeof(rate));
    if (options_.cumulative_iters > 1) {
      int32_t begins = first ? 1 : 0;
      program_->SetInput("first", &begins, sizeof(begins));
      const float weight = 1;
      program_->SetInput("weight", &weight, sizeof(weight));
    }
    program_->Run(last);
  }

  std::vector<float> Params() const {
    std::vector<float> buffer = params_->Read(graph::Storage::kParam), flat;
    for (const graph::Param& p : layout_->params()) {
      flat.insert(flat.end(), buffer.begin() + p.offset, buffer.begin() + p.offset + p.elements());
    }
    return flat;
  }

 private:
  void AddParam(graph::Param param) { layout_->AddParam(std::move(param)); }

  std::shared_ptr<graph::ParamLayout> layout_;
  OptimizerOptions options_;
  std::unique_ptr<graph::ParamBuffers> params_;
  std::unique_ptr<graph::Program> program_;
};

OptimizerOptions Options(const json& a) {
  OptimizerOptions o;
  const std::string type = a["type"];
  o.kind = type == "Adam"    ? OptimizerKind::kAdam
           : type == "AdamW" ? OptimizerKind::kAdamW
           : type == "Lars"  ? OptimizerKind::kLars
                             : OptimizerKind::kSgd;
  o.lr = a["lr"];
  o.momentum = a.value("momentum", 0.0);
  o.weight_decay = a.value("weight_decay", 0.0);
  o.nesterov = a.value("nesterov", false);
  if (a.contains("betas")) {
    o.beta1 = a["betas"][0];
    o.beta2 = a["betas"][1];
  }
  o.eps = a.value("eps", 1e-8);
  o.trust = a.value("trust", 1e-3);
  o.max_norm = a.value("clip_norm", 0.0);
  o.max_value = a.value("clip_value", 0.0);
  o.cumulative_iters = a.value("accumulate", 1);
  if (a.contains("no_decay")) o.groups.bias_decay_mult = 0;
  if (a.contains("lr_mult")) {
    o.groups.custom.push_back({.pattern = "v", .lr_mult = a["lr_mult"]["v"]});
    o.groups.bias_lr_mult = a["lr_mult"].value("b", 1.0);
  }
  return o;
}

// The largest difference, as a share of the largest parameter.
double Distance(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference = std::max(difference, static_cast<double>(std::abs(got[i] - want[i])));
    size = std::max(size, static_cast<double>(std::abs(want[i])));
    if (!std::isfinite(got[i])) return INFINITY;
  }
  return difference / size;
}

void CheckCase(graph::Backend& backend, const std::string& name) {
  const json attributes = Attributes("optim." + name);
  std::vector<float> grads = Reference().ReadFloats("optim.grads");
  std::vector<float> initial = Reference().ReadFloats("optim.initial");
  const size_t n = initial.size();
  OptimizerOptions options = Options(attributes);
  Toy toy(backend, options);
  toy.Write(graph::Storage::kParam, initial.data());
  for (int step = 0; step < 300; ++step) {
    double lr = attributes.contains("lrs") ? attributes["lrs"][step].get<double>() : options.lr;
    for (int i = 0; i < options.cumulative_iters; ++i) {
      toy.Step(&grads[static_cast<size_t>((step + i) % 300) * n], lr, i == 0,
               i + 1 == options.cumulative_iters);
    }
    const TensorInfo* saved =
        Reference().Find("optim." + name + ".step" + std::to_string(step + 1));
    if (saved == nullptr) continue;
    INFO(backend.name() << " " << name << " step " << step + 1);
    CHECK(Distance(toy.Params(), Reference().ReadFloats(saved->name)) < 2e-6);
  }
}

std::vector<std::unique_ptr<graph::Backend>> Backends() {
  std::vector<std::unique_ptr<graph::Backend>> backends;
  backends.push_back(graph::CreateCpuBackend(1));
  if (graph::CudaDeviceCount(nullptr) > 0) backends.push_back(graph::CreateCudaBackend({}));
  return backends;
}

config::Reader Config(const std::string& yaml) {
  return config::Reader(config::LoadText(yaml, "test.yaml").root);
}

}  // namespace

TEST_CASE("every optimizer gives torch's parameters over 300 steps") {
  for (const auto& backend : Backends()) {
    for (const char* name :
         {"sgd_plain", "sgd_momentum", "sgd_decay", "sgd_nesterov", "sgd_schedule", "sgd_groups",
          "sgd_clip_norm", "sgd_clip_value", "sgd_accumulate2", "adam", "adam_decay", "adamw",
          "lars", "lars_no_decay", "sgd_nesterov_groups", "sgd_nesterov_clip_accumulate",
          "adam_clip_groups", "adamw_clip_accumulate", "lars_nesterov"}) {
      CheckCase(*backend, name);
    }
  }
}

TEST_CASE("parameter groups follow mmcv's rules") {
  ParamGroups groups;
  groups.norm_decay_mult = 0;
  groups.bias_decay_mult = 0.5;
  groups.bias_lr_mult = 2;
  groups.custom = {{"backbone", 0.1, 1, ""},
                   {"backbone.body.layer4", 0.2, 3, ""},
                   {"rpn.head.*.bias", 5, 1, ""}};
  auto of = [&](const char* name, bool norm, bool bias) {
    ParamMultipliers m = MultipliersOf({.name = name, .is_norm = norm, .is_bias = bias}, groups);
    return std::pair(m.lr, m.decay);
  };
  CHECK(of("roi_heads.box_head.fc6.weight", false, false) == std::pair(1.0, 1.0));
  CHECK(of("roi_heads.box_head.fc6.bias", false, true) == std::pair(2.0, 0.5));
  CHECK(of("head.bn.weight", true, false) == std::pair(1.0, 0.0));
  CHECK(of("head.bn.bias", true, true) == std::pair(1.0, 0.0));
  CHECK(of("backbone.body.layer1.0.bn1.bias", true, true) ==
        std::pair(0.1, 1.0));  // the rule alone counts
  CHECK(of("backbone.body.layer4.0.conv1.weight", false, false) == std::pair(0.2, 3.0));
  CHECK(of("rpn.head.cls_logits.bias", false, true) == std::pair(5.0, 1.0));

  graph::ParamLayout layout;
  layout.AddParam({.name = "backbone.fpn.inner_blocks.0.0.weight", .shape = {2, 1, 1, 3}});
  CHECK_NOTHROW(CheckRules(layout, {.custom = {{"neck", 1, 1, ""}}}));  // mmdetection's word for it
  CHECK_THROWS_WITH(CheckRules(layout, {.custom = {{"bakcbone", 1, 1, "a.yaml:3:5"}}}),
                    ContainsSubstring("a.yaml:3:5") && ContainsSubstring("bakcbone"));
}

TEST_CASE("optimizer and groups are read from a config") {
  OptimizerOptions o = ReadOptimizer(Config(R"(
optimizer: {type: AdamW, lr: 0.001, betas: [0.8, 0.99], eps: 1e-6, weight_decay: 0.05,
  paramwise_cfg: {norm_decay_mult: 0, bias_lr_mult: 2, custom_keys: {backbone: {lr_mult: 0.1}, "rpn.head": {decay_mult: 0}}}}
optimizer_config: {grad_clip: {max_norm: 35, norm_type: 2}, cumulative_iters: 4}
)"));
  CHECK(o.kind == OptimizerKind::kAdamW);
  CHECK(o.weight_decay == 0.05);
  CHECK(o.max_norm == 35);
  CHECK(o.cumulative_iters == 4);
  CHECK(o.groups.norm_decay_mult == 0);
  CHECK(o.groups.bias_lr_mult == 2);
  REQUIRE(o.groups.custom.size() == 2);
  CHECK(o.groups.custom[0].lr_mult == 0.1);
  CHECK(o.groups.custom[1].pattern == "rpn.head");
  CHECK(o.groups.custom[1].decay_mult == 0);
  CHECK_THAT(o.groups.custom[0].where, ContainsSubstring("test.yaml:3"));
  for (const char* bad :
       {"{type: SGD, lr: 0.1, nesterov: true}", "{type: SGD, lr: 0.1, dampening: 0.5}",
        "{type: SGD, lr: 0.1, paramwise_cfg: {norm_decay_mult: -1}}", "{type: SGDD, lr: 0.1}"}) {
    CHECK_THROWS_AS(ReadOptimizer(Config(std::string("optimizer: ") + bad)), Error);
  }
}

TEST_CASE("lr_config is read as mmcv means it") {
  auto read = [](const std::string& lr) {
    return ReadSchedule(Config("optimizer: {type: SGD, lr: 0.02}\nlr_config: " + lr), 12, 100);
  };
  ScheduleConfig c =
      read("{policy: step, step: [8, 11], warmup: linear, warmup_iters: 500, warmup_ratio: 0.001}");
  CHECK(c.policy == SchedulePolicy::kMultiStep);
  CHECK(c.milestones == std::vector<int64_t>{8, 11});
  CHECK(c.by_epoch);
  CHECK(c.gamma == 0.1);
  CHECK(c.warmup == WarmupKind::kLinear);
  CHECK(c.warmup_steps == 500);
  CHECK(c.total_steps == 1200);
  CHECK(read("{policy: step, step: 3}").policy == SchedulePolicy::kStep);
  CHECK(read("{policy: step, step: 3}").step_size == 3);
  CHECK(read("{policy: CosineAnnealing, min_lr_ratio: 0.01}").min_lr == Approx(0.0002));
  CHECK(read("{policy: poly, power: 0.9, min_lr: 1e-4, by_epoch: false}").policy ==
        SchedulePolicy::kPoly);
  CHECK(read("{policy: OneCycle}").max_lr == 0.02);
  CHECK(read("{policy: exp, gamma: 0.9, warmup: exp, warmup_iters: 2, warmup_by_epoch: true}")
            .warmup_steps == 200);
  CHECK(read("{policy: fixed, warmup: linear, warmup_iters: 0}").warmup == WarmupKind::kNone);
  CHECK(ReadSchedule(Config("optimizer: {type: SGD, lr: 0.02}"), 12, 100).policy ==
        SchedulePolicy::kConstant);
  CHECK_THROWS_WITH(read("{policy: steps}"), ContainsSubstring("test.yaml:2"));
  CHECK_THROWS_WITH(read("{policy: step}"), ContainsSubstring("lr_config.step"));
  CHECK_THROWS_WITH(read("{policy: cosine, min_lr: 0.001, min_lr_ratio: 0.1}"),
                    ContainsSubstring("min_lr"));
  CHECK_THROWS_WITH(read("{policy: cosine, min_lr: 0.1}"),
                    ContainsSubstring("test.yaml:2") && ContainsSubstring("above optimizer.lr") &&
                        ContainsSubstring("next: lower it"));
  for (const char* steps : {"[3, 2]", "[2, 2]"}) {
    CHECK_THROWS_WITH(read(fmt::format("{{policy: step, step: {}}}", steps)),
                      ContainsSubstring("test.yaml:2") && ContainsSubstring("doesn't ascend"));
  }
  CHECK_THROWS_WITH(read("{policy: step, step: [8], warmup: linear, warmup_iters: -1}"),
                    ContainsSubstring("warmup_iters"));
}

TEST_CASE("only what an optimizer has is read; what isn't a number is refused") {
  auto unused = [](const std::string& yaml) {
    config::Reader config = Config(yaml);
    ReadOptimizer(config);
    std::string keys;
    for (const config::UnusedKey& key : config.UnusedKeys()) keys += key.path + " ";
    return keys;
  };
  CHECK(unused("optimizer: {type: AdamW, lr: 1, momentum: 0.9, nesterov: true, eps: 1e-7}") ==
        "optimizer.momentum optimizer.nesterov ");
  CHECK(unused("optimizer: {type: SGD, lr: 1, momentum: 0.9, betas: [0.9, 0.9], eps: 1e-7}") ==
        "optimizer.betas optimizer.eps ");
  CHECK(unused("optimizer: {type: LARS, lr: 1, momentum: 0.9, trust_coefficient: 0.01}") == "");
  for (const char* bad :
       {"optimizer: {type: SGD, lr: .nan}", "optimizer: {type: SGD, lr: 1, momentum: .inf}",
        "{optimizer: {lr: 1}, optimizer_config: {grad_clip: {max_norm: -.inf}}}"})
    CHECK_THROWS_WITH(ReadOptimizer(Config(bad)), ContainsSubstring("a finite number"));
}
