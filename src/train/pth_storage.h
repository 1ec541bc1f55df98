// The two containers of torch.save: the pickle that describes the objects, and the bytes of the
// storages beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/train/pickle.h"

namespace xp::train {

class PthStorage {
 public:
  virtual ~PthStorage() = default;
  const pickle::Document& document() const { return document_; }
  const std::string& format() const { return format_; }
  // How many bytes the storage of that key has. Throws UsageError where there is none.
  virtual uint64_t Size(const std::string& key) const = 0;
  // `count` of them. Throws UsageError where it has fewer.
  virtual std::vector<std::byte> Read(const std::string& key, uint64_t offset, size_t count) = 0;

 protected:
  pickle::Document document_;
  std::string format_;
};

// Is it a ZIP archive, by its first bytes? And one of the older stream of pickles?
bool LooksLikeZip(std::string_view head);
bool LooksLikePickle(std::string_view head);

std::unique_ptr<PthStorage> OpenPthStorage(const std::filesystem::path& path);
std::unique_ptr<PthStorage> OpenZipStorage(const std::filesystem::path& path);
std::unique_ptr<PthStorage> OpenLegacyStorage(const std::filesystem::path& path);

}  // namespace xp::train
