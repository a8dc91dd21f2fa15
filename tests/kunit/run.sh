#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs KUnit modules in the User Mode Linux debug kernel.
#
#   run.sh [OPTION...] MODULE.ko...
#
#   --filter GLOB    only the suites (or SUITE.TEST) that match
#   --series S, --kernel DIR, --module "FILE [PARAMETER...]", --rxe,
#   --time SECONDS, --memory SIZE, --cpus N, --append "...", --no-leaks,
#   --console FILE, --verbose
#                    as for tests/uml/run.sh; --module loads what the tests need
#
# A KUnit module runs its suites when it is loaded. Prints the results, and at
# the end "N passed, N failed, N skipped". The exit status is 0 only if there
# were tests, none failed, each suite ran to its end, and the kernel reported
# nothing; otherwise 1, or what tests/uml/run.sh returned (120 the kernel
# reported a bug, 121 it died, 124 time limit).

set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
uml=$here/../uml

usage() { sed -n '6,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# The options for uml/run.sh are collected as quoted words.
options=
add()
{
	for word; do
		options="$options '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
	done
}

filter=
console=
headless=0
while [ $# -gt 0 ]; do
	case $1 in
	--rxe | --no-leaks | --verbose) add "$1" ;;
	--filter | --series | --kernel | --module | --time | --memory | --cpus | --append | --console)
		[ $# -ge 2 ] || usage
		case $1 in
		--filter) filter=$2 ;;
		--console) console=$2 ;;
		--kernel)
			add "$1" "$2"
			case $(cat "$2/release") in 6.1.*) headless=1 ;; esac
			;;
		--series)
			add "$1" "$2"
			[ "$2" != 6.1 ] || headless=1
			;;
		*) add "$1" "$2" ;;
		esac
		shift
		;;
	-*) usage ;;
	*) break ;;
	esac
	shift
done
[ $# -ge 1 ] || usage

# With a filter, a module may rightly have nothing to run.
modules=$#
[ -z "$filter" ] || modules=1
[ -z "$filter" ] || add --append "kunit.filter_glob=$filter"
for module; do
	add --module "$module"
done

kept=$console
[ -n "$console" ] || console=$(mktemp "${TMPDIR:-/tmp}/ibrelk-kunit.XXXXXX")
trap '[ -n "$kept" ] || rm -f "$console"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
: >"$console"

status=0
eval "\"\$uml/run.sh\" --console \"\$console\" $options -- true" || status=$?
awk -v modules="$modules" -v headless="$headless" -f "$here/ktap.awk" "$console" || {
	[ $status -ne 0 ] || status=1
}
exit $status
