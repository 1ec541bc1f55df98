#include "exp/base/leading_integer.h"

#include "catch.h"

TEST_CASE("the number that a text begins with") {
  using xp::LeadingInteger;
  CHECK(LeadingInteger(" \t4096 kB\n") == 4096);
  CHECK(LeadingInteger("-3-7") == -3);
  CHECK(LeadingInteger("9223372036854775807") == INT64_MAX);
  CHECK(LeadingInteger("0x10") == 0);
  for (const char* none : {"", " \n", "max", "+1", "x1", "9223372036854775808"}) {
    INFO(none);
    CHECK_FALSE(LeadingInteger(none));
  }
}
