#!/bin/bash
# `make bench-mpi`: Open MPI over ibrelk and over other networks between two nodes of the lab, and a plot.
#
# usage: mpi.sh [OPTION ...]      options of ibrelk-bench-mpi
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$here/../.." && pwd)/build
out=$build/bench
status=0

mkdir -p "$out"
rm -f "$out"/mpi.{csv,txt,png,svg} "$out/mpi-rounds.csv"
"$build/tests/cluster/ibrelk-bench-mpi" --output "$out" "$@" || status=$?
for terminal in png svg; do
	gnuplot -e "csv='$out/mpi.csv'; out='$out/mpi.$terminal'; kind='$terminal'" "$here/plot-mpi.gp" 2>>"$out/mpi.txt" ||
		echo "cannot draw mpi.$terminal: too little was measured"
done
exit $status
