#!/bin/sh
# Loads a module that is not installed, with what it depends on: what modprobe does for installed ones.
#
# usage: load-module.sh FILE.ko [parameter=value ...]
set -eu

module=$1
shift
depends=$(modinfo -F depends "$module" | tr ',' ' ')
# crc32c() finds its algorithm by name, so modinfo does not know of it.
modprobe -a crc32c_generic $depends
modprobe -q crc32c_intel 2>/dev/null || :
exec insmod "$module" "$@"
