# Read by every script here (`source .../helpers.sh "$@"`): the program as `exp`, the folders that scripts need, an empty
# folder `dir` to work in, which goes at the end, and what checks.
# Under pipefail: nothing that stops reading (`| head -1`, `| grep -q`) behind what may still write. It ends by SIGPIPE then, once
# in a hundred times.
set -euo pipefail
exp=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
configs=$source_dir/configs
dir=$(mktemp -d)
trap 'chmod -R u+rwX "$dir" || true; rm -rf "$dir"' EXIT
cd "$dir"
unset EXP_STORE

fail() { echo "FAILED: $*" >&2; exit 1; }
# has TEXT WHAT: WHAT is in TEXT.
has() { [[ $1 == *"$2"* ]] || fail "expected \`$2\` in: $1"; }
hasnt() { [[ $1 != *"$2"* ]] || fail "\`$2\` is in: $1"; }
# expect CODE TEXT COMMAND...: the command must end with the code and say the text; all that it said is in the file `out`.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  "$@" >out 2>&1 || got=$?
  [ "$got" = "$code" ] || fail "exit $got, not $code: $* -- $(cat out)"
  has "$(cat out)" "$text"
}
# begin LOG COMMAND...: in the background, as `pid`. The log is emptied here: the command's own shell does so at some later
# moment, and whoever waits for a text before that reads what an earlier command wrote.
begin() {
  local log=$1
  shift
  : >"$log"
  "$@" >"$log" 2>&1 &
  pid=$!
}
# await TEXT LOG: until a line of the log has it (a pattern), at most two minutes.
await() {
  for _ in $(seq 6000); do
    ! grep -q -- "$1" "$2" || return 0
    sleep 0.02
  done
  fail "no \`$1\` in two minutes: $(cat "$2")"
}
# fits SCHEMA FILE: the file is JSON as schema/SCHEMA.schema.json describes it.
fits() { "$(dirname "$exp")/validate_json" "$source_dir/schema/$1.schema.json" "$2" || fail "$2 doesn't fit the schema $1"; }
# refused CODE TEXT COMMAND...: the same of what must not work.
refused() {
  [ "$1" != 0 ] || fail "refused with code 0?"
  expect "$@"
}
# tiny_detector FILE: the quickstart's config, so small that it trains in seconds, with `configs` and `data/shapes` beside it.
tiny_detector() {
  cp -r "$configs" configs
  "$exp" data shapes --out data/shapes --images 12 --val 4 --size 96x96 --seed 3 >/dev/null
  cat >"$1" <<'END'
_base_: configs/quickstart.yaml
model:
  neck: {out_channels: 16}
  backbone: {base_channels: 8}
  roi_head: {bbox_head: {fc_out_channels: 32}}
data:
  train: {img_scale: [96, 96]}
  val: {img_scale: [96, 96]}
runner: {max_epochs: 2}
END
}
# smaller_detector FILE TIMES EPOCHS: likewise for trainings that are repeated often: 6 images, TIMES in an epoch, one a step.
smaller_detector() {
  cp -r "$configs" configs
  "$exp" data shapes --out data/shapes --images 6 --val 2 --size 64x64 --seed 3 >/dev/null
  cat >"$1" <<END
_base_: configs/quickstart.yaml
model:
  neck: {out_channels: 8}
  backbone: {base_channels: 4}
  roi_head: {bbox_head: {fc_out_channels: 16}}
data:
  samples_per_gpu: 1
  workers_per_gpu: 1
  train: {img_scale: [64, 64], times: $2}
  val: {img_scale: [64, 64]}
auto_scale_lr: {base_batch_size: 1}
runner: {max_epochs: $3}
END
}
# A user's settings of git change nothing here.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
