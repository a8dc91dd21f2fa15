#!/bin/sh
# Builds MPICH for libfabric from Debian's source package, since the packaged one is built for UCX only.
#
# usage: mpich.sh        prints the folder that it is installed in, in the cache
set -eu

me=${0##*/}
here=$(cd "$(dirname "$0")" && pwd -P)
cache=${IBRELK_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/ibrelk}
mkdir -p "$cache"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$here/source.sh" mpich >&2
hash=$({
	cat ./*.dsc
	grep -v '^[[:space:]]*#' "$here/$me"
} | sha256sum | cut -c 1-12)
final=$cache/mpich-$hash
if [ ! -d "$final" ]; then
	dpkg-source --no-check -x ./*.dsc tree >&2
	cd tree
	# Without what is not tested: Fortran, C++, files. Data types are packed by MPICH's own engine.
	{
		./configure --prefix="$final" --with-device=ch4:ofi --with-libfabric=/usr --with-datatype-engine=dataloop \
			--disable-fortran --disable-cxx --disable-romio --disable-doc
		make -j"$(nproc)"
		make install DESTDIR="$work/installed"
	} >"$cache/mpich.log" 2>&1 || {
		tail -n 40 "$cache/mpich.log" >&2
		echo "$me: failed, see $cache/mpich.log" >&2
		exit 1
	}
	mv "$work/installed$final" "$final"
fi
echo "$final"
