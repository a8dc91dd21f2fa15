#!/bin/sh
# Downloads the files of Debian source packages into the current folder.
#
# usage: source.sh PACKAGE...
#
# From where the binary packages come from, by apt's own configuration; that of the machine is not changed.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/sources"
for file in /etc/apt/sources.list.d/*.sources; do
	[ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/sources/${file##*/}"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
	[ ! -e "$file" ] || sed -n 's/^deb\([[:space:]]\)/deb-src\1/p' "$file" >"$work/sources/${file##*/}"
done
cat >"$work/apt.conf" <<EOF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/sources";
Dir::State::Lists "$work/lists";
Dir::Cache "$work";
EOF
export APT_CONFIG="$work/apt.conf"
apt-get -q update
apt-get -q source --download-only "$@"
