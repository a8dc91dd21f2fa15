#!/bin/sh
# Builds the tests that come with MPICH, of messages between two processes and of windows.
#
# usage: mpich-suite.sh MPICH_FOLDER        prints the folder that they are in, in the cache
set -eu

me=${0##*/}
here=$(cd "$(dirname "$0")" && pwd -P)
mpich=$1
cache=$(dirname "$mpich")

# A whole line of a file becomes another one.
change()
{
	grep -q "^$2\$" "$1" || { echo "$me: $1 has no line $2" >&2; exit 1; }
	sed -i "s/^$2\$/$3/" "$1"
}

hash=$(grep -v '^[[:space:]]*#' "$here/$me" | sha256sum | cut -c 1-12)
final=$mpich-suite-$hash
if [ ! -d "$final" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	cd "$work"
	"$here/source.sh" mpich >&2
	dpkg-source --no-check -x ./*.dsc tree >&2
	cd tree/test/mpi
	# 2.4 million accumulates, six times, 13 GB, 39, and more that are a quarter of an hour and more here, mostly with a
	# processor for two processes that poll. With less, the calls are the same.
	change rma/atomic_get.c '#define LOOP 100' '#define LOOP 10'
	change rma/atomic_get.c '#define OPS_NUM 10000' '#define OPS_NUM 1000'
	change rma/manyget.c '#define BUFSIZE (128\*1024)' '#define BUFSIZE 1024'
	change rma/large_acc_flush_local.c '#define LOOP 500' '#define LOOP 5'
	change rma/atomic_rmw_gacc.c '#define SHM_BUF_NUM 10000' '#define SHM_BUF_NUM 100'
	change rma/win_shared_rma_flush_load.c '#define ITER 10000' '#define ITER 1000'
	change rma/wrma_flush_get.c '#define ITER 10000' '#define ITER 1000'
	if ! {
		./configure --with-mpi="$mpich" --disable-fortran --disable-cxx &&
			make -j"$(nproc)" -C util && make -j"$(nproc)" -C dtpools &&
			make -j"$(nproc)" -C pt2pt all && make -j"$(nproc)" -C rma all
	} >"$cache/mpich-suite.log" 2>&1; then
		tail -n 40 "$cache/mpich-suite.log" >&2
		echo "$me: failed, see $cache/mpich-suite.log" >&2
		exit 1
	fi
	find pt2pt rma -name '*.o' -delete
	# Their lists are what is run: without one nothing would be, and nobody would notice.
	for folder in pt2pt rma; do
		[ -s $folder/testlist ] || { echo "$me: $folder/testlist is missing" >&2; exit 1; }
	done
	rm -rf "$final.new"
	mkdir "$final.new"
	mv pt2pt rma "$final.new"
	mv "$final.new" "$final"
fi
echo "$final"
