// Drivers, libraries and compilers that don't fit, through a fake of the system's files.
#include "catch.h"
#include "doctor/fake_system.h"
#include "src/doctor/cuda_releases.h"
#include "src/doctor/text.h"

namespace xp::doctor {
namespace {

TEST_CASE("versions are compared part by part as numbers") {
  CHECK(CompareVersions("550.54.9", "550.54.15") < 0);
  CHECK(CompareVersions("12.4", "12.4.0") == 0);
  CHECK(CompareVersions("580", "575.51.03") > 0);
  CHECK(CompareVersions("3.4.9", "3.4.30") < 0);
}

TEST_CASE("the driver that a CUDA needs, from NVIDIA's tables") {
  CHECK(DriverFor("13.0").full == "580.65.06");
  CHECK(DriverFor("12.4").full == "550.54.14");
  CHECK(DriverFor("12.7").full == "560.28.03");  // no such release: that of the one before
  CHECK(DriverFor("12.8").minor == "525.60.13");
  CHECK(DriverFor("11.8").minor == "450.80.02");
  CHECK(DriverFor("14.2").full == "590.44.01");
}

TEST_CASE("an old driver") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "470.42.01";
  s.gpus.cuda_driver = "11.4";
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver.runtime");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "470.42.01"));
  CHECK(Says(f.needed, "580.65.06"));
  CHECK(Says(f.fix, "cuda-compat-13.0"));
}

TEST_CASE("a driver that tells no version is absent, not old") {
  FakeSystem s = HealthyMachine();
  s.files.erase("/sys/module/nvidia/version");
  s.gpus.driver = s.gpus.cuda_driver = "";
  const Findings all = CheckDriver(s.Of(TestBuild()));
  CHECK(Get(all, "driver").found == "a driver that tells no version; NVIDIA H200");
  CHECK(Get(all, "driver.runtime").level == Level::kAbsent);
}

TEST_CASE("a driver of the same major version runs it by minor-version compatibility") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "535.104.05";
  s.gpus.cuda_driver = "12.2";
  graph::CudaBuild build = TestBuild();
  build.runtime = "12.4";
  Finding f = Get(CheckDriver(s.Of(build)), "driver.runtime");
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "minor-version compatibility"));
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "515.65.01";
  s.gpus.cuda_driver = "11.7";
  CHECK(Get(CheckDriver(s.Of(build)), "driver.runtime").level == Level::kError);
}

TEST_CASE("forward compatibility: a newer libcuda over an older kernel module") {
  FakeSystem s = HealthyMachine();
  s.files["/sys/module/nvidia/version"] = s.gpus.driver = "535.104.05";
  s.gpus.cuda_driver = "13.0";
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver.runtime");
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "cuda-compat"));
}

TEST_CASE("libcuda: the stub, none, mixed versions, forward compatibility") {
  FakeSystem s = HealthyMachine();
  auto look = [&] { return Get(CheckLibcuda(s.Of(TestBuild())), "driver.libcuda"); };
  auto first = [&](const std::string& folder, const std::string& real) {
    s.variables["LD_LIBRARY_PATH"] = folder;
    s.files[folder + "/libcuda.so.1"] = "";
    s.links[folder + "/libcuda.so.1"] = real;
  };
  CHECK(look().level == Level::kOk);
  SECTION("the toolkit's stub stands first") {
    first("/cuda/lib64/stubs", "/cuda/lib64/stubs/libcuda.so");
    s.answers.erase({"libcuda.so.1", "cuDriverGetVersion"});  // it reports an error
    CHECK(look().level == Level::kError);
    CHECK(Says(look().found, "/cuda/lib64/stubs/libcuda.so is the stub"));
    CHECK(Says(look().fix, "LD_LIBRARY_PATH"));
  }
  SECTION("a link to the stub") {
    first("/home/u/lib", "/cuda/lib64/stubs/libcuda.so");
    CHECK(Says(look().found, "is the stub"));
  }
  SECTION("none") {
    s.answers.erase({"libcuda.so.1", "cuDriverGetVersion"});
    s.files.erase("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    CHECK(look().level == Level::kError);
    CHECK(Says(look().found, "isn't found"));
    CHECK(Says(look().fix, "--gpus all"));
  }
  SECTION("a container brings an older one along") {
    first("/opt/old", "/opt/old/libcuda.so.535.104.05");
    CHECK(look().level == Level::kError);
    CHECK(Says(look().found, "version 535.104.05, over the kernel module 580.159.03"));
    CHECK(Says(look().fix, "/opt/old"));
  }
  SECTION("cuda-compat: for data-centre cards") {
    first("/usr/local/cuda/compat", "/usr/local/cuda/compat/libcuda.so.590.44.01");
    CHECK(look().level == Level::kOk);
    CHECK(Says(look().found, "forward compatibility"));
    s.gpus.devices[0].about.name = "NVIDIA GeForce RTX 4090";
    CHECK(look().level == Level::kError);
    CHECK(Says(look().why, "GeForce"));
  }
  SECTION("a system that finds it elsewhere") {
    s.files.erase("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    CHECK(look().level == Level::kOk);
  }
}

TEST_CASE("no driver: absent without a card, an error with one") {
  FakeSystem s = HealthyMachine();
  s.gpus = {};
  s.gpus.why = "libnvidia-ml.so.1: cannot open shared object file";
  s.files.erase("/sys/module/nvidia/version");
  CHECK(Get(CheckDriver(s.Of(TestBuild())), "driver").level == Level::kAbsent);
  s.files["/sys/bus/pci/devices/0000:01:00.0/vendor"] = "0x10de\n";
  s.files["/sys/bus/pci/devices/0000:01:00.0/class"] = "0x030200\n";
  CHECK(Get(CheckDriver(s.Of(TestBuild())), "driver").level == Level::kError);
}

TEST_CASE("a container without the NVIDIA runtime, and a driver updated under use") {
  FakeSystem s = HealthyMachine();
  s.gpus = {};
  s.gpus.why = "libnvidia-ml.so.1: cannot open shared object file";
  s.files["/proc/driver/nvidia/version"] =
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\n";
  s.files.erase("/sys/module/nvidia/version");
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "580.159.03"));
  CHECK(Says(f.fix, "--gpus all"));
  s.gpus.why = "Driver/library version mismatch";
  f = Get(CheckDriver(s.Of(TestBuild())), "driver");
  CHECK(Says(f.fix, "reboot"));
}

