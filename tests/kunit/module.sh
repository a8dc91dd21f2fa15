#!/bin/sh
# Builds the module itself (not the KUnit one) for the User Mode Linux debug kernel, and prints where it is.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
build=${IBRELK_KUNIT_BUILD:-$root/build/kunit}/module
kernel=${IBRELK_UML:-$("$root/tests/uml/build.sh")}

mkdir -p "$build/user"
# Several may want it at once.
exec 9>"$build.lock"
flock 9
cp -rsf "$root/Kbuild" "$root/kernel" "$build/"
cp -rsf "$root/user/include" "$build/user/"
find "$build" -xtype l -delete
make -s -C "$kernel" ARCH=um M="$build" -j"$(nproc)" KCFLAGS="-Werror -g" ${IBRELK_KUNIT_MAKE:-} modules >&2
echo "$build/ibrelk.ko"
