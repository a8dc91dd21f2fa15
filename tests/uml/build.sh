#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the User Mode Linux debug kernel from Debian's linux-source package.
#
#   build.sh [6.12|6.1|7.x]
#
# Prints one directory on standard output; progress goes to standard error. The
# directory holds
#
#   linux                      the kernel, a host executable
#   modules/lib/modules/<ver>  its own modules
#   <everything else>          what `make ARCH=um -C DIR M=...` needs
#   build.log, release         for the curious
#
# Nothing is installed on the machine. The result is cached under a name that
# covers all that it was made from, so a changed configuration or a new source
# package makes a new directory and an old one stays usable for whoever still
# uses it. IBRELK_LINUX_SOURCE names a linux-source-*.tar.xz to use instead of
# the one that tests/lab/kernels.sh downloads.

set -eu

# A make that called this one must not lend it its options.
unset MAKEFLAGS MFLAGS MAKELEVEL ARCH SUBARCH CROSS_COMPILE KCFLAGS O M \
	KBUILD_OUTPUT KBUILD_EXTMOD

me=${0##*/}
here=$(cd "$(dirname "$0")" && pwd -P)

say() { echo "$me: $*" >&2; }
fail() { say "$*"; exit 1; }

series=${1:-6.12}
[ $# -le 1 ] || fail "usage: $me [6.12|6.1|7.x]"
case $series in
6.12 | 6.1 | 7.*) ;;
*) fail "unknown series $series (6.12, 6.1 or 7.x)" ;;
esac

# An hour is far more than a build takes even on a busy machine.
wait_max_s=3600

cache=${IBRELK_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/ibrelk}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd -P)
case $cache in
*[[:space:]]*) fail "kbuild cannot work in a directory with a space in its name: $cache" ;;
esac

for tool in gcc make flex bison bc xz flock perl patch depmod; do
	command -v "$tool" >/dev/null || fail "$tool is missing (make deps installs it)"
done

tarball=${IBRELK_LINUX_SOURCE:-}
[ -n "$tarball" ] || tarball=$("$here/../lab/kernels.sh" source "$series")
[ -f "$tarball" ] || fail "no source for $series"

# The archive's length and tail (the index of an .xz file) tell versions apart
# without reading 150 MB at every call. Of this script and the configuration,
# comments do not count. The compiler does, because modules must be built by the
# one that built the kernel.
hash=$({
	wc -c <"$tarball"
	tail -c 1000000 "$tarball"
	grep CONFIG_ "$here/debug.config"
	grep -v '^[[:space:]]*#' "$0"
	cat "$here/$series.patch" 2>/dev/null || :
	gcc --version | head -n 1
} | sha256sum | cut -c 1-12)
final=$cache/uml-$series-$hash
partial=$final.partial

finish()
{
	echo "$final"
	exit 0
}

# The directory gets this name by one rename when all is done; so if it is
# there, it is whole.
[ ! -d "$final" ] || finish

exec 9>"$cache/uml-$series.lock"
if ! flock -n 9; then
	say "waiting for another build of $series to end"
	flock -w "$wait_max_s" 9 ||
		fail "another build of $series held $cache/uml-$series.lock for $wait_max_s s"
fi
[ ! -d "$final" ] || finish

# Left by a build that was interrupted; nobody else can be at work there now.
rm -rf "$partial"
child=
cleanup()
{
	if [ -n "$child" ]; then
		kill "$child" 2>/dev/null || :
		wait "$child" 2>/dev/null || :
	fi
	rm -rf "$partial"
}
trap cleanup EXIT
trap 'say "hung up"; exit 129' HUP
trap 'say "interrupted"; exit 130' INT
trap 'say "terminated"; exit 143' TERM

jobs=$(nproc)
started=$(date +%s)
say "unpacking the source of $series"
mkdir "$partial"
tar -xf "$tarball" -C "$partial" --strip-components=1

# In the background, since a shell that waits for a foreground command does not
# hear a signal until that command has ended; and without the lock, which must
# not outlive this script in some grandchild.
log=$partial/build.log
run()
{
	"$@" >>"$log" 2>&1 9>&- &
	child=$!
	if wait "$child"; then
		child=
		return
	fi
	child=
	tail -n 40 "$log" >&2
	cp "$log" "$cache/uml-$series-failed.log"
	fail "failed: $* (whole log: $cache/uml-$series-failed.log)"
}

kmake() { run make -C "$partial" ARCH=um "$@"; }

[ ! -f "$here/$series.patch" ] || run patch -d "$partial" -p1 -i "$here/$series.patch"

say "configuring"
kmake defconfig
run env -C "$partial" KCONFIG_CONFIG=.config \
	scripts/kconfig/merge_config.sh -m .config "$here/debug.config"
kmake olddefconfig

# Kconfig drops what it cannot have without a word.
dropped=$(awk '
	FNR == NR {
		if ($0 ~ /^CONFIG_/) {
			split($0, part, "=")
			is[part[1]] = substr($0, length(part[1]) + 2)
		}
		next
	}
	/^## Optional/ { optional = 1 }
	/^CONFIG_/ {
		split($0, part, "=")
		want = substr($0, length(part[1]) + 2)
		if (is[part[1]] != want)
			print (optional ? "optional " : "required ") $0
	}
	/^# CONFIG_.* is not set$/ && ($2 in is) {
		print (optional ? "optional " : "required ") $0
	}' "$partial/.config" "$here/debug.config")
if [ -n "$dropped" ]; then
	say "not taken from debug.config:"
	echo "$dropped" | sed 's/^/  /' >&2
	case $dropped in
	*required*) fail "$series cannot have the required lines above" ;;
	esac
fi

say "building with $jobs jobs (some minutes)"
kmake -j"$jobs" all
kmake INSTALL_MOD_PATH="$partial/modules" modules_install
release=$(cat "$partial/include/config/kernel.release")
echo "$release" >"$partial/release"

# Modules need the headers, the build tools and the symbol list; the rest of
# the tree is two gigabytes.
cd "$partial"
for entry in * .[!.]*; do
	case $entry in
	linux | modules | release | build.log | .config | Makefile | Kbuild | \
		Module.symvers | System.map | include | scripts | arch) ;;
	*) rm -rf "$entry" ;;
	esac
done
for entry in arch/*; do
	case $entry in
	arch/um | arch/x86) ;;
	*) rm -rf "$entry" ;;
	esac
done
find arch -type f \( -name '*.[coSa]' -o -name '.*.cmd' -o -name '*.order' \) -delete
cd "$cache"
rm -f "$partial/modules/lib/modules/$release/build" "$partial/modules/lib/modules/$release/source"

mv -T "$partial" "$final"
trap - EXIT HUP INT TERM
say "built $release in $(($(date +%s) - started)) s, $(du -sh "$final" | cut -f 1)"
finish
