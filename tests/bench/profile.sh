#!/bin/bash
# Where the instructions of a message of 1 MiB go, both ends together, if it is written by RDMA and if it is copied: by
# kind, and the functions that take most. A plugin of the emulator counts them (profile.cpp), in a boot of its own, as
# the difference between a run with more messages and one with fewer; as in `make bench`, starting and connecting are
# not in it. What that says of the same two runs by the clock is printed beside the sum.
#
# usage: profile.sh [FUNCTIONS]      after make module user; leaves what it prints in build/bench/profile.txt
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
kernel=${KERNEL:-6.1}
out=$build/bench/profile
more=8 many=32	# messages, as in guest.sh

rm -rf "$out"
mkdir -p "$out"
"$build/tests/lab/ibrelk-lab" bench --kernel "$kernel" --modules libcrc32c --timeout "${BENCH_LIMIT_S:-300}" \
	--plugin "$build/tests/bench/profile.so,out=$out" --out "$out" \
	--files "$build/module-$kernel/ibrelk.ko" --files "$build/user/tools/ibrelk-perf" \
	--files "$build/user/tools/ibrelk" --files "$build/tests/bench/mark" \
	-- "$here/guest.sh" profile >"$out/log" 2>&1 || { tail -n 30 "$out/log" && exit 1; }
grep -a '^FAILED' "$out/log" && exit 1

# difference FIRST: of a mode whose marks begin with this one, address and instructions of each block per message.
difference()
{
	awk -v messages=$((many - more)) '
		{ sum[$1] += FILENAME == ARGV[2] ? 2 * $2 : -$2 }
		END { for (address in sum) if (sum[address] != 0) printf "%s C %.17g\n", address, sum[address] / messages }
	' "$out/$1" "$out/$(($1 + 1))" "$out/$(($1 + 2))"
}

# Addresses are as long as each other: they are in order as texts, and a block belongs to the last symbol before it.
for mode in written/0 copied/3; do
	{
		zcat "$out/symbols.gz" | awk '{ print $1, "A", $3 ($4 == "" ? "" : " " $4) }'
		difference "${mode#*/}"
	} | LC_ALL=C sort -s -k1,2 | awk -v mode="${mode%/*}" '
		$2 == "A" { symbol = $3 ($4 == "" ? "" : " " $4); next }
		{ print mode "\t" ($1 < "8" ? "user space" : symbol) "\t" $3 }'
done >"$out/functions"

grep -a 'insns_per_msg' "$out/log" | awk -F, '{ print $1 "\t" $6 }' | sed 's/^row: //' |
	awk -v functions="${1:-24}" -f "$here/profile.awk" - "$out/functions" | tee "$build/bench/profile.txt"
