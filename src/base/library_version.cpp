#include "exp/base/library_version.h"

#include <dlfcn.h>

#include <memory>

#include "exp/base/answering_child.h"
#include "exp/base/cudnn_parts.h"
#include "exp/base/leading_integer.h"

namespace xp {
namespace {

std::string Joined(int64_t a, int64_t b) { return std::to_string(a) + "." + std::to_string(b); }

std::string Joined(int64_t a, int64_t b, int64_t c) {
  return Joined(a, b) + "." + std::to_string(c);
}

std::optional<int64_t> AskHere(const std::string& library, const std::string& name,
                               LibraryCall call) {
  const std::unique_ptr<void, int (*)(void*)> handle(
      ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL), ::dlclose);
  if (!handle || !MissingCudnnPart(handle.get()).empty()) return std::nullopt;
  void* function = ::dlsym(handle.get(), name.c_str());
  if (function == nullptr) return std::nullopt;
  if (call == LibraryCall::kSize) {
    return static_cast<int64_t>(reinterpret_cast<size_t (*)()>(function)());
  }
  int value = 0;
  const bool told = reinterpret_cast<int (*)(int*)>(function)(&value) == 0;
  return told ? std::optional<int64_t>(value) : std::nullopt;
}

}  // namespace

std::optional<int64_t> AskLibrary(const std::string& library, const std::string& name,
                                  LibraryCall call) {
  constexpr int kPatience = 5;  // seconds
  AnsweringChild child([&](const std::string&) {
    const std::optional<int64_t> value = AskHere(library, name, call);
    return value ? std::to_string(*value) : "";
  });
  return LeadingInteger(child.Ask("", kPatience).value_or(""));
}

std::string CudaVersionText(int64_t number) { return Joined(number / 1000, number % 1000 / 10); }

std::string CudnnVersionText(int64_t number) {
  const int64_t unit = number >= 90000 ? 10000 : 1000;
  return Joined(number / unit, number % unit / 100, number % 100);
}

std::string NcclVersionText(int64_t number) {
  const int64_t unit = number >= 10000 ? 10000 : 1000;
  return Joined(number / unit, number % unit / 100, number % 100);
}

}  // namespace xp
