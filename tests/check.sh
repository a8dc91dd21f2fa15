#!/bin/bash
# Runs parts of the tests and adds up what they report. Each part ends with a line "N passed, N failed", and so
# does the whole; a part that ends in any other way counts as one failure. Parts with a + between them run side by side, so
# that no processor is idle while one of them comes to its end: those that wait for no other's time.
#
# usage: check.sh unit|fuzz|sim|steps|steps-long|model|model-long|mutation|kunit|adapter|overlap|overlap-long|kunit-long|lab|lab-long|mpich[+...] ...
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
logs=$build/logs
passed=0 failed=0 skipped=0
bad_parts=()

mkdir -p "$logs"

say() { printf '\n== %s\n' "$*"; }

# add NAME STATUS LOG: counts the last "N passed, N failed[, N skipped]" of a log.
add()
{
	local line counts
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$3" | tail -n 1)
	read -r -a counts <<<"${line//[^0-9 ]/ }"
	passed=$((passed + ${counts[0]:-0}))
	failed=$((failed + ${counts[1]:-0}))
	skipped=$((skipped + ${counts[2]:-0}))
	if [ -z "$line" ] || { [ "$2" -ne 0 ] && [ "${counts[1]:-0}" -eq 0 ]; }; then
		echo "$1 ended with status $2 and without a result that explains it"
		failed=$((failed + 1))
		bad_parts+=("$1")
	elif [ "${counts[1]:-0}" -gt 0 ]; then
		bad_parts+=("$1")
	fi
}

