#!/usr/bin/env bash
# Repositories as nobody would set one up and somebody has: what record_code.sh checks, for the rest of the kinds.
source "$(dirname "$0")/helpers.sh" "$@"
source "$here/record/repositories.sh"
export GIT_ALLOW_PROTOCOL=file
library() { rm -rf "$dir/lib"; mkdir "$dir/lib"; cd "$dir/lib"; git init -q -b main .; echo 'int x;' >l.c; git add -A; git commit -qm one; }

# Submodules in every state.
library
repo; echo 1 >a; git submodule add -q ../lib sub; commit; rm -rf "$dir/linked"; git worktree add -q "$dir/linked" -b other
cd "$dir/linked"; git submodule -q update --init; echo dirty >>sub/l.c; echo new >sub/new; echo 2 >a; again "submodule in a linked worktree"; rm -rf "$dir/linked"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; git rm -q sub; again "submodule removed"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; rm -rf sub; again "submodule's folder removed"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; rm -rf sub; echo file >sub; check "submodule became a file"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; git rm -q --cached sub; rm -rf sub; echo file >sub; git add sub; again "submodule became a file, staged"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; git rm -q --cached sub; rm -rf sub; ln -s a sub; git add sub; again "submodule became a link, staged"
repo; echo 1 >a; echo f >sub; commit; git rm -q sub; git submodule add -q ../lib sub; echo more >>sub/l.c; again "a file became a submodule, staged"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; git rm -q --cached sub; rm -rf sub/.git; git add sub; echo more >>sub/l.c; again "submodule became a folder"
repo; echo 1 >a; commit; git submodule add -q ../lib sub; echo more >>sub/l.c; again "submodule staged only"
repo; echo 1 >a; git submodule add -q ../lib sub; commit; echo 'gitdir: /nowhere' >sub/.git; echo more >>sub/l.c; check "submodule whose repository is gone"
repo; echo 1 >a; commit; git clone -q "$dir/lib" inner; git add inner 2>/dev/null; git commit -qm two; echo more >>inner/l.c; again "a repository inside that was added without .gitmodules"
repo; echo 1 >a; commit; git worktree add -q inner -b other; echo 2 >inner/a; again "a worktree inside"
repo; echo 1 >a; commit; git init -q --bare inner.git; again "a bare repository inside"
repo; echo 1 >a; commit; mkdir -p fixtures/dot/.git; echo 'no repository' >fixtures/dot/.git/x; echo y >fixtures/dot/y; again "a .git inside that is no repository"

# Where git keeps its part.
rm -rf "$dir/r" "$dir/elsewhere"; mkdir "$dir/r"; cd "$dir/r"; git init -q -b main --separate-git-dir "$dir/elsewhere" .; echo 1 >a; commit; echo 2 >a; echo 3 >b; again ".git is a file"
repo; for i in 1 2 3; do mkdir -p in out; echo $i >in/x; echo $i >out/y; commit $i; done; git clone -q --depth 1 "file://$PWD" "$dir/shallow"; rm -rf "$dir/r"; mv "$dir/shallow" "$dir/r"; cd "$dir/r"
git sparse-checkout set in 2>/dev/null; [ ! -e out ]; echo 4 >in/x; again "sparse and shallow"
repo; mkdir in out; echo 1 >in/x; echo 2 >out/y; commit; git sparse-checkout set --cone --sparse-index in 2>/dev/null; echo 3 >in/x; echo 4 >in/new; check "sparse index"
repo; echo 1 >a; echo 1 >b; commit; git update-index --split-index; echo 2 >a; git add a; echo 3 >c; check "split index"
repo; echo 1 >a; echo 1 >b; commit; git update-index --index-version 4; git update-index --untracked-cache 2>/dev/null; echo 2 >a; echo 3 >c; again "index version 4, untracked cache"
repo; echo 1 >a; commit; git clone -q --shared . "$dir/shared"; cd "$dir/shared"; echo 2 >a; echo 3 >b; again "objects of another repository"; rm -rf "$dir/shared"
repo; echo 1 >a; echo '*.log' >.gitignore; echo hidden >.hidden; commit; echo 2 >a; echo 3 >b; echo garbage >.git/index; check "damaged index"; has "$("$exp" show @)" "partial"
repo; echo 1 >a; echo hidden >.hidden; commit; echo 2 >a; echo 3 >b; rm .git/index; again "no index"
repo; rm -rf .git; git init -q --object-format=sha256 -b main .; echo 1 >a; mkdir .config; echo hidden >.config/h; git add -A; git commit -qm one; echo 2 >a; check "SHA-256 repository with hidden files"
repo; echo 1 >a; commit; echo 2 >a; mkdir -p d/e; echo u >d/e/u; cd d/e; record; cd ../..; kind="from a folder below"; rm -rf "$dir/again"; "$exp" checkout @ "$dir/again" >/dev/null; same "$dir/again"

