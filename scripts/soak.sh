#!/usr/bin/env bash
# What takes longer than a change should wait for. Everything prints the seed that repeats it.
#   soak.sh [sim [SEEDS [FIRST]] | kills [SCHEDULER,WORKER,SUPERVISOR] | demo [SEEDS]]      without a name: all three
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

# The seeds in as many parts as there are cores; of a part only its end is shown, and the seeds that break a promise.
sim() {
  local seeds=${1:-5000} first=${2:-1001} parts part each folder failed=0 began=$SECONDS pids=()
  parts=$(nproc)
  each=$(((seeds + parts - 1) / parts))
  folder=$(mktemp -d)
  for part in $(seq 0 $((parts - 1))); do
    build/tests/simulation_test --seeds="$each" --first=$((first + part * each)) >"$folder/$part" 2>"$folder/$part.dots" &
    pids+=($!)
  done
  for part in $(seq 0 $((parts - 1))); do
    wait "${pids[$part]}" || failed=1
    grep -A4 'BROKEN\|broke a promise' "$folder/$part" || tail -n 3 "$folder/$part.dots"
  done
  echo "soak sim: $((each * parts)) days from seed $first in $((SECONDS - began)) s"
  rm -rf "${folder:?}"
  return $failed
}
kills() { SPILLWAY_BIN=build/bin SPILLWAY_TEST_KILLS="${1:-2000,500,200}" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/e2e/resilience_test.py -v; }
demo() {
  local seed folder
  folder=$(mktemp -d)
  for seed in $(seq 1 "${1:-10}"); do
    scripts/demo.py --bin build/bin --seed "$seed" --home "$folder/$seed" --report "$folder/$seed.json" >"$folder/$seed.log" || { tail -n 40 "$folder/$seed.log"; exit 1; }
    scripts/demo_check.py --bin build/bin "$folder/$seed.json"
    rm -rf "${folder:?}/$seed"
  done
}

case "${1:-all}" in
  sim | kills | demo) "$@" ;;
  all) sim; kills; demo ;;
  -h | --help) echo 'usage: soak.sh [sim [SEEDS [FIRST]] | kills [SCHEDULER,WORKER,SUPERVISOR] | demo [SEEDS]]      without a name: all three' ;;
  *) echo "soak: no part is called '$1' (sim, kills, demo)" >&2; exit 2 ;;
esac
