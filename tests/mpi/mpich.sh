#!/bin/sh
# Builds MPICH for libfabric from Debian's source package, since the packaged one is built for UCX only.
#
# usage: mpich.sh        prints the folder that it is installed in, in the cache
set -eu

me=${0##*/}
here=$(cd "$(dirname "$0")" && pwd -P)
cache=${IBRELK_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/ibrelk}
mkdir -p "$cache"

# Debian 12 has one version of it, which will have security updates at most.
hash=$({
	grep -v '^[[:space:]]*#' "$here/$me"
	gcc --version | head -n 1
	dpkg-query -W libfabric-dev
} | sha256sum | cut -c 1-12)
final=$cache/mpich-$hash
if [ ! -d "$final" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# What libfabric is linked with, and asks its users to be.
	"$here/../deps.sh" libpsm2-dev libpsm-infinipath1-dev
	cd "$work"
	"$here/source.sh" mpich >&2
	dpkg-source --no-check -x ./*.dsc tree >&2
	cd tree
	# Without what is not tested: Fortran, C++, files. Data types are packed by MPICH's own engine.
	if ! {
		./configure --prefix="$final" --with-device=ch4:ofi --with-libfabric=/usr --with-datatype-engine=dataloop \
			--disable-fortran --disable-cxx --disable-romio --disable-doc &&
			make -j"$(nproc)" &&
			make install DESTDIR="$work/installed"
	} >"$cache/mpich.log" 2>&1; then
		tail -n 40 "$cache/mpich.log" >&2
		echo "$me: failed, see $cache/mpich.log" >&2
		exit 1
	fi
	# The cache may be another file system: it gets its name when all of it is there.
	rm -rf "$final.new"
	mv "$work/installed$final" "$final.new"
	mv "$final.new" "$final"
fi
echo "$final"
