#!/bin/sh
# Builds the KUnit module and runs its suites in the User Mode Linux debug kernel.
#
#   check.sh [OPTION...]
#
# Options are those of run.sh, such as --filter GLOB or --verbose. The last line printed is "N
# passed, N failed ...".
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
build=${IBRELK_KUNIT_BUILD:-$root/build/kunit}
kernel=${IBRELK_UML:-$("$root/tests/uml/build.sh")}

# As in tests/build-module.sh: Kbuild writes beside the sources, so it is given links to them. The
# folder of the suites is flat, as others (selftest) are modules of their own.
mkdir -p "$build/tests/kunit" "$build/user"
cp -rsf "$root/kernel" "$build/"
cp -rsf "$root/user/include" "$build/user/"
cp -sf "$here"/*.c "$here"/*.h "$build/tests/kunit/"
cp -sf "$here/Kbuild" "$build/Kbuild"
find "$build" -xtype l -delete
make -s -C "$kernel" ARCH=um M="$build" -j"$(nproc)" KCFLAGS="-Werror -g" ${IBRELK_KUNIT_MAKE:-} modules >&2

exec "$here/run.sh" --kernel "$kernel" --time 900 "$@" "$build/ibrelk_kunit.ko"
