# Read by record_code.sh and record_code_odd.sh after helpers.sh: makes repositories, records them, compares what is built again.
export EXP_STORE=$dir/store
echo 'a: 1' >"$dir/c.yaml"
lib="$dir/lib.git"
kinds=0

repo() { rm -rf "$dir/r"; mkdir -p "$dir/r"; cd "$dir/r"; git init -q -b main .; }
commit() { git add -A && git commit -qm "${1:-one}"; }
gits() { find "$1" -path '*/.git/*' -type f -o -name .git -type f | sort | xargs -d '\n' sha1sum; }
record() { "$exp" run "$dir/c.yaml" --work-dir "$dir/wd" "$@" -- true >"$dir/out" 2>&1 || fail "run: $(cat "$dir/out")"; }
code() { "$exp" show @ --code | python3 -c "import json,sys; c=json.load(sys.stdin); print($1)"; }
# same TREE: what is checked out is the tree that ran.
same() { python3 "$here/record/tree.py" "$PWD" "$1" >"$dir/out" || fail "$kind: $(cat "$dir/out")"; }
# again KIND: records the repository around, and builds it again in an empty folder.
again() {
  kind=$1
  local before after
  before=$(gits .)
  record
  after=$(gits .)
  [ "$before" = "$after" ] || fail "$kind: .git was touched: $(diff <(echo "$before") <(echo "$after") || true)"
  rm -rf "$dir/again"
  "$exp" checkout @ "$dir/again" >"$dir/out" 2>&1 || fail "$kind: checkout: $(cat "$dir/out")"
  same "$dir/again"
  kinds=$((kinds + 1))
}
# check KIND: the same, then without any history.
check() {
  local top=$PWD
  again "$1"
  rm -rf "$dir/whole"
  record --set +snapshot.code=full
  mv "$top" "$dir/moved"
  "$exp" checkout @ "$dir/whole" >"$dir/out" 2>&1 || fail "$kind: from objects alone: $(cat "$dir/out")"
  mv "$dir/moved" "$top"
  cd "$top"
  same "$dir/whole"
}
# in_clone: the record before the last one, in a clean clone.
in_clone() {
  rm -rf "$dir/clone"
  git clone -q . "$dir/clone" 2>/dev/null
  "$exp" checkout @~1 "$dir/clone" >"$dir/out" 2>&1 || fail "$kind: in a clone: $(cat "$dir/out")"
  same "$dir/clone"
}
