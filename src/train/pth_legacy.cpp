// torch.save before PyTorch 1.6 (and _use_new_zipfile_serialization=False): five pickles one after
// another (magic number, protocol 1001, system, the object, the storages' keys), then each storage:
// its number of elements as int64 and its bytes, in the order of the keys. Source:
// torch/serialization.py, _legacy_load.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exp/base/error.h"
#include "src/train/pth_storage.h"
#include "src/train/random_access.h"

namespace xp::train {
namespace {

using pickle::Document;
using pickle::Kind;
using pickle::Value;

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                                  10);  // 0x1950a86a20f9469cfc6c

class LegacyStorage : public PthStorage {
 public:
  explicit LegacyStorage(const std::filesystem::path& path) : file_(path) {
    format_ = "pth (legacy)";
    std::vector<std::byte> all = file_.ReadAt(0, file_.size());
    std::string_view bytes(reinterpret_cast<const char*>(all.data()), all.size());
    size_t at = 0;
    Document magic = Next(bytes, &at);
    if (magic[magic.root].text != kMagic) throw OtherPickle(magic);
    Document protocol = Next(bytes, &at);
    if (protocol[protocol.root].integer != 1001) throw Bad("its protocol is not 1001");
    CheckSystem(Next(bytes, &at));
    document_ = Next(bytes, &at);
    Document keys = Next(bytes, &at);
    PlaceStorages(keys, bytes, at);
  }

  uint64_t Size(const std::string& key) const override { return PlaceOf(key).bytes; }

  std::vector<std::byte> Read(const std::string& key, uint64_t offset, size_t count) override {
    const Place& place = PlaceOf(key);
    if (offset > place.bytes || count > place.bytes - offset) {
      throw Bad(
          fmt::format("storage {} has {} bytes, {} are needed", key, place.bytes, offset + count));
    }
    return file_.ReadAt(place.begin + offset, count);
  }

 private:
  struct Place {
    uint64_t begin = 0, bytes = 0;
  };

  const Place& PlaceOf(const std::string& key) const {
    auto place = places_.find(key);
    if (place == places_.end()) throw Bad(fmt::format("has no storage {}", key));
    return place->second;
  }

  Error Bad(const std::string& what) const {
    return UsageError({.what = what,
                       .where = file_.path(),
                       .expected = "a file written by torch.save",
                       .next = "the file is damaged; fetch or write it again"});
  }

  // Detectron's and Detectron2's model zoos have dicts of numpy arrays.
  Error OtherPickle(const Document& document) const {
    const bool numpy =
        std::any_of(document.values.begin(), document.values.end(), [](const Value& value) {
          return value.kind == Kind::kGlobal && value.text.starts_with("numpy.");
        });
    return UsageError(
        {.what = fmt::format("is a pickle{}, but not one of torch.save",
                             numpy ? " of numpy arrays" : ""),
         .where = file_.path(),
         .expected = "a file written by torch.save",
         .next = numpy ? "load it with Python's pickle, and write {name: torch.from_numpy(array)} "
                         "with torch.save"
                       : "write it again with torch.save(model.state_dict(), path)"});
  }

  Document Next(std::string_view bytes, size_t* at) const {
    Document document =
        pickle::Parse(bytes.substr(*at), fmt::format("{} (pickle at byte {})", file_.path(), *at));
    *at += document.end;
    return document;
  }

  void CheckSystem(const Document& system) const {
    const Value* little = system.Find(system[system.root], "little_endian");
    if (little != nullptr && little->integer == 0) throw Bad("was written on a big-endian machine");
  }

  // The storages' types are known from where the object uses them. 0: of a type that is not read.
  struct Use {
    std::string type;
    uint64_t element_size = 0;
  };
  std::map<std::string, Use> Uses() const {
    static const std::map<std::string_view, uint64_t> kSizes = {
        {"DoubleStorage", 8},
        {"LongStorage", 8},
        {"FloatStorage", 4},
        {"IntStorage", 4},
        {"HalfStorage", 2},
        {"BFloat16Storage", 2},
        {"ShortStorage", 2},
        {"CharStorage", 1},
        {"ByteStorage", 1},
        {"BoolStorage", 1},
        // Not read, but the next storage lies behind: complex and quantised numbers, and the bytes
        // of types that have no class of their own.
        {"ComplexDoubleStorage", 16},
        {"ComplexFloatStorage", 8},
        {"QInt32Storage", 4},
        {"QInt8Storage", 1},
        {"QUInt8Storage", 1},
        {"QUInt4x2Storage", 1},
        {"QUInt2x4Storage", 1},
        {"UntypedStorage", 1}};
    std::map<std::string, Use> uses;
    for (const Value& value : document_.values) {
      if (value.kind != Kind::kPersistent) continue;
      const Value& id = document_[value.items[0]];
      if (id.kind != Kind::kList || id.items.size() < 5) continue;
      std::string_view type = document_[id.items[1]].text;
      auto size = kSizes.find(type.substr(type.rfind('.') + 1));
      uses[document_[id.items[2]].text] = {std::string(type),
                                           size == kSizes.end() ? 0 : size->second};
    }
    return uses;
  }

  void PlaceStorages(const Document& keys, std::string_view bytes, size_t at) {
    std::map<std::string, Use> uses = Uses();
    for (pickle::Ref ref : keys[keys.root].items) {
      const std::string& key = keys[ref].text;
      auto use = uses.find(key);
      if (use == uses.end()) throw Bad(fmt::format("storage {} is used nowhere", key));
      const uint64_t size = use->second.element_size;
      if (size == 0) {
        throw UsageError(
            {.what = fmt::format("has a storage of the type `{}`", use->second.type),
             .where = file_.path(),
             .expected = "floats, integers or bools that are not quantised",
             .next = "write the file again with torch.save(model.state_dict(), path)"});
      }
      if (bytes.size() - at < 8) throw Bad("ends early");
      uint64_t count = 0;
      std::copy_n(bytes.data() + at, 8, reinterpret_cast<char*>(&count));
      at += 8;
      if (count > (bytes.size() - at) / size) {
        throw Bad(fmt::format("storage {} has {} elements, but the file ends early", key, count));
      }
      places_[key] = {at, count * size};
      at += count * size;
    }
  }

  RandomAccess file_;
  std::map<std::string, Place> places_;
};

}  // namespace

bool LooksLikeZip(std::string_view head) {
  return head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06");
}
bool LooksLikePickle(std::string_view head) {
  return head.size() > 1 && head[0] == '\x80' && head[1] <= 5;
}

std::unique_ptr<PthStorage> OpenLegacyStorage(const std::filesystem::path& path) {
  return std::make_unique<LegacyStorage>(path);
}

std::unique_ptr<PthStorage> OpenPthStorage(const std::filesystem::path& path) {
  std::string head(300, '\0');
  {
    RandomAccess file(path);
    head.resize(std::min<uint64_t>(head.size(), file.size()));
    file.ReadAt(0, head.data(), head.size());
  }
  if (LooksLikeZip(head)) return OpenZipStorage(path);
  if (LooksLikePickle(head)) return OpenLegacyStorage(path);
  bool tar = head.size() > 262 && head.substr(257, 5) == "ustar";
  throw UsageError(
      {.what = tar ? "is a tar archive, as PyTorch 0.1 wrote them" : "is not a file of torch.save",
       .where = path.string(),
       .expected = "a .pth file of PyTorch 0.4 or later",
       .next =
           tar ? "load it with an old PyTorch and save it again" : "see what it is with `file`"});
}

}  // namespace xp::train
