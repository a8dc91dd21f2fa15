#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Gives a node two more soft-RoCE devices, 10.9.0.1 and 10.9.0.2, and a wire between them that loses something.
#
# usage: wire.sh PERCENT
set -eu

modprobe veth
ip link add v0 type veth peer name v1
# Both addresses are local, and yet the packets are to cross the pair.
for end in 0 1; do
	echo 1 >/proc/sys/net/ipv4/conf/v$end/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/v$end/rp_filter
	ip addr add 10.9.0.$((end + 1))/24 dev v$end
	ip link set v$end mtu 4200 up
	tc qdisc add dev v$end root netem limit 10000 loss "$1%"
done
for end in 0 1; do
	rdma link add rxev$end type rxe netdev v$end
	tries=0
	until grep -q ACTIVE /sys/class/infiniband/rxev$end/ports/1/state; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || { echo "rxev$end does not become active" >&2; exit 1; }
		sleep 0.05
	done
done