TEST_CASE("a build without CUDA beside a card") {
  FakeSystem s = HealthyMachine();
  Findings all = CheckAll(s.Of(graph::CudaBuild{}));
  CHECK(Get(all, "driver.runtime").level == Level::kWarning);
  for (const Finding& f : all) CHECK(f.id != "cudnn");
}

TEST_CASE("compute capability against machine code and PTX") {
  FakeSystem s = HealthyMachine();
  auto level = [&](int major, int minor) {
    s.gpus.devices[0].about.major = major;
    s.gpus.devices[0].about.minor = minor;
    return Get(CheckGpuCode(s.Of(TestBuild())), "gpu.0.code").level;
  };
  CHECK(level(9, 0) == Level::kOk);
  CHECK(level(8, 6) == Level::kOk);        // code of 80 runs on 8.6
  CHECK(level(10, 0) == Level::kWarning);  // PTX of 90
  // Only PTX would do, and a driver of CUDA 12 doesn't compile CUDA 13's.
  s.gpus.cuda_driver = "12.8";
  CHECK(level(10, 0) == Level::kError);
  CHECK(Says(Get(CheckGpuCode(s.Of(TestBuild())), "gpu.0.code").why, "can't compile"));
  CHECK(level(9, 0) == Level::kOk);
  s.gpus.cuda_driver = "13.0";
  CHECK(level(7, 0) == Level::kError);  // code of 75 doesn't run on 7.0
  graph::CudaBuild build = TestBuild();
  build.machine_code = build.ptx = {"90a"};
  s.gpus.devices[0].about.major = 10;
  CHECK(Get(CheckGpuCode(s.Of(build)), "gpu.0.code").level == Level::kError);
}

TEST_CASE("cuDNN: missing, of another major version, for a newer CUDA") {
  const std::string path = "/opt/cuda/lib64/libcudnn.so.9";
  FakeSystem s = HealthyMachine();
  s.answers[{path, "cudnnGetVersion"}] = 8902;
  Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.found, "8.9.2"));
  s.answers[{path, "cudnnGetVersion"}] = 91900;
  s.gpus.cuda_driver = "12.4";
  f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn");
  CHECK(f.level == Level::kError);
  CHECK(Says(f.fix, "CUDA 12"));
  s.files.erase(path);
  CHECK(Get(CheckCudnn(s.Of(TestBuild())), "cudnn").level == Level::kError);
  s.gpus.devices.clear();
  CHECK(Get(CheckCudnn(s.Of(TestBuild())), "cudnn").level == Level::kAbsent);
}

