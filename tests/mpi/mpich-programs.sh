#!/bin/sh
# Builds our MPI programs for an MPICH.
#
# usage: mpich-programs.sh MPICH_FOLDER OUTPUT_FOLDER
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
mkdir -p "$2"
for program in pingpong pointtopoint onesided; do
	g++ -std=c++20 -O2 -Wall -Wextra -Werror -pthread -isystem "$1/include" "$here/$program.cpp" -o "$2/$program" \
		-L "$1/lib" -Wl,-rpath,"$1/lib" -lmpi
done
