#!/usr/bin/env bash
# Training threads sleep while they wait (src/cli/sleeping_threads.h); a user's setting stays; commands that are run in
# turn see neither.
source "$(dirname "$0")/helpers.sh" "$@"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT

# libgomp prints what it reads when the program is loaded, here twice: before and after the restart.
spins() { OMP_DISPLAY_ENV=verbose "$@" 2>&1 | grep -o "GOMP_SPINCOUNT = '[0-9]*'" | tail -1; }
if [ -z "$(spins "$exp" --version)" ]; then
  echo "skipped: this OpenMP library doesn't say how long it spins"
  exit 0
fi
[ "$(spins "$exp" run no-such.yaml || true)" = "GOMP_SPINCOUNT = '0'" ] || fail "exp run spins"
[ "$(OMP_WAIT_POLICY=active spins "$exp" run no-such.yaml || true)" != "GOMP_SPINCOUNT = '0'" ] ||
  fail "the user's OMP_WAIT_POLICY is overruled"
[ "$(GOMP_SPINCOUNT=7 spins "$exp" run no-such.yaml || true)" = "GOMP_SPINCOUNT = '7'" ] ||
  fail "the user's GOMP_SPINCOUNT is overruled"

echo 'name: x' > a.yaml
"$exp" run a.yaml --store "$dir/.exp" -- sh -c "env > $dir/child.txt" > out.txt 2>&1 || { cat out.txt; fail "exp run -- env"; }
! grep -E '^(OMP_WAIT_POLICY|EXP_THREADS_SLEEP)=' child.txt || fail "the setting leaks into a command"
echo "training threads sleep while they wait"
