#!/bin/bash
# Independence of the application, in the instruction-counted form of the lab, where it is no matter of chance: of how
# many transfers the first look, after a computation of twice their time without a call, finds the completion. Each row of
# first_pct is a test; it has to be 95 % at least.
#
# usage: overlap.sh [--full] [KERNEL ...]      6.1 if none is given; --full: 4 MiB to 64 MiB
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build
goal=95 passed=0 failed=0 full=()

[ "${1:-}" != --full ] || { full=(--full) && shift; }
[ $# -gt 0 ] || set -- 6.1
mkdir -p "$build/bench"
for kernel; do
	log=$build/bench/overlap${full[0]:+-full}-$kernel.txt status=0
	"$root/tests/build-module.sh" "$kernel" "$build/module-$kernel" >/dev/null
	"$build/tests/lab/ibrelk-lab" bench --kernel "$kernel" --modules libcrc32c --timeout "${BENCH_LIMIT_S:-1800}" \
		--files "$build/module-$kernel/ibrelk.ko" --files "$build/user/tools/ibrelk-perf" --files "$build/user/tools/ibrelk" \
		-- "$here/guest.sh" "${full[@]}" overlap >"$log" 2>&1 || status=$?
	read -r good bad < <(awk -F, -v goal=$goal '
		sub(/^row: /, "") && $2 ~ /first_pct$/ { if ($6 + 0 >= goal) good++; else bad++ }
		END { print good + 0, bad + 0 }' "$log")
	grep -a '^row: .*first_pct' "$log" | awk -F, -v goal=$goal '$6 + 0 < goal' || :
	if [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; then
		tail -n 30 "$log"
		bad=$((bad + 1))
	fi
	passed=$((passed + good)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
