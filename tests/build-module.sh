#!/bin/sh
# Builds ibrelk.ko for one kernel series. Kbuild writes its output beside the sources, so the sources
# are linked into a folder of their own for each series, and several can be built at the same time.
#
# usage: build-module.sh SERIES FOLDER [make arguments]
set -eu

series=$1
folder=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cp -rsf "$root/Kbuild" "$root/kernel" "$folder/"
mkdir -p "$folder/user"
cp -rsf "$root/user/include" "$folder/user/"
# A source that was removed leaves a dangling link, which would break a later build.
find "$folder" -xtype l -delete

headers=$("$root/tests/lab/kernels.sh" headers "$series")
exec make -s -C "$headers" M="$folder" -j"$(nproc)" KCFLAGS=-Werror "$@" modules
