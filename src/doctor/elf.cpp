#include "exp/doctor/elf.h"

#include <elf.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string_view>

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
constexpr int kHighestIsaLevel = 5;  // above 4: of a processor that isn't known yet
#ifndef PT_GNU_PROPERTY              // of glibc's elf.h since 2.32
#define PT_GNU_PROPERTY 0x6474e553
#endif
#ifndef NT_GNU_PROPERTY_TYPE_0
#define NT_GNU_PROPERTY_TYPE_0 5
#endif
// Far above what is in use: libtorch_cuda has 400,000 symbols. A symbol's version is a number of 15
// bits, so there can't be more of those.
constexpr int kMostEntries = 1 << 20, kMostSegments = 512;
constexpr size_t kMostVersions = 1 << 15, kMostText = size_t{64} << 20;

// What bytes are that aren't ELF's, as far as people take such for libraries.
const char* OtherKind(std::span<const char> bytes) {
  auto starts = [&](std::string_view with) {
    return std::string_view(bytes.data(), bytes.size()).starts_with(with);
  };
  if (bytes.empty()) return "an empty file";
  if (starts(std::string_view(ELFMAG, SELFMAG))) return "an ELF file that was cut off";
  if (starts("MZ")) return "a program or library for Windows, no ELF file";
  if (starts("\xcf\xfa\xed\xfe") || starts("\xca\xfe\xba\xbe")) {
    return "a program or library for macOS, no ELF file";
  }
  if (starts("PK\x03\x04")) return "a zip archive (a wheel?), no ELF file: unpack it";
  if (starts("#!")) return "a script, no ELF file: name the program or library that it starts";
  if (starts("!<arch>\n")) return "an archive of object files, no ELF file";
  if (starts("/* GNU ld script")) return "a text for the linker, no ELF file: name the .so.N of it";
  if (starts("version https://git-lfs")) return "a pointer of git-lfs, no ELF file: `git lfs pull`";
  return "no ELF file";
}

class Parser {
 public:
  explicit Parser(std::span<const char> bytes) : bytes_(bytes), image_(bytes) {}

