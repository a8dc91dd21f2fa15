#!/bin/sh
# Every kind of user memory as source and target of RDMA writes, on a node of which nothing is expected but a module
# that is loaded: gives it two more soft-RoCE devices, joined by a wire, and a file system on a disk.
#
#   memory.sh [part of a test's name...]
set -eu
[ $# -gt 0 ] || set -- memory__ remote__

abi=$(cd "$(dirname "$0")/../.." && pwd -P)/build/tests/selftests/abi
parameters=/sys/module/ibrelk/parameters

# The node is left as it was.
loopback=$(cat $parameters/loopback) zero_copy_min=$(cat $parameters/zero_copy_min)
end()
{
	status=$?
	set +e
	echo "$loopback" >$parameters/loopback
	echo "$zero_copy_min" >$parameters/zero_copy_min
	umount /tmp/files
	rm -f /tmp/disk
	rdma link delete rxe8
	rdma link delete rxe9
	ip link delete v0
	echo 0 >/proc/sys/net/ipv4/conf/all/accept_local
	exit $status
}
trap end EXIT

ip link add v0 mtu 4500 type veth peer name v1 mtu 4500
ip address add 10.9.0.1/24 dev v0
ip address add 10.9.0.2/24 dev v1
for dir in all v0 v1; do
	echo 1 >/proc/sys/net/ipv4/conf/$dir/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/$dir/rp_filter
done
ip link set v0 up
ip link set v1 up
rdma link add rxe8 type rxe netdev v0
rdma link add rxe9 type rxe netdev v1
tries=200
until grep -q 0a09:0002 /sys/class/infiniband/rxe9/ports/1/gids/* 2>/dev/null &&
	grep -q ACTIVE /sys/class/infiniband/rxe8/ports/1/state && grep -q ACTIVE /sys/class/infiniband/rxe9/ports/1/state; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || exit 1
	sleep 0.1
done

# Neither is loaded by itself here.
modprobe -a loop ext4
truncate -s 32M /tmp/disk
mke2fs -q -t ext4 /tmp/disk
mkdir -p /tmp/files
mount -o loop /tmp/disk /tmp/files

# As short as they may be, so that most is written.
echo 0 >$parameters/loopback
echo 4096 >$parameters/zero_copy_min
"$abi" --between 10.9.0.1 10.9.0.2 --disk /tmp/files "$@"
