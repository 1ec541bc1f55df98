#include "exp/train/pth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>

#include "exp/base/error.h"
#include "src/train/pickle.h"
#include "src/train/pth_storage.h"

namespace xp::train {
namespace {

using pickle::Document;
using pickle::Kind;
using pickle::Value;

constexpr uint64_t kMostShared = 16;
constexpr size_t kListed = 8;

// Where a tensor lies in its storage, in elements.
struct Layout {
  std::string storage;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  bool contiguous = true;
  int64_t end = 0;  // behind the last one that it shows
};

// torch's storage classes, and torch.storage.UntypedStorage's dtypes in _rebuild_tensor_v3.
std::optional<ElementType> StorageType(std::string_view name) {
  static const std::map<std::string_view, ElementType> kTypes = {
      {"torch.DoubleStorage", ElementType::kF64}, {"torch.FloatStorage", ElementType::kF32},
      {"torch.HalfStorage", ElementType::kF16},   {"torch.BFloat16Storage", ElementType::kBF16},
      {"torch.LongStorage", ElementType::kI64},   {"torch.IntStorage", ElementType::kI32},
      {"torch.ShortStorage", ElementType::kI16},  {"torch.CharStorage", ElementType::kI8},
      {"torch.ByteStorage", ElementType::kU8},    {"torch.BoolStorage", ElementType::kBool}};
  for (std::string_view module :
       {"torch.cuda.", "torch.storage."}) {  // saved from a GPU by old versions
    if (name.starts_with(module))
      return StorageType("torch." + std::string(name.substr(module.size())));
  }
  auto at = kTypes.find(name);
  return at == kTypes.end() ? std::nullopt : std::optional(at->second);
}

// Reads tensors out of a pickled object.
class StateDict {
 public:
  StateDict(const Document& document, std::string path) : doc_(document), path_(std::move(path)) {}

  // The dict that holds tensors by name: under one of the usual keys, the object itself, or the
  // only one that lies deeper in it, averages aside.
  const Value& Locate() const {
    const Value& root = doc_[doc_.root];
    for (const char* key : {"state_dict", "model", "model_state_dict"}) {
      const Value* inner = doc_.Find(root, key);
      if (inner != nullptr && HasTensors(*inner)) return *inner;
    }
    if (HasTensors(root)) return root;
    Search search;
    FindStateDicts(root, "", 3, &search);
    const std::vector<Candidate>& found = search.found;
    std::vector<Candidate> trained;
    std::copy_if(found.begin(), found.end(), std::back_inserter(trained),
                 [](const Candidate& c) { return !NamesAverage(c.path); });
    if (trained.size() == 1) return *trained[0].dict;
    if (found.size() == 1) return *found[0].dict;
    throw found.empty() ? NoStateDict(root) : SeveralStateDicts(found);
  }

  void ReadTensors(const Value& dict, std::vector<TensorInfo>* infos,
                   std::map<std::string, Layout>* layouts,
                   std::vector<UnreadTensor>* unread) const {
    std::set<std::string_view> names;
    for (const auto& [key, item] : dict.entries) {
      if (doc_[key].kind != Kind::kString) continue;
      const Value* tensor = AsTensor(doc_[item]);
      if (tensor == nullptr && !IsOtherTensor(doc_[item])) continue;
      TensorInfo info;
      info.name = doc_[key].text;
      if (!names.insert(doc_[key].text).second) throw Bad(info.name, "is there twice");
      try {
        if (tensor == nullptr) throw OtherTensor(info.name, doc_[item]);
        Layout layout = ReadLayout(*tensor, &info);
        layouts->emplace(info.name, std::move(layout));
        infos->push_back(std::move(info));
      } catch (const UnreadTensor& other) {
        unread->push_back(other);
      }
    }
  }

