// cuDNN 9 is a small libcudnn.so.9 that loads its parts when they are needed, and ends the program
// where one can't be loaded (missing, damaged, no memory left).
#pragma once

#include <string>

namespace xp {

// Empty where the loaded libcudnn can be asked for its version; else why not. `library`: from
// dlopen. Other versions than 9 have no such part: empty. The part stays loaded.
std::string MissingCudnnPart(void* library);

}  // namespace xp
