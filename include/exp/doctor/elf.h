// What an ELF file (a program or a shared library) needs of others. Source: elf(5), and "Symbol
// Versioning" of the Linux Standard Base (.gnu.version_r, .gnu.version_d).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace xp::doctor {

struct NeededVersion {
  std::string file;                  // "libc.so.6"
  std::string version;               // "GLIBC_2.34"
  bool weak = false;                 // it is allowed to be missing
  std::vector<std::string> symbols;  // that are bound to it
};

struct ElfFile {
  uint16_t machine = 0;  // EM_X86_64 is 62
  std::string soname;
  std::vector<std::string> needed;   // libraries
  std::vector<std::string> folders;  // run path, as written ($ORIGIN not replaced)
  std::vector<NeededVersion> versions;
  std::vector<std::string> defined;  // versions that it offers
  // A 4-byte constant that it exports, such as cuDNN's parts do with their version.
  std::vector<std::pair<std::string, uint32_t>> constants;
};

// nullopt, with the reason in `why`, for bytes that are no 64-bit little-endian ELF file with a
// dynamic section. Any bytes are fine.
std::optional<ElfFile> ParseElf(std::span<const char> bytes, std::string* why);

}  // namespace xp::doctor
