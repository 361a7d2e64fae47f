#!/usr/bin/env bash
# What takes longer than a change should wait for. Everything prints the seed that repeats it.
#   soak.sh [sim [SEEDS [FIRST]] | kills [SCHEDULER,WORKER,SUPERVISOR] | demo [SEEDS] | fuzz [SECONDS]]      without a name: all four
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

# libFuzzer on each target in turn, from the stored corpus. What it finds lies in build-fuzz/found/; a new input that reaches new code stays in build-fuzz/corpus/.
fuzz() {
  local seconds=${1:-600} target failed=0
  command -v clang++ >/dev/null || { echo "soak fuzz: needs clang: apt-get install clang lld libclang-rt-14-dev" >&2; return 1; }
  [ -f build-fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
  ninja -C build-fuzz fuzz_programs
  mkdir -p build-fuzz/found
  for target in tests/fuzz/corpus/*/; do
    target=$(basename "$target")
    mkdir -p "build-fuzz/corpus/$target"
    build-fuzz/fuzz/fuzz_"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/found/$target-" "build-fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"build-fuzz/found/$target.log" 2>&1 || failed=1
    echo "soak fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/found/$target.log") inputs in $seconds s"
    [ $failed -eq 0 ] || { tail -n 30 "build-fuzz/found/$target.log"; return 1; }
  done
}

case "${1:-all}" in
  sim | kills | demo | fuzz) "$@" ;;
  all) sim; kills; demo; fuzz ;;
  -h | --help) echo 'usage: soak.sh [sim [SEEDS [FIRST]] | kills [SCHEDULER,WORKER,SUPERVISOR] | demo [SEEDS] | fuzz [SECONDS]]      without a name: all four' ;;
  *) echo "soak: no part is called '$1' (sim, kills, demo, fuzz)" >&2; exit 2 ;;
esac
