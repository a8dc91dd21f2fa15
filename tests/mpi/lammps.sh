#!/bin/sh
# Makes inputs for LAMMPS that end after some steps: in.NAME, and what it reads, in a folder.
#
# usage: lammps.sh STEPS FOLDER chain|eam|rhodo...
#
# They are LAMMPS's benchmarks. The chain's is in Debian's lammps-examples, too; the others are in the source package
# only, of which bench/ is kept in the cache.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
steps=$1 folder=$2
shift 2

examples=/usr/share/lammps/examples/COUPLE/multiple
cache=${IBRELK_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/ibrelk}/lammps-bench

fetch()
{
	[ ! -e "$cache/in.rhodo" ] || return 0
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	(cd "$work" && "$here/source.sh" lammps) >&2
	rm -rf "$cache.new"
	mkdir -p "$cache.new"
	tar -C "$cache.new" --strip-components 2 -xf "$work"/lammps_*.orig.tar.xz --wildcards --no-wildcards-match-slash '*/bench/in.*' '*/bench/data.*' \
		'*/bench/*.eam'
	rm -rf "$cache"
	mv "$cache.new" "$cache"
}

mkdir -p "$folder"
for name; do
	from=$examples
	if [ "$name" != chain ]; then
		fetch
		from=$cache
	fi
	sed -E "s/^run[[:space:]].*/run $steps/; s/^thermo[[:space:]].*/thermo 1/" "$from/in.$name" >"$folder/in.$name"
	sed -nE 's/^(read_data|pair_coeff.*[[:space:]])[[:space:]]*([^[:space:]]*\.(eam|chain|rhodo)).*/\2/p' "$from/in.$name" |
		while read -r file; do
			cp "$from/$file" "$folder/$file"
		done
done
