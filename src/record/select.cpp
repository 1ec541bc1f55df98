// RUN selectors: id, unique prefix, name, @, @~N.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exp/base/error.h"
#include "exp/base/utf8.h"
#include "exp/record/reader.h"
#include "src/record/sqlite.h"

namespace xp::record {
namespace {

struct Candidate {
  int64_t seq;
  std::string id, name;
  int64_t created_ns;
};

std::vector<Candidate> Find(const Database& db, const std::string& condition,
                            const std::string& text) {
  Statement s(db,
              "SELECT seq,id,name,created_ns FROM run WHERE " + condition + " ORDER BY seq DESC");
  std::vector<Candidate> out;
  for (s.Bind(1, text); s.Step();) out.push_back({s.Int(0), s.Text(1), s.Text(2), s.Int(3)});
  return out;
}

[[noreturn]] void Ambiguous(const std::string& selector, const std::vector<Candidate>& found) {
  std::string list;
  size_t shown = std::min<size_t>(found.size(), 10);
  for (size_t i = 0; i < shown; ++i) {
    list +=
        fmt::format("\n    {}  {}  {}", found[i].id, ShowTime(found[i].created_ns), found[i].name);
  }
  if (shown < found.size()) list += fmt::format("\n    and {} more", found.size() - shown);
  throw UsageError(
      {.what = fmt::format("`{}` could be any of {} runs:{}", selector, found.size(), list),
       .expected = "an id, or enough of its beginning",
       .next = "give more digits of the id"});
}

// "@" or "@~N"; another name may begin so, too.
bool CountsBack(const std::string& selector) {
  return selector == "@" || selector.starts_with("@~");
}

int64_t Newest(const Database& db, const std::string& selector) {
  int64_t back = 0;
  if (selector != "@") {
    const char *begin = selector.data() + 2, *end = selector.data() + selector.size();
    auto [p, error] = std::from_chars(begin, end, back);
    if (error != std::errc() || p != end || back < 0) {
      throw UsageError({.what = "`" + selector + "` names no run",
                        .expected = "@ for the newest run, @~1 for the one before",
                        .next = "`exp ls` lists them"});
    }
  }
  Statement s(db, "SELECT seq FROM run ORDER BY seq DESC LIMIT 1 OFFSET ?1");
  if (!s.Bind(1, back).Step()) {
    Statement count(db, "SELECT count(*) FROM run");
    count.Step();
    throw UsageError(
        {.what = fmt::format("`{}`: the store holds {} runs", selector, count.Int(0)),
         .where = db.file().string(),
         .next = count.Int(0) > 0 ? "`exp ls` lists them" : "`exp run CONFIG` makes one"});
  }
  return s.Int(0);
}

}  // namespace

int64_t ResolveRun(const Store& store, const std::string& given) {
  const Database& db = store.db();
  const std::string selector = ValidUtf8(given);  // as names are recorded
  if (CountsBack(selector)) return Newest(db, selector);
  std::vector<Candidate> exact = Find(db, "id=?1", selector);
  if (exact.size() == 1) return exact[0].seq;
  std::vector<Candidate> found = Find(db, "name=?1", selector);
  // A name in full is meant, not a digit or two of somebody's id.
  constexpr size_t kShortId = 4;
  bool names_only = !found.empty() && selector.size() < kShortId;
  bool hex = !names_only && !selector.empty() &&
             selector.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hex) {
    for (const Candidate& c : Find(db, "substr(id,1,length(?1))=?1", selector)) {
      bool known = std::any_of(found.begin(), found.end(), [&](auto& f) { return f.seq == c.seq; });
      if (!known) found.push_back(c);
    }
  }
  if (found.size() == 1) return found[0].seq;
  if (found.size() > 1) Ambiguous(selector, found);
  throw UsageError(
      {.what = "no run is called `" + selector + "`",
       .where = db.file().string(),
       .expected = "an id or its beginning, a name, @ for the newest, @~1 for the one before",
       .next = "`exp ls` lists them"});
}

}  // namespace xp::record
