// torch.save since PyTorch 1.6: a ZIP archive of stored (not compressed) entries `<name>/data.pkl`,
// `<name>/byteorder` and `<name>/data/<key>`. libzip reads the archive and checks each entry's CRC.
#include <fmt/format.h>
#include <zip.h>

#include <cstring>

#include "exp/base/error.h"
#include "src/train/pth_storage.h"
#include "src/train/random_access.h"

namespace xp::train {
namespace {

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

class ZipStorage : public PthStorage {
 public:
  explicit ZipStorage(const std::filesystem::path& path) : path_(path.string()) {
    format_ = "pth";
    file_size_ = RandomAccess(path).size();
    int code = 0;
    archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
    if (archive_ == nullptr) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      std::string reason = zip_error_strerror(&error);
      zip_error_fini(&error);
      // Its list of entries stands at the end.
      if (code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS || code == ZIP_ER_EOF)
        throw Bad(
            "is cut off or damaged: it begins as an archive of torch.save and doesn't end so");
      throw Bad(fmt::format("can't be read as an archive: {}", reason));
    }
    FindRoot();
    CheckByteOrder();
    std::vector<std::byte> pickle = ReadEntry("data.pkl");
    document_ = pickle::Parse({reinterpret_cast<const char*>(pickle.data()), pickle.size()},
                              path_ + ": data.pkl");
  }

  uint64_t Size(const std::string& key) const override { return Find("data/" + key).size; }

  std::vector<std::byte> Read(const std::string& key, uint64_t offset, size_t count) override {
    if (key != cached_key_ || cached_.empty()) {
      cached_ = ReadEntry("data/" + key);
      cached_key_ = key;
    }
    if (offset > cached_.size() || count > cached_.size() - offset) {
      throw Bad(fmt::format("storage {} has {} bytes, {} are needed", key, cached_.size(),
                            offset + count));
    }
    auto begin = cached_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  Error Bad(const std::string& what) const {
    return UsageError({.what = what,
                       .where = path_,
                       .expected = "a file written by torch.save",
                       .next = "the file is damaged or of another kind; fetch or write it again"});
  }

  // Entries lie in one folder, named after the file as it was first saved.
  void FindRoot() {
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
      const char* name = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
      std::string_view entry = name == nullptr ? "" : name;
      if (entry.ends_with("/data.pkl")) {
        root_ = entry.substr(0, entry.size() - std::strlen("data.pkl"));
        if (zip_name_locate(archive_.get(), (root_ + "constants.pkl").c_str(), 0) >= 0) {
          throw UsageError(
              {.what = "is a TorchScript archive",
               .where = path_,
               .expected = "a state dict",
               .next = "save it with torch.save(torch.jit.load(path).state_dict(), other_path)"});
        }
        return;
      }
    }
    throw Bad("is an archive without data.pkl");
  }

  void CheckByteOrder() {
    if (zip_name_locate(archive_.get(), (root_ + "byteorder").c_str(), 0) < 0)
      return;  // before PyTorch 2.1
    std::vector<std::byte> order = ReadEntry("byteorder");
    if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little") {
      throw Bad("was written on a big-endian machine");
    }
  }

  // Stored entries are no larger than the file, so that no hostile archive can fill the memory.
  zip_stat_t Find(const std::string& name) const {
    zip_stat_t status;
    zip_stat_init(&status);
    if (zip_stat(archive_.get(), (root_ + name).c_str(), 0, &status) != 0 ||
        (status.valid & ZIP_STAT_SIZE) == 0) {
      throw Bad(fmt::format("has no entry {}{}", root_, name));
    }
    if (status.comp_method != ZIP_CM_STORE || status.size != status.comp_size) {
      throw UsageError({.what = fmt::format("its entry {}{} is compressed", root_, name),
                        .where = path_,
                        .expected = "stored entries, as torch.save writes them",
                        .next = "write it again with torch.save(torch.load(path), other_path)"});
    }
    if (status.size > file_size_)
      throw Bad(fmt::format("entry {}{} is larger than the file", root_, name));
    return status;
  }

  std::vector<std::byte> ReadEntry(const std::string& name) const {
    const zip_stat_t status = Find(name);
    std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive_.get(), status.index, 0));
    if (entry == nullptr)
      throw Bad(fmt::format("entry {}{}: {}", root_, name, zip_strerror(archive_.get())));
    std::vector<std::byte> bytes(status.size);
    for (size_t done = 0; done < bytes.size();) {
      zip_int64_t n = zip_fread(entry.get(), bytes.data() + done, bytes.size() - done);
      if (n <= 0)
        throw Bad(
            fmt::format("entry {}{} is damaged: {}", root_, name, zip_file_strerror(entry.get())));
      done += static_cast<size_t>(n);
    }
    // libzip checks the CRC when the end is reached; set_crc32_options(False) of
    // torch.serialization leaves 0 in its place.
    char beyond = 0;
    if (status.crc != 0 && zip_fread(entry.get(), &beyond, 1) != 0)
      throw Bad(fmt::format("entry {}{} is damaged", root_, name));
    return bytes;
  }

  std::string path_, root_;
  uint64_t file_size_ = 0;
  std::unique_ptr<zip_t, CloseArchive> archive_;
  std::string cached_key_;  // views of one storage are often read one after another
  std::vector<std::byte> cached_;
};

}  // namespace

std::unique_ptr<PthStorage> OpenZipStorage(const std::filesystem::path& path) {
  return std::make_unique<ZipStorage>(path);
}

}  // namespace xp::train
