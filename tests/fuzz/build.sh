#!/bin/bash
# Builds the fuzzers, in clang.
#
# usage: build.sh FOLDER [CMAKE OPTION ...]
set -euo pipefail

folder=$1
shift
mkdir -p "$folder"
{
	cmake -S "$(dirname "$0")" -B "$folder" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ "$@" &&
		cmake --build "$folder"
} >"$folder/log" 2>&1 || {
	cat "$folder/log"
	exit 1
}