repo; git config core.trustctime false; echo 1 >a; commit; touch -d 2020-01-01 a; git update-index --refresh; sleep 1.1; echo 2 >a; touch -d 2020-01-01 a; git diff --quiet || fail "git sees it"; again "a change that kept size and mtime"
repo; echo 1 >a; commit; git update-index --assume-unchanged a; truncate -s 60G a; kind="a huge file that git doesn't look at"; record; rm -rf "$dir/again"; has "$("$exp" checkout @ "$dir/again")" "not as it was: a: larger than"; kinds=$((kinds + 1))
odd="$dir/"$'o dd\n\xff\'"$x'; mkdir "$odd"; cd "$odd"; git init -q -b main .; echo 1 >a; git submodule add -q ../lib $'s\xff'; commit; echo 2 >b; echo more >>$'s\xff/l.c'; again "folders that aren't named in UTF-8"; cd "$dir"; rm -rf "$odd"

# A branch's whole name, also before its first commit.
repo; git checkout -q -b feat/x; echo 1 >a; git add a; record; [ "$(code 'c["repositories"][0]["branch"]')" = feat/x ] || fail "unborn: $(code 'c["repositories"][0]["branch"]')"
commit; record; [ "$(code 'c["repositories"][0]["branch"]')" = feat/x ]
# A link in the clone that git ignores: nothing is written behind it.
repo; echo 1 >a; commit; mkdir x; echo 2 >x/y; record; rm -rf "$dir/clone" "$dir/outside"; git clone -q . "$dir/clone"; mkdir "$dir/outside"
echo x >>"$dir/clone/.git/info/exclude"; ln -s "$dir/outside" "$dir/clone/x"
refused 2 "a folder of the tree would lie behind a link" "$exp" checkout @ "$dir/clone"
[ -z "$(ls "$dir/outside")" ] || fail "written behind a link"

# Objects that aren't there: what runs is kept; a tree that can't be built is refused with the reason.
repo; echo 1 >a; echo 1 >b; commit; git config uploadpack.allowFilter true; git clone -q --filter=blob:none --no-checkout "file://$PWD" "$dir/partial" 2>/dev/null; cd "$dir/partial"; git remote set-url origin /nowhere
echo 2 >a; kind="partial clone"; record; rm -rf "$dir/again"; "$exp" checkout @ "$dir/again" >"$dir/out" 2>&1 || fail "$kind: $(cat "$dir/out")"; same "$dir/again"; rm -rf "$dir/partial"; kinds=$((kinds + 1))
repo; echo 1 >a; echo 2 >b; commit; blob=$(git rev-parse HEAD:b); rm -f ".git/objects/${blob:0:2}/${blob:2}"; echo 3 >a; kind="an object is gone"; record; cd "$dir"; rm -rf again
refused 2 "b: object not found" "$exp" checkout @ again; cd r; record --set +snapshot.code=full; rm -rf "$dir/again"; "$exp" checkout @ "$dir/again" >/dev/null; same "$dir/again"; kinds=$((kinds + 1))

# In the middle of something.
repo; printf 'a\nb\nc\n' >f; echo 1 >g; echo 1 >h; commit; git checkout -qb side; printf 'a\nX\nc\n' >f; git rm -q g; echo s >n; git add n; git commit -qam side; git checkout -q main; printf 'a\nY\nc\n' >f; echo 2 >g; echo m >n; git add n; git commit -qam main
git rebase side >/dev/null 2>&1 && fail "no conflict"; echo u >u; again "rebase that stopped at conflicts"
git rebase --abort; git cherry-pick side >/dev/null 2>&1 && fail "no conflict"; echo solved >f; again "cherry-pick, half solved"
repo; echo 1 >a; git add a; echo 2 >.hidden; git add .hidden; again "staged files and no commit"
repo; for i in 1 2 3 4; do echo $i >a; commit $i; done; git bisect start -q HEAD HEAD~3 >/dev/null 2>&1 || git bisect start HEAD HEAD~3 >/dev/null; echo x >>a; again "bisect"

