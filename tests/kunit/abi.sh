#!/bin/sh
# Attacks the user interface in the User Mode Linux debug kernel: runs tests/selftests/abi there, which
# `make user` builds. Its report, in KTAP, counts as one test.
#
#   abi.sh [OPTION...]		options of tests/uml/run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
export IBRELK_UML="${IBRELK_UML:-$("$root/tests/uml/build.sh")}"
module=$("$here/module.sh")
log=$(dirname "$module")/abi.log

status=0
"$root/tests/uml/run.sh" --kernel "$IBRELK_UML" --rxe --time 1800 "$@" --module "$module allow_native=1" \
	"$root/build/tests/selftests/abi" >"$log" || status=$?
if [ $status -eq 0 ] && grep -q '^ok 1 ' "$log" && ! grep -q '^not ok' "$log"; then
	echo "1 passed, 0 failed"
	exit 0
fi
grep '^not ok' -B 12 "$log" || tail -n 50 "$log"
echo "0 passed, 1 failed"
exit 1
