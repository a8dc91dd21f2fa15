#!/bin/bash
# Runs each fuzzer for some time, two at once, and ends with "N passed, N failed". They begin with what is kept in
# corpus/ and what earlier runs left in build/fuzz/corpus/, which is where new things go; the tree is only read.
#
# usage: check.sh SECONDS [NAME ...]
set -uo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz
seconds=${1:-60}
shift
[ $# -gt 0 ] || set -- wire engine pair match command

# Freed memory is kept back for a while, but not so much of it that a small input takes long.
export ASAN_OPTIONS=quarantine_size_mb=16:${ASAN_OPTIONS:-}

one()
{
	local log=$build/$1.log
	mkdir -p "$build/corpus/$1"
	"$build/fuzz-$1" -max_total_time="$seconds" -max_len=1024 -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 \
		-artifact_prefix="$build/crash-$1-" "$build/corpus/$1" "$root/tests/fuzz/corpus/$1" >"$log" 2>&1
}

"$root/tests/fuzz/build.sh" "$build" || { echo "0 passed, 1 failed"; exit 1; }

names=("$@") pids=() passed=0 failed=0
for ((i = 0; i < ${#names[@]}; i++)); do
	[ "$i" -lt 2 ] || wait -n
	one "${names[i]}" &
	pids+=($!)
done
for ((i = 0; i < ${#names[@]}; i++)); do
	name=${names[i]} log=$build/${names[i]}.log
	wait "${pids[i]}"
	status=$?
	if [ "$status" -eq 0 ] && grep -aq '^#[0-9]*.DONE' "$log"; then
		passed=$((passed + 1))
		echo "$name: $(sed -nE 's/^stat::number_of_executed_units: +//p' "$log") inputs," \
			"$(sed -nE 's/^stat::average_exec_per_sec: +//p' "$log") in a second," \
			"$(sed -nE 's/^#[0-9]+.DONE +cov: ([0-9]+) ft: ([0-9]+).*/\1 edges, \2 features/p' "$log")"
	else
		failed=$((failed + 1))
		echo "$name: FAILED, status $status: $(grep -aE '^broken rule|WARN: |runtime error: |^SUMMARY' "$log" | head -n 1)"
		echo "	reproduce: build/fuzz/fuzz-$name $(sed -nE 's/.*Test unit written to //p' "$log" | tail -n 1)"
		echo "	log: build/fuzz/$name.log"
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
