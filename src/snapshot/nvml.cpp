#include "exp/snapshot/nvml.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <tuple>

#include "exp/base/answering_child.h"
#include "exp/base/leading_integer.h"
#include "src/snapshot/nvml_library.h"

namespace xp::snapshot {
namespace {

using nlohmann::json;

// With persistence mode off a driver starts each card when it is asked first.
constexpr int kPatienceToLoad = 30, kPatience = 5;  // seconds

// What NVML tells at its start, and whether that is the library that was asked for.
struct Begin {
  std::string why;  // it didn't load
  bool loaded = false;
  std::string driver, cuda_driver;
  int count = 0;
};

// The fields in the order in which they are handed from process to process.
template <class T>
auto Fields(T& t) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Begin>) {
    return std::tie(t.why, t.loaded, t.driver, t.cuda_driver, t.count);
  } else if constexpr (std::is_same_v<std::remove_const_t<T>, Nvml::Static>) {
    return std::tie(t.problem, t.name, t.uuid, t.major, t.minor, t.memory_bytes, t.persistence,
                    t.ecc, t.mig, t.power_limit_mw, t.power_limit_default_mw, t.power_limit_max_mw,
                    t.max_sm_mhz, t.max_memory_mhz, t.pcie_generation, t.pcie_width,
                    t.slowdown_celsius, t.compute_mode, t.mig_instances);
  } else if constexpr (std::is_same_v<std::remove_const_t<T>, Nvml::Faults>) {
    return std::tie(t.corrected, t.uncorrected, t.retired_pages, t.retirement_pending,
                    t.remapped_corrected, t.remapped_uncorrected, t.remap_pending, t.remap_failed);
  } else {
    return std::tie(t.problem, t.celsius, t.power_mw, t.sm_mhz, t.memory_mhz, t.gpu_percent,
                    t.memory_percent, t.pcie_generation, t.pcie_width, t.memory_used, t.throttle);
  }
}

template <class V>
void Put(json& list, const V& value) {
  list.push_back(value);
}

template <class V>
void Put(json& list, const std::optional<V>& value) {
  list.push_back(value ? json(*value) : json());
}

template <class V>
void Get(const json& item, V& value) {
  value = item.get<V>();
}

template <class V>
void Get(const json& item, std::optional<V>& value) {
  if (!item.is_null()) value = item.get<V>();
}