  void ReadMetadata(std::map<std::string, std::string>* metadata) const {
    for (const auto& [key, item] : doc_[doc_.root].entries) {
      const Value& value = doc_[item];
      if (doc_[key].kind != Kind::kString || value.text.size() > 1000) continue;
      if (value.kind == Kind::kInt) (*metadata)[doc_[key].text] = std::to_string(value.integer);
      if (value.kind == Kind::kFloat) (*metadata)[doc_[key].text] = fmt::format("{}", value.number);
      if (value.kind == Kind::kString && IsPlainText(value.text))
        (*metadata)[doc_[key].text] = value.text;
    }
  }

 private:
  struct Candidate {
    std::string path;  // ["a"]["b"], as Python says it
    const Value* dict;
  };

  // A dict may lie in many others, or in itself: each is looked into once at each depth.
  struct Search {
    std::vector<Candidate> found;
    std::map<const Value*, bool> has_layers;
    std::set<std::pair<const Value*, int>> entered;
  };

  // Dicts of tensors with names of layers (an optimizer's state has none) inside of `value`.
  void FindStateDicts(const Value& value, const std::string& path, int depth,
                      Search* search) const {
    if (value.kind != Kind::kDict || !search->entered.emplace(&value, depth).second) return;
    for (const auto& [key, item] : value.entries) {
      if (search->found.size() > kListed) return;
      const Value& inner = doc_[item];
      if (doc_[key].kind != Kind::kString || inner.kind != Kind::kDict ||
          doc_[key].text.size() > 100)
        continue;
      const std::string at = fmt::format("{}[\"{}\"]", path, doc_[key].text);
      auto [known, added] = search->has_layers.emplace(&inner, false);
      if (added && HasLayers(inner)) {
        known->second = true;
        search->found.push_back({at, &inner});
      }
      if (!known->second && depth > 1) FindStateDicts(inner, at, depth - 1, search);
    }
  }

  bool HasLayers(const Value& dict) const {
    bool layers = std::any_of(dict.entries.begin(), dict.entries.end(), [&](const auto& e) {
      return doc_[e.first].kind == Kind::kString &&
             doc_[e.first].text.find('.') != std::string::npos;
    });
    return layers && HasTensors(dict);
  }

  Error SeveralStateDicts(const std::vector<Candidate>& found) const {
    std::string list;
    for (const Candidate& c : found)
      list += fmt::format("\n    {} ({} entries)", c.path, c.dict->entries.size());
    return UsageError({.what = "holds several state dicts:" + list,
                       .where = path_,
                       .expected = "one",
                       .next = fmt::format("save the one that is meant: "
                                           "torch.save(torch.load(path){}, new_path)",
                                           found[0].path)});
  }

  // What is there instead, an object of somebody's class above all: only its own code can read it.
  Error NoStateDict(const Value& root) const {
    std::string what = "holds no state dict", held;
    std::string_view function = doc_.Function(root);
    std::string next = "save it with torch.save(model.state_dict(), path)";
    if (!function.empty()) {
      what = fmt::format("holds an object of `{}`", function);
    } else if (root.kind == Kind::kDict) {
      size_t shown = 0;
      for (const auto& [key, item] : root.entries) {
        if (doc_[key].kind != Kind::kString || doc_[key].text.size() > 100) continue;
        if (++shown > kListed) break;
        std::string_view object = doc_.Function(doc_[item]);
        held += fmt::format("{}`{}`{}", held.empty() ? "" : ", ", doc_[key].text,
                            object.empty() ? "" : fmt::format(" (an object of `{}`)", object));
        if (!object.empty() && next.find('[') == std::string::npos)
          next = fmt::format(
              "in the program that wrote it: "
              "torch.save(torch.load(path)[\"{}\"].state_dict(), new_path)",
              doc_[key].text);
      }
      if (!held.empty()) what += ", but " + held;
    }
    return UsageError({.what = std::move(what),
                       .where = path_,
                       .expected = "a dict of tensors by name, or one inside of dicts",
                       .next = std::move(next)});
  }

