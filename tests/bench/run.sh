#!/bin/bash
# `make bench`: runs guest.sh in the instruction-counted form of the lab, stores build/bench/bench.csv, draws the
# plots, and prints the table with the ratios that matter.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build
kernel=${KERNEL:-6.1}
out=$build/bench

mkdir -p "$out"
"$build/tests/lab/ibrelk-lab" bench --kernel "$kernel" --modules libcrc32c --out "$out" \
	--files "$build/module-$kernel/ibrelk.ko" --files "$build/user/tools/ibrelk-perf" \
	--files "$build/user/tools/ibrelk" --files /usr/bin/ib_send_lat --files /usr/bin/ib_send_bw \
	--timeout 900 "$root/tests/bench/guest.sh" >"$out/output.txt" || { cat "$out/output.txt"; exit 1; }
grep -a FAILED "$out/output.txt" || :

"$root/tests/bench/table.awk" "$out/bench.csv"
for terminal in png svg; do
	gnuplot -e "csv='$out/bench.csv'; out='$out/bench.$terminal'; kind='$terminal'" "$root/tests/bench/plot.gp"
done
echo "rows: build/bench/bench.csv; plots: build/bench/bench.png and .svg"