# judge NAME STATUS LOG: of a GoogleTest program that has ended, prints the failures, and counts its tests.
judge()
{
	local bad skips good
	good=$(grep -acE '^\[       OK \]' "$3")
	bad=$(grep -aE '^\[  FAILED  \] .*\([0-9]+ ms\)$' "$3" | grep -c .)
	skips=$(grep -acE '^\[  SKIPPED \] .*ms\)$' "$3")
	# A crash takes the test that was running along.
	[ "$2" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
	# A filter that fits no test is a failure, too, but for one that is the caller's.
	[ $((good + bad + skips)) -eq 0 ] && [ -z "${GTEST_FILTER:-}" ] && echo "$1: no test was run" && bad=1
	[ "$bad" -eq 0 ] || tail -n 400 "$3"
	grep -aE '^\[  SKIPPED \]' -B 3 "$3" | grep -a 'Skipped'
	echo "$1: $good passed, $bad failed, $skips skipped"
	gtest_good=$((gtest_good + good)) gtest_bad=$((gtest_bad + bad)) gtest_skips=$((gtest_skips + skips))
}

# gtest PROGRAM [arguments]: runs it, for judge(). What else it said, how long each test took for one, is in build/logs.
gtest()
{
	local name log
	name=$(basename "$1")
	log=$logs/$name${IBRELK_LAB_KERNEL:+-$IBRELK_LAB_KERNEL}.log
	"$@" >"$log" 2>&1
	judge "$name" $? "$log"
}

part_unit()
{
	local program
	gtest_good=0 gtest_bad=0 gtest_skips=0
	while read -r program; do
		gtest "$program"
	done < <(find "$build/tests/unit" "$build/tests/selftests" -maxdepth 2 -name 'test[-_]*' -type f -executable | sort)
	echo "$gtest_good passed, $gtest_bad failed, $gtest_skips skipped"
	[ "$gtest_bad" -eq 0 ] && [ "$gtest_good" -gt 0 ]
}

part_fuzz()
{
	"$root/tests/fuzz/check.sh" "${IBRELK_FUZZ_S:-60}"
}

# Both builds of the simulator, compiled differently and with other memory, do the same to the last packet.
same_twice()
{
	local build_of out status line first=
	for build_of in ibrelk-sim ibrelk-sim-asan; do
		out=$("$build/tests/sim/$build_of" --seed 1 --runs 40 --no-shrink)
		status=$?
		line=$(grep -o 'fingerprint.*' <<<"$out")
		if [ "$status" -ne 0 ] || [ -z "$line" ]; then
			tail -n 20 <<<"$out"
			echo "$build_of ended with status $status, ${line:-without a fingerprint}"
			echo "0 passed, 1 failed"
			return 1
		fi
		if [ -n "$first" ] && [ "$line" != "$first" ]; then
			echo "$first, and then $line"
			echo "0 passed, 1 failed"
			return 1
		fi
		first=$line
	done
	echo "1 passed, 0 failed"
}

# The table of what comes of a transfer is the one that people read.
steps_documented()
{
	local text
	text=$("$build/tests/sim/ibrelk-steps" --rst)
	if [ -n "$text" ] && [[ $(<"$root/Documentation/zero-copy.rst") == *"$text"* ]]; then
		echo "1 passed, 0 failed"
		return
	fi
	echo "Documentation/zero-copy.rst does not have what ibrelk-steps --rst prints"
	echo "0 passed, 1 failed"
	return 1
}

# Both builds of the simulator: one finds more in a run, the other runs more. Fresh seeds are the date's, so that two
# runs on one day agree.
part_sim()
{
	local scripts=() file day
	for file in "$root"/tests/sim/found/*.sim; do
		[ ! -e "$file" ] || scripts+=(--script "$file")
	done
	day=$(date +%Y%m%d)
	sum_good=0 sum_bad=0 sum_skips=0
	[ ${#scripts[@]} -eq 0 ] || counted found "$build/tests/sim/ibrelk-sim-asan" "${scripts[@]}"
	counted "fixed seeds" "$build/tests/sim/ibrelk-sim" --seed 1000 --runs "${IBRELK_SIM_FIXED:-800}"
	counted "fixed seeds, sanitizers" "$build/tests/sim/ibrelk-sim-asan" --seed 1 --runs "${IBRELK_SIM_ASAN:-80}"
	counted "the same twice" same_twice
	counted "a receiver that is behind" "$build/tests/sim/ibrelk-behind"
	counted "two threads at once" "$build/tests/sim/ibrelk-at-once"
	counted "streams of many senders" "$build/tests/sim/ibrelk-streams"
	counted "the engine at scale" "$build/tests/sim/scale/ibrelk-scale" --check
	counted "fresh seeds" "$build/tests/sim/ibrelk-sim" --seed "${day}0000" --runs "${IBRELK_SIM_FRESH:-1500}"
	sums
}

# What may happen at each step of a transfer.
part_steps()
{
	sum_good=0 sum_bad=0 sum_skips=0
	counted "steps, sanitizers" "$build/tests/sim/ibrelk-steps-asan" table
	counted "steps, documented" steps_documented
	counted "slow deaths" "$build/tests/sim/ibrelk-steps" slow
	counted "what is awaited of the dead" "$build/tests/sim/ibrelk-steps" fenced --seeds 10
	counted "allocations of a transfer" "$build/tests/sim/ibrelk-steps" alloc --stride 61
	sums
}

# counted NAME COMMAND...: runs something that ends with the plain line, and adds it to this part's sums.
counted()
{
	local name=$1 log status line counts started=$SECONDS
	log=$logs/counted.$BASHPID
	shift
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1)
	read -r -a counts <<<"${line//[^0-9 ]/ }"
	rm -f "$log"
	# No result is a failure, and so is a kernel's report even if all tests passed.
	if [ -z "$line" ] || { [ "$status" -ne 0 ] && [ "${counts[1]:-0}" -eq 0 ]; }; then
		counts[1]=1
	fi
	echo "$name: status $status, ${counts[0]:-0} passed, ${counts[1]:-0} failed, ${counts[2]:-0} skipped" \
		"($((SECONDS - started)) s)"
	sum_good=$((sum_good + ${counts[0]:-0})) sum_bad=$((sum_bad + ${counts[1]:-0}))
	sum_skips=$((sum_skips + ${counts[2]:-0}))
}

# sums: what counted added up.
sums()
{
	echo "$sum_good passed, $sum_bad failed, $sum_skips skipped"
	[ "$sum_bad" -eq 0 ] && [ "$sum_good" -gt 0 ]
}

# Each single allocation of a transfer, and more orders of events at each step.
part_steps_long()
{
	sum_good=0 sum_bad=0 sum_skips=0
	counted "steps of a transfer" "$build/tests/sim/ibrelk-steps" table --seeds 20
	counted "allocations, UC" "$build/tests/sim/ibrelk-steps" alloc uc-reliable
	counted "what is awaited of the dead" "$build/tests/sim/ibrelk-steps" fenced --seeds 500
	counted "allocations, RC" "$build/tests/sim/ibrelk-steps" alloc rc-reliable
	counted "allocations, UD" "$build/tests/sim/ibrelk-steps" alloc ud-reliable
	counted "allocations, sanitizers" "$build/tests/sim/ibrelk-steps-asan" alloc --stride 61
	sums
}

part_model()
{
	"$root/tests/model/check.sh"
}

part_model_long()
{
	"$root/tests/model/check.sh" --full
}

# Some mutants of the engine, others each day.
part_mutation()
{
	"$root/tests/deps.sh" python3 &&
		"$root/tests/mutation/mutate.py" --seed "$(date +%Y%m%d)" --count "${IBRELK_MUTANTS:-100}"
}

# Transfers go on while their applications compute.
part_overlap()
{
	"$root/tests/bench/overlap.sh" 6.1
}

# ... also of 4 MiB and more.
part_overlap_long()
{
	sum_good=0 sum_bad=0 sum_skips=0
	counted overlap part_overlap
	counted "overlap of long messages" "$root/tests/bench/overlap.sh" --full 6.1
	sums
}

part_kunit()
{
	sum_good=0 sum_bad=0 sum_skips=0
	counted suites "$root/tests/kunit/check.sh"
	counted failnth "$root/tests/kunit/failnth.sh"
	counted "the interface" "$root/tests/kunit/abi.sh"
	sums
}

# The same kernel, with adapters.
part_adapter()
{
	"$root/tests/kunit/adapter.sh"
}

# Also on the newest kernel, with two CPUs, where UML is several times slower. (6.1's KUnit offers its tests no user
# memory, without which there is no message; that kernel is for the lab.)
part_kunit_long()
{
	local kernel
	sum_good=0 sum_bad=0 sum_skips=0
	counted suites "$root/tests/kunit/check.sh"
	IBRELK_LONG=1 counted failnth "$root/tests/kunit/failnth.sh"
	counted "the interface" "$root/tests/kunit/abi.sh"
	counted adapter "$root/tests/kunit/adapter.sh"
	counted runner "$root/tests/kunit/selftest/run.sh"
	if kernel=$("$root/tests/uml/build.sh" 7.x); then
		export IBRELK_UML=$kernel IBRELK_KUNIT_BUILD=$build/kunit-7.x
		counted "suites on 7.x" "$root/tests/kunit/check.sh" --cpus 2 --time 3600
		counted "failnth on 7.x" "$root/tests/kunit/failnth.sh"
		counted "the interface on 7.x" "$root/tests/kunit/abi.sh" --cpus 2
		counted "adapter on 7.x" "$root/tests/kunit/adapter.sh" --cpus 2
		unset IBRELK_UML IBRELK_KUNIT_BUILD
	else
		echo "no debug kernel 7.x"
		sum_bad=$((sum_bad + 1))
	fi
	sums
}

# Programs that look for messages without a pause: they leave no processor to another lab.
busy="*Lammps.*:*Mpi.*:*Mpich*:*Overlap*:*Slurm*"

# cluster SERIES TESTS OTHERS: the cluster tests on a kernel that are TESTS and not OTHERS. What keeps processors busy has
# them for itself; each half of the rest is in a lab of its own, as nodes wait for each other most of the time.
cluster()
{
	local half pids=() log=$logs/test_cluster-$1
	"$root/tests/build-module.sh" "$1" "$build/module-$1" || return 1
	export IBRELK_LAB_KERNEL=$1
	for half in 0 1; do
		GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$half "$build/tests/cluster/test_cluster" \
			--gtest_filter="$2-$3:$busy" >"$log-$half.log" 2>&1 &
		pids[half]=$!
	done
	# What runs in the background hears no Ctrl-C.
	trap 'kill "${pids[@]}" 2>/dev/null; exit 130' INT TERM
	for half in 0 1; do
		wait "${pids[half]}"
		judge "test_cluster on $1" $? "$log-$half.log"
	done
	trap - INT TERM
	if [ "$2" = '*' ]; then
		"$build/tests/cluster/test_cluster" --gtest_filter="$busy-$3" >"$log-busy.log" 2>&1
		judge "test_cluster on $1, busy" $? "$log-busy.log"
	fi
	unset IBRELK_LAB_KERNEL
}

# What takes too long for every day.
long="*.long_*:Soak.*:*Ends.*/exec_*:*Ends.*/fork_*:*Ends.*/kill_uring"
long+=":*FenceModes.*/uc_native:*FenceModes.*/auto:*FenceWire.*/uc_native:*FenceWire.*/auto"
long+=":*Mpi.ping*:*Mpi.a_*:*Mpi.*/auto:*Mpi.point_to_point/*:*Mpi.one_sided*:*Suites.*"
long+=":*Mpich*:*Slurm*:*Large.*:*Progress.stopped*reliable:*Progress.frozen*reliable"
long+=":*FenceEnds.*/uc_native:*FenceEnds.*/auto:*FenceSmp.*/uc_native:*FenceSmp.*/auto"
long+=":*Lammps.*/eam*:*Lammps.*/rhodo*:*Lammps.*/chain_4*:*Lammps.*/*auto*:*Lammps.*/*_rc_*:*Lammps.*loss_0"
# What other modes, kernels or parts of every day's tests show as well.
long+=":*Overlap.*:*Flood.*/rc_reliable:*Flood.*/auto:*Gone.*/rc_reliable:*Gone.*/auto"
long+=":*Mingle.*/ud_reliable:*Mingle.*/rc_reliable:*Mingle.*/auto"
long+=":*Progress.hundred*rc_reliable:*Progress.hundred*stopped_sender/ud_reliable:*Progress.hundred*stopped_receiver/uc_reliable"
long+=":*Faults*/ud_*_corruption:*Faults*/uc_*_duplication:*Faults*/ud_*_reordering:*Modes.ping*native:*Modes.both*native"

part_lab()
{
	gtest_good=0 gtest_bad=0 gtest_skips=0
	gtest "$build/tests/lab/test_lab"
	cluster 6.1 '*' "$long:*FenceRc.*/rc_native:*FenceSmp.*:*Progress.hundred*auto" || gtest_bad=$((gtest_bad + 1))
	cluster 6.12 '*Modes.sizes*:*Faults*loss_5*:*Lifetimes.module*:*FenceModes*:*FenceRc.*/rc_native:*FenceSmp*:*Progress.hundred*auto' \
		"$long" || gtest_bad=$((gtest_bad + 1))
	echo "$gtest_good passed, $gtest_bad failed, $gtest_skips skipped"
	[ "$gtest_bad" -eq 0 ] && [ "$gtest_good" -gt 0 ]
}

# MPICH is built for it, which takes some minutes when it is not in the cache.
part_mpich()
{
	gtest_good=0 gtest_bad=0 gtest_skips=0
	if IBRELK_MPICH=$("$root/tests/mpi/mpich.sh") && "$root/tests/mpi/mpich-programs.sh" "$IBRELK_MPICH" "$build/tests/mpich" &&
		IBRELK_MPICH_SUITE=$("$root/tests/mpi/mpich-suite.sh" "$IBRELK_MPICH"); then
		export IBRELK_MPICH IBRELK_MPICH_SUITE
		"$root/tests/build-module.sh" 6.1 "$build/module-6.1" || gtest_bad=1
		IBRELK_LAB_KERNEL=6.1 gtest "$build/tests/cluster/test_cluster" --gtest_filter='*Mpich*'
	else
		gtest_bad=1
	fi
	echo "$gtest_good passed, $gtest_bad failed, $gtest_skips skipped"
	[ "$gtest_bad" -eq 0 ] && [ "$gtest_good" -gt 0 ]
}

part_lab_long()
{
	local soak_s=${IBRELK_SOAK_S:-}
	gtest_good=0 gtest_bad=0 gtest_skips=0
	"$root/tests/deps.sh" munge slurmd slurmctld slurm-client slurm-wlm-basic-plugins || gtest_bad=1
	gtest "$build/tests/lab/test_lab"
	IBRELK_LAB_KERNEL=6.12 gtest "$build/tests/lab/test_lab"
	IBRELK_SOAK_S=${soak_s:-3600} cluster 6.1 '*' '*Mpich*' || gtest_bad=$((gtest_bad + 1))
	IBRELK_SOAK_S=${soak_s:-600} cluster 6.12 '*' '*Mpich*' || gtest_bad=$((gtest_bad + 1))
	echo "$gtest_good passed, $gtest_bad failed, $gtest_skips skipped"
	[ "$gtest_bad" -eq 0 ] && [ "$gtest_good" -gt 0 ]
}

# run PART, in a shell of its own: its last line says how long it took.
run()
{
	local started=$SECONDS status stat
	"part_${1//-/_}"
	status=$?
	read -r -a stat <"/proc/$BASHPID/stat" # cutime and cstime: of those that have ended, in hundredths of a second
	echo "($1 took $((SECONDS - started)) s, $(((stat[15] + stat[16]) / 100)) s of a processor; log: build/logs/$1.log)"
	return $status
}

for group in "$@"; do
	say "$group"
	read -r -a parts <<<"${group//+/ }"
	pids=()
	# All but the first say what they have to say when it is done, and take what it leaves of the processors.
	for part in "${parts[@]:1}"; do
		{ renice -n 10 -p "$BASHPID" >/dev/null; run "$part"; } >"$logs/$part.log" 2>&1 &
		pids+=($!)
	done
	run "${parts[0]}" 2>&1 | tee "$logs/${parts[0]}.log"
	add "${parts[0]}" "${PIPESTATUS[0]}" "$logs/${parts[0]}.log"
	for part in "${parts[@]:1}"; do
		wait "${pids[0]}"
		status=$?
		pids=("${pids[@]:1}")
		cat "$logs/$part.log"
		add "$part" $status "$logs/$part.log"
	done
done

# What failed is said once more, for whoever sees only the end of a long output: which tests, then what opens a kernel's
# report, then the rest.
for part in ${bad_parts[@]+"${bad_parts[@]}"}; do
	say "failed in $part"
	{
		grep -aE '^\[  FAILED  \] .*ms\)$|^ *not ok' "$logs/$part.log" | sed -n 1,20p
		grep -aE -A 2 '^(  )?\[ *[0-9]+\.[0-9]+\].*(BUG:|BUG |WARNING:|INFO: |stall|Oops|panic)' "$logs/$part.log" | sed -n 1,20p
		grep -a -B 1 -A 4 -E ': Failure$|FAIL\b|: error: |BUG: |WARNING: |status [1-9]|[^0-9][1-9][0-9]* failed' \
			"$logs/$part.log" | sed -n 1,24p
	} | grep -a . || tail -n 20 "$logs/$part.log"
done

say "result, after $SECONDS s"
if [ "$skipped" -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
