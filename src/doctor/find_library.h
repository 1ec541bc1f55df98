// Where the dynamic linker would find a library; private to src/doctor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exp/doctor/system.h"

namespace xp::doctor {

// A run path, a folder of LD_LIBRARY_PATH or the name of a needed library with what ld.so(8) puts
// in place of $ORIGIN (the folder of the file that says it), $LIB and $PLATFORM. Empty where
// `origin` is and it would be needed: the loader drops such a folder.
std::string WithTokens(const System& system, const std::string& text, const std::string& origin);

// What a library or program that asks for another one adds to the search.
struct Search {
  std::vector<std::string> rpath, runpath;  // before LD_LIBRARY_PATH, and after it; tokens replaced
  uint16_t machine = 0;  // files for another one are passed over, as ld.so does; 0: any
  int isa_level = 0;     // of IsaLevel: builds for more are passed over; 0: all are
};

// In the order of ld.so(8): DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, /etc/ld.so.cache (where there is
// none, the folders of /etc/ld.so.conf), the usual ones; of each the builds for newer processors
// first (glibc-hwcaps). Empty: nowhere. A name with a slash is
// taken as a path.
std::string FindLibrary(const System& system, const std::string& soname, const Search& search = {});

// The kind of machine (EM_X86_64) that programs on this system are for; 0: not known.
uint16_t OwnMachine(const System& system);
// For a program of this system: not the 32-bit one that games brought along.
std::string FindOwnLibrary(const System& system, const std::string& soname);

}  // namespace xp::doctor
