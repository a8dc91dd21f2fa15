#!/bin/sh
# Fails every single allocation and user copy of the system-call paths in turn, and then every allocation of long
# messages, also in softirqs and workers: runs tests/selftests/failnth.cpp in the User Mode Linux debug kernel.
#
#   failnth.sh [OPTION...]		options of tests/uml/run.sh
#
# IBRELK_FAILSLAB_STEP: of long messages, a fault for each so many bytes that are allocated (512).
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
"$root/tests/uml/run.sh" --kernel "$IBRELK_UML" --rxe --time 1800 "$@" --module "$module loopback=0" "$program" transfer \
	"${IBRELK_FAILSLAB_STEP:-512}" &&
	good=$((good + 1)) || status=$?
echo "$good passed, $((2 - good)) failed"
exit $status
