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
  uint16_t machine = 0;     // EM_X86_64 is 62
  bool is_static = false;   // it has no dynamic section: it needs no library
  std::string interpreter;  // of a program: "/lib64/ld-linux-x86-64.so.2"
  std::string soname;
  std::vector<std::string> needed;  // libraries
  // Folders to look in, as written ($ORIGIN not replaced; empty: the working directory): DT_RPATH,
  // which also holds for what the libraries need, and DT_RUNPATH, beside which the former counts
  // nothing.
  std::vector<std::string> rpath, runpath;
  std::vector<NeededVersion> versions;
  // The level of x86-64 without which the loader refuses it (its GNU property note); 0: not said.
  int isa_level = 0;
  bool has_versions = false;         // it says which it offers
  std::vector<std::string> defined;  // versions that it offers
  // A 4-byte constant that it exports, such as cuDNN's parts do with their version.
  std::vector<std::pair<std::string, uint32_t>> constants;
};

// nullopt, with what they are instead in `why`, for bytes that are no 64-bit little-endian program
// or library. Any bytes are fine: neither time nor memory grows beyond what real files need.
std::optional<ElfFile> ParseElf(std::span<const char> bytes, std::string* why);

std::string MachineName(uint16_t machine);  // "x86-64", "AArch64", "machine 4711"

}  // namespace xp::doctor
