#!/bin/bash
# `make coverage`: which lines and branches of the engine (kernel/reliability/*.c) and of matching (kernel/match.c) do
# the unit tests and the simulator run? Prints a table, writes build/coverage/html/index.html, and fails below the
# limits. What need not be covered is in Documentation/testing.rst.
#
# usage: coverage.sh        IBRELK_SIM_RUNS=N: so many runs of the simulator
set -euo pipefail

lines_least=95 branches_least=90
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/coverage

"$root/tests/deps.sh" gcovr
mkdir -p "$build/html"
if ! { cmake -S "$root" -B "$build" -G Ninja -DIBRELK_COVERAGE=ON &&
	cmake --build "$build" --target test-reliability test_match ibrelk-sim; } >"$build/build.log" 2>&1; then
	cat "$build/build.log"
	exit 1
fi
find "$build" -name '*.gcda' -delete

# run NAME COMMAND...: what fails covers nothing.
run()
{
	local name=$1
	shift
	if ! "$@" >"$build/$name.log" 2>&1; then
		tail -n 100 "$build/$name.log"
		exit 1
	fi
	echo "$name: $(grep -aE '^[0-9]+ passed|PASSED' "$build/$name.log" | tail -n 1)"
}

run test-reliability env IBRELK_SEEDS=500 "$build/tests/unit/reliability/test-reliability"
run test_match "$build/tests/unit/match/test_match"
run ibrelk-sim "$build/tests/sim/ibrelk-sim" --seed 1 --runs "${IBRELK_SIM_RUNS:-300}" --no-shrink

gcovr --root "$root" --object-directory "$build" \
	--filter "$root/kernel/reliability/.*\.c" --filter "$root/kernel/match.c" \
	--csv "$build/coverage.csv" --html-details "$build/html/index.html" --html-title ibrelk "$build/tests"

awk -F, -v lines_least=$lines_least -v branches_least=$branches_least '
	function percent(part, all) { return all ? 100 * part / all : 100 }
	function row(name, lines, lines_run, branches, branches_run) {
		printf "%-36s %5d of %5d %6.1f %%   %5d of %5d %6.1f %%\n", name, lines_run, lines,
			percent(lines_run, lines), branches_run, branches, percent(branches_run, branches)
	}
	NR == 1 { printf "%-36s %-23s   %s\n", "", "lines", "branches"; next }
	{
		row($1, $2, $3, $5, $6)
		lines += $2; lines_run += $3; branches += $5; branches_run += $6
	}
	END {
		row("total", lines, lines_run, branches, branches_run)
		if (!lines || percent(lines_run, lines) < lines_least || percent(branches_run, branches) < branches_least) {
			printf "less than %d %% of lines and %d %% of branches\n", lines_least, branches_least
			exit 1
		}
	}' "$build/coverage.csv"
