// Groups of the environment; private to src/snapshot. None of them throws: what the machine doesn't
// tell is left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace xp::snapshot {

nlohmann::json ProbeProgram();
nlohmann::json ProbeSystem();
nlohmann::json ProbeCpu(int threads);
nlohmann::json ProbeMemory();
// Shared libraries of this process: file, version where its name has one, GNU build id.
nlohmann::json ProbeLibraries();
std::string ProgramBuildId();
nlohmann::json ProbeGpu();
nlohmann::json ProbePython(double seconds);

std::string FirstLineOf(const std::string& file);
std::string Trim(std::string text);

}  // namespace xp::snapshot
