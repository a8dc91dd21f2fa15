#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# First process of the benchmark node. The initramfs holds all there is. It joins two soft-RoCE devices by a veth pair, runs the
# script, and sends what that says to the second serial port and its status and
# results to the third, as an archive.

export PATH=/files:/sbin:/bin HOME=/

die()
{
	echo "bench-init: $*" >&2
	poweroff -f
	exec sleep 1000
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
ln -s /proc/self/fd /dev/fd
hostname bench

for module in /modules/*.ko; do
	insmod "$module" || die "cannot load $module"
done

. /lab/config

ip link set lo up
ip link add v0 mtu "$MTU" type veth peer name v1 mtu "$MTU" || die "cannot create the veth pair"
# Both addresses are local, and yet the packets are to cross the pair.
for device in all v0 v1; do
	echo 1 >/proc/sys/net/ipv4/conf/$device/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/$device/rp_filter
done
for end in 0 1; do
	echo 0 >/proc/sys/net/ipv6/conf/v$end/accept_dad
	ip addr add 10.9.0.$((end + 1))/24 dev v$end
	ip link set v$end up
done
for end in 0 1; do
	rdma link add rxe$end type rxe netdev v$end || die "cannot create rxe$end"
	tries=0
	until grep -q ACTIVE /sys/class/infiniband/rxe$end/ports/1/state; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || die "rxe$end does not become active"
		usleep 10000
	done
done
dmesg -n 7

stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
cd /
/lab/script "$@" </dev/null >/dev/ttyS1 2>&1
echo $? >/lab/status
tar -cf /dev/ttyS2 lab/status out || die "cannot send the results"
poweroff -f
