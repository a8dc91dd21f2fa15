#!/bin/sh
# Fails every single allocation and user copy of the system-call paths in turn: runs tests/selftests/failnth.cpp in the
# User Mode Linux debug kernel.
#
#   failnth.sh [OPTION...]		options of tests/uml/run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
export IBRELK_UML="${IBRELK_UML:-$("$root/tests/uml/build.sh")}"
module=$("$here/module.sh")
program=$(dirname "$module")/failnth

g++ -std=c++20 -O1 -Wall -Wextra -Werror -static -I "$root/user/include" \
	"$root/tests/selftests/failnth.cpp" -o "$program"

status=0
"$root/tests/uml/run.sh" --kernel "$IBRELK_UML" --time 600 "$@" --module "$module" "$program" || status=$?
[ $status -eq 0 ] && echo "1 passed, 0 failed" || echo "0 passed, 1 failed"
exit $status
