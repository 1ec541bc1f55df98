// The combination of versions as a Markdown table.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "exp/base/json_text.h"
#include "exp/base/printable.h"
#include "exp/doctor/doctor.h"

namespace xp::doctor {
namespace {

using nlohmann::json;

class Table {
 public:
  // A part that isn't there has no row.
  void Add(std::string_view part, std::string version) {
    std::replace(version.begin(), version.end(), '|', '/');
    if (!version.empty()) text_ += fmt::format("| {} | {} |\n", part, Printable(version));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "| part | version |\n|---|---|\n";
};

void AddMachine(const json& e, Table& table) {
  table.Add("exp", TextAt(e, "/program/version") + ", " + TextAt(e, "/program/compiler"));
  table.Add("system", TextAt(e, "/os/name"));
  table.Add("container", TextAt(e, "/os/container"));
  table.Add("kernel", TextAt(e, "/os/kernel"));
  table.Add("glibc", TextAt(e, "/os/glibc"));
  table.Add("CPU", TextAt(e, "/cpu/model"));
  for (const json& gpu : e.value("/gpu/devices"_json_pointer, json::array())) {
    table.Add("GPU",
              TextAt(gpu, "/name") + ", compute capability " + TextAt(gpu, "/compute_capability"));
  }
}

void AddCuda(const json& e, const Findings& findings, Table& table) {
  table.Add("NVIDIA driver", TextAt(e, "/gpu/driver"));
  table.Add("CUDA of the driver", TextAt(e, "/gpu/cuda_driver"));
  table.Add("CUDA runtime of exp", TextAt(e, "/cuda_build/runtime"));
  table.Add("nvcc that built exp", TextAt(e, "/cuda_build/compiler"));
  table.Add("CUDA runtime of the system", TextAt(e, "/gpu/cuda_runtime"));
  // Without a GPU the environment has neither, though they may be there.
  auto found = [&](const char* id, const std::string& known) {
    for (const Finding& f : findings) {
      if (f.id == id && known.empty() && f.level == Level::kOk) return f.found;
    }
    return known;
  };
  table.Add("cuDNN", found("cudnn", TextAt(e, "/gpu/cudnn")));
  table.Add("NCCL", found("nccl", TextAt(e, "/gpu/nccl")));
  table.Add("compilers", found("nvcc", ""));
}

void AddLibraries(const json& e, Table& table) {
  const json libraries = e.value("libraries", json::object());
  for (const auto& [name, library] : libraries.items()) {
    for (const char* wanted : {"libdnnl", "libjpeg", "libsqlite3", "libgit2", "libstdc++"}) {
      if (name == wanted) table.Add(name, TextAt(library, "/version"));
    }
  }
  table.Add("Python", TextAt(e, "/python/version"));
  for (const json& package : e.value("/python/packages"_json_pointer, json::array())) {
    const std::string text = package.is_string() ? package.get<std::string>() : "";
    for (const std::string_view wanted : {"torch==", "torchvision==", "numpy=="}) {
      if (text.starts_with(wanted)) {
        table.Add(wanted.substr(0, wanted.size() - 2), text.substr(wanted.size()));
      }
    }
  }
}

}  // namespace

std::string Memo(const std::string& environment_json, const Findings& findings) {
  json e = json::parse(environment_json, nullptr, false);
  if (!e.is_object()) e = json::object();
  Table table;
  AddMachine(e, table);
  AddCuda(e, findings, table);
  AddLibraries(e, table);
  return table.text();
}

}  // namespace xp::doctor