  Error Bad(const std::string& name, const std::string& what, std::string expected = {}) const {
    return UsageError({.what = what,
                       .where = fmt::format("{}: tensor `{}`", path_, name),
                       .expected = std::move(expected),
                       .next = "write the file again with torch.save(model.state_dict(), path)"});
  }

  static bool IsPlainText(const std::string& text) {
    return std::all_of(text.begin(), text.end(),
                       [](unsigned char c) { return c >= 0x20 && c < 0x7F; });
  }

  // The arguments of the call that rebuilds a tensor, also where a Parameter or a type of its own
  // (`_rebuild_from_type_v2`: a tensor with attributes) is wrapped around it; null for anything
  // else.
  const Value* AsTensor(const Value& value) const {
    const Value* call = &value;
    std::string_view function = doc_.Function(value);
    if (function == "torch._utils._rebuild_parameter" ||
        function == "torch._utils._rebuild_parameter_with_state") {
      const Value& arguments = doc_[value.items[1]];
      if (arguments.kind != Kind::kList || arguments.items.empty()) return nullptr;
      call = &doc_[arguments.items[0]];
      function = doc_.Function(*call);
    }
    if (function == "torch._tensor._rebuild_from_type_v2") {
      // (function, type, its arguments, attributes)
      const Value& arguments = doc_[call->items[1]];
      if (arguments.kind != Kind::kList || arguments.items.size() < 3) return nullptr;
      bool dense = IsRebuild(doc_[arguments.items[0]].text) &&
                   doc_[arguments.items[0]].kind == Kind::kGlobal;
      return dense ? &doc_[arguments.items[2]] : nullptr;
    }
    return IsRebuild(function) ? &doc_[call->items[1]] : nullptr;
  }

  static bool IsRebuild(std::string_view function) {
    return function == "torch._utils._rebuild_tensor_v2" ||
           function == "torch._utils._rebuild_tensor";
  }

  bool IsOtherTensor(const Value& value) const {
    std::string_view function = doc_.Function(value);
    return function.starts_with("torch._utils._rebuild_") ||
           function.starts_with("torch._tensor._rebuild_");
  }

  // Why a tensor isn't read; thrown, as it may be found deep in its description.
  static UnreadTensor Unread(
      const std::string& name, std::string kind,
      std::string expected = "a dense tensor of floats, integers or bools that is not quantised",
      std::string next = "write the file again with a tensor of such a kind in its place") {
    return {.name = name,
            .kind = std::move(kind),
            .expected = std::move(expected),
            .next = std::move(next)};
  }

  UnreadTensor OtherTensor(const std::string& name, const Value& value) const {
    std::string_view function = doc_.Function(value);
    if (function == "torch._utils._rebuild_tensor_v3") {
      // (storage, offset, size, stride, requires_grad, backward_hooks, dtype): of types without a
      // storage class.
      const Value& arguments = doc_[value.items[1]];
      const bool complete = arguments.kind == Kind::kList && arguments.items.size() > 6 &&
                            doc_[arguments.items[6]].kind == Kind::kGlobal;
      if (complete) return Unread(name, "has dtype " + doc_[arguments.items[6]].text);
    }
    std::string kind = fmt::format("is made by `{}`", function);
    if (function != "torch._utils._rebuild_qtensor") return Unread(name, std::move(kind));
    return Unread(name, std::move(kind),
                  "a dense tensor of floats, integers or bools that is not quantised",
                  "save the weights from before the quantisation, or each quantised tensor's "
                  ".dequantize()");
  }

  bool HasTensors(const Value& dict) const {
    if (dict.kind != Kind::kDict) return false;
    return std::any_of(dict.entries.begin(), dict.entries.end(), [&](const auto& entry) {
      const Value& value = doc_[entry.second];
      return doc_[entry.first].kind == Kind::kString &&
             (AsTensor(value) != nullptr || IsOtherTensor(value));
    });
  }

