// Why an image isn't found by its name.
#pragma once

#include <atomic>
#include <string>

namespace xp::data {

// What people get wrong about names, said where it would help: " (but b.jpg is there)", or "".
// `name` as an annotation file has it, for which there is no file below `prefix`. Folders may be
// large: each that is looked through is one off `looks`, down to none.
std::string NameHint(const std::string& prefix, const std::string& name, std::atomic<int>* looks);

}  // namespace xp::data
