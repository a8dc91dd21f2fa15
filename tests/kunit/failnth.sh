#!/bin/sh
# Fails every single allocation and user copy of the system-call paths in turn, and then every allocation of long
# messages, also in softirqs and workers: runs tests/selftests/failnth.cpp in the User Mode Linux debug kernel.
#
#   failnth.sh [OPTION...]		options of tests/uml/run.sh
#
# Of long messages, one fault for each 512 bytes that are allocated. With IBRELK_LONG in the environment for each 8 bytes
# of one that is written and each 64 of one that is copied, for each 512 of one of 3 MB, which is pinned part by part, for
# each 8192 of one of 9 MB, which is never pinned as a whole, and in the other modes: some half an hour of processor time.
# And once more where no memory stays pinned.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
export IBRELK_UML="${IBRELK_UML:-$("$root/tests/uml/build.sh")}"
module=$("$here/module.sh")
program=$(dirname "$module")/failnth

g++ -std=c++20 -O1 -Wall -Wextra -Werror -static -I "$root/user/include" \
	"$root/tests/selftests/failnth.cpp" -o "$program"

status=0 good=0
"$root/tests/uml/run.sh" --kernel "$IBRELK_UML" --time 600 "$@" --module "$module" "$program" && good=1 || status=$?
transfers="uc-reliable 512 300000 ud-reliable 512 300000" limit=1800 tests=2

# transfer PARAMETERS TRANSFERS OPTION...: with parameters of the module.
transfer()
{
	parameters=$1 these=$2
	shift 2
	# shellcheck disable=SC2086
	"$root/tests/uml/run.sh" --kernel "$IBRELK_UML" --rxe --time $limit "$@" \
		--module "$module loopback=0 allow_native=1 $parameters" "$program" transfer $these &&
		good=$((good + 1)) || status=$?
}

if [ -n "${IBRELK_LONG:-}" ]; then
	transfers="uc-reliable 8 300000 ud-reliable 64 300000 uc-reliable 512 3000000 rc-reliable 64 300000"
	transfers="$transfers uc-reliable 8192 9000000 ud-reliable 8192 9000000"
	transfers="$transfers uc-native 128 300000 ud-native 128 300000 rc-native 128 300000"
	limit=7200 tests=3
	transfer pin_cache_mib=0 "uc-reliable 128 300000 ud-reliable 512 300000 uc-reliable 8192 9000000" "$@"
fi
transfer "" "$transfers" "$@"
echo "$good passed, $((tests - good)) failed"
exit $status