# Names, links and kinds of files.
repo; echo 1 >README; echo 1 >lower; mkdir Dir; echo 1 >Dir/f; commit; git mv README readme; git mv Dir dIR; echo other >LOWER; again "names that differ in case only"
repo; git config core.ignorecase true; echo 1 >README; commit; git mv README readme; again "renamed in case only, core.ignorecase"
repo; echo 1 >a; commit; for n in ':(glob)x' '-n' ' ' 'back\slash' '[a]*?' '"q"' $'tab\there' $'new\nline' $'\xc3\x28' $'e\xcc\x81' 'HEAD' '.gitmodules~' '$(x)' 'a b '; do echo "$n" >"$n"; done
long=$(printf 'x%.0s' $(seq 250)); mkdir -p "$long/$long/$long"; echo deep >"$long/$long/$long/$long"; check "names of every kind"
git add -A; git commit -qm two; for f in ./*; do [ ! -f "$f" ] || echo changed >>"$f"; done; again "names of every kind, tracked"
repo; mkdir data; echo 1 >data/x; echo 2 >data/y; commit; rm -rf "$dir/outside"; mv data "$dir/outside"; ln -s "$dir/outside" data; echo 3 >data/z; check "a folder became a link to one outside"
repo; ln -s /usr d; echo 1 >a; commit; rm d; mkdir d; echo 1 >d/f; again "a link became a folder"
repo; mkdir d; echo 1 >d/f; commit; rm -r d; ln -s a d; ln -s loop loop; ln -s . self; again "links to nothing and to itself"
repo; echo 1 >a; ln -s a l; commit; git config core.symlinks false; rm l; printf a >l; again "core.symlinks=false"
repo; echo 1 >a; echo 1 >b; commit; rm b; mkfifo pipe b; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'; check "pipes and sockets"
out=$("$exp" checkout @ "$dir/pipes"); for f in pipe socket b; do has "$out" "not as it was: $f: neither file nor link"; done; rm -rf "$dir/pipes"
repo; mkdir -p kept/in logs/ignored-dir ignored; echo 1 >a; mkdir d; echo 1 >d/f; echo '*.log' >.gitignore; commit; rm d/f; echo x >logs/ignored.log; again "folders with nothing in them"
[ -d "$dir/again/kept/in" ] && [ -d "$dir/again/logs" ] && [ -d "$dir/again/d" ] || fail "an empty folder is gone"
repo; echo 1 >a; commit; mkdir .GIT; echo x >.GIT/x; echo 2 >b; kind=".GIT"; record; rm -rf "$dir/again"; has "$("$exp" checkout @ "$dir/again")" "not as it was: .GIT: git takes no such name"; cmp b "$dir/again/b"

# Attributes and ignore rules that don't say what is there.
repo; echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 4000\n' 1 >a.bin; commit
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 4001\n' 2 >a.bin; again "git-lfs: a changed pointer"
head -c 4000 /dev/urandom >"$dir/have"; oid=$(sha256sum "$dir/have" | cut -c1-64); library
repo; echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4000\n' $oid >have.bin
mkdir -p .git/lfs/objects/${oid:0:2}/${oid:2:2}; cp "$dir/have" .git/lfs/objects/${oid:0:2}/${oid:2:2}/$oid; git submodule add -q ../lib sub; commit
cp "$dir/have" have.bin; touch -d '2021-01-01' have.bin; git -c filter.lfs.clean="git cat-file blob HEAD:%f" add have.bin; again "git-lfs beside a submodule"
repo; printf 'a\nb\n' >f.txt; printf 'c\r\nd\r\n' >g.txt; git add -A 2>/dev/null; git commit -qm one; echo '*.txt text eol=crlf' >.gitattributes; again "attributes that came later"
git config core.autocrlf true; git config core.eol crlf; echo '* -text' >.gitattributes; again "autocrlf without text"
repo; echo 1 >forced.log; echo '*.log' >.gitignore; git add -f forced.log; commit; echo 2 >forced.log; printf '*\n!keep\n' >.git/info/exclude; echo 3 >keep; echo 4 >ignored-x; again "ignored, but tracked or kept"

# What nobody may read, as a user who isn't root.
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups "$exp" --version >/dev/null 2>&1; then
  repo; echo 1 >a; echo 1 >tracked; mkdir closed; echo 1 >closed/in; commit; echo 2 >secret; echo 2 >>tracked; echo 2 >b; chmod 0 secret tracked closed; mkdir "$dir/theirs"; chown -R 65534 . "$dir/theirs"; chmod 755 "$dir"
  HOME=$dir/theirs setpriv --reuid=65534 --regid=65534 --clear-groups "$exp" run "$dir/c.yaml" --store "$dir/theirs/s" --work-dir "$dir/theirs/wd" -- true >"$dir/out" 2>&1 || fail "unreadable: $(cat "$dir/out")"
  rm -rf "$dir/again"; out=$("$exp" checkout @ "$dir/again" --store "$dir/theirs/s")
  for f in secret tracked closed; do has "$out" "not as it was: $f"; done
  cmp b "$dir/again/b"; kinds=$((kinds + 1))
else
  echo "  files that can't be read: not tried"
fi
echo "ok: $kinds kinds"