TEST_CASE("libcuda of WSL and of Jetson boards has a number that is no version") {
  FakeSystem s = HealthyMachine();
  s.files.erase("/sys/module/nvidia/version");
  s.files.erase("/usr/lib/x86_64-linux-gnu/libcuda.so.1");
  const std::string folder = "/usr/lib/wsl/lib/";
  s.files["/etc/ld.so.conf.d/ld.wsl.conf"] = "/usr/lib/wsl/lib\n";
  s.files[folder + "libcuda.so.1"] = "";
  s.links[folder + "libcuda.so.1"] = folder + "libcuda.so.1.1";
  const Finding f = Get(CheckLibcuda(s.Of(TestBuild())), "driver.libcuda");
  INFO(f.found);
  CHECK(f.level == Level::kOk);
  CHECK(Says(f.found, "CUDA 13.0 (/usr/lib/wsl/lib/libcuda.so.1)"));
}

TEST_CASE("the version of the kernel module, from what drivers of all kinds write") {
  FakeSystem s;
  auto version = [&](const char* text) {
    s.files["/proc/driver/nvidia/version"] = text;
    return KernelDriver(s);
  };
  CHECK(version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 "
                "UTC 2024\nGCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n") ==
        "535.183.01");
  CHECK(version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build "
                " (dvs-builder@U22)  Tue Sep 23 10:11:16 UTC 2025\nGCC version:\n") == "580.95.05");
  CHECK(version("NVRM version: NVIDIA UNIX aarch64 Kernel Module  450.51\n") == "450.51");
  CHECK(version("NVRM version: NVIDIA UNIX Kernel Module\n").empty());
  CHECK(version("").empty());
  // The file of the module counts first; one that is empty doesn't.
  s.files["/sys/module/nvidia/version"] = "550.54.14\n";
  CHECK(version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01\n") == "550.54.14");
  s.files["/sys/module/nvidia/version"] = "\n";
  CHECK(version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01\n") == "535.183.01");
}

TEST_CASE("cards that CUDA_VISIBLE_DEVICES hides, and others that aren't there") {
  FakeSystem s = HealthyMachine();
  s.gpus.devices.clear();
  Finding f = Get(CheckDriver(s.Of(TestBuild())), "driver");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "fell off the bus"));
  s.gpus.hidden = 2;  // also by a variable that is set to nothing
  f = Get(CheckDriver(s.Of(TestBuild())), "driver");
  CHECK(f.level == Level::kWarning);
  CHECK(f.fix == "CUDA_VISIBLE_DEVICES (``) hides 2: unset it");
  s.variables["CUDA_VISIBLE_DEVICES"] = "-1";
  CHECK(Says(Get(CheckDriver(s.Of(TestBuild())), "driver").fix, "(`-1`) hides 2"));
}

TEST_CASE("code for one capability alone, and for one family") {
  auto level = [](std::vector<std::string> code, std::vector<std::string> ptx, int major,
                  int minor) {
    FakeSystem s = HealthyMachine();
    graph::CudaBuild build = TestBuild();
    build.machine_code = std::move(code);
    build.ptx = std::move(ptx);
    s.gpus.devices[0].about.major = major;
    s.gpus.devices[0].about.minor = minor;
    return Get(CheckGpuCode(s.Of(build)), "gpu.0.code").level;
  };
  CHECK(level({"100f"}, {}, 10, 3) == Level::kOk);
  CHECK(level({"100a"}, {}, 10, 3) == Level::kError);
  CHECK(level({"90"}, {"100f"}, 10, 3) == Level::kWarning);
  CHECK(level({"90"}, {"100f"}, 12, 0) == Level::kError);
  CHECK(level({"90"}, {"120a"}, 12, 0) == Level::kWarning);
  CHECK(level({"90"}, {"120a"}, 12, 1) == Level::kError);
  CHECK(level({"90"}, {"90"}, 12, 1) == Level::kWarning);
}

TEST_CASE("a library of 32 bits that comes first isn't the one that is asked about") {
  FakeSystem s = HealthyMachine();
  auto elf = [](char bits, char machine) {
    std::string text("\177ELF", 4);
    text += bits;
    text += std::string("\1\1", 2) + std::string(11, '\0');  // to e_machine
    text += machine;
    return text + std::string(64, '\0');
  };
  s.files["/proc/self/exe"] = elf(2, 62);
  s.variables["LD_LIBRARY_PATH"] = "/steam/lib32";
  s.files["/steam/lib32/libcudnn.so.9"] = elf(1, 3);
  s.files["/steam/lib32/libcuda.so.1"] = elf(1, 3);
  CHECK(Says(Get(CheckCudnn(s.Of(TestBuild())), "cudnn").found, "(/opt/cuda/lib64/libcudnn.so.9)"));
  CHECK(Says(Get(CheckLibcuda(s.Of(TestBuild())), "driver.libcuda").found,
             "(/usr/lib/x86_64-linux-gnu/libcuda.so.1)"));
}

