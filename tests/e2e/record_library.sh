#!/usr/bin/env bash
# The recorder as a library: installed, found by pkg-config, used by a program of somebody else's.
source "$(dirname "$0")/helpers.sh" "$@"
cmake --install "$(dirname "$exp")" --component recorder --prefix "$dir/tree" >"$dir/log" || fail "$(cat "$dir/log")"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$dir/tree" -name exp-record.pc)")
cp "$source_dir/examples/record_your_own.cpp" .
# shellcheck disable=SC2046
c++ -std=c++20 record_your_own.cpp -o record_your_own $(pkg-config --cflags --libs exp-record) 2>log || fail "$(cat log)"
./record_your_own
out=$("$exp" show @)
has "$out" "my own trainer"; has "$out" "finished"; has "$out" "accuracy"; has "$("$exp" show @ --config)" "lr"
[ "$("$exp" log @ --json --name loss | wc -l)" = 300 ] || fail "not every step is there"
# Each public header can be read alone.
for header in "$dir"/tree/include/exp/record/*.h; do echo "#include \"exp/record/$(basename "$header")\""; done >all.cpp
c++ -std=c++20 -fsyntax-only all.cpp $(pkg-config --cflags exp-record) 2>log || fail "$(cat log)"
echo ok
