// The members of Python's standard library that configs use.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "src/config/python/evaluator.h"

namespace xp::config::python {
namespace {

const std::set<std::string>& ModuleMembers() {
  static const std::set<std::string> names{
      "copy.deepcopy",    "copy.copy",         "collections.OrderedDict",
      "itertools.chain",  "itertools.product", "math.ceil",
      "math.floor",       "math.trunc",        "math.sqrt",
      "math.log",         "math.log2",         "math.log10",
      "math.log1p",       "math.exp",          "math.pow",
      "math.prod",        "math.gcd",          "math.sin",
      "math.cos",         "math.tan",          "math.atan",
      "math.atan2",       "math.fabs",         "math.hypot",
      "math.isnan",       "math.isinf",        "math.isclose",
      "math.factorial",   "math.radians",      "math.degrees",
      "os.path.join",     "os.path.basename",  "os.path.dirname",
      "os.path.splitext", "os.path.split",     "os.path.normpath",
      "os.path.isabs",    "os.path.abspath",   "os.path.expanduser",
      "os.getenv",        "os.environ.get",    "dict.fromkeys",
      "str.lower",        "str.upper",         "str.strip",
      "str.join",         "str.title",         "str.split",
      "str.format"};
  return names;
}

}  // namespace

namespace {

// os.path.normpath: two slashes in front stay two.
std::string NormalPath(const std::string& path) {
  const size_t slashes = std::min(path.find_first_not_of('/'), path.size());
  const std::string root(slashes == 2 ? 2 : std::min<size_t>(slashes, 1), '/');
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != ".." || (root.empty() && (parts.empty() || parts.back() == ".."))) {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string out = root;
  for (size_t i = 0; i < parts.size(); ++i) out += (i > 0 ? "/" : "") + parts[i];
  return out.empty() ? "." : out;
}

}  // namespace

bool Evaluator::IsModuleMember(const std::string& name) { return ModuleMembers().count(name) > 0; }

bool IsStandardModule(const std::string& module) {
  // sys.stdlib_module_names of CPython 3.11.
  static constexpr std::string_view kNames =
      " "
      "abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 "
      "bdb binascii bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs "
      "codeop collections colorsys compileall concurrent configparser contextlib contextvars "
      "copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis "
      "distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp "
      "fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob "
      "graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib "
      "inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma "
      "mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing "
      "netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev "
      "pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath "
      "pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri "
      "random re readline reprlib resource rlcompleter runpy sched secrets select selectors "
      "shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 "
      "sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct "
      "subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile "
      "termios textwrap this threading time timeit tkinter token tokenize tomllib trace "
      "traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu "
      "uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc "
      "zipapp zipfile zipimport zlib zoneinfo ";
  const std::string top = module.substr(0, module.find('.'));
  return kNames.find(" " + top + " ") != std::string_view::npos;
}

Value Evaluator::Module(const Ast& at, const std::string& name, Arguments& arguments) {
  auto& given = arguments.positional;
  if (name == "copy.deepcopy" || name == "copy.copy") {
    Need(at, arguments, 1, 1, name);
    Copies copies;
    if (name == "copy.deepcopy") return DeepCopy(at, given[0], copies);
    Value copy = given[0];
    if (copy.type == Type::kIterator || copy.IsView())
      Fail(at, fmt::format("{} can't be copied", WithArticle(copy.type)));
    if (copy.IsSequence()) {
      Charge(at, copy.list->items.size() * sizeof(Value));
      copy.list = ListLike(copy, copy.list->items).list;
    }
    if (copy.type == Type::kDict || copy.type == Type::kSet) {
      copy.dict = DictLike(*copy.dict).dict;
      if (copy.type == Type::kSet) {
        AddAll(at, copy, given[0]);
      } else {
        UpdateDict(at, *copy.dict, given[0], false);
      }
    }
    return copy;
  }
  if (name == "collections.OrderedDict") return MakeDict(at, name, arguments);
  if (name == "itertools.chain") {
    std::vector<Value> items;
    Need(at, arguments, 0, SIZE_MAX, name);
    for (const Value& part : given) {
      for (Value& item : Iterate(at, part)) items.push_back(std::move(item));
    }
    return Iterator(std::move(items));
  }
  if (name == "itertools.product") {
    const std::optional<Value> repeat = Keyword(arguments, "repeat");
    Need(at, arguments, 0, SIZE_MAX, name);
    if (repeat && (!repeat->IsIntegral() || repeat->AsInt() < 0 || repeat->AsInt() > 100))
      Fail(at, "itertools.product() repeats an int of times, up to 100");
    std::vector<std::vector<Value>> columns;
    columns.reserve(given.size());
    for (const Value& part : given) columns.push_back(Iterate(at, part));
    const size_t once = columns.size();
    const auto times = static_cast<size_t>(repeat ? repeat->AsInt() : 1);
    columns.resize(times == 0 ? 0 : once);
    for (size_t i = 1; i < times; ++i) {
      for (size_t column = 0; column < once; ++column) columns.emplace_back(columns[column]);
    }
    std::vector<std::vector<Value>> rows{{}};
    for (const std::vector<Value>& items : columns) {
      std::vector<std::vector<Value>> longer;
      Charge(at, rows.size() * items.size() * (columns.size() + 1) * sizeof(Value));
      for (const auto& row : rows) {
        for (const Value& item : items) {
          longer.push_back(row);
          longer.back().push_back(item);
        }
      }
      rows = std::move(longer);
    }
    std::vector<Value> tuples;
    tuples.reserve(rows.size());
    for (auto& row : rows) tuples.push_back(arena_.List(std::move(row), Type::kTuple));
    return Iterator(std::move(tuples));
  }
  if (name == "dict.fromkeys") {
    Need(at, arguments, 1, 2, name);
    Value dict = arena_.Dict();
    for (const Value& key : Iterate(at, given[0]))
      SetKey(at, *dict.dict, key, given.size() == 2 ? given[1] : Value::None());
    return dict;
  }
  if (name.rfind("str.", 0) == 0) {
    if (given.empty() || given[0].type != Type::kString) Fail(at, name + "() takes a string");
    Arguments rest{{given.begin() + 1, given.end()}, arguments.keywords};
    return StringMethod(at, name.substr(4), given[0], rest);
  }
  if (name.rfind("os.path.", 0) == 0) return Path(at, name, arguments);
  if (name.rfind("os.", 0) == 0) return Environment(at, name, arguments);
  return Mathematics(at, name, arguments);
}

Value Evaluator::Environment(const Ast& at, const std::string& name, Arguments& arguments) {
  PutKeyword(arguments, "default", 1);
  Need(at, arguments, 1, 2, name);
  const auto& given = arguments.positional;
  if (given[0].type != Type::kString) Fail(at, name + "() takes a name");
  const char* value = std::getenv(given[0].Text().c_str());
  if (value != nullptr) return Value::String(value);
  return given.size() == 2 ? given[1] : Value::None();
}

// os.path, as text: no file is looked at.
Value Evaluator::Path(const Ast& at, const std::string& name, Arguments& arguments) {
  const auto& given = arguments.positional;
  std::string path;
  for (const Value& part : given) {
    if (part.type != Type::kString) Fail(at, name + "() takes strings");
    if (!part.Text().empty() && part.Text()[0] == '/') path.clear();
    path += (path.empty() || path.back() == '/' ? "" : "/") + part.Text();
  }
  Need(at, arguments, 1, name == "os.path.join" ? 100 : 1, name);
  const size_t slash = path.rfind('/');
  const std::string base = slash == std::string::npos ? path : path.substr(slash + 1);
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  if (folder.find_first_not_of('/') != std::string::npos)
    folder.erase(folder.find_last_not_of('/') + 1);
  if (name == "os.path.join") return Value::String(path);
  if (name == "os.path.basename") return Value::String(base);
  if (name == "os.path.dirname") return Value::String(folder);
  if (name == "os.path.isabs") return Value::Bool(!path.empty() && path[0] == '/');
  auto pair = [&](const std::string& a, const std::string& b) {
    return arena_.List({Value::String(a), Value::String(b)}, Type::kTuple);
  };
  if (name == "os.path.split") return pair(folder, base);
  if (name == "os.path.splitext") {
    size_t name_start = std::min(base.find_first_not_of('.'), base.size());
    size_t dot = base.rfind('.');
    if (dot == std::string::npos || dot < name_start) return pair(path, "");
    dot += path.size() - base.size();
    return pair(path.substr(0, dot), path.substr(dot));
  }
  if (name == "os.path.expanduser") {
    if (path.empty() || path[0] != '~') return Value::String(path);
    const char* home = std::getenv("HOME");
    if (home == nullptr || (path.size() > 1 && path[1] != '/'))
      Fail(at, fmt::format("whose home `{}` means isn't known", path), "write the path out");
    std::string expanded = home;
    expanded.erase(expanded.find_last_not_of('/') + 1);
    expanded += path.substr(1);
    return Value::String(expanded.empty() ? "/" : expanded);
  }
  if (name == "os.path.abspath" && !path.starts_with('/')) {
    std::error_code error;
    const std::string here = std::filesystem::current_path(error).string();
    if (error) Fail(at, "the working directory can't be told: " + error.message());
    path = here + "/" + path;
  }
  return Value::String(NormalPath(path));
}

}  // namespace xp::config::python