template <class T>
std::string ToText(const T& told) {
  json list = json::array();
  std::apply([&](const auto&... field) { (Put(list, field), ...); }, Fields(told));
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A library may have overwritten what it likes of the child's memory.
template <class T>
std::optional<T> FromText(const std::string& text) {
  const json list = json::parse(text, nullptr, false);
  T told;
  size_t i = 0;
  try {
    std::apply([&](auto&... field) { (Get(list.at(i++), field), ...); }, Fields(told));
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return told;
}

Begin LoadHere(std::shared_ptr<NvmlLibrary>& library) {
  Begin begin;
  library = NvmlLibrary::Load(&begin.why);
  if (!library) return begin;
  begin.loaded = true;
  begin.driver = library->driver();
  begin.cuda_driver = library->cuda_driver();
  begin.count = library->count();
  return begin;
}

// "describe 0", "card MIG-41b36413": the child's side.
std::string AnswerOf(std::shared_ptr<NvmlLibrary>& library, const std::string& question) {
  const size_t blank = question.find(' ');
  const std::string verb = question.substr(0, blank);
  if (verb == "load") return ToText(LoadHere(library));
  if (blank == std::string::npos || !library) return "";
  const std::string of = question.substr(blank + 1);
  if (verb == "card") return fmt::format("{}", library->CardOfMig(of).value_or(-1));
  if (verb == "place") return fmt::format("{}", library->CardAt(of).value_or(-1));
  const int index = static_cast<int>(LeadingInteger(of).value_or(-1));
  return verb == "describe" ? ToText(library->Describe(index))
         : verb == "errors" ? ToText(library->Errors(index))
                            : ToText(library->Take(index));
}

}  // namespace

// The child, and another one where it ended.
struct Nvml::Asked {
  std::mutex mutex;
  std::unique_ptr<AnsweringChild> child;
  int starts = 0;
  struct Failures {
    int count = 0;
    std::string problem;
  };
  std::map<int, Failures> failures;  // of cards

  Begin Start();
  void Revive();
  // Where one card ends or hangs the child, another child may tell of the other cards.
  std::string Ask(const std::string& question);
  // Empty where nothing is told of the card; `problem` says why.
  std::string AskOf(const char* verb, int card, std::string* problem);
  std::string Problem() const;
};

Begin Nvml::Asked::Start() {
  ++starts;
  child = std::make_unique<AnsweringChild>(
      [library = std::shared_ptr<NvmlLibrary>()](const std::string& question) mutable {
        return AnswerOf(library, question);
      });
  const std::string told = child->Ask("load", kPatienceToLoad).value_or("");
  Begin begin = FromText<Begin>(told).value_or(Begin());
  if (!begin.loaded && begin.why.empty()) begin.why = Problem();
  return begin;
}

std::string Nvml::Asked::Problem() const {
  return child->state() == AnsweringChild::State::kHangs
             ? "NVML doesn't answer: it hangs the process that asks it"
             : "NVML ends the process that asks it";
}

std::string Nvml::Asked::Ask(const std::string& question) {
  const std::lock_guard lock(mutex);
  Revive();
  return child->Ask(question, kPatience).value_or("");
}

std::string Nvml::Asked::AskOf(const char* verb, int card, std::string* problem) {
  constexpr int kMostFailures = 2;  // the first may be the driver's that was busy
  const std::lock_guard lock(mutex);
  Failures& failed = failures[card];
  if (failed.count < kMostFailures) {
    Revive();
    if (auto told = child->Ask(fmt::format("{} {}", verb, card), kPatience)) return *told;
    ++failed.count;
    failed.problem = Problem();
  }
  *problem = failed.problem;
  return "";
}

void Nvml::Asked::Revive() {
  constexpr int kMostStarts = 16;
  if (child->state() != AnsweringChild::State::kAnswers && starts < kMostStarts) Start();
}

Nvml::Nvml() : asked_(std::make_unique<Asked>()) {}
Nvml::~Nvml() = default;

std::shared_ptr<Nvml> Nvml::Load(std::string* why) {
  std::shared_ptr<Nvml> nvml(new Nvml);
  const Begin begin = nvml->asked_->Start();
  if (why) *why = begin.why;
  if (!begin.loaded) return nullptr;
  nvml->driver_ = begin.driver;
  nvml->cuda_driver_ = begin.cuda_driver;
  nvml->count_ = begin.count;
  return nvml;
}

std::shared_ptr<const Nvml::Loaded> Nvml::Shared() {
  static std::mutex mutex;
  static std::weak_ptr<const Loaded> in_use;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Loaded> loaded = in_use.lock();
  if (loaded) return loaded;
  auto fresh = std::make_shared<Loaded>();
  fresh->nvml = Load(&fresh->why);
  in_use = fresh;
  return fresh;
}

Nvml::Static Nvml::Describe(int device) const {
  Static none;
  return FromText<Static>(asked_->AskOf("describe", device, &none.problem)).value_or(none);
}

Nvml::Faults Nvml::Errors(int device) const {
  std::string problem;
  return FromText<Faults>(asked_->AskOf("errors", device, &problem)).value_or(Faults());
}

Nvml::Sample Nvml::Take(int device) const {
  Sample none;
  return FromText<Sample>(asked_->AskOf("take", device, &none.problem)).value_or(none);
}

std::optional<int> Nvml::CardOfMig(const std::string& uuid) const {
  const auto card = LeadingInteger(asked_->Ask("card " + uuid));
  return card && *card >= 0 ? std::optional(static_cast<int>(*card)) : std::nullopt;
}

std::optional<int> Nvml::CardAt(const std::string& pci_bus_id) const {
  const auto card = LeadingInteger(asked_->Ask("place " + pci_bus_id));
  return card && *card >= 0 ? std::optional(static_cast<int>(*card)) : std::nullopt;
}

}  // namespace xp::snapshot
