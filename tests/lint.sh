#!/bin/bash
# `make lint`: the rules of the kernel's own checkers for the kernel code, and clang-tidy and clang-format for the
# C++. Ends with how many of them found something.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
headers=$("$root/tests/lab/kernels.sh" headers 6.1)
scripts=$(dirname "$(find "$(dirname "$headers")" "$(dirname "$headers")/../lib" -name kernel-doc -type f 2>/dev/null | head -n 1)")
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

run_sparse()
{
	"$root/tests/build-module.sh" 6.1 "$build/lint" C=2 CF="-D__CHECK_ENDIAN__ -Wno-unknown-attribute" W=1 2>&1 |
		grep -E "^$build/lint.*(warning|error)" && return 1
	return 0
}

run_kernel_doc()
{
	local out
	out=$(kernel_files | grep '\.h$' | xargs perl "$scripts/kernel-doc" -none 2>&1 | grep -E 'warning|error')
	[ -z "$out" ] || { echo "$out"; return 1; }
}

run_clang_tidy()
{
	local found=0
	git -C "$root" ls-files 'user/*.cpp' 'tests/*.cpp' | grep -v '^tests/fuzz/' | sed "s#^#$root/#" |
		xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet 2>/dev/null | grep -E 'warning:|error:' && found=1
	"$root/tests/fuzz/build.sh" "$build/fuzz" || return 1
	git -C "$root" ls-files 'tests/fuzz/*.cpp' | sed "s#^#$root/#" |
		xargs -P "$(nproc)" -n 4 clang-tidy -p "$build/fuzz" --quiet 2>/dev/null | grep -E 'warning:|error:' && found=1
	return "$found"
}

run_clang_format()
{
	git -C "$root" ls-files '*.cpp' '*.hpp' | sed "s#^#$root/#" | xargs clang-format --dry-run -Werror
}

step checkpatch run_checkpatch
step "sparse and W=1" run_sparse
step kernel-doc run_kernel_doc
step clang-tidy run_clang_tidy
step clang-format run_clang_format
echo "$bad of 5 checkers found something"
[ "$bad" -eq 0 ]
