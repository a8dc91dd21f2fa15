#!/bin/bash
# `make bench` and `make bench-full`: runs guest.sh in the instruction-counted form of the lab, stores the rows in
# build/bench/, draws the plots, and prints the table with the ratios that matter.
#
# usage: run.sh [--full] [--lossy] [MODE ...]      KERNEL=6.12 in the environment: on another kernel, into files of their own
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
kernel=${KERNEL:-6.1}
out=$build/bench
name=bench limit=${BENCH_LIMIT_S:-880}
[ "${1:-}" != --full ] || { name=full limit=${BENCH_LIMIT_S:-7200}; }
[ "$kernel" = 6.1 ] || name=$name-$kernel
csv=$out/$name.csv log=$out/$name.txt

mkdir -p "$out"
rm -f "$out/$name".{csv,txt,png,svg} "$out/$name-loss".{png,svg}
status=0
"$build/tests/lab/ibrelk-lab" bench --kernel "$kernel" --modules libcrc32c --timeout "$limit" \
	--files "$build/module-$kernel/ibrelk.ko" --files "$build/user/tools/ibrelk-perf" \
	--files "$build/user/tools/ibrelk" --files /usr/bin/ib_send_lat --files /usr/bin/ib_send_bw --files /usr/bin/ib_write_bw \
	--files "$build/tests/bench/tcp_latency" --files "$build/tests/bench/fi_overlap" --files "$build/tests/bench/bench_match" \
	--files "$build/tests/bench/bench_region" --files /usr/bin/iperf3 --files /usr/sbin/ethtool \
	-- "$here/guest.sh" "$@" >"$log" 2>&1 || status=$?

# All rows that there should be; with the value that was found, if the guest lived long enough to find one.
{
	echo 'mode,metric,size,loss_pct,delay_ms,value,unit'
	"$here/guest.sh" --rows "$@" | awk -F, -v OFS=, '
		function key() { return $1 "," $2 "," $3 "," $4 "," $5 }
		!sub(/^row: /, "") { next }
		FILENAME == ARGV[1] { if (NF == 7) found[key()] = $6; next }
		{ if (key() in found) $6 = found[key()]; print }' "$log" -
} >"$csv"

[ $status -eq 0 ] || tail -n 50 "$log"
grep -a '^FAILED' "$log" || :
zero=0.003
if [ "${name%%-*}" = bench ]; then
	zero=0.03
	awk -f "$here/rows.awk" -f "$here/table.awk" "$csv"
	echo
fi
awk -f "$here/rows.awk" -f "$here/table-loss.awk" "$csv"

# draw NAME PLOT
draw()
{
	local terminal
	for terminal in png svg; do
		gnuplot -e "csv='$csv'; out='$out/$1.$terminal'; kind='$terminal'; zero=$zero" "$here/plot-$2.gp" 2>>"$log" ||
			echo "cannot draw $1.$terminal: too little was measured"
	done
}
draw "$name" "${name%%-*}"
draw "$name-loss" loss
echo
echo "rows: build/bench/$name.csv; plots: build/bench/$name.png, $name-loss.png and .svg; output: build/bench/$name.txt"
[ $status -eq 0 ] || echo "the benchmark's guest ended with status $status; what it did not measure has value 0"
exit $status
