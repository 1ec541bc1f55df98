// What version a shared library says it has: of CUDA's libraries, which are asked without linking
// to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace xp {

// `size_t name(void)`; `int name(int*)`, which gives 0 where it succeeds.
enum class LibraryCall { kSize, kInt };

// Loads a library (a path, or a name for the dynamic linker) and calls its function `name`, in a
// child process where one can be started: a library that isn't for this CPU, say, ends the process
// that loads it. nullopt where it doesn't load, has no such function, the function reports an
// error, or the process ends or hangs; also for a cuDNN that would end the program (cudnn_parts.h).
std::optional<int64_t> AskLibrary(const std::string& library, const std::string& name,
                                  LibraryCall call);

// As text, by how each numbers its versions.
std::string CudaVersionText(int64_t number);   // 13010 is 13.1
std::string CudnnVersionText(int64_t number);  // 91900 is 9.19.0; before 9, 8902 was 8.9.2
std::string NcclVersionText(int64_t number);   // 22809 is 2.28.9; before 2.9, 2804 was 2.8.4

}  // namespace xp
