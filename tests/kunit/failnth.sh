#!/bin/sh
# Fails every single allocation and user copy of the system-call paths in turn: builds the module itself
# (not the KUnit one) for the User Mode Linux debug kernel and runs tests/selftests/failnth.cpp there.
#
#   failnth.sh [OPTION...]		options of tests/uml/run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
build=${IBRELK_KUNIT_BUILD:-$root/build/kunit}/failnth
kernel=${IBRELK_UML:-$("$root/tests/uml/build.sh")}

mkdir -p "$build/user"
cp -rsf "$root/Kbuild" "$root/kernel" "$build/"
cp -rsf "$root/user/include" "$build/user/"
find "$build" -xtype l -delete
make -s -C "$kernel" ARCH=um M="$build" -j"$(nproc)" KCFLAGS="-Werror -g" ${IBRELK_KUNIT_MAKE:-} modules >&2
g++ -std=c++20 -O1 -Wall -Wextra -Werror -static -I "$root/user/include" \
	"$root/tests/selftests/failnth.cpp" -o "$build/failnth"

status=0
"$root/tests/uml/run.sh" --kernel "$kernel" --time 600 "$@" --module "$build/ibrelk.ko" "$build/failnth" || status=$?
[ $status -eq 0 ] && echo "1 passed, 0 failed" || echo "0 passed, 1 failed"
exit $status
