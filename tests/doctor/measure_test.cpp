// Smoke tests, reads, decoding and the report.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "doctor/faulty_backend.h"
#include "exp/bench/photos.h"
#include "exp/doctor/doctor.h"
#include "exp/doctor/measure.h"
#include "exp/doctor/smoke.h"
#include "exp/graph/memory_check.h"
#include "kernels/memory_pattern.h"
#include "src/bench/trial.h"

namespace fs = std::filesystem;

namespace xp::doctor {
namespace {

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "exp-doctor-test-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

Level LevelOf(const Findings& all, const std::string& id) {
  for (const Finding& f : all) {
    if (f.id == id) return f.level;
  }
  FAIL("no finding " << id);
  return Level::kOk;
}

TEST_CASE("smoke tests pass on the CPU, and see a device that computes wrongly") {
  auto reference = graph::CreateCpuBackend(1);
  auto good = graph::CreateCpuBackend(2);
  for (const Finding& f : SmokeTests(*good, *reference, {})) {
    INFO(f.id << ": " << f.found);
    CHECK(f.level == Level::kOk);
  }
  FaultyBackend wrong(graph::OpType::kLinear, FaultyBackend::Fault::kAlways);
  Findings found = SmokeTests(wrong, *reference, {});
  CHECK(LevelOf(found, "smoke.product") == Level::kError);
  CHECK(LevelOf(found, "smoke.train") == Level::kError);
  CHECK(LevelOf(found, "smoke.conv") == Level::kOk);
  FaultyBackend fickle(graph::OpType::kLinear, FaultyBackend::Fault::kSometimes);
  found = SmokeTests(fickle, *reference, {});
  CHECK(LevelOf(found, "smoke.product") == Level::kError);
}

TEST_CASE("a small training repeats bit for bit, and its loss falls") {
  auto one = graph::CreateCpuBackend(1);
  SmallTraining a = TrainSmall(*one, 12), b = TrainSmall(*one, 12);
  CHECK(a.hash == b.hash);
  CHECK(a.losses.back() < a.losses.front());
}

TEST_CASE("two processes at once") {
  // Shell children stand for this program: the first call is alone, the others come together.
  std::string same = "echo ready; read word; echo hash abc";
  CHECK(TwoProcesses({"sh", "-c", same}).level == Level::kOk);
  Folder folder;
  // The first call and one of the two after it agree, the third differs.
  std::string turn = (folder.path / "turn").string();
  std::string differ =
      "echo ready; read word; for n in 1 2 3; do mkdir " + turn +
      "$n 2>/dev/null && break; done; [ $n = 3 ] && echo hash def || echo hash abc";
  Finding f = TwoProcesses({"sh", "-c", differ});
  INFO(f.found);
  CHECK(f.level == Level::kError);
  f = TwoProcesses({"sh", "-c", "exit 1"});
  CHECK(f.level == Level::kError);
  CHECK(f.found.find("also alone") != std::string::npos);
  CHECK(f.fix.find("nvidia-smi") == std::string::npos);
  f = TwoProcesses({"/no/such/program"});
  CHECK(f.level == Level::kError);
  CHECK(f.found == "a process failed: it can't be started (also alone)");
}

TEST_CASE("memory patterns: every fault is counted, every bit is written both ways") {
  std::vector<uint64_t> words(1000);
  uint64_t zeros = ~uint64_t{0}, ones = 0;
  for (int round = 0; round < 4; ++round) {
    kernels::FillPatternHost(words.data(), words.size(), 5, round);
    zeros &= words[17];
    ones |= words[17];
    CHECK(kernels::CountMismatchesHost(words.data(), words.size(), 5, round) == 0);
    words[3] ^= 1;
    words[999] ^= uint64_t{1} << 63;
    CHECK(kernels::CountMismatchesHost(words.data(), words.size(), 5, round) == 2);
    // A word of another address is wrong, too.
    CHECK(kernels::CountMismatchesHost(words.data(), words.size(), 6, round) > 990);
  }
  CHECK(zeros == 0);
  CHECK(ones == ~uint64_t{0});
  CHECK(graph::CheckHostMemory(1 << 20, 4).bad_words == 0);
}

TEST_CASE("reading a folder: large file, small files, and what is no folder") {
  Folder folder;
  std::string photo = bench::DrawPhotos(1, 64, 48).front();
  for (int i = 0; i < 30; ++i) {
    std::ofstream(folder.path / (std::to_string(i) + ".JPG"), std::ios::binary) << photo;
  }
  ReadSpeed speed = MeasureReads(folder.path.string(), 0.3);
  CHECK(speed.images_seen == 30);
  CHECK(speed.small_files_a_second > 0);
  CHECK(speed.images.size() == 30);
  CHECK(fs::exists(folder.path / "0.JPG"));
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 30);
  Findings judged = JudgeReads("x", speed);
  CHECK(judged.size() == 2);
  ReadSpeed none = MeasureReads((folder.path / "none").string(), 0.1);
  for (const Finding& f : JudgeReads("none", none)) CHECK(f.level == Level::kAbsent);
}

TEST_CASE("a data set behind a link is read, once, also where links go round") {
  Folder data, work;
  std::string photo = bench::DrawPhotos(1, 64, 48).front();
  fs::create_directories(data.path / "coco/train2017");
  for (int i = 0; i < 30; ++i) {
    std::ofstream(data.path / "coco/train2017" / (std::to_string(i) + ".jpg"), std::ios::binary)
        << photo;
  }
  fs::create_directory_symlink(data.path / "coco", work.path / "coco");
  fs::create_directory_symlink(data.path / "coco", work.path / "again");
  fs::create_directory_symlink(data.path, data.path / "coco/round");
  fs::create_directory_symlink("nowhere", work.path / "lost");
  const ReadSpeed speed = MeasureReads(work.path.string(), 0.3);
  CHECK(speed.images_seen == 30);
  CHECK(speed.small_files_a_second > 0);
}

TEST_CASE("slow disks, slow decoding, and a loader that can't keep up") {
  ReadSpeed slow;
  slow.sequential_bytes_a_second = 50e6;
  slow.small_files_a_second = 200;
  for (const Finding& f : JudgeReads("/data", slow)) CHECK(f.level == Level::kWarning);
  DecodeSpeed decode;
  decode.images_a_second_core = 400;
  decode.images_a_second_all = 6000;
  decode.megapixels = 0.19;
  Findings loader = JudgeLoader(slow, decode, 10000);
  CHECK(loader[0].level == Level::kOk);
  CHECK(loader[1].level == Level::kWarning);
  CHECK(loader[1].found.find("200 img/s, bounded by the disk") != std::string::npos);
  slow.small_files_a_second = 50000;
  CHECK(JudgeLoader(slow, decode, 5000)[1].level == Level::kOk);
  CHECK(JudgeLoader(slow, decode, 5000)[1].found.ends_with("; ResNet-50 could take 5000 here"));
  CHECK(JudgeLoader(slow, decode, 0)[1].level == Level::kOk);
  decode.images_a_second_core = 20;
  CHECK(JudgeLoader(slow, decode, 0)[0].level == Level::kWarning);
  DecodeSpeed measured = MeasureDecode({}, 0.1);
  CHECK(measured.drawn);
  CHECK(measured.problem.empty());
  CHECK(measured.images_a_second_core > 0);
  Folder folder;
  std::vector<std::string> damaged;
  for (int i = 0; i < 10; ++i) {
    damaged.push_back((folder.path / (std::to_string(i) + ".jpg")).string());
    std::ofstream(damaged.back()) << "no JPEG";
  }
  std::ofstream(damaged.front(), std::ios::binary) << bench::DrawPhotos(1, 64, 48).front();
  measured = MeasureDecode(damaged, 0.1);
  CHECK(measured.drawn);
  measured.images_a_second_core = 1;  // too slow as well: both are told
  // A few of many are told, too.
  for (size_t i = 0; i < 9; ++i) {
    std::ofstream(damaged[i], std::ios::binary) << bench::DrawPhotos(1, 64, 48).front();
  }
  const DecodeSpeed few = MeasureDecode(damaged, 0.1);
  CHECK_FALSE(few.drawn);
  CHECK(few.problem == "of 10 JPEGs of the folder 9 could be decoded");
  CHECK(JudgeLoader({}, few, 0)[0].level == Level::kWarning);
  std::ofstream(damaged.back(), std::ios::binary) << bench::DrawPhotos(1, 64, 48).front();
  CHECK(MeasureDecode(damaged, 0.1).problem.empty());
  const Finding f = JudgeLoader({}, measured, 0)[0];
  CHECK(f.level == Level::kWarning);
  CHECK(f.found.find("of 10 JPEGs of the folder 1 could be decoded") != std::string::npos);
  CHECK(f.fix.find("exp data check") != std::string::npos);
  CHECK(f.fix.find("governor") != std::string::npos);
}

TEST_CASE("what ResNet-50 could take, by a device's speeds") {
  // An H200: 257 MB at 90 % of 3.334 TB/s take longer than 24.3 GFLOP at 70 % of 754.58 TFLOP/s.
  CHECK(std::abs(ResNetNeed(3.334e12, 754.58e12, true) - 11675.5) < 0.1);
  // Two cores: 629 MB, and then 24.3 GFLOP.
  CHECK(std::abs(ResNetNeed(17e9, 209e9, false) - 4.82606) < 1e-4);
  CHECK(ResNetNeed(0, 209e9, false) == 0);
}

// What a step of ResNet-50 computes and moves an image, with all rewrites (a GPU) or none (the
// CPU).
bench::Work ResNetWork(int batch, graph::DType compute, const graph::StepPasses& passes) {
  bench::Case c;
  c.batch = batch;
  bench::TrialGraph t = bench::BuildTrialGraph(c, compute, {});
  graph::RunStepPasses(*t.graph, passes);
  const bench::Work work = bench::WorkOf(*t.graph);
  return {bench::WorkOf(*bench::BuildTrialGraph(c, compute, {}).graph).flop / batch,
          work.bytes / batch};
}

TEST_CASE("what ResNet-50 could take counts with the work of today's step") {
  graph::StepPasses all;
  all.sums = all.pairs = all.pool = all.squeeze = all.gram = all.dgrad = all.strided = true;
  const bench::Work gpu = ResNetWork(256, graph::DType::kBF16, all);
  const bench::Work cpu = ResNetWork(32, graph::DType::kF32, {});
  constexpr double kFast = 1e30;  // so that only the other one counts
  CHECK(std::abs(0.9 / ResNetNeed(1, kFast, true) / gpu.bytes - 1) < 0.01);
  CHECK(std::abs(0.7 / ResNetNeed(kFast, 1, true) / gpu.flop - 1) < 0.01);
  CHECK(std::abs(0.9 / ResNetNeed(1, kFast, false) / cpu.bytes - 1) < 0.01);
  CHECK(std::abs(0.7 / ResNetNeed(kFast, 1, false) / cpu.flop - 1) < 0.01);
}

TEST_CASE("a device that gets slower as it gets warm") {
  LoadResult load;
  load.seen.seconds = 20;
  load.first_flop_a_second = 800e12;
  load.flop_a_second = 780e12;
  CHECK(JudgeSpeedUnderLoad(load).level == Level::kOk);
  load.flop_a_second = 500e12;
  CHECK(JudgeSpeedUnderLoad(load).level == Level::kWarning);
}

TEST_CASE("the report: JSON, text, exit codes") {
  Report report;
  report.findings.push_back({.id = "a", .group = "health", .found = "fine"});
  report.findings.push_back({.id = "b",
                             .group = "speed",
                             .level = Level::kError,
                             .found = "bad \xff bytes",
                             .needed = "good ones",
                             .why = "because",
                             .fix = "mend it",
                             .numbers = {{"mb_s", 12.5}}});
  report.worst = Level::kError;
  nlohmann::json j = nlohmann::json::parse(ReportJson(report, R"({"os":{"glibc":"2.36"}})"));
  CHECK(j["level"] == "error");
  CHECK(j["findings"][1]["numbers"]["mb_s"] == 12.5);
  CHECK(j["environment"]["os"]["glibc"] == "2.36");
  CHECK(nlohmann::json::parse(ReportJson(report, "no json")).contains("findings"));
  auto again = ReportFromJson(ReportJson(report, "{}"));
  REQUIRE(again);
  CHECK(again->worst == Level::kError);
  REQUIRE(again->findings.size() == 2);
  CHECK(again->findings[1].numbers == report.findings[1].numbers);
  CHECK(again->findings[1].fix == "mend it");
  for (const char* wrong :
       {"", "[]", "{}", "{\"format\": 1, \"findings\": 3}", "{\"findings\": []}", "no json"}) {
    CHECK_FALSE(ReportFromJson(wrong));
  }
  CHECK(ReportFromJson("{\"format\": 1, \"findings\": [3, {\"id\": 4, \"numbers\": [1]}]}"));
  std::string text = FindingText(report.findings[1], false, 80);
  for (const char* part : {"ERROR", "good ones", "because", "mend it"}) {
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find('\033') == std::string::npos);
  CHECK(FindingText(report.findings[1], true, 80).find('\033') != std::string::npos);
  // A narrow terminal: no line longer than it.
  std::string narrow = FindingText(report.findings[1], false, 30);
  CHECK(narrow.find("\n    good ones\n") != std::string::npos);
  for (size_t at = 0, end; at < narrow.size(); at = end + 1) {
    end = narrow.find('\n', at);
    CHECK(end - at <= 30);
  }
  report.seconds = 0.14;
  CHECK(SummaryText(report, 110) == "2 checks in 0.1 s: 1 ok, 0 absent, 0 warnings, 1 error");
  CHECK(SummaryText(report, 40) == "2 checks in 0.1 s: 1 ok, 0 absent, 0\nwarnings, 1 error");
  // What a file is called can't command the terminal, and letters count, not bytes.
  const Finding odd{.id = "x", .found = "\033[2J " + std::string(40, 'a') + " ä ö"};
  CHECK(FindingText(odd, false, 29 + 7 + 1 + 40 + 4).ends_with(" ä ö\n"));
  CHECK(FindingText(odd, false, 110).find("\\x1b[2J") != std::string::npos);
  CHECK(ExitCode(Level::kOk) == 0);
  CHECK(ExitCode(Level::kAbsent) == 0);
  CHECK(ExitCode(Level::kWarning) == 4);
  CHECK(ExitCode(Level::kError) == 1);
}

TEST_CASE("the memo is a Markdown table of what is known") {
  std::string memo = Memo(
      R"({"os":{"name":"Debian | 12","glibc":"2.36"},"gpu":{"driver":"580.1","cudnn":"9.19.0",)"
      R"("devices":[{"name":"H200","compute_capability":"9.0"}]},)"
      R"("python":{"version":"3.11","packages":["torch==2.11.0","torchx==1"]}})",
      {{.id = "cudnn", .found = "9.1.0 (/lib/x)"},
       {.id = "nvcc", .found = "nvcc 13.0.88, g++ 12.2.0"},
       {.id = "nccl", .level = Level::kAbsent, .found = "isn't found"}});
  CHECK(memo.find("| cuDNN | 9.19.0 |") != std::string::npos);  // what the driver's side says
  CHECK(memo.find("| compilers | nvcc 13.0.88, g++ 12.2.0 |") != std::string::npos);
  CHECK(memo.find("| system | Debian / 12 |") != std::string::npos);
  CHECK(memo.find("| NVIDIA driver | 580.1 |") != std::string::npos);
  CHECK(memo.find("| torch | 2.11.0 |") != std::string::npos);
  CHECK(memo.find("torchx") == std::string::npos);
  CHECK(memo.find("NCCL") == std::string::npos);
  CHECK(Memo("{}", {{.id = "cudnn", .found = "9.1.0"}}).find("| cuDNN | 9.1.0 |") !=
        std::string::npos);
  CHECK(Memo("broken", {}).starts_with("| part | version |"));
}

}  // namespace
}  // namespace xp::doctor
