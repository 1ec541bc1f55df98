// Runs a few operations on a backend and gives back what they computed; private to src/doctor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exp/graph/backend.h"
#include "exp/graph/program.h"

namespace xp::doctor {

class OpRun {
 public:
  explicit OpRun(graph::DType compute);

  graph::Graph& graph() { return graph_; }
  // Values around 0 in the compute type, a function of the name.
  graph::TensorId Noise(const std::string& name, graph::Shape shape, double scale = 1);
  graph::TensorId Floats(const std::string& name, graph::Shape shape,
                         const std::vector<float>& values);
  graph::TensorId Ints(const std::string& name, graph::Shape shape,
                       const std::vector<int32_t>& values);
  graph::TensorId Out(const std::string& name, graph::Shape shape);
  graph::TensorId Out(const std::string& name, graph::Shape shape, graph::DType dtype);

  struct Output {
    std::string name;
    graph::DType dtype;
    std::vector<uint8_t> bytes;
  };
  // Runs on fresh memory; outputs nobody writes are 0xff bytes.
  std::vector<Output> Run(graph::Backend& backend) const;

 private:
  graph::TensorId Add(const std::string& name, graph::Shape shape, graph::DType dtype,
                      std::vector<uint8_t> bytes);

  graph::Graph graph_;
  std::vector<std::pair<graph::TensorId, std::vector<uint8_t>>> inputs_;
  std::vector<graph::TensorId> outputs_;
};

// The largest difference of two outputs, divided by the largest magnitude of the first; infinite
// where one isn't finite. Integers: 0 when equal, else 1.
double Difference(const OpRun::Output& a, const OpRun::Output& b);

}  // namespace xp::doctor
