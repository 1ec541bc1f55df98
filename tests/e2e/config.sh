#!/usr/bin/env bash
# `exp config` as people call it: every format, overrides, explain, diff, errors with exit code 2.
source "$(dirname "$0")/helpers.sh" "$@"
# bad ARGUMENTS: exit code 2; what it says is in $said.
bad() {
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
has "$("$exp" config child.toml --format json)" '"lr": 0.25'
has "$("$exp" config child.json)" 'lr: 0.5'
has "$("$exp" config base.yaml)" 'lr: 0.001'

# Stale values are told on stderr; interpolation follows.
[ -z "$("$exp" config top.py 2>&1 > /dev/null)" ] || fail "a warning without a reason"
said=$("$exp" config top.py --set root=z/ 2>&1 > /dev/null)
has "$said" 'stale-value'
has "$said" 'files.0, files.1'
hasnt "$said" 'ann'

# Overrides.
json() { "$exp" config base.yaml --format canonical "$@" 2> err; }
has "$(json --set 'model.heads.*.n=7')" '[{"n":7},{"n":7}]'
has "$(json --set model.heads.-1.n=9)" '[{"n":1},{"n":9}]'
has "$(json --set 'optimizer.betas+=[0.5]')" '[0.9,0.99,0.5]'
has "$(json --set '+"a.b"=1')" '"a.b":1'
hasnt "$(json --set '~optimizer')" 'optimizer'
has "$(json --set root=z/)" '"ann":"z/a.json"'
printf '# what to change\noptimizer.lr=3\n\n  root = w/  \n' > changes.txt
has "$(json --set-file changes.txt)" '"lr":3'
has "$(json --set-file changes.txt)" '"ann":"w/a.json"'
has "$(json --set-file changes.txt --set optimizer.lr=4)" '"lr":4'
has "$(cat err)" 'override-overridden'
json --set optimizer.lr=0.001 > /dev/null
has "$(cat err)" 'override-no-change'
bad config base.yaml --set optimizer.lrr=1
has "$said" 'did you mean `optimizer.lr`'
has "$said" '+optimizer.lrr=1'
bad config base.yaml --set 'optimizer.lr'
has "$said" '`=` is missing'
bad config base.yaml --set model.heads.5.n=1
has "$said" 'a list of 2'

# Explain and diff.
said=$("$exp" config top.py --set optimizer.lr=7 --explain optimizer.lr 2> /dev/null)
for part in base.yaml:4:17 child.json:1: child.toml:3:6 '--set #1' 'replaced 0.5'; do has "$said" "$part"; done
said=$("$exp" config top.py --explain ann 2> /dev/null)
has "$said" 'from root (top.py:2:8)'
has "$("$exp" config top.py --explain 2> /dev/null)" 'files: ["d/0","d/1"]         # top.py:3:9'
bad config top.py --explain optimizer.l
has "$said" '`optimizer.lr`'
said=$("$exp" config child.toml --diff child.json)
has "$said" 'optimizer.lr'
has "$said" 'child.toml:3:6'
has "$said" 'child.json:1:'
hasnt "$said" 'root'
[ -z "$("$exp" config child.toml --diff child.toml)" ] || fail "a config differs from itself"

# pkg:: bases.
mkdir -p site/pkg/.mim/configs/a
echo "x = dict(type='T')" > site/pkg/.mim/configs/a/b.py
echo "_base_ = 'pkg::a/b.py'" > p.py
has "$("$exp" config p.py --search-path site --format canonical)" '"_scope_":"pkg"'
has "$(EXP_CONFIG_PATH=site "$exp" config p.py --format canonical)" '"_scope_":"pkg"'
bad config p.py
has "$said" '--search-path'

# What is wrong is said with its place, and ends with 2.
wrong() {  # file, text, what must be said
  printf "$2" > "$1"
  bad config "$1"
  has "$said" "$3"
}
wrong d.yaml 'a: 1\nb: 2\na: 3\n' 'd.yaml:3:1'
has "$said" 'd.yaml:1:4'
wrong t.yaml 'a:\n\tb: 1\n' 'a tab'
wrong u.yaml 'a: \377\n' 'not UTF-8'
wrong u.py 'a = "\377"\n' 'not UTF-8'
wrong c.yaml '_base_: c.yaml\n' 'inherits from itself'
wrong m.yaml '_base_: [nothing.yaml]\n' 'm.yaml:1:10'
wrong e.py 'import os\nos.system("true")\n' 'e.py:2:1: `os.system`'
wrong l.py 'while True:\n  pass\n' 'five million steps'
wrong b.json '{"a": }' 'b.json:1:7'
wrong b.toml 'a = \n' 'b.toml:1:'
wrong n.yaml 'a: 99999999999999999999\n' '64 bits'
wrong i.yaml 'a: ${b}\nb: ${a}\n' 'circle'
wrong x.ini 'a\n' '.yaml, .yml, .json, .toml or .py'
bad config nothing.yaml
has "$said" "doesn't exist"
bad config
bad config base.yaml --format xml
bad config "$dir"
has "$("$exp" config --help)" "Example:"

# The shipped configs resolve.
for file in "$source_dir"/configs/*.yaml; do "$exp" config "$file" --hash > /dev/null || fail "$file"; done
echo "config: all as expected"
