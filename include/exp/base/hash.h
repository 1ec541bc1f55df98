// xxh128 content hashes: the identity of configs, files, checkpoints and weights.
// Source: https://github.com/Cyan4973/xxHash, XXH3 128-bit, seed 0, canonical (big-endian) form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace xp {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  // 32 lower-case hex digits, the same text that `xxh128sum` prints.
  std::string Hex() const;
};

Hash128 HashBytes(const void* data, size_t size);
inline Hash128 HashBytes(std::string_view bytes) { return HashBytes(bytes.data(), bytes.size()); }

// The hash of a file's content. Throws UsageError where it can't be read.
Hash128 HashFile(const std::filesystem::path& path);

// Hashes a stream of pieces; equal to HashBytes of their concatenation.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(const void* data, size_t size);
  void Update(std::string_view bytes) { Update(bytes.data(), bytes.size()); }
  Hash128 Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace xp
