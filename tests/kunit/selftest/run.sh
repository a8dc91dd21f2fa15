#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Proves that tests/kunit/run.sh notices what it is there for: builds one KUnit
# module and lets it pass, fail, skip, and break the kernel in several ways.
#
#   run.sh [--series S | --kernel DIR] [WHAT...]
#
# Not for 6.1, where KUnit runs suites before the module has its parameters. The
# last line printed is "N passed, N failed".

set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
case ${1:-} in
--series)
	kernel=$("$here/../../uml/build.sh" "$2")
	shift 2
	;;
--kernel)
	kernel=$2
	shift 2
	;;
*) kernel=$("$here/../../uml/build.sh") ;;
esac

# A copy, because the build writes beside the sources.
work=$(mktemp -d "${TMPDIR:-/tmp}/ibrelk-selftest.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
cp "$here/Kbuild" "$here/selftest.c" "$work"
make -s -C "$kernel" ARCH=um M="$work" modules >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	echo "selftest: the module does not build" >&2
	exit 1
}

right=0
wrong=0
only=" $* "

# check WHAT STATUS LAST-LINE PATTERN [OPTION...]: the last line is a pattern,
# too, and PATTERN is found somewhere in what the runner prints. Looking for
# leaks takes several seconds, so only two cases do it.
check()
{
	what=$1 want_status=$2 want_last=$3 pattern=$4
	shift 4
	case $only in "  " | *" $what "*) ;; *) return ;; esac
	case $what in pass | leak) ;; *) set -- --no-leaks "$@" ;; esac
	status=0
	"$here/../run.sh" --kernel "$kernel" --time 60 "$@" \
		"$work/selftest.ko what=$what" >"$work/out" 2>"$work/err" || status=$?
	last=$(tail -n 1 "$work/out")
	if [ $status = "$want_status" ] && expr "$last" : "$want_last\$" >/dev/null &&
		cat "$work/out" "$work/err" | grep -q -- "$pattern"; then
		right=$((right + 1))
		echo "ok    $what"
		return
	fi
	wrong=$((wrong + 1))
	echo "FAIL  $what: status $status (not $want_status), last line \"$last\" (not \"$want_last\"), pattern \"$pattern\""
	sed 's/^/      | /' "$work/out" "$work/err"
}

all="6 passed, 0 failed, 0 skipped"
# Since 6.3 KUnit itself fails a test in which UBSAN or KASAN reports something.
failed="[56] passed, [01] failed, 0 skipped"
# The last words of a kernel that stops dead may not reach the console.
cut="[01] passed, 0 failed, 0 skipped"
check pass     0   "$all" "ok    each_number\|ok    number 3"
check fail     1   "5 passed, 1 failed, 0 skipped" "Expected 1 == 2"
check param    1   "5 passed, 1 failed, 0 skipped" "FAIL  number 2"
check skip     0   "5 passed, 0 failed, 1 skipped" "skip  middle.*asked"
check noplan   1   "7 passed, 0 failed, 0 skipped" "noplan: has no plan"
check short    1   "7 passed, 0 failed, 0 skipped" "short: planned 2 results, gave 1"
check noload   120 "0 passed, 0 failed, 0 skipped" "a module did not load"
check kasan    120 "$failed" "BUG: KASAN: slab-use-after-free in"
check nothing  1   "0 passed, 0 failed, 0 skipped" "no tests ran" --filter nothing
check atomic   120 "$all" "BUG: sleeping function\|BUG: scheduling while atomic"
check deadlock 120 "$all" "possible circular locking dependency"
check leak     120 "$all" "kmemleak: .* leaked objects"
check odebug   120 "$all" "ODEBUG: free active"
check ubsan    120 "$failed" "UBSAN: shift-out-of-bounds"
check warn     120 "$all" "WARNING: .*middle"
check die      120 "$cut" "Oops\|Kernel panic"
check panic    120 "$cut" "Kernel panic - not syncing: asked to"
check hang     124 "$cut" "time limit of 10 s, while: loading selftest" --time 10
check spin     124 "$cut" "no longer reacted" --time 5

echo "$right passed, $wrong failed"
[ $wrong = 0 ] && [ $right -gt 0 ]
