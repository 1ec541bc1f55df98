// Which cases of a matrix the rows of an interrupted call answer.
#include "exp/bench/earlier.h"

#include "catch.h"
#include "exp/bench/speeds.h"

namespace xp::bench {
namespace {

Case OnCpu(int batch, const std::string& precision = "fp32") {
  Case c;
  c.device = "cpu", c.batch = batch, c.precision = precision;
  return c;
}

Row RowOf(Case c) {
  Row row;
  row.c = std::move(c);
  return RowFromJson(RowJson(row));  // as the store gives it
}

TEST_CASE("a row answers the case that it was measured for, once") {
  Case largest = OnCpu(96), loader = OnCpu(4), peer = OnCpu(2), other = OnCpu(2);
  largest.largest = true;
  loader.kind = "loader", loader.workers = 2, loader.height = loader.width = 32;
  peer.program = "torch", peer.torch_mode = "eager";
  other.device = "auto";
  EarlierRows rows({RowOf(OnCpu(1)), RowOf(OnCpu(2)), RowOf(largest), RowOf(loader), RowOf(peer)});
  CHECK(rows.Take(OnCpu(2)) == 1);
  CHECK_FALSE(rows.Take(OnCpu(2)));
  CHECK_FALSE(rows.Take(OnCpu(4)));
  CHECK_FALSE(rows.Take(other));
  Case searched = OnCpu(1);  // its batch is found by searching
  searched.largest = true;
  CHECK(rows.Take(searched) == 2);
  loader.model = "resnet18";  // no business of a loader
  CHECK(rows.Take(loader) == 3);
  CHECK(rows.Take(peer) == 4);
  Case plain = OnCpu(1);
  plain.fusion = false;
  CHECK_FALSE(rows.Take(plain));
  CHECK(rows.Take(OnCpu(1)) == 0);
}

TEST_CASE("what a CPU computes in fp32 has a row for each precision that was asked for") {
  EarlierRows one({RowOf(OnCpu(1))});
  CHECK(one.Take(OnCpu(1)) == 0);
  CHECK_FALSE(one.Take(OnCpu(1, "tf32")));
  EarlierRows two({RowOf(OnCpu(1)), RowOf(OnCpu(1))});
  CHECK(two.Take(OnCpu(1)) == 0);
  CHECK(two.Take(OnCpu(1, "tf32")) == 1);
}

TEST_CASE("a device's speeds survive the store; what isn't any is left out") {
  SpeedsByDevice speeds = {{"auto bf16", {3.3e12, 7.5e14}}, {"cpu fp32", {1e10, 0}}};
  SpeedsByDevice again = SpeedsFromJson(SpeedsJson(speeds));
  REQUIRE(again.size() == 2);
  CHECK(again["auto bf16"].copy_bytes_a_second == 3.3e12);
  CHECK(again["auto bf16"].matrix_flop_a_second == 7.5e14);
  CHECK(SpeedsText(again["auto bf16"]) == "copies 3.300 TB/s, multiplies 750.00 TFLOP/s");
  for (const char* text : {"", "[]", "3", "{", "{\"cpu\": 3}"}) CHECK(SpeedsFromJson(text).empty());
  again = SpeedsFromJson("{\"cpu\": {\"copy_bytes_per_second\": \"fast\"}}");
  CHECK(again["cpu"].copy_bytes_a_second == 0);
}

}  // namespace
}  // namespace xp::bench