  std::vector<int64_t> Integers(const std::string& name, const Value& list) const {
    constexpr size_t kMostDimensions = 64;  // torch's
    if (list.items.size() > kMostDimensions)
      throw Bad(name, fmt::format("has {} dimensions", list.items.size()), "at most 64");
    std::vector<int64_t> values;
    for (pickle::Ref item : list.items) {
      if (doc_[item].kind != Kind::kInt || doc_[item].integer < 0)
        throw Bad(name, "its size is no list of numbers");
      values.push_back(doc_[item].integer);
    }
    return values;
  }

  // _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks[,
  // metadata])
  Layout ReadLayout(const Value& arguments, TensorInfo* info) const {
    if (arguments.kind != Kind::kList || arguments.items.size() < 4)
      throw Bad(info->name, "is not described");
    const Value& storage = doc_[arguments.items[0]];
    const Value& offset = doc_[arguments.items[1]];
    if (storage.kind != Kind::kPersistent || offset.kind != Kind::kInt || offset.integer < 0) {
      throw Bad(info->name, "has no storage");
    }
    // The metadata says that the stored numbers are to be negated or conjugated.
    if (arguments.items.size() > 6 && !doc_[arguments.items[6]].entries.empty()) {
      throw Unread(info->name, "is a view with its sign or conjugation still to be applied",
                   "a tensor after .resolve_neg() and .resolve_conj()");
    }
    Layout layout;
    layout.offset = offset.integer;
    info->shape = Integers(info->name, doc_[arguments.items[2]]);
    layout.strides = Integers(info->name, doc_[arguments.items[3]]);
    int64_t length = ReadStorage(doc_[storage.items[0]], info, &layout);
    CheckExtent(*info, &layout, length);
    return layout;
  }

  // ('storage', storage class, key, location, number of elements); the older layout adds a view.
  int64_t ReadStorage(const Value& id, TensorInfo* info, Layout* layout) const {
    bool complete = id.kind == Kind::kList && id.items.size() >= 5;
    if (!complete || doc_[id.items[2]].kind != Kind::kString ||
        doc_[id.items[4]].kind != Kind::kInt) {
      throw Bad(info->name, "its storage is not described");
    }
    if (id.items.size() > 5 && doc_[id.items[5]].kind != Kind::kNone) {
      throw Unread(info->name, "has a storage that is a view of another (PyTorch before 0.4)",
                   "a tensor with a storage of its own", "load and save it with a newer PyTorch");
    }
    std::optional<ElementType> type = StorageType(doc_[id.items[1]].text);
    if (!type) {
      throw Unread(info->name, fmt::format("has the storage `{}`", doc_[id.items[1]].text));
    }
    info->type = *type;
    layout->storage = doc_[id.items[2]].text;
    return doc_[id.items[4]].integer;
  }

