#!/bin/bash
# `make bench-mpi`: Open MPI over ibrelk and over other networks between two nodes of the lab, and a plot.
# `make bench-mpi-counted`: the same in counted time, two ranks on one processor.
#
# usage: mpi.sh [OPTION ...]              options of ibrelk-bench-mpi
#        mpi.sh --counted [NETWORK ...]   networks of mpi-guest.sh
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$here/../.." && pwd)/build
kernel=${KERNEL:-6.1}
out=$build/bench
name=mpi status=0

mkdir -p "$out"
if [ "${1:-}" = --counted ]; then
	shift
	name=mpi-counted
	[ "$kernel" = 6.1 ] || name=$name-$kernel
	lib=/usr/lib/$(gcc -print-multiarch)
	rm -f "$out/$name".{csv,txt}
	"$build/tests/lab/ibrelk-lab" bench --kernel "$kernel" --modules libcrc32c --timeout "${BENCH_LIMIT_S:-3000}" --memory 2048 \
		--files "$build/module-$kernel/ibrelk.ko" --files "$build/user/lib/ofi/libibrelk-fi.so" \
		--files "$build/user/tools/ibrelk-perf" --files "$build/tests/mpi/bench" \
		--files /usr/bin/mpirun --files /usr/bin/orted --files /usr/bin/unshare --files /usr/sbin/ethtool --folder /etc/openmpi --folder /usr/share/openmpi \
		--folder "$lib/openmpi/lib/openmpi3" --folder "$lib/pmix2/lib" --folder "$lib/hwloc" --folder "$lib/ucx" \
		-- "$here/mpi-guest.sh" "$@" >"$out/$name.txt" 2>&1 || status=$?
	{
		echo 'mode,metric,size,loss_pct,delay_ms,value,unit'
		sed -n 's/^row: //p' "$out/$name.txt"
	} >"$out/$name.csv"
	[ $status -eq 0 ] || tail -n 50 "$out/$name.txt"
	grep -a '^FAILED' "$out/$name.txt" && status=1
	awk -f "$here/rows.awk" -f "$here/table-mpi.awk" "$out/$name.csv"
	echo
	echo "rows: build/bench/$name.csv; output: build/bench/$name.txt"
	exit $status
fi
rm -f "$out"/mpi.{csv,txt,png,svg} "$out/mpi-rounds.csv"
"$build/tests/cluster/ibrelk-bench-mpi" --output "$out" "$@" || status=$?
for terminal in png svg; do
	gnuplot -e "csv='$out/mpi.csv'; out='$out/mpi.$terminal'; kind='$terminal'" "$here/plot-mpi.gp" 2>>"$out/mpi.txt" ||
		echo "cannot draw mpi.$terminal: too little was measured"
done
exit $status
