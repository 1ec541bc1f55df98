#include "exp/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <fstream>
#include <vector>

#include "exp/base/error.h"

namespace xp {

struct Hasher::State {
  XXH3_state_t* xxh = nullptr;
};

std::string Hash128::Hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 HashBytes(const void* data, size_t size) {
  XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.high64, h.low64};
}

Hash128 HashFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UsageError({.what = "can't be read", .where = path.string()});
  Hasher hasher;
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    hasher.Update(buffer.data(), static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) throw UsageError({.what = "reading failed", .where = path.string()});
  return hasher.Digest();
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  state_->xxh = XXH3_createState();
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() { XXH3_freeState(state_->xxh); }

void Hasher::Update(const void* data, size_t size) {
  if (size > 0) XXH3_128bits_update(state_->xxh, data, size);
}

Hash128 Hasher::Digest() const {
  XXH128_hash_t h = XXH3_128bits_digest(state_->xxh);
  return {h.high64, h.low64};
}

}  // namespace xp
