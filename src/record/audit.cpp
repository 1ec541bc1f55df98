#include "exp/record/audit.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "exp/record/value.h"
#include "src/record/sqlite.h"

namespace xp::record {

std::vector<std::string> CheckpointHashes(const Store& store, const std::string& beginning) {
  Statement s(store.db(),
              "SELECT DISTINCT hash FROM checkpoint WHERE substr(hash,1,length(?1))=?1 ORDER BY 1");
  std::vector<std::string> out;
  for (s.Bind(1, beginning); s.Step();) out.push_back(s.Text(0));
  return out;
}

std::vector<Provenance> FindByHash(const Store& store, const std::string& hash) {
  Statement s(store.db(),
              "SELECT r.seq,r.id,a.number,c.epoch,c.step,c.path FROM checkpoint c JOIN attempt a "
              "ON a.id=c.attempt JOIN run r ON r.seq=a.run WHERE c.hash=?1 ORDER BY c.id DESC");
  std::vector<Provenance> out;
  for (s.Bind(1, hash); s.Step();) {
    out.push_back({s.Int(0), s.Text(1), static_cast<int>(s.Int(2)), static_cast<int>(s.Int(3)),
                   s.Int(4), s.Text(5)});
  }
  return out;
}

std::map<std::string, std::string> SafetensorsMetadata(const std::filesystem::path& file) {
  std::map<std::string, std::string> out;
  std::error_code error;
  uintmax_t size = std::filesystem::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  unsigned char bytes[8];
  if (error || size < 8 || !in.read(reinterpret_cast<char*>(bytes), 8)) return out;
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  constexpr uint64_t kLimit = 100 << 20;  // the format's own limit for a header
  if (length > kLimit || length > size - 8) return out;
  std::string header(length, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(length))) return out;
  if (JsonDepth(header) > kDeepestJson) return out;
  nlohmann::json parsed = nlohmann::json::parse(header, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("__metadata__")) return out;
  const nlohmann::json& metadata = parsed["__metadata__"];
  if (!metadata.is_object()) return out;
  for (const auto& [key, value] : metadata.items()) {
    out[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return out;
}

}  // namespace xp::record
