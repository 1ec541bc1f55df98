// How long the detection operations take at the size of real training, on every backend: hidden,
// run with `exp_graph_test "[.speed]"`. CUDA: 16 images of 800 x 1344 in bf16; CPU: 2 of 480 x 640.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "catch.h"
#include "graph/detection_support.h"
#include "src/graph/half.h"

namespace xp::graph {

namespace {

class SpeedRun {
 public:
  explicit SpeedRun(Backend& backend)
      : backend_(backend),
        graph_(std::make_shared<ParamLayout>(), backend.is_cuda() ? DType::kBF16 : DType::kF32) {}

  Graph& graph() { return graph_; }
  // A map of values that repeat: what they are doesn't matter, but that they differ.
  TensorId Map(const std::string& name, Shape shape, float scale) {
    TensorId id = graph_.AddInput(name, std::move(shape), graph_.compute());
    maps_.emplace_back(id, scale);
    return id;
  }
  template <typename T>
  TensorId Data(const std::string& name, Shape shape, DType dtype, const std::vector<T>& values) {
    TensorId id = graph_.AddInput(name, std::move(shape), dtype);
    std::vector<uint8_t> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    data_.emplace_back(id, bytes);
    return id;
  }
  TensorId Out(const std::string& name, Shape shape, DType dtype) {
    return graph_.AddOutput(name, std::move(shape), dtype);
  }
  TensorId Out(const std::string& name, Shape shape) {
    return Out(name, std::move(shape), graph_.compute());
  }

  void Time(const char* what) {
    ParamBuffers params(backend_, graph_.shared_layout(), graph_.compute(), true, 0, false);
    Program program(backend_, graph_, params);
    for (const auto& [id, bytes] : data_) program.SetInput(id, bytes.data(), bytes.size());
    for (const auto& [id, scale] : maps_) Fill(program, id, scale);
    program.Run();
    backend_.Synchronize();
    int runs = backend_.is_cuda() ? 50 : 3;
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) program.Run();
    backend_.Synchronize();
    std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    std::printf("%-8s %-28s %9.3f ms   workspace and maps %.1f MB\n", backend_.name().c_str(), what,
                taken.count() / runs, static_cast<double>(program.bytes()) / 1e6);
  }

 private:
  void Fill(Program& program, TensorId id, float scale) {
    std::vector<float> values = Random(static_cast<uint32_t>(id)).Normals(1 << 16, scale);
    std::vector<uint8_t> chunk(values.size() * DTypeSize(graph_.compute()));
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = FloatToBf16(values[i]);
      if (graph_.compute() == DType::kBF16) std::memcpy(&chunk[i * 2], &half, 2);
      if (graph_.compute() == DType::kF32) std::memcpy(&chunk[i * 4], &values[i], 4);
    }
    size_t bytes = graph_.tensor(id).bytes();
    auto* to = static_cast<uint8_t*>(program.Address(id));
    for (size_t at = 0; at < bytes; at += chunk.size()) {
      backend_.Upload(to + at, chunk.data(), std::min(chunk.size(), bytes - at));
    }
  }

  Backend& backend_;
  Graph graph_;
  std::vector<std::pair<TensorId, float>> maps_;
  std::vector<std::pair<TensorId, std::vector<uint8_t>>> data_;
};

struct Size {
  int images, height, width;
};

Size SizeFor(const Backend& backend) {
  return backend.is_cuda() ? Size{16, 800, 1344} : Size{2, 480, 640};
}

std::vector<AnchorLevel> PyramidLevels(const Size& size) {
  std::vector<AnchorLevel> levels;
  int h = size.height / 4, w = size.width / 4;
  for (int l = 0; l < 5; ++l) {
    AnchorLevel level{
        h, w, static_cast<float>(size.height / h), static_cast<float>(size.width / w), {}};
    for (float ratio : {0.5f, 1.0f, 2.0f}) {
      float half_w = 16 * static_cast<float>(1 << l) / std::sqrt(ratio);
      float half_h = 16 * static_cast<float>(1 << l) * std::sqrt(ratio);
      level.base.insert(level.base.end(), {-half_w, -half_h, half_w, half_h});
    }
    levels.push_back(level);
    h = (h + 1) / 2;
    w = (w + 1) / 2;
  }
  return levels;
}

