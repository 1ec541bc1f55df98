#!/usr/bin/env bash
# One secret of each kind in each place where a run meets one; then none of them may be in the store or in any export.
source "$(dirname "$0")/helpers.sh" "$@"

# Secrets are drawn at random, so that no scanner takes this file for a leak.
: >"$dir/secrets"
letters=abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789
random() {
  local text=
  RANDOM=$(($(cksum <<<"$1" | cut -d' ' -f1) % 32768))
  while [ ${#text} -lt $(($2 - 6)) ]; do text+=${letters:RANDOM % 58:1}; done
  echo "${text}a7Kq2Z"
}
# new KIND [PREFIX [LENGTH]]: sets $s and writes it down.
new() { s="${2:-}$(random "$1" "${3:-36}")"; printf '%s\t%s\n' "$1" "$s" >>"$dir/secrets"; }
given() { s=$2; printf '%s\t%s\n' "$1" "$s" >>"$dir/secrets"; }

mkdir "$dir/code" "$dir/lib" && cd "$dir/lib"
git init -q -b main . && echo 'int x;' >l.c && git add -A && git commit -qm one
cd "$dir/code"
git init -q -b main .
printf '#!/bin/sh\n. "$REPORTS/report.sh"\n' >train.sh && chmod +x train.sh
export REPORTS=$dir
printf 'x = 1\n' >tracked.py
printf '\0\1' >data.bin
new "a committed binary's former content" ghp_; printf '\0\1%s' "$s" >former.bin
{ echo '-----BEGIN RSA PRIVATE KEY-----'; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do random "line $i" 64; done; echo '-----END RSA PRIVATE KEY-----'; } >key.pem
git -c protocol.file.allow=always submodule add -q ../lib sub
git add -A && git commit -qm one
new "name of a branch" glpat- 20; git checkout -qb "fix-$s"
new "remote, user and password"; git remote add origin "https://alice:$s@example.invalid/r.git"
new "remote, token"; git remote add other "https://$s@example.invalid/r.git"
new "remote with an @ in its password"; git remote add third "https://bob:p@$s@example.invalid/r.git"
new "remote as ssh writes it, with a password"; git remote add fourth "dave:$s@example.invalid:r.git"
new "remote of a submodule"; git -C sub remote set-url origin "https://carl:$s@example.invalid/l.git"

# Changed, staged and untracked files.
new "patch" ghp_; echo "key = '$s'" >>tracked.py
new "binary file" hf_; printf '\0\2%s' "$s" >data.bin
printf '\0\3' >former.bin
new "middle of a changed key" "" 64; sed -i "6s/.*/$s/" key.pem
new "staged, then removed" sk-; echo "k = '$s'" >staged.py; git add staged.py; echo 'k = 1' >staged.py
new "environment file"; echo "SERVICE_PASSWORD=$s" >.env
given "short password in code" hunter2xyz; echo "password = \"$s\"" >login.py
given "annotated password" "letmein4now"; echo "def f(password: str = '$s'): pass" >>login.py
new "netrc" "" 12; printf 'machine example.invalid login me password %s\n' "$s" >netrc
new "UTF-16 file" ghp_; printf 'token: %s\r\n' "$s" | iconv -t UTF-16 >windows.txt
new "random text in quotes"; echo "magic('$s')" >magic.py
new "name of a file" ghp_; echo x >"copy-$s.txt"
new "target of a link" glpat- 20; ln -s "/nowhere/$s" link
new "untracked in a submodule" npm_; echo "//x/:_authToken=$s" >sub/.npmrc
given "bare text that the environment knows" "$(random env 40)"; env_key=$s; echo "somebody wrote $s here" >notes.txt
new "signed URL"; echo "https://x.invalid/f?X-Amz-Date=1&X-Amz-Signature=$s&z=1" >url.txt
{ for p in github_pat_ gho_ glpat- hf_ sk- sk_live_ xoxb-1234- AIza npm_ dckr_pat_ shpat_ hvs. gsk_ r8_ nvapi-; do
    new "shape $p" $p 44; echo "a word, then $s and more"; done
  new "AWS id"; s=AKIA$(random aws 16 | tr a-z A-Z); printf 'AWS id 2\t%s\n' "$s" >>"$dir/secrets"; echo "$s"
  new "JSON web token" eyJhbGciOiJI. 60; echo "eyJhbGciOiJI.${s#*.}.$(random jwt 40)"
  new "webhook" hooks.slack.com/services/T0/B0/ 24; echo "curl https://$s"
  new "authorization"; echo "curl -H 'Authorization: Bearer $s'"; } >shapes.txt
given "own pattern, far behind in a long line" "ACME-918273"; python3 -c "print('x ' * 2040 + '$s' + ' y' * 3000)" >long.txt
git add -N login.py

# The config, what it was made of, and the annotation file.
new "base config's value" "" 20; printf 'wandb:\n  api_key: %s\nsafe: 1\n' "$s" >base.yaml
new "config value"; config_key=$s
given "awkward config value" 'q"7\x é'"'"'Z'
given "number" 73519462
new "list"; list=$s
new "below credentials" "" 12; below=$s
new "URL in the config"; url=$s
new "random config value"; plain=$s
new "comment" ghp_; comment=$s
new "key of the config" ghp_; name=$s
key=$(random key-in-config 64); printf 'private key in the config\t%s\n' "$key" >>"$dir/secrets"
new "name of an image" ghp_; image=$s
mkdir images; printf 'x' >"images/$image.jpg"
printf '{"images":[{"id":1,"file_name":"%s.jpg","width":1,"height":1}],"annotations":[],"categories":[]}' "$image" >ann.json
cat >config.yaml <<END
_base_: base.yaml
# the old one was $comment
wandb: {api_key: $config_key}
database:
  passphrase: 'q"7\\x é''Z'
  password: 73519462
auth_token: [$list, other-$list]
credentials: {user: someone, code: $below}
mirror: https://me:$url@example.invalid/x
note: $plain
headers: {$name: 1}
pem: |
  -----BEGIN PRIVATE KEY-----
  $key
  -----END PRIVATE KEY-----
data: {train: {ann_file: ann.json, img_prefix: images}}
snapshot:
  variables: [MY_API_KEY, DATABASE_URL, PLAIN]
  redact: {patterns: ['ACME-[0-9]{6}'], allow: [AKIAALLOWEDALLOWED01]}
END

# What the trainer says.
report() { printf '%s\n' "$1" >>"$dir/report"; }
new "text of a metric" ghp_; report "{\"step\": 0, \"loss\": 1, \"note\": \"use $s\"}"
new "metric under a secret's name" "" 10; report "{\"step\": 1, \"db\": {\"password\": \"$s\"}}"
new "escaped in a metric" "" 14; report "{\"step\": 2, \"note\": \"password=\\\"$s\\\"\"}"
new "name of a metric" ghp_; report "{\"step\": 3, \"loss/$s\": 1}"
new "list in a metric" ghp_; report "{\"step\": 4, \"list\": [[\"$s\"], 1]}"
new "warning" hf_; report "{\"warning\": \"not with $s\", \"code\": \"c\"}"
new "code of a warning" hf_; report "{\"warning\": \"w\", \"code\": \"$s\"}"
new "start" ghp_; report "{\"start\": {\"api_key\": \"x1y2z3\", \"t\": \"$s\"}}"
given "start, by name" x1y2z3
new "line that is no JSON" ghp_; report "oops $s"
new "checkpoint's path" ghp_; ckpt=$s; report "{\"epoch\": 0, \"metrics\": {\"acc\": 0.5}, \"checkpoint\": \"$s.pth\"}"
new "epoch's metric" ghp_; report "{\"epoch\": 1, \"metrics\": {\"acc\": 0.5, \"text\": \"$s\"}}"
new "hash" ghp_; report "{\"epoch\": 2, \"weights_hash\": \"$s\"}"
cat >"$dir/report.sh" <<END
cat "$dir/report" >>"\$EXP_METRICS"
echo w >"\$EXP_WORK_DIR/$ckpt.pth"
exit \${CODE:-0}
END

export MY_API_KEY=$env_key
new "URL in the environment"; export DATABASE_URL="postgres://u:$s@h/db"; echo "and $s alone" >>notes.txt
new "environment, by shape" ghp_; export PLAIN="x $s"
new "option"; option=$s
new "assignment"; assignment=$s
new "shape in an argument" ghp_; shape=$s
new "bearer in an argument"; bearer=$s
given "--set" s3cr7; set_value=$s
new "curl's user" "" 10; curl=$s
new "run's name" ghp_; run_name=$s
new "tag" ghp_; tag=$s
echo "AKIAALLOWEDALLOWED01 stays" >allowed.txt

run() {
  "$exp" run config.yaml --set +db.password="$set_value" --name "n-$run_name" --tag "t-$tag" "$@" -- ./train.sh --api-key "$option" \
    "TOKEN=$assignment" "see $shape" -H "Authorization: Bearer $bearer" --user "me:$curl" >"$dir/out" 2>&1
}
git status >/dev/null
run || fail "run: $(cat "$dir/out")"
CODE=3 run --set +snapshot.code=full && fail "a failing program passes"
first=$("$exp" ls --json | python3 -c 'import json,sys; print(json.load(sys.stdin)[-1]["id"])')

exports=$dir/exports; mkdir "$exports"
for format in json csv tensorboard mlflow; do "$exp" export @ "$first" --format $format --out "$exports/$format" >/dev/null; done
for command in "ls" "ls --json" "show @" "show $first" "show @ --json" "show @ --config --origins" "show @ --code" "show @ --environment" \
               "log @" "log $first --json" "diff @ $first" "diff @ $first --json" "query SELECT*FROM\trun" "verify"; do
  "$exp" ${command//\\t/ } >"$exports/$(tr -c 'a-z\n' _ <<<"$command").txt" 2>&1 || true
done
python3 "$here/record/find_secrets.py" "$dir/secrets" .exp "$exports" || fail "secrets were found"

# What was removed is said, by kind and place.
out=$("$exp" show "$first")
for place in "remote origin" "remote other" "argv --api-key" "config wandb.api_key" "environment MY_API_KEY" \
             "config database.passphrase" "config credentials.code" "config file config.yaml" "config file base.yaml" "patch tracked.py" \
             "file .env" "file login.py" "file sub/.npmrc" "file windows.txt" "file shapes.txt" "metric note" "a warning" "a checkpoint's path" \
             "names of images" "a file's name" "the run's name" "a tag" "a metric's name"; do
  has "$out" " from $place"
done
for kind in url-credentials github-token named-secret config-secret argument-secret environment-secret random-text pattern private-key; do
  has "$out" "a secret ($kind)"
done
grep -qa 'AKIAALLOWEDALLOWED01 stays' .exp/exp.db .exp/exp.db-wal 2>/dev/null || fail "what is allowed must stay"
# The tree comes back with marks, and says so.
out=$("$exp" checkout "$first" "$dir/again")
has "$out" "not as it was: .env"
grep -qF 'SERVICE_PASSWORD=[redacted:' "$dir/again/.env" || fail "no mark: $(cat "$dir/again/.env")"
cmp train.sh "$dir/again/train.sh"
# Another program needs the values as they were given: only the user may read the file that has them.
configs_written=(work_dirs/*/config.yaml)
config=${configs_written[0]}
grep -qF "$config_key" "$config" && [ "$(stat -c %a "$config")" = 600 ] || fail "$config: $(stat -c %a "$config")"

# exp's own trainer: the store, the exports, and all that it leaves in the work_dir.
mkdir "$dir/own" && cd "$dir/own"
git init -q -b main . && "$exp" data shapes --out data/shapes --images 4 --val 2 --size 96x96 --seed 3 >/dev/null
cat >tiny.yaml <<END
_base_: $configs/quickstart.yaml
model: {neck: {out_channels: 16}, backbone: {base_channels: 8}, roi_head: {bbox_head: {fc_out_channels: 32}}}
data: {train: {img_scale: [96, 96]}, val: {img_scale: [96, 96]}}
runner: {max_epochs: 1}
END
git add tiny.yaml && git commit -qm one
new "patch, own trainer" ghp_; echo "# $s" >>tiny.yaml
new "untracked, own trainer" sk-; echo "k = '$s'" >new.py
new "remote, own trainer"; git remote add origin "https://u:$s@example.invalid/r.git"
new "environment, own trainer"; export MY_API_KEY=$s
new "config, own trainer"; own=$s
"$exp" run tiny.yaml --device cpu --name own --set "+vars.api_key=$own" >"$dir/own.txt" 2>&1 || fail "own trainer: $(cat "$dir/own.txt")"
"$exp" reproduce own >>"$dir/own.txt" 2>&1 || fail "reproduce: $(cat "$dir/own.txt")"
ls work_dirs/own-*/*.safetensors >/dev/null || fail "no checkpoint to look into"
for format in json csv tensorboard mlflow; do "$exp" export own --format $format --out "$exports/own/$format" >/dev/null; done
for command in "show own" "show own --json" "show own --config --origins" "log own" "diff own" "audit $(ls work_dirs/own-*/*.safetensors | head -1)"; do
  "$exp" $command >"$exports/own/$(tr -c 'a-z\n' _ <<<"$command").txt" 2>&1 || fail "$command: $(cat "$exports/own/"*.txt)"
done
mkdir "$exports/said" && cp "$dir/own.txt" "$exports/said"
python3 "$here/record/find_secrets.py" "$dir/secrets" .exp work_dirs "$exports" || fail "secrets of exp's own trainer were found"
has "$("$exp" show own)" "from config vars.api_key"
echo ok
