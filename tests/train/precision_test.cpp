// What a device computes when a precision is asked for, and that it says so where that differs.
#include "catch.h"
#include "exp/graph/cpu.h"
#include "src/train/device.h"

namespace xp::train {
namespace {

OpenedDevice OpenCpu(const std::string& precision) {
  return OpenDevice({.device = "cpu", .precision = precision, .threads = 1, .plans = {}});
}

}  // namespace

TEST_CASE("the CPU computes in fp32 and bf16, and says what it doesn't compute") {
  const OpenedDevice fp32 = OpenCpu("fp32");
  CHECK(fp32.compute == graph::DType::kF32);
  CHECK(fp32.precision_note.empty());
  for (const std::string asked : {"tf32", "fp16"}) {
    const OpenedDevice opened = OpenCpu(asked);
    CHECK(opened.compute == graph::DType::kF32);
    CHECK(opened.precision == "fp32");
    CHECK(opened.precision_note.find("precision " + asked + ": fp32 is computed instead") == 0);
  }
  const OpenedDevice bf16 = OpenCpu("bf16");
  const graph::CpuBf16 support = graph::CpuBf16Support();
  const bool computes = support != graph::CpuBf16::kNone;
  CHECK(bf16.compute == (computes ? graph::DType::kBF16 : graph::DType::kF32));
  CHECK(bf16.precision == (computes ? "bf16" : "fp32"));
  CHECK(bf16.precision_note.empty() == (support == graph::CpuBf16::kNative));
}

TEST_CASE("the CPU rewrites a step as the plans of an earlier run say") {
  const auto passes = [](const std::vector<std::string>& plans) {
    return graph::CreateCpuBackend({1, true, plans})->PlanNotes();
  };
  const std::vector<std::string> none{"step passes = none"}, sums{"step passes = sums"};
  CHECK(passes(none) == none);
  CHECK(passes(sums) == sums);
  CHECK(graph::CreateCpuBackend(1)->PlanNotes().empty());  // the reference rewrites nothing
  // Those of a GPU that the CPU doesn't do are left out.
  CHECK(passes({"a plan", "step passes = sums,pairs,pool,gram"}) ==
        std::vector<std::string>{"step passes = sums,pairs"});
}

}  // namespace xp::train
