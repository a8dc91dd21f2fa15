#!/bin/bash
# `make lint`: the rules of the kernel's own checkers for the kernel code, clang-tidy and clang-format for the C++,
# and whether the tables of mutants still fit the sources. Ends with how many of them found something.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
headers=$("$root/tests/lab/kernels.sh" headers 6.1)
sources=$(dirname "$headers")
kernel_doc=$(find "$sources" "$sources/../lib" -name kernel-doc -type f 2>/dev/null | head -n 1)
bad=0

step() { printf '== %s\n' "$1"; shift; "$@" || bad=$((bad + 1)); }

kernel_files() { git -C "$root" ls-files 'kernel/*.c' 'kernel/*.h' | sed "s#^#$root/#"; }

# checkpatch comes with the kernel's source. compat.h is about kernel versions and __has_include by nature.
run_checkpatch()
{
	local source folder
	source=$("$root/tests/lab/kernels.sh" source 6.1)
	folder=$(mktemp -d)
	tar -xf "$source" -C "$folder" --strip-components=1 --wildcards '*/scripts/checkpatch.pl' \
		'*/scripts/spelling.txt' '*/scripts/const_structs.checkpatch'
	kernel_files | grep -v '/compat\.h$' |
		xargs perl "$folder/scripts/checkpatch.pl" --no-tree --terse --quiet --strict --file \
			--max-line-length=120 --ignore FILE_PATH_CHANGES,SPDX_LICENSE_TAG
	local status=$?
	rm -rf "$folder"
	return $status
}

# A tool that did not run finds nothing either: each must exist, and end with status 0.
need() { command -v "$1" >/dev/null || { echo "no $1: make deps"; return 1; }; }

run_sparse()
{
	local log=$build/lint.log status
	need sparse || return 1
	"$root/tests/build-module.sh" 6.1 "$build/lint" C=2 CF="-D__CHECK_ENDIAN__ -Wno-unknown-attribute" W=1 >"$log" 2>&1
	status=$?
	grep -E "^$build/lint.*(warning|error)" "$log" && return 1
	[ "$status" -eq 0 ] || { tail -n 20 "$log"; echo "status $status"; return 1; }
}

run_kernel_doc()
{
	local out status
	[ -f "$kernel_doc" ] || { echo "no kernel-doc beside $headers"; return 1; }
	out=$(kernel_files | grep '\.h$' | xargs perl "$kernel_doc" -none 2>&1)
	status=$?
	grep -E 'warning|error' <<<"$out" && return 1
	[ "$status" -eq 0 ] || { echo "$out"; echo "status $status"; return 1; }
}

# tidy FOLDER: of the files that are read, with the commands in FOLDER.
tidy()
{
	local log=$build/lint.log status
	xargs -P "$(nproc)" -n 4 clang-tidy -p "$1" --quiet >"$log" 2>&1
	status=$?
	grep -E 'warning:|error:' "$log" && return 1
	[ "$status" -eq 0 ] || { tail -n 20 "$log"; echo "status $status"; return 1; }
}

run_clang_tidy()
{
	local found=0
	need clang-tidy || return 1
	git -C "$root" ls-files 'user/*.cpp' 'tests/*.cpp' | grep -v '^tests/fuzz/' | sed "s#^#$root/#" |
		tidy "$build" || found=1
	"$root/tests/fuzz/build.sh" "$build/fuzz" || return 1
	git -C "$root" ls-files 'tests/fuzz/*.cpp' | sed "s#^#$root/#" | tidy "$build/fuzz" || found=1
	return "$found"
}

run_clang_format()
{
	git -C "$root" ls-files '*.cpp' '*.hpp' | sed "s#^#$root/#" | xargs clang-format --dry-run -Werror
}

# Mutants that have nothing to change any more show nothing; neither does a survivor that is no mutant.
run_mutants()
{
	local found=0
	"$root/tests/fuzz/mutants.sh" --apply || found=1
	"$root/tests/sim/mutants.sh" --apply || found=1
	"$root/tests/deps.sh" python3 && "$root/tests/mutation/mutate.py" --list >/dev/null || found=1
	return "$found"
}

step checkpatch run_checkpatch
step "sparse and W=1" run_sparse
step kernel-doc run_kernel_doc
step clang-tidy run_clang_tidy
step clang-format run_clang_format
step mutants run_mutants
echo "$bad of 6 checkers found something"
[ "$bad" -eq 0 ]