TEST_CASE("mixed cuDNN files") {
  FakeSystem s = HealthyMachine();
  SECTION("another version first in LD_LIBRARY_PATH") {
    s.variables["LD_LIBRARY_PATH"] = "/home/u/old";
    s.files["/home/u/old/libcudnn_ops.so.9"] = "";
    s.links["/home/u/old/libcudnn_ops.so.9"] = "/home/u/old/libcudnn_ops.so.9.1.0";
    Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts");
    CHECK(f.level == Level::kError);
    CHECK(Says(f.found, "libcudnn_ops.so.9 is 9.1.0 (/home/u/old/libcudnn_ops.so.9)"));
  }
  SECTION("a part without a version in its name, in another folder") {
    s.variables["LD_LIBRARY_PATH"] = "/wheel/lib";
    s.files["/wheel/lib/libcudnn_graph.so.9"] = "";
    Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts");
    CHECK(f.level == Level::kError);
    CHECK(Says(f.found, "comes from /wheel/lib"));
  }
  SECTION("cuDNN's own check of a part fails") {
    s.answers[{"/opt/cuda/lib64/libcudnn.so.9", "cudnnCnnVersionCheck"}] = 1005;
    CHECK(Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts").level == Level::kError);
  }
  SECTION("a part is missing") {
    s.files.erase("/opt/cuda/lib64/libcudnn_heuristic.so.9");
    Finding f = Get(CheckCudnn(s.Of(TestBuild())), "cudnn.parts");
    CHECK(f.level == Level::kError);
    CHECK(Says(f.found, "libcudnn_heuristic.so.9 missing"));
  }
}

TEST_CASE("the CUDA that NCCL was built for, from the text in it") {
  FakeSystem s = HealthyMachine();
  auto look = [&] { return Get(CheckNccl(s.Of(TestBuild())), "nccl"); };
  std::string& library = s.files["/opt/cuda/lib64/libnccl.so.2"];
  library = "NCCL version detected : x; NCCL version 2.28.9+cuda13.0 NCCL_DEBUG";
  CHECK(look().level == Level::kOk);
  CHECK(look().found == "2.28.9 for CUDA 13.0");
  s.gpus.cuda_driver = "12.8";
  CHECK(look().level == Level::kWarning);
  CHECK(Says(look().fix, "NCCL package for CUDA 12"));
  s.gpus.devices.clear();  // nothing that it could be used on
  CHECK(look().level == Level::kOk);
  for (const char* text : {"", "NCCL version ", "NCCL version 2.28.9+cuda", "NCCL version 2"}) {
    library = text;
    CHECK(look().found == "2.28.9");
  }
}

TEST_CASE("NCCL is wanted with several GPUs only") {
  FakeSystem s = HealthyMachine();
  CHECK(Says(Get(CheckNccl(s.Of(TestBuild())), "nccl").found, "2.28.9"));
  s.answers.erase({"libnccl.so.2", "ncclGetVersion"});
  CHECK(Get(CheckNccl(s.Of(TestBuild())), "nccl").level == Level::kAbsent);
  s.gpus.devices.push_back(s.gpus.devices[0]);
  CHECK(Get(CheckNccl(s.Of(TestBuild())), "nccl").level == Level::kWarning);
  CHECK(Get(CheckNccl(s.Of(TestBuild())), "nccl").found == "libnccl.so.2 isn't found");
  s.files["/opt/cuda/lib64/libnccl.so.2"] = "";  // it ends the process that loads it, say
  const Finding f = Get(CheckNccl(s.Of(TestBuild())), "nccl");
  CHECK(f.level == Level::kWarning);
  CHECK(f.found == "/opt/cuda/lib64/libnccl.so.2 doesn't load, or doesn't answer");
  CHECK(Says(f.fix, "exp doctor --library /opt/cuda/lib64/libnccl.so.2"));
}

TEST_CASE("a C++ compiler that nvcc doesn't take, a toolkit newer than the driver") {
  FakeSystem s = HealthyMachine();
  s.outputs["nvcc"] = "Cuda compilation tools, release 12.4, V12.4.131\n";
  s.outputs["g++"] = "14.2.0\n";
  Finding f = Get(CheckCompilers(s.Of(TestBuild())), "nvcc");
  CHECK(f.level == Level::kWarning);
  CHECK(Says(f.fix, "g++-13"));
  s.outputs["nvcc"] = "Cuda compilation tools, release 14.0, V14.0.1\n";
  CHECK(Get(CheckCompilers(s.Of(TestBuild())), "nvcc.driver").level == Level::kWarning);
  s.outputs.clear();
  CHECK(Get(CheckCompilers(s.Of(TestBuild())), "nvcc").level == Level::kAbsent);
}

}  // namespace
}  // namespace xp::doctor
