#!/usr/bin/env bash
# Repositories of every kind: `exp run` records them, `exp checkout` builds the same tree again, and the user's
# repository is as it was, to the last byte of .git.
source "$(dirname "$0")/helpers.sh" "$@"
source "$here/record/repositories.sh"

# Staged, unstaged and untracked at once, with names and contents of every kind.
repo
printf 'one\ntwo\n' >a; cp a b; cp a c; cp a gone; cp a typed; printf '\0\1\2' >binary; printf 'caf\351\n' >latin
head -c 3000 /dev/urandom >moved; printf '#!/bin/sh\n' >run; ln -s a link; mkdir -p d/e; echo x >d/e/f
printf 'ignored*\n' >.gitignore
commit
printf '#!/bin/sh\necho hook >>"$(git rev-parse --git-dir)/hook-ran"\n' | tee .git/hooks/{pre-commit,post-checkout,post-index-change} >/dev/null
chmod +x .git/hooks/*
echo stashed >>a; git stash -q; rm -f .git/hook-ran
echo staged >>a; git add a; echo unstaged >>a
echo staged >>b; git add b
echo unstaged >>c
git rm -q gone
git mv moved 'new name'; printf x >>'new name'
chmod +x typed; rm run; ln -s typed run; rm link; echo 'was a link' >link
rm -r d; echo 'was a folder' >d
printf '\0\3' >binary; printf 'caf\351 \377\n' >latin
echo new >$'n\n\t"\\ \xff\xfe'; mkdir -p deep/er; echo u >deep/er/u; chmod +x deep/er/u; : >empty; echo no >ignored-file
ln -s /nowhere dangling; ln -s deep to-folder; mkfifo ignored-pipe
rm -f .git/hook-ran
check "everything at once"
has "$(git stash list)" "stash@{0}"
[ ! -e .git/hook-ran ] || fail "a hook ran"
in_clone
git -C "$dir/clone" status --porcelain >/dev/null
[ "$(git -C "$dir/clone" rev-parse HEAD)" = "$(git rev-parse HEAD)" ] || fail "the clone isn't at the commit"

repo; check "empty repository"
repo; echo 1 >a; git add a; echo 2 >a; echo 3 >b; check "no commits yet"
[ "$(code 'c["repositories"][0]["head"]')" = "no commits yet" ]
repo; echo 1 >a; commit; git checkout -q --detach; echo 2 >a; check "detached HEAD"; in_clone
repo; echo 1 >a; commit; git worktree add -q "$dir/linked" -b other; cd "$dir/linked"; echo 2 >a; echo u >u
record; [ "$(code 'c["repositories"][0]["linked_worktree"]')" = True ]
rm -rf "$dir/again"; "$exp" checkout @ "$dir/again" >/dev/null; kind="linked worktree"; same "$dir/again"; kinds=$((kinds + 1)); rm -rf "$dir/linked"

# Submodules: changed commit, dirty inside, untracked inside, one inside another, one not checked out.
rm -rf "$dir/lib"; mkdir "$dir/lib"; cd "$dir/lib"; git init -q -b main .; echo 'int x;' >l.c; git add -A; git commit -qm one
export GIT_ALLOW_PROTOCOL=file
rm -rf "$dir/mid"; mkdir "$dir/mid"; cd "$dir/mid"; git init -q -b main .; echo m >m; git submodule add -q ../lib inner; git add -A; git commit -qm one
repo; echo 1 >a; git submodule add -q ../mid sub; git submodule add -q ../lib other; git submodule add -q ../lib absent; git submodule -q update --init --recursive
commit; git submodule -q deinit -f absent
echo dirty >>sub/m; echo new >sub/new; echo deep >>sub/inner/l.c; git -C other checkout -qb side; echo y >>other/l.c; git -C other commit -qam two
check "submodules"
[ "$(code 'len(c["repositories"])')" = 4 ]
echo stray >absent/stray; check "files where a submodule isn't"

repo; echo 1 >a; commit; git init -q inner; echo z >inner/z; git -C inner add z; git -C inner commit -qm one; echo w >inner/w; git init -q none; echo q >none/q
check "repositories inside"
repo; for i in 1 2 3; do echo $i >a; commit $i; done; git clone -q --depth 1 "file://$PWD" "$dir/shallow"; rm -rf "$dir/r"; mv "$dir/shallow" "$dir/r"; cd "$dir/r"
echo dirty >>a; check "shallow"; [ "$(code 'c["repositories"][0]["shallow"]')" = True ]
repo; mkdir in out; echo 1 >in/x; echo 2 >out/y; commit; git sparse-checkout set in 2>/dev/null; [ ! -e out ]; echo 3 >in/x; mkdir out; echo mine >out/z
check "sparse"; [ "$(code 'c["repositories"][0]["sparse"]')" = True ]
repo; echo 1 >a; commit; git clone -q --bare . "$dir/bare.git"; cd "$dir/bare.git"; record; [ "$(code 'c["repositories"][0]["head"]')" = bare ]; kinds=$((kinds + 1))
for said in "$(cat "$dir/out")" "$("$exp" show @)" "$("$exp" checkout @ "$dir/from-bare")"; do has "$said" "a bare repository has no work tree, so no file beside it is kept"; done
# What is too large: told where it may be code (git tracks it, a source, a script, a program), only listed where it is none.
limit=(--set +snapshot.max_file_bytes=2000)
large() { { printf %s "${2:-}"; head -c 3000 /dev/urandom; } >"$1"; }
repo; echo 1 >a; large tracked.bin; commit; large tracked.bin; large model.py; large run '#!/bin/sh'; large ops.so $'\x7fELF'; record "${limit[@]}"
has "$(cat "$dir/out")" "warning: not all of the code is in the record: model.py: larger than snapshot.max_file_bytes; ops.so: larger"
has "$(cat "$dir/out")" "run: larger than snapshot.max_file_bytes; and 1 more"
has "$(cat "$dir/out")" "next: snapshot.max_file_bytes and snapshot.max_total_bytes raise the limits"
[ "$(grep -c "not all of the code" "$dir/out")" = 1 ] || fail "said more than once: $(cat "$dir/out")"
has "$("$exp" show @)" "tracked.bin: larger than snapshot.max_file_bytes"
repo; echo 1 >a; commit; large data.zip PK; large last.pth; mkdir d; large d/instances.json '{'; large video.mp4; mkfifo pipe; record "${limit[@]}"
hasnt "$(cat "$dir/out")" "warning"
for file in data.zip last.pth d/instances.json video.mp4 pipe; do has "$("$exp" show @)" "$file: "; done
[ "$(code 'c["omitted"]["count"], c["omitted"]["code"]')" = "5 0" ] || fail "counts: $(code 'c["omitted"]')"
rm -rf "$dir/r"; mkdir "$dir/r"; cd "$dir/r"; large data.zip PK; large model.py; record "${limit[@]}"  # no repository at all
has "$(cat "$dir/out")" "not all of the code is in the record: model.py: larger than snapshot.max_file_bytes"
hasnt "$(cat "$dir/out")" data.zip
has "$("$exp" show @)" "data.zip: larger than snapshot.max_file_bytes"
HOME=$PWD record; has "$(cat "$dir/out")" "a home folder is not taken for code, so none of its files is kept"
repo; echo 1 >a; commit; echo 2 >a; [ "$(id -u)" != 0 ] || chown -R 12345 .; check "foreign owner"

# git-lfs: contents that it has are found again; where they are nowhere else, they are kept.
repo; echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes
for name in have gone pointer; do
  head -c 4000 /dev/urandom >"$dir/$name"; oid=$(sha256sum "$dir/$name" | cut -c1-64)
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4000\n' $oid >$name.bin
  [ $name != have ] || { mkdir -p .git/lfs/objects/${oid:0:2}/${oid:2:2}; cp "$dir/$name" .git/lfs/objects/${oid:0:2}/${oid:2:2}/$oid; }
done
commit
for name in have gone; do cp "$dir/$name" $name.bin; touch -d '2021-01-01' $name.bin; git -c filter.lfs.clean="git cat-file blob HEAD:%f" add $name.bin; done
check "git-lfs"

# What git converts or was told not to look at.
repo; printf '*.txt text\n*.crlf text eol=crlf\n*.id ident\n*.up filter=up\n*.u16 working-tree-encoding=UTF-16LE\n' >.gitattributes
git config filter.up.clean 'tr A-Z a-z'; git config filter.up.smudge 'tr a-z A-Z'
printf 'a\nb\n' >lf.txt; printf 'a\nb\n' >x.crlf; printf '$Id$\n' >i.id; printf 'small\n' >f.up; printf 'a\nb\n' >mixed.crlf; printf 'h\0i\0\n\0' >e.u16
commit; rm x.crlf i.id f.up; git checkout -q x.crlf i.id f.up; printf 'a\r\nb\n' >mixed.crlf; git add mixed.crlf 2>/dev/null
printf 'a\r\nb\r\n' >lf.txt; git add lf.txt 2>/dev/null
grep -q SMALL f.up; check "attributes: eol, ident, filters, encodings"
repo; git config core.autocrlf true; printf 'a\r\nb\r\n' >w; printf 'l\nf\n' >l; git add -A 2>/dev/null; git commit -qm one; check "autocrlf"
repo; git config core.autocrlf input; printf 'a\r\nb\r\n' >w; git add -A 2>/dev/null; git commit -qm one; check "autocrlf input"; git diff --quiet
repo; echo 1 >a; echo 1 >b; commit; git update-index --assume-unchanged a; git update-index --skip-worktree b; echo 2 >a; echo 2 >b; check "assume-unchanged and skip-worktree"
repo; git config core.filemode false; echo 1 >a; commit; chmod +x a; check "filemode=false"
repo; printf 'a\nb\nc\n' >f; commit; git checkout -qb side; printf 'a\nX\nc\n' >f; git commit -qam side; git checkout -q main; printf 'a\nY\nc\n' >f; git commit -qam main
git merge side >/dev/null 2>&1 && fail "no conflict"; echo u >u; check "conflict"
repo; echo 1 >a; commit; echo new >n; git add -N n; check "intent to add"; in_clone
repo; echo 1 >A; echo 2 >b; commit; git rm -q --cached b; check "removed from the index only"; in_clone
repo; echo 1 >a; commit; git mv a b; mkdir a; echo 2 >a/b; check "a folder in a file's place"; in_clone

# History that can't be read, in parts or at all.
repo; echo 1 >a; commit; echo garbage >.git/index; kind="damaged index"; record; has "$("$exp" show @)" "partial"
repo; echo 1 >a; commit; echo garbage >.git/HEAD; kind="damaged HEAD"; record
repo; rm -rf .git; git init -q --object-format=sha256 -b main .; echo 1 >a; git add -A; git commit -qm one; check "SHA-256 repository"
rm -rf "$dir/r"; mkdir -p "$dir/r/d"; cd "$dir/r"; echo 1 >a; printf '\0\377' >d/b; chmod +x d/b; ln -s a l; check "no repository"
[ "$(code 'c["kind"]')" = none ]

# Limits: what is left out is named with the reason, the rest is there.
repo; echo 1 >a; commit; head -c 300000 /dev/zero | tr '\0' x >huge; echo small >small; echo 2 >a
record --set +snapshot.max_file_bytes=100000
has "$("$exp" show @)" "huge: larger than snapshot.max_file_bytes"
rm -rf "$dir/again"; has "$("$exp" checkout @ "$dir/again")" "not as it was: huge"; cmp small "$dir/again/small"; cmp a "$dir/again/a"; kinds=$((kinds + 1))

# Another user's secrets aside, thousands of files stay quick.
repo; for d in $(seq 50); do mkdir d$d; for f in $(seq 100); do echo $d $f >d$d/f$f; done; done; echo '* text=auto' >.gitattributes; commit; sleep 1.1; git status >/dev/null
for d in $(seq 50); do echo changed >d$d/f1; echo new >d$d/new; done
check "five thousand files"
echo "ok: $kinds kinds"
