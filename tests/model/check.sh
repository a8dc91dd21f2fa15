#!/bin/bash
# Explores the model of the handshake (connect.pml) with spin, and shows that each property can fail: breaks the model
# in one place after the other, and looks whether the property that is named says so. Ends with "N passed, N failed".
#
# usage: check.sh [--full]
#
# Runs have one fault; with --full they have two, which takes minutes, and 1.5 GB.
set -uo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
model=$root/tests/model/connect.pml
build=$root/build/model
good=0 bad=0

for tool in spin cc; do
	if ! command -v "$tool" >/dev/null; then
		echo "no $tool: make deps"
		echo "0 passed, 1 failed"
		exit 1
	fi
done
mkdir -p "$build"

# explore NAME safety|liveness SWITCHES: leaves in $found what is wrong, or "nothing"; in $states how much was explored.
explore()
{
	local work=$build/$1 line
	local -a switches
	read -r -a switches <<<"$3"
	local -a options=(-DCOLLAPSE -DNOREDUCE -DVECTORSZ=512 -DMEMLIM=2000) run=(-m1000000 -w22)
	if [ "$2" = safety ]; then
		options+=(-DNOCLAIM -DSAFETY)
	else
		switches+=(-DFAIR)
		run+=(-a -N comes_up)
	fi
	rm -rf "$work"
	mkdir -p "$work"
	found=error states=0
	if ! (cd "$work" && spin "${switches[@]}" -a "$model" >spin.log 2>&1 &&
		cc -O1 -w "${options[@]}" -o pan pan.c >>spin.log 2>&1); then
		tail -n 20 "$work/spin.log"
		return
	fi
	(cd "$work" && ./pan "${run[@]}" >pan.log 2>&1)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.log")
	# Only a search that came to its end says anything.
	if grep -q 'errors: 0$' "$work/pan.log" &&
		! grep -qiE 'max search depth|search not completed|truncated' "$work/pan.log"; then
		found=nothing
	else
		line=$(grep -m 1 '^pan:1: ' "$work/pan.log")
		case $line in
		*of_this_life*) found="packet of another life" ;;
		*"].open"*) found="two connections" ;;
		*"].answer"*) found="waiting for each other" ;;
		*"invalid end state"*) found=deadlock ;;
		*"acceptance cycle"*) found="never up" ;;
		*) tail -n 20 "$work/pan.log" ;;
		esac
	fi
}

# check NAME OK TEXT: counts it.
check()
{
	if [ "$2" -eq 0 ]; then
		echo "$1: $3"
		good=$((good + 1))
	else
		echo "$1: FAILED: $3 (build/model)"
		bad=$((bad + 1))
	fi
}

faults=1
[ "${1:-}" != --full ] || faults=2

# The first thing that is found ends a search, so nothing is known of the others then.
for kind in connections datagrams; do
	which=
	[ $kind = connections ] || which=-DUD
	explore $kind-safety safety "$which -DFAULTS=$faults"
	for property in "packet of another life" "two connections" "waiting for each other" deadlock; do
		case "$kind $property" in
		"datagrams two connections" | "connections waiting for each other") continue ;;
		esac
		[ "$found" = nothing ]
		check "$kind, no $property" $? "found $found, $states states"
	done
	explore $kind-liveness liveness "$which -DFAULTS=$faults"
	[ "$found" = nothing ]
	check "$kind, not never up" $? "found $found, $states states"
done

while IFS='|' read -r name search which property; do
	explore "$name" "$search" "$which"
	[ "$found" = "$property" ]
	check "broken: $name" $? "found $found, $states states"
done <<'TABLE'
no-timer|safety|-DNO_TIMER -DFAULTS=1|deadlock
no-timer-ud|safety|-DUD -DNO_TIMER -DFAULTS=2|deadlock
no-tie-break|liveness|-DNO_TIE -DFAULTS=0|never up
no-dropping|safety|-DNO_DROPPING -DFAULTS=1|two connections
no-closing|safety|-DNO_CLOSING -DFAULTS=1|two connections
no-suspicion|liveness|-DNO_SILENCE -DFAULTS=1|never up
no-wish|liveness|-DUD -DNO_WISH -DFAULTS=1|never up
no-answer|safety|-DUD -DNO_ANSWER -DFAULTS=1|waiting for each other
no-checks|safety|-DNO_CHECKS -DFAULTS=2|packet of another life
no-checks-ud|safety|-DUD -DNO_CHECKS -DFAULTS=2|packet of another life
no-secret|safety|-DNO_SECRET -DFAULTS=2|packet of another life
no-epoch|safety|-DNO_EPOCH -DFAULTS=2|packet of another life
no-epoch-ud|safety|-DUD -DNO_EPOCH -DFAULTS=2|packet of another life
no-renewal|safety|-DNO_RENEWAL -DFAULTS=2|packet of another life
no-told|safety|-DNO_TOLD -DFAULTS=2|packet of another life
TABLE

echo "$good passed, $bad failed"
[ "$bad" -eq 0 ]
