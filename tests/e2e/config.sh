#!/bin/bash
# `exp config` as people call it: every format, overrides, explain, diff, errors with exit code 2.
set -euo pipefail
exp=$(realpath "$1")
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "FAILED: $*"
  exit 1
}
# has WHAT TEXT: TEXT has WHAT in it.
has() { case "$2" in *"$1"*) ;; *) fail "'$1' isn't in: $2" ;; esac; }
hasnt() { case "$2" in *"$1"*) fail "'$1' is in: $2" ;; esac; }
# refused ARGUMENTS: exit code 2; what it says is in $said.
refused() {
  local code=0
  said=$("$exp" "$@" 2>&1) || code=$?
  [ "$code" = 2 ] || fail "exit code $code instead of 2 of: exp $* ($said)"
}

printf 'model:\n  type: Net\n  heads: [{n: 1}, {n: 2}]\noptimizer: {lr: 1e-3, betas: [0.9, 0.99]}\nroot: d/\nann: ${root}a.json\n' > base.yaml
printf '{"_base_": "base.yaml", "optimizer": {"lr": 0.5}, "own": null}' > child.json
printf '_base_ = "child.json"\n[optimizer]\nlr = 0.25\n' > child.toml
printf "_base_ = ['child.toml']\nroot = 'e/'\nfiles = [f'{_base_.root}{i}' for i in range(2)]\n" > top.py

# Every format reads the others, and what is printed reads back to the same identity.
hash=$("$exp" config top.py --hash)
for format in yaml json; do
  "$exp" config top.py --format $format > "copy.$format"
  [ "$("$exp" config "copy.$format" --hash)" = "$hash" ] || fail "the $format copy has another hash"
done
[ "$("$exp" config top.py --format canonical)" = '{"ann":"e/a.json","files":["d/0","d/1"],"model":{"heads":[{"n":1},{"n":2}],"type":"Net"},"optimizer":{"betas":[0.9,0.99],"lr":0.25},"own":null,"root":"e/"}' ] ||
  fail "canonical: $("$exp" config top.py --format canonical)"
has '"lr": 0.25' "$("$exp" config child.toml --format json)"
has 'lr: 0.5' "$("$exp" config child.json)"
has 'lr: 0.001' "$("$exp" config base.yaml)"

# Stale values are told on stderr; interpolation follows.
[ -z "$("$exp" config top.py 2>&1 > /dev/null)" ] || fail "a warning without a reason"
said=$("$exp" config top.py --set root=z/ 2>&1 > /dev/null)
has 'stale-value' "$said"
has 'files.0, files.1' "$said"
hasnt 'ann' "$said"

# Overrides.
json() { "$exp" config base.yaml --format canonical "$@" 2> err; }
has '[{"n":7},{"n":7}]' "$(json --set 'model.heads.*.n=7')"
has '[{"n":1},{"n":9}]' "$(json --set model.heads.-1.n=9)"
has '[0.9,0.99,0.5]' "$(json --set 'optimizer.betas+=[0.5]')"
has '"a.b":1' "$(json --set '+"a.b"=1')"
hasnt 'optimizer' "$(json --set '~optimizer')"
has '"ann":"z/a.json"' "$(json --set root=z/)"
printf '# what to change\noptimizer.lr=3\n\n  root = w/  \n' > changes.txt
has '"lr":3' "$(json --set-file changes.txt)"
has '"ann":"w/a.json"' "$(json --set-file changes.txt)"
has '"lr":4' "$(json --set-file changes.txt --set optimizer.lr=4)"
has 'override-overridden' "$(cat err)"
json --set optimizer.lr=0.001 > /dev/null
has 'override-no-change' "$(cat err)"
refused config base.yaml --set optimizer.lrr=1
has 'did you mean `optimizer.lr`' "$said"
has '+optimizer.lrr=1' "$said"
refused config base.yaml --set 'optimizer.lr'
has '`=` is missing' "$said"
refused config base.yaml --set model.heads.5.n=1
has 'a list of 2' "$said"

# Explain and diff.
said=$("$exp" config top.py --set optimizer.lr=7 --explain optimizer.lr 2> /dev/null)
for part in base.yaml:4:17 child.json:1: child.toml:3:6 '--set #1' 'replaced 0.5'; do has "$part" "$said"; done
said=$("$exp" config top.py --explain ann 2> /dev/null)
has 'from root (top.py:2:8)' "$said"
has 'files: ["d/0","d/1"]         # top.py:3:9' "$("$exp" config top.py --explain 2> /dev/null)"
refused config top.py --explain optimizer.l
has '`optimizer.lr`' "$said"
said=$("$exp" config child.toml --diff child.json)
has 'optimizer.lr' "$said"
has 'child.toml:3:6' "$said"
has 'child.json:1:' "$said"
hasnt 'root' "$said"
[ -z "$("$exp" config child.toml --diff child.toml)" ] || fail "a config differs from itself"

# pkg:: bases.
mkdir -p site/pkg/.mim/configs/a
echo "x = dict(type='T')" > site/pkg/.mim/configs/a/b.py
echo "_base_ = 'pkg::a/b.py'" > p.py
has '"_scope_":"pkg"' "$("$exp" config p.py --search-path site --format canonical)"
has '"_scope_":"pkg"' "$(EXP_CONFIG_PATH=site "$exp" config p.py --format canonical)"
refused config p.py
has '--search-path' "$said"

# What is wrong is said with its place, and ends with 2.
expect() {  # file, text, what must be said
  printf "$2" > "$1"
  refused config "$1"
  has "$3" "$said"
}
expect d.yaml 'a: 1\nb: 2\na: 3\n' 'd.yaml:3:1'
has 'd.yaml:1:4' "$said"
expect t.yaml 'a:\n\tb: 1\n' 'a tab'
expect u.yaml 'a: \377\n' 'not UTF-8'
expect u.py 'a = "\377"\n' 'not UTF-8'
expect c.yaml '_base_: c.yaml\n' 'inherits from itself'
expect m.yaml '_base_: [nothing.yaml]\n' 'm.yaml:1:10'
expect e.py 'import os\nos.system("true")\n' 'e.py:2:1: `os.system`'
expect l.py 'while True:\n  pass\n' 'five million steps'
expect b.json '{"a": }' 'b.json:1:7'
expect b.toml 'a = \n' 'b.toml:1:'
expect n.yaml 'a: 99999999999999999999\n' '64 bits'
expect i.yaml 'a: ${b}\nb: ${a}\n' 'circle'
expect x.ini 'a\n' '.yaml, .yml, .json, .toml or .py'
refused config nothing.yaml
has "doesn't exist" "$said"
refused config
refused config base.yaml --format xml
refused config "$work"
"$exp" config --help | grep -q 'Example:' || fail "no example in the help"

# The shipped configs resolve.
for file in "$source_dir"/configs/*.yaml; do "$exp" config "$file" --hash > /dev/null || fail "$file"; done
echo "config: all as expected"
