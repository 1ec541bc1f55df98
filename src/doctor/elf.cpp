#include "exp/doctor/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace xp::doctor {
namespace {

// Reads structures and strings anywhere in the file; a wrong offset gives nothing.
class Image {
 public:
  explicit Image(std::span<const char> bytes) : bytes_(bytes) {}

  template <class T>
  std::optional<T> At(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string Text(uint64_t offset) const {
    if (offset >= bytes_.size()) return "";
    const char* begin = bytes_.data() + offset;
    size_t most = std::min<size_t>(bytes_.size() - offset, 4096);
    const void* end = std::memchr(begin, 0, most);
    return end ? std::string(begin, static_cast<const char*>(end)) : "";
  }

 private:
  std::span<const char> bytes_;
};

constexpr uint64_t kNowhere = UINT64_MAX;
constexpr int kMostEntries = 1 << 20;

class Parser {
 public:
  explicit Parser(std::span<const char> bytes) : image_(bytes) {}

  std::optional<ElfFile> Parse(std::string* why) {
    auto header = image_.At<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
      return No(why, "no ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
      return No(why, "not a 64-bit little-endian ELF file");
    }
    file_.machine = header->e_machine;
    if (!ReadSegments(*header)) return No(why, "it has no dynamic section (a static program?)");
    for (const Elf64_Dyn& d : dynamic_) ReadEntry(d);
    ReadDefined();
    ReadNeeded();
    ReadSymbols();
    return file_;
  }

 private:
  static std::optional<ElfFile> No(std::string* why, const char* text) {
    if (why) *why = text;
    return std::nullopt;
  }

  bool ReadSegments(const Elf64_Ehdr& header) {
    std::optional<Elf64_Phdr> dynamic;
    for (int i = 0; i < header.e_phnum; ++i) {
      auto segment =
          image_.At<Elf64_Phdr>(header.e_phoff + static_cast<uint64_t>(i) * header.e_phentsize);
      if (!segment) break;
      if (segment->p_type == PT_LOAD) loads_.push_back(*segment);
      if (segment->p_type == PT_DYNAMIC) dynamic = segment;
    }
    if (!dynamic) return false;
    for (int i = 0; i < kMostEntries; ++i) {
      auto entry =
          image_.At<Elf64_Dyn>(dynamic->p_offset + static_cast<uint64_t>(i) * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      dynamic_.push_back(*entry);
    }
    strings_ = Offset(Value(DT_STRTAB));
    return strings_ != kNowhere;
  }

  uint64_t Value(int64_t tag) const {
    for (const Elf64_Dyn& d : dynamic_) {
      if (d.d_tag == tag) return d.d_un.d_val;
    }
    return kNowhere;
  }
  // Of an address that the program would have in memory.
  uint64_t Offset(uint64_t address) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
    return kNowhere;
  }
  std::string String(uint64_t at) const { return image_.Text(strings_ + at); }

  void ReadEntry(const Elf64_Dyn& d) {
    if (d.d_tag == DT_SONAME) file_.soname = String(d.d_un.d_val);
    if (d.d_tag == DT_NEEDED) file_.needed.push_back(String(d.d_un.d_val));
    if (d.d_tag != DT_RUNPATH && d.d_tag != DT_RPATH) return;
    std::string path = String(d.d_un.d_val);
    for (size_t at = 0; at <= path.size();) {
      size_t end = std::min(path.find(':', at), path.size());
      if (end > at) file_.folders.push_back(path.substr(at, end - at));
      at = end + 1;
    }
  }

  void ReadDefined() {
    uint64_t at = Offset(Value(DT_VERDEF));
    if (at == kNowhere) return;
    for (int i = 0; i < kMostEntries; ++i) {
      auto definition = image_.At<Elf64_Verdef>(at);
      if (!definition) return;
      auto name = image_.At<Elf64_Verdaux>(at + definition->vd_aux);
      // The first one is the file's own name.
      if (name && !(definition->vd_flags & VER_FLG_BASE)) {
        file_.defined.push_back(String(name->vda_name));
      }
      if (definition->vd_next == 0) return;
      at += definition->vd_next;
    }
  }

  void ReadNeeded() {
    uint64_t at = Offset(Value(DT_VERNEED));
    if (at == kNowhere) return;
    for (int i = 0; i < kMostEntries; ++i) {
      auto need = image_.At<Elf64_Verneed>(at);
      if (!need) return;
      uint64_t entry = at + need->vn_aux;
      for (int k = 0; k < need->vn_cnt; ++k) {
        auto version = image_.At<Elf64_Vernaux>(entry);
        if (!version) break;
        index_[version->vna_other & 0x7fff] = file_.versions.size();
        file_.versions.push_back({String(need->vn_file),
                                  String(version->vna_name),
                                  (version->vna_flags & VER_FLG_WEAK) != 0,
                                  {}});
        if (version->vna_next == 0) break;
        entry += version->vna_next;
      }
      if (need->vn_next == 0) return;
      at += need->vn_next;
    }
  }

  // The dynamic symbols have no count of their own: they end where the strings begin, as every
  // linker lays them out, or with a name that isn't one.
  void ReadSymbols() {
    uint64_t symbols = Offset(Value(DT_SYMTAB)), versions = Offset(Value(DT_VERSYM));
    if (symbols == kNowhere || strings_ <= symbols) return;
    uint64_t count = std::min<uint64_t>((strings_ - symbols) / sizeof(Elf64_Sym), kMostEntries);
    for (uint64_t i = 1; i < count; ++i) {
      auto symbol = image_.At<Elf64_Sym>(symbols + i * sizeof(Elf64_Sym));
      if (!symbol) return;
      if (symbol->st_shndx == SHN_UNDEF) {
        auto version =
            versions == kNowhere ? std::nullopt : image_.At<Elf64_Half>(versions + i * 2);
        auto found = version ? index_.find(*version & 0x7fff) : index_.end();
        if (found != index_.end()) {
          file_.versions[found->second].symbols.push_back(String(symbol->st_name));
        }
      } else if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size == 4) {
        uint64_t at = Offset(symbol->st_value);
        auto value = at == kNowhere ? std::nullopt : image_.At<uint32_t>(at);
        if (value) file_.constants.emplace_back(String(symbol->st_name), *value);
      }
    }
  }

  Image image_;
  ElfFile file_;
  std::vector<Elf64_Phdr> loads_;
  std::vector<Elf64_Dyn> dynamic_;
  uint64_t strings_ = kNowhere;
  std::map<int, size_t> index_;  // of a symbol's version, into file_.versions
};

}  // namespace

std::optional<ElfFile> ParseElf(std::span<const char> bytes, std::string* why) {
  return Parser(bytes).Parse(why);
}

}  // namespace xp::doctor
