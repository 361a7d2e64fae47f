#!/usr/bin/env bash
# The benchmarks: bench.sh [NAME [OPTION ...]]. Each prints a table beside the raw limit of the same run and writes build/bench/NAME.json; NAME --help lists
# its options. docs/performance.md says what they mean.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
export PYTHONDONTWRITEBYTECODE=1
names=(submit launch restart sessions null arrays decide checkpoint placement)
run() {
  local name=$1; shift
  case $name in
    placement) /usr/bin/python3 scripts/bench_placement.py "$@" ;;
    *) /usr/bin/python3 "tests/bench/${name}_bench.py" "$@" ;;
  esac
}
case ${1-} in
  -h | --help) echo "usage: bench.sh [NAME [OPTION ...]], NAME one of ${names[*]}; NAME --help lists its options" ;;
  '' | -*) for name in "${names[@]}"; do echo "== $name"; run "$name" "$@"; done ;;
  *)
    [[ " ${names[*]} " == *" $1 "* ]] || { echo "bench: no benchmark is called '$1'; there are: ${names[*]}" >&2; exit 2; }
    run "$@" ;;
esac
