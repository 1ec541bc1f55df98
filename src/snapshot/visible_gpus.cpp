// Which of NVML's cards CUDA sees.
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "exp/snapshot/nvml.h"

namespace xp::snapshot {
namespace {

// The card that a word of CUDA_VISIBLE_DEVICES names. A MIG instance is "MIG-" and its uuid, with
// drivers before 470 "MIG-GPU-<uuid of the card>/1/0".
std::optional<int> CardNamed(const Nvml& nvml, const std::string& word) {
  constexpr std::string_view kMig = "MIG-", kOldMig = "MIG-GPU-";
  if (word.starts_with(kMig) && !word.starts_with(kOldMig)) return nvml.CardOfMig(word);
  const bool old_mig = word.starts_with(kOldMig);
  const std::string name = old_mig ? word.substr(kMig.size(), word.find('/') - kMig.size()) : word;
  for (int i = 0; i < nvml.count(); ++i) {
    if (name == std::to_string(i)) return i;
    if (name.starts_with("GPU-") && nvml.Describe(i).uuid.starts_with(name)) return i;
  }
  return std::nullopt;
}

std::vector<int> Listed(const Nvml& nvml, const std::string& variable) {
  std::vector<int> out;
  std::istringstream words(variable);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t first = word.find_first_not_of(" \t");
    const std::optional<int> card =
        first == std::string::npos ? std::nullopt : CardNamed(nvml, word.substr(first));
    if (!card) break;  // what stands behind an invalid one isn't visible either
    out.push_back(*card);
  }
  return out;
}

}  // namespace

std::vector<int> VisibleGpus(const Nvml& nvml) {
  std::vector<int> all(static_cast<size_t>(nvml.count()));
  std::iota(all.begin(), all.end(), 0);
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> visible = variable ? Listed(nvml, variable) : all;
  for (int card : visible) {
    if (nvml.Describe(card).mig_instances > 0) return {card};
  }
  return visible;
}

std::optional<int> CardOfCuda(const Nvml& nvml, int cuda, const std::string& pci_bus_id) {
  if (cuda < 0) return std::nullopt;
  std::optional<int> card = pci_bus_id.empty() ? std::nullopt : nvml.CardAt(pci_bus_id);
  if (card) return card;
  const std::vector<int> visible = VisibleGpus(nvml);
  const auto i = static_cast<size_t>(cuda);
  return i < visible.size() ? std::optional(visible[i]) : std::nullopt;
}

}  // namespace xp::snapshot