// Boxes from 16 pixels to most of the image, as many of each size class.
std::vector<float> SpreadBoxes(Random& random, int64_t count, const Size& size) {
  std::vector<kernels::Box> boxes;
  for (int64_t i = 0; i < count; ++i) {
    float side = 16 * std::exp2(random.Uniform(0, 5.5f)),
          shape = std::exp2(random.Uniform(-0.7f, 0.7f));
    float w = std::min(side * shape, static_cast<float>(size.width));
    float h = std::min(side / shape, static_cast<float>(size.height));
    float x = random.Uniform(0, static_cast<float>(size.width) - w);
    float y = random.Uniform(0, static_cast<float>(size.height) - h);
    boxes.push_back({x, y, x + w, y + h});
  }
  return Flatten(boxes);
}

std::vector<int32_t> Repeat(int images, std::vector<int32_t> values) {
  std::vector<int32_t> out;
  for (int i = 0; i < images; ++i) out.insert(out.end(), values.begin(), values.end());
  return out;
}

}  // namespace

TEST_CASE("speed of the region proposal operations", "[.speed]") {
  for (Backend* backend : TestBackends()) {
    Size size = SizeFor(*backend);
    Random random(1);
    int64_t n = size.images;
    std::vector<AnchorLevel> levels = PyramidLevels(size);
    for (bool proposals : {true, false}) {
      SpeedRun run(*backend);
      std::vector<TensorId> in, out;
      if (proposals) {
        for (int64_t width : {1, 4}) {
          for (const AnchorLevel& l : levels) {
            in.push_back(
                run.Map("map", {n, l.height, l.width, 3 * width}, width == 1 ? 2.0f : 0.3f));
          }
        }
        in.push_back(
            run.Data("sizes", {n, 2}, DType::kI32, Repeat(size.images, {size.height, size.width})));
        out = {run.Out("p", {n, 2000, 4}, DType::kF32), run.Out("s", {n, 2000}, DType::kF32),
               run.Out("c", {n}, DType::kI32)};
        run.graph().AddOp(OpType::kRpnProposals, in, out, RpnProposalAttrs{.levels = levels}, "p");
      } else {
        in = {run.Data("gt", {n, 100, 4}, DType::kF32, SpreadBoxes(random, n * 100, size)),
              run.Data("counts", {n}, DType::kI32, Repeat(size.images, {15})),
              run.Data<uint32_t>("key", {4}, DType::kU32, {1, 2, 3, 0})};
        out = {run.Out("s", {n, 256}, DType::kI32), run.Out("t", {n, 256, 4}, DType::kF32),
               run.Out("c", {n, 2}, DType::kI32)};
        run.graph().AddOp(OpType::kRpnTargets, in, out, RpnTargetAttrs{.levels = levels}, "t");
      }
      run.Time(proposals ? "rpn proposals" : "rpn targets, 15 boxes");
    }
  }
}

