// From a file back to the run that made it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exp/record/store.h"

namespace xp::record {

struct Provenance {
  int64_t run = 0;  // seq
  std::string run_id;
  int attempt = 1, epoch = 0;
  int64_t step = 0;
  std::string recorded_path;
};

// The hashes of recorded checkpoints that begin so, each once.
std::vector<std::string> CheckpointHashes(const Store& store, const std::string& beginning);

// The runs that wrote a checkpoint of this content; newest first.
std::vector<Provenance> FindByHash(const Store& store, const std::string& hash);

// The "__metadata__" of a safetensors file; empty where it is none or has none. Never throws for
// what is in the file. Format: 8 bytes, little-endian length, then JSON
// (https://huggingface.co/docs/safetensors/index#format).
std::map<std::string, std::string> SafetensorsMetadata(const std::filesystem::path& file);

}  // namespace xp::record
