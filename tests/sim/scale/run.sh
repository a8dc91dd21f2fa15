#!/bin/bash
# `make scale`: all scenarios of ibrelk-scale, as a table, with rows and plots in build/scale/.
#
# usage: run.sh [options of ibrelk-scale]
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
out=$root/build/scale
status=0

mkdir -p "$out"
rm -f "$out"/scale.{csv,txt,png,svg}
"$root/build/tests/sim/scale/ibrelk-scale" --csv "$out/scale.csv" "$@" | tee "$out/scale.txt" || status=$?
[ -s "$out/scale.csv" ] || exit 1
for terminal in png svg; do
	gnuplot -e "csv='$out/scale.csv'; out='$out/scale.$terminal'; kind='$terminal'" "$root/tests/sim/scale/plot.gp" ||
		echo "cannot draw scale.$terminal: too little was measured"
done
echo
echo "rows: build/scale/scale.csv; plots: build/scale/scale.png and .svg; output: build/scale/scale.txt"
exit $status