TEST_CASE("speed of the box head's operations", "[.speed]") {
  for (Backend* backend : TestBackends()) {
    Size size = SizeFor(*backend);
    Random random(2);
    int64_t n = size.images, rois = 512, channels = 256, columns = 91;
    std::vector<float> boxes = SpreadBoxes(random, n * rois, size);
    for (bool forward : {true, false}) {
      SpeedRun run(*backend);
      std::vector<TensorId> maps, boxed;
      for (int l = 0; l < 4; ++l) {
        Shape shape{n, size.height >> (l + 2), size.width >> (l + 2), channels};
        maps.push_back(forward ? run.Map("map", shape, 1) : run.Out("grad", shape));
      }
      boxed = {run.Data("rois", {n, rois, 4}, DType::kF32, boxes),
               run.Data("counts", {n}, DType::kI32, Repeat(size.images, {512}))};
      RoiAlignAttrs attrs{.scales = {0.25f, 0.125f, 0.0625f, 0.03125f}};
      Shape pooled{n * rois, 7, 7, channels};
      if (forward) {
        maps.insert(maps.end(), boxed.begin(), boxed.end());
        run.graph().AddOp(OpType::kRoiAlign, maps, {run.Out("y", pooled)}, attrs, "a");
      } else {
        boxed.insert(boxed.begin(), run.Map("dy", pooled, 1));
        run.graph().AddOp(OpType::kRoiAlignGrad, boxed, maps, attrs, "g");
      }
      run.Time(forward ? "roi align, 512 an image" : "roi align gradient");
    }
    {
      SpeedRun run(*backend);
      std::vector<int32_t> labels = Repeat(static_cast<int>(n * rois / 4), {3, 0, 0, 0});
      std::vector<TensorId> in{
          run.Map("logits", {n * rois, columns}, 1), run.Map("deltas", {n * rois, columns * 4}, 1),
          run.Data("labels", {n, rois}, DType::kI32, labels),
          run.Data("targets", {n, rois, 4}, DType::kF32, random.Normals(n * rois * 4, 1)),
          run.Data("counts", {n, 2}, DType::kI32, Repeat(size.images, {128, 384}))};
      run.graph().AddOp(OpType::kRoiLoss, in,
                        {run.Out("losses", {2}, DType::kF32), run.Out("dx", {n * rois, columns}),
                         run.Out("dd", {n * rois, columns * 4})},
                        RoiLossAttrs{.num_classes = 90}, "l");
      run.Time("roi loss, 91 columns");
    }
    {
      SpeedRun run(*backend);
      int64_t p = 2000, g = 100;
      std::vector<TensorId> in{
          run.Data("p", {n, p, 4}, DType::kF32, SpreadBoxes(random, n * p, size)),
          run.Data("pc", {n}, DType::kI32, Repeat(size.images, {2000})),
          run.Data("gt", {n, g, 4}, DType::kF32, SpreadBoxes(random, n * g, size)),
          run.Data("gl", {n, g}, DType::kI32, Repeat(static_cast<int>(n * g), {1})),
          run.Data("gc", {n}, DType::kI32, Repeat(size.images, {15})),
          run.Data<uint32_t>("key", {4}, DType::kU32, {1, 2, 3, 0})};
      run.graph().AddOp(
          OpType::kRoiTargets, in,
          {run.Out("r", {n, rois, 4}, DType::kF32), run.Out("l", {n, rois}, DType::kI32),
           run.Out("t", {n, rois, 4}, DType::kF32), run.Out("c", {n, 2}, DType::kI32)},
          RoiTargetAttrs{.num_classes = 90}, "t");
      run.Time("roi targets, 15 boxes");
    }
    {
      SpeedRun run(*backend);
      int64_t r = 1000;
      std::vector<TensorId> in{
          run.Map("logits", {n * r, columns}, 2), run.Map("deltas", {n * r, columns * 4}, 1),
          run.Data("rois", {n, r, 4}, DType::kF32, SpreadBoxes(random, n * r, size)),
          run.Data("counts", {n}, DType::kI32, Repeat(size.images, {1000})),
          run.Data("sizes", {n, 2}, DType::kI32, Repeat(size.images, {size.height, size.width}))};
      run.graph().AddOp(
          OpType::kDetections, in,
          {run.Out("b", {n, 100, 4}, DType::kF32), run.Out("s", {n, 100}, DType::kF32),
           run.Out("l", {n, 100}, DType::kI32), run.Out("c", {n}, DType::kI32)},
          DetectionAttrs{.num_classes = 90}, "d");
      run.Time("detections, 1000 an image");
    }
  }
}

}  // namespace xp::graph
