#include "exp/base/json_text.h"

#include <nlohmann/json.hpp>

#include "catch.h"

TEST_CASE("text of a document that may hold anything") {
  const auto document = nlohmann::json::parse(
      R"({"gpu": {"driver": "550.54", "count": 2, "list": [1, {"a": null}]}})");
  CHECK(xp::TextAt(document, "/gpu/driver") == "550.54");
  CHECK(xp::TextAt(document, "/gpu/count") == "2");
  CHECK(xp::TextAt(document, "/gpu/list/1") == R"({"a":null})");
  CHECK(xp::TextAt(document, "/gpu/list/7").empty());
  CHECK(xp::TextAt(document, "/gpu/driver/deeper").empty());
  CHECK(xp::TextAt(document, "/cpu").empty());
  CHECK(xp::TextAt(nlohmann::json(3), "/gpu").empty());
  CHECK(xp::TextAt(nlohmann::json::parse("{", nullptr, false), "/gpu").empty());
  CHECK(xp::TextAt({{"a", {"\xff"}}}, "/a") == "[\"\xEF\xBF\xBD\"]");
}
