#include "src/train/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "exp/base/error.h"

namespace xp::train::pickle {
namespace {

constexpr size_t kMaxValues = 2'000'000;
constexpr size_t kLongestName = 300;  // of a module and a function of it

class Machine {
 public:
  Machine(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  Document Run() {
    if (!bytes_.empty() && bytes_[0] != '\x80') throw Bad("it isn't of protocol 2, 3, 4 or 5");
    while (true) {
      at_ = next_;
      auto op = static_cast<unsigned char>(Take(1)[0]);
      if (op == '.') break;
      if (!Scalar(op) && !Container(op) && !Memo(op) && !Code(op)) {
        throw Bad(fmt::format("opcode 0x{:02x} is not known", op));
      }
    }
    document_.root = Pop();
    document_.end = next_;
    return std::move(document_);
  }

 private:
  Error Bad(const std::string& what) const {
    return UsageError(
        {.what = fmt::format("the pickle is malformed: {}", what),
         .where = fmt::format("{}: byte {}", where_, at_),
         .expected = "a state dict written by torch.save",
         .next = "write it again with torch.save(model.state_dict(), path), or as safetensors"});
  }

  // ---- bytes
  std::string_view Take(uint64_t count) {
    if (count > bytes_.size() - next_) throw Bad("it ends early");
    std::string_view piece = bytes_.substr(next_, count);
    next_ += count;
    return piece;
  }
  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view Line() {
    size_t end = bytes_.find('\n', next_);
    if (end == std::string_view::npos) throw Bad("it ends early");
    std::string_view line = Take(end - next_);
    next_ = end + 1;
    return line;
  }

  // ---- values and the stack
  Ref Add(Value value) {
    // A value takes much more memory than its byte in the file; real checkpoints have some ten
    // thousand.
    if (document_.values.size() >= kMaxValues) throw Bad("it has too many values");
    document_.values.push_back(std::move(value));
    return static_cast<Ref>(document_.values.size() - 1);
  }
  void Push(Ref ref) { stack_.push_back(ref); }
  void PushNew(Kind kind) { Push(Add({.kind = kind})); }
  void PushInt(int64_t value) { Push(Add({.kind = Kind::kInt, .integer = value})); }
  void PushText(std::string_view text) {
    Push(Add({.kind = Kind::kString, .text = std::string(text)}));
  }
  // The stack never goes below the newest mark by popping single values.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Ref Pop() {
    if (stack_.size() <= Floor()) throw Bad("a value is missing");
    Ref ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  Ref Top() const {
    if (stack_.size() <= Floor()) throw Bad("a value is missing");
    return stack_.back();
  }
  std::vector<Ref> PopToMark() {
    if (marks_.empty()) throw Bad("a mark is missing");
    std::vector<Ref> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                           stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<Ref> PopSome(size_t count) {
    std::vector<Ref> items(count);
    for (size_t i = count; i-- > 0;) items[i] = Pop();
    return items;
  }
  void PushItems(std::vector<Ref> items) {
    Push(Add({.kind = Kind::kList, .items = std::move(items)}));
  }

  // ---- opcodes, grouped; false: not one of the group
  bool Scalar(unsigned char op) {
    switch (op) {
      case 'N':
        PushNew(Kind::kNone);
        return true;
      case 0x88:
      case 0x89:
        Push(Add({.kind = Kind::kBool, .integer = op == 0x88}));
        return true;
      case 'J':
        PushInt(Number<int32_t>());
        return true;
      case 'K':
        PushInt(Number<uint8_t>());
        return true;
      case 'M':
        PushInt(Number<uint16_t>());
        return true;
      case 0x8a:
        Long(Number<uint8_t>());
        return true;
      case 0x8b:
        Long(Number<uint32_t>());
        return true;
      case 'G':
        BigEndianDouble();
        return true;
      case 'X':
      case 'T':
      case 'B':
        PushText(Take(Number<uint32_t>()));
        return true;
      case 0x8c:
      case 'U':
      case 'C':
        PushText(Take(Number<uint8_t>()));
        return true;
      case 0x8d:
      case 0x8e:
      case 0x96:
        PushText(Take(Number<uint64_t>()));
        return true;
      default:
        return false;
    }
  }

  // Little-endian two's complement. Longer numbers than 8 bytes (torch's magic number) keep their
  // bytes as text.
  void Long(uint32_t size) {
    std::string_view digits = Take(size);
    if (size > 8) return PushText(digits);
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; ++i)
      value |= uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    if (size > 0 && size < 8 && (digits[size - 1] & 0x80) != 0) value |= ~uint64_t{0} << (8 * size);
    PushInt(static_cast<int64_t>(value));
  }

  void BigEndianDouble() {
    uint64_t bits = 0;
    for (char c : Take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
    Push(Add({.kind = Kind::kFloat, .number = std::bit_cast<double>(bits)}));
  }

  bool Container(unsigned char op) {
    switch (op) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        if (!marks_.empty() && stack_.size() == marks_.back())
          marks_.pop_back();
        else
          Pop();
        return true;
      case '1':
        PopToMark();
        return true;
      case '}':
        PushNew(Kind::kDict);
        return true;
      case ']':
      case ')':
      case 0x8f:
        PushNew(Kind::kList);
        return true;
      case 't':
      case 'l':
      case 0x91:
        PushItems(PopToMark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        PushItems(PopSome(op - 0x84u));
        return true;
      case 'd': {
        std::vector<Ref> items = PopToMark();
        PushNew(Kind::kDict);
        SetItems(items);
        return true;
      }
      case 's':
        SetItems(PopSome(2));
        return true;
      case 'u':
        SetItems(PopToMark());
        return true;
      case 'a':
        Append(PopSome(1));
        return true;
      case 'e':
      case 0x90:
        Append(PopToMark());
        return true;
      default:
        return false;
    }
  }

  void SetItems(const std::vector<Ref>& items) {
    Value& target = document_.values[Top()];
    if (target.kind == Kind::kCall) return;  // what a dict-like object holds is not looked at
    if (target.kind != Kind::kDict || items.size() % 2 != 0)
      throw Bad("keys are set in what is no dict");
    for (size_t i = 0; i < items.size(); i += 2)
      target.entries.emplace_back(items[i], items[i + 1]);
  }

  void Append(const std::vector<Ref>& items) {
    Value& target = document_.values[Top()];
    if (target.kind == Kind::kCall) return;
    if (target.kind != Kind::kList) throw Bad("something is appended to what is no list");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  bool Memo(unsigned char op) {
    switch (op) {
      case 'q':
        memo_[Number<uint8_t>()] = Top();
        return true;
      case 'r':
        memo_[Number<uint32_t>()] = Top();
        return true;
      case 0x94: {
        Ref top = Top();
        memo_[static_cast<uint32_t>(memo_.size())] = top;
        return true;
      }
      case 'h':
        Recall(Number<uint8_t>());
        return true;
      case 'j':
        Recall(Number<uint32_t>());
        return true;
      case '2':
        Push(Top());
        return true;
      default:
        return false;
    }
  }
  void Recall(uint32_t key) {
    auto at = memo_.find(key);
    if (at == memo_.end()) throw Bad(fmt::format("memo {} was never set", key));
    Push(at->second);
  }

  // What pickle.py would import or call.
  bool Code(unsigned char op) {
    switch (op) {
      case 0x80:
        if (uint8_t protocol = Number<uint8_t>(); protocol < 2 || protocol > 5) {
          throw Bad(fmt::format("protocol {} is not read", protocol));
        }
        return true;
      case 0x95:
        Take(8);
        return true;  // a frame's length: for readers of streams
      case 'c': {
        std::string_view module = Line();
        PushGlobal(module, Line());
        return true;
      }
      case 0x93:
        StackGlobal();
        return true;
      case 'R':
      case 0x81:
        Call(PopSome(2));
        return true;
      case 0x92: {
        std::vector<Ref> parts = PopSome(3);
        Call({parts[0], parts[1]});
        return true;
      }
      case 'b':
        Pop();
        Top();
        return true;  // an object's attributes: torch's _metadata, of no use here
      case 'Q': {
        Ref id = Pop();
        Push(Add({.kind = Kind::kPersistent, .items = {id}}));
        return true;
      }
      default:
        return false;
    }
  }

  // The texts may have been recalled: a few bytes each time for a copy of both.
  void PushGlobal(std::string_view module, std::string_view name) {
    if (module.size() + name.size() > kLongestName) throw Bad("a global has no name");
    Push(Add({.kind = Kind::kGlobal, .text = fmt::format("{}.{}", module, name)}));
  }

  void StackGlobal() {
    std::vector<Ref> parts = PopSome(2);
    const Value &module = document_[parts[0]], &name = document_[parts[1]];
    if (module.kind != Kind::kString || name.kind != Kind::kString)
      throw Bad("a global has no name");
    PushGlobal(std::string(module.text), std::string(name.text));
  }

  void Call(std::vector<Ref> function_and_arguments) {
    if (document_[function_and_arguments[0]].text == "collections.OrderedDict") {
      return PushOrderedDict(function_and_arguments[1]);
    }
    Push(Add({.kind = Kind::kCall, .items = std::move(function_and_arguments)}));
  }

  // OrderedDict() is filled by later opcodes; Python 2 wrote OrderedDict([[key, value], ...]).
  void PushOrderedDict(Ref arguments) {
    Value dict{.kind = Kind::kDict};
    if (!document_[arguments].items.empty()) {
      const std::vector<Ref>& pairs = document_[document_[arguments].items[0]].items;
      // One list may be made a dict again and again.
      if ((copied_ += pairs.size()) > kMaxValues) throw Bad("it has too many values");
      for (Ref pair : pairs) {
        const std::vector<Ref>& entry = document_[pair].items;
        if (entry.size() == 2) dict.entries.emplace_back(entry[0], entry[1]);
      }
    }
    Push(Add(std::move(dict)));
  }

  std::string_view bytes_;
  const std::string& where_;
  size_t next_ = 0, at_ = 0;
  size_t copied_ = 0;  // entries that came from elsewhere
  Document document_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, Ref> memo_;
};

}  // namespace

const Value* Document::Find(const Value& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (auto entry = dict.entries.rbegin(); entry != dict.entries.rend(); ++entry) {
    const Value& name = values[entry->first];
    if (name.kind == Kind::kString && name.text == key) return &values[entry->second];
  }
  return nullptr;
}

std::string_view Document::Function(const Value& call) const {
  if (call.kind != Kind::kCall) return "";
  const Value& function = values[call.items[0]];
  return function.kind == Kind::kGlobal ? std::string_view(function.text) : "";
}

Document Parse(std::string_view bytes, const std::string& where) {
  return Machine(bytes, where).Run();
}

}  // namespace xp::train::pickle