  // The tensor must lie in its storage and must not repeat it: what is read stays below the file's
  // size.
  void CheckExtent(const TensorInfo& info, Layout* layout, int64_t storage_length) const {
    if (layout->strides.size() != info.shape.size())
      throw Bad(info.name, "size and stride differ in length");
    int64_t count = 1, last = layout->offset, expected_stride = 1;
    bool overflow = false, empty = false;
    for (size_t i = info.shape.size(); i-- > 0;) {
      int64_t size = info.shape[i], stride = layout->strides[i], reach = 0;
      empty |= size == 0;
      if (size > 1 && stride != expected_stride) layout->contiguous = false;
      overflow |= __builtin_mul_overflow(count, size, &count);
      overflow |=
          __builtin_mul_overflow(expected_stride, std::max<int64_t>(size, 1), &expected_stride);
      overflow |= __builtin_mul_overflow(std::max<int64_t>(size - 1, 0), stride, &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
    if (empty && !overflow) return;
    if (overflow || last >= storage_length) {
      throw Bad(info.name, fmt::format("{} leaves its storage of {} elements",
                                       ShapeText(info.shape), storage_length));
    }
    layout->end = last + 1;
    if (count > storage_length) {
      throw Unread(info.name, "is expanded: it shows elements of its storage several times",
                   "a tensor of its own", "write the file again with the tensor's .clone()");
    }
  }

  const Document& doc_;
  std::string path_;
};

class PthFile : public TensorFile {
 public:
  PthFile(const std::filesystem::path& path, std::unique_ptr<PthStorage> storage)
      : storage_(std::move(storage)) {
    path_ = path.string();
    format_ = storage_->format();
    StateDict state(storage_->document(), path_);
    state.ReadTensors(state.Locate(), &tensors_, &layouts_, &unread_);
    CheckStorages();
    state.ReadMetadata(&metadata_);
    SortByName();
  }

  std::vector<std::byte> Read(const TensorInfo& info) const override {
    const Layout& layout = layouts_.at(info.name);
    const size_t size = ElementSize(info.type);
    if (info.elements() == 0) return {};
    if (layout.contiguous) {
      return storage_->Read(layout.storage, static_cast<uint64_t>(layout.offset) * size,
                            info.bytes());
    }
    return Gather(info, layout, size);
  }

 private:
  // The pickle says how long storages are; what counts is what the file holds. Tied weights share a
  // storage, but a small file whose tensors all show the same one would be far larger written out.
  void CheckStorages() const {
    uint64_t bytes = 0;
    for (const TensorInfo& tensor : tensors_) {
      const Layout& layout = layouts_.at(tensor.name);
      if (layout.end == 0) continue;  // without elements
      const uint64_t held = storage_->Size(layout.storage) / ElementSize(tensor.type);
      const auto needed = static_cast<uint64_t>(std::max(layout.end, tensor.elements()));
      if (needed > held) {
        throw UsageError(
            {.what = fmt::format("{} needs {} elements of storage {}, which has {}",
                                 ShapeText(tensor.shape), needed, layout.storage, held),
             .where = fmt::format("{}: tensor `{}`", path_, tensor.name),
             .next = "the file is damaged; fetch or write it again"});
      }
      bytes += tensor.bytes();  // no more than the file has
    }
    const uint64_t file = std::filesystem::file_size(path_);
    if (bytes / kMostShared <= file) return;
    throw UsageError({.what = fmt::format("its {} tensors share storages: written out they have {} "
                                          "bytes, {} times the file",
                                          tensors_.size(), bytes, bytes / file),
                      .where = path_,
                      .expected = "tensors of their own, but for tied weights",
                      .next = "write it again with a .clone() of each tensor"});
  }

  // A view that isn't contiguous: reads the part of the storage that it spans.
  std::vector<std::byte> Gather(const TensorInfo& info, const Layout& layout, size_t size) const {
    int64_t span = 1;
    for (size_t i = 0; i < info.shape.size(); ++i) span += (info.shape[i] - 1) * layout.strides[i];
    std::vector<std::byte> part =
        storage_->Read(layout.storage, static_cast<uint64_t>(layout.offset) * size,
                       static_cast<size_t>(span) * size);
    std::vector<std::byte> out(info.bytes());
    std::vector<int64_t> index(info.shape.size(), 0);
    int64_t from = 0;
    for (size_t to = 0; to < out.size(); to += size) {
      std::memcpy(out.data() + to, part.data() + static_cast<size_t>(from) * size, size);
      for (size_t d = index.size(); d-- > 0;) {
        from += layout.strides[d];
        if (++index[d] < info.shape[d]) break;
        from -= layout.strides[d] * info.shape[d];
        index[d] = 0;
      }
    }
    return out;
  }

  std::unique_ptr<PthStorage> storage_;
  std::map<std::string, Layout> layouts_;
};

}  // namespace

std::unique_ptr<TensorFile> OpenPth(const std::filesystem::path& path) {
  return std::make_unique<PthFile>(path, OpenPthStorage(path));
}

}  // namespace xp::train