  std::optional<ElfFile> Parse(std::string* why) {
    auto ident = image_.At<std::array<unsigned char, EI_NIDENT>>(0);
    if (!ident || std::memcmp(ident->data(), ELFMAG, SELFMAG) != 0)
      return No(why, OtherKind(bytes_));
    if ((*ident)[EI_CLASS] != ELFCLASS64 || (*ident)[EI_DATA] != ELFDATA2LSB) {
      return No(why, (*ident)[EI_CLASS] == ELFCLASS32 ? "a 32-bit ELF file, not a 64-bit one"
                                                      : "not a 64-bit little-endian ELF file");
    }
    auto header = image_.At<Elf64_Ehdr>(0);
    if (!header) return No(why, "an ELF file that was cut off");
    if (header->e_type == ET_REL) return No(why, "an object file, not linked yet");
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN) {
      return No(why, "an ELF file that is neither a program nor a library");
    }
    file_.machine = header->e_machine;
    if (!ReadSegments(*header)) return No(why, "an ELF file that is damaged or was cut off");
    ReadProperties();
    if (file_.is_static) return file_;
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
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMostSegments) return false;
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      auto segment = image_.At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return false;
      if (segment->p_type == PT_LOAD) {
        const bool whole = segment->p_offset <= bytes_.size() &&
                           segment->p_filesz <= bytes_.size() - segment->p_offset;
        if (!whole) return false;  // a copy or a download that ended early
        loads_.push_back(*segment);
      }
      if (segment->p_type == PT_DYNAMIC) dynamic = segment;
      if (segment->p_type == PT_GNU_PROPERTY) properties_ = *segment;
      if (segment->p_type == PT_INTERP) file_.interpreter = image_.Text(segment->p_offset);
    }
    if (loads_.empty()) return false;
    if (!dynamic) return file_.is_static = true;
    for (int i = 0; i < kMostEntries; ++i) {
      auto entry =
          image_.At<Elf64_Dyn>(dynamic->p_offset + static_cast<uint64_t>(i) * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      dynamic_.push_back(*entry);
    }
    strings_ = Offset(Value(DT_STRTAB));
    return strings_ != kNowhere;
  }

  // "Linux Extensions to gABI", program properties, and the x86-64 psABI's: a note of GNU's, in
  // which each property is a kind, a length and so many bytes, filled up to eight.
  void ReadProperties() {
    constexpr uint32_t kIsaNeeded = 0xc0008002;  // GNU_PROPERTY_X86_ISA_1_NEEDED
    struct Property {
      uint32_t kind, bytes;
    };
    constexpr uint64_t kName = 4;  // "GNU" and its end
    const auto note = image_.At<Elf64_Nhdr>(properties_.p_offset);
    if (properties_.p_type != PT_GNU_PROPERTY || file_.machine != EM_X86_64 || !note ||
        note->n_type != NT_GNU_PROPERTY_TYPE_0 || note->n_namesz != kName) {
      return;
    }
    const uint64_t begin = properties_.p_offset + sizeof(*note) + kName;
    for (uint64_t at = begin; at + sizeof(Property) <= begin + note->n_descsz;) {
      const auto property = image_.At<Property>(at);
      if (!property) return;
      const auto bits = image_.At<uint32_t>(at + sizeof(Property));
      if (property->kind == kIsaNeeded && bits) {
        file_.isa_level = std::min<int>(std::bit_width(*bits), kHighestIsaLevel);
      }
      at += sizeof(Property) + ((uint64_t{property->bytes} + 7) & ~uint64_t{7});
    }
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
  // Names may overlap, so that a small file could ask for gigabytes of them.
  std::string String(uint64_t at) {
    std::string text = text_bytes_ < kMostText ? image_.Text(strings_ + at) : "";
    text_bytes_ += text.size();
    return text;
  }

  void ReadEntry(const Elf64_Dyn& d) {
    if (d.d_tag == DT_SONAME) file_.soname = String(d.d_un.d_val);
    if (d.d_tag == DT_NEEDED) file_.needed.push_back(String(d.d_un.d_val));
    if (d.d_tag != DT_RUNPATH && d.d_tag != DT_RPATH) return;
    std::vector<std::string>& folders = d.d_tag == DT_RPATH ? file_.rpath : file_.runpath;
    const std::string path = String(d.d_un.d_val);
    for (size_t at = 0; !path.empty() && at <= path.size();) {
      size_t end = std::min(path.find(':', at), path.size());
      folders.push_back(path.substr(at, end - at));
      at = end + 1;
    }
  }

  void ReadDefined() {
    uint64_t at = Offset(Value(DT_VERDEF));
    if (at == kNowhere) return;
    file_.has_versions = true;
    for (size_t i = 0; i < kMostVersions; ++i) {
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
    for (size_t i = 0; i < kMostVersions; ++i) {
      auto need = image_.At<Elf64_Verneed>(at);
      if (!need) return;
      uint64_t entry = at + need->vn_aux;
      for (int k = 0; k < need->vn_cnt; ++k) {
        auto version = image_.At<Elf64_Vernaux>(entry);
        if (!version || file_.versions.size() >= kMostVersions) break;
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

  // The dynamic symbols have no count of their own: they end where the next table begins, at the
  // latest where their segment does. Linkers put the strings there, but patchelf, which repairs the
  // libraries of Python wheels, moves those elsewhere.
  uint64_t SymbolsEnd(uint64_t symbols) const {
    uint64_t end = bytes_.size();
    for (const Elf64_Phdr& load : loads_) {
      if (symbols >= load.p_offset && symbols - load.p_offset < load.p_filesz) {
        end = std::min(end, load.p_offset + load.p_filesz);
      }
    }
    for (int64_t tag :
         {DT_STRTAB, DT_VERSYM, DT_VERNEED, DT_VERDEF, DT_HASH, DT_GNU_HASH, DT_RELA, DT_REL,
          DT_JMPREL, DT_INIT, DT_FINI, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_PLTGOT}) {
      const uint64_t table = Offset(Value(tag));
      if (table != kNowhere && table > symbols) end = std::min(end, table);
    }
    return end;
  }

  void ReadSymbols() {
    uint64_t symbols = Offset(Value(DT_SYMTAB)), versions = Offset(Value(DT_VERSYM));
    if (symbols == kNowhere) return;
    uint64_t count =
        std::min<uint64_t>((SymbolsEnd(symbols) - symbols) / sizeof(Elf64_Sym), kMostEntries);
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

  std::span<const char> bytes_;
  Image image_;
  ElfFile file_;
  size_t text_bytes_ = 0;
  std::vector<Elf64_Phdr> loads_;
  std::vector<Elf64_Dyn> dynamic_;
  Elf64_Phdr properties_{};
  uint64_t strings_ = kNowhere;
  std::map<int, size_t> index_;  // of a symbol's version, into file_.versions
};

}  // namespace

std::optional<ElfFile> ParseElf(std::span<const char> bytes, std::string* why) {
  return Parser(bytes).Parse(why);
}

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_PPC64:
      return "PowerPC 64";
    case EM_RISCV:
      return "RISC-V";
    case EM_386:
      return "x86";
    default:
      return fmt::format("machine {}", machine);
  }
}

}  // namespace xp::doctor
