#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Lets the wire of wire.sh lose so much, in both directions, from now on; 100 cuts it.
#
# usage: loss.sh PERCENT
set -eu

for end in 0 1; do
	tc qdisc change dev v$end root netem limit 10000 loss "$1%"
done
