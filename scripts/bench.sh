#!/usr/bin/env bash
# The benchmarks: bench.sh [NAME]. Each prints a table, compares with the physical limit in the same run, and writes build/bench/NAME.json.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
mkdir -p build/bench
found=0
for program in build/tests/*_bench; do
  name=$(basename "$program" _bench)
  [ -x "$program" ] && { [ $# -eq 0 ] || [ "$1" = "$name" ]; } || continue
  found=1
  "$program" --benchmark_out="build/bench/$name.json" --benchmark_out_format=json
done
# Policies on recorded markets: a table of many whole runs, not a timing.
if [ $# -eq 0 ] || [ "$1" = placement ]; then
  found=1
  scripts/bench_placement.py
fi
[ $found -eq 1 ] || { echo "bench: no benchmark is called '${1:-}'; there are:" placement build/tests/*_bench >&2; exit 2; }
