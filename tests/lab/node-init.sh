#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# First process of a lab node, run by busybox from the initramfs. It mounts the
# host's root over 9p, read-only, with a throw-away writable layer above, brings
# up the network and soft-RoCE, and becomes the lab's agent. /lab/config holds
# what the lab wants of this node; /lab/shares the host folders to mount afresh,
# one per line.

export PATH=/bin

die()
{
	echo "node-init: $*" >&2
	poweroff -f
	exec sleep 1000
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
. /lab/config

for module in /modules/*.ko; do
	insmod "$module" || die "cannot load $module"
done

mount -t tmpfs tmpfs /writable
mkdir /writable/data /writable/work
p9=trans=virtio,version=9p2000.L,msize=512000,access=any,ro
mount -t 9p -o $p9,cache=loose root /lower || die "cannot mount the host's root"
mount -t overlay -o lowerdir=/lower,upperdir=/writable/data,workdir=/writable/work overlay /host ||
	die "cannot put a writable layer over the host's root"

mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t configfs configfs /sys/kernel/config
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /host/proc /host/sys /host/dev /host/tmp /host/run /host/root
mount --rbind /proc /host/proc
mount --rbind /sys /host/sys
mount --rbind /dev /host/dev
mount -t tmpfs -o mode=1777 tmpfs /host/tmp
mount -t tmpfs -o mode=755 tmpfs /host/run
# Commands that the host lacks (ping, perhaps) come last in a job's search path.
mkdir -p /host/run/busybox
mount --bind /bin /host/run/busybox
ln -s /proc/self/fd /dev/fd

# Modules are found by the kernel's own requests, which look here, and by
# modprobe in the host's root.
mount --bind "/lower$MODULES" /lib/modules || die "cannot see the kernel's modules"
mkdir -p /host/lib/modules
mount --bind "/lower$MODULES" /host/lib/modules

share=0
while read -r path; do
	mkdir -p "/host$path"
	mount -t 9p -o $p9,cache=mmap "share$share" "/host$path" || die "cannot mount $path"
	share=$((share + 1))
done </lab/shares

hostname "node$NODE"
echo "node$NODE" >/host/etc/hostname
cat /lab/hosts >/host/etc/hosts

for setting in kernel.hung_task_timeout_secs=60 kernel.panic_on_oops=0 \
	net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.eth0.accept_dad=0; do
	sysctl -qw $setting 2>/dev/null || echo "node-init: no $setting"
done

ip link set lo up
ip link set eth0 mtu "$MTU" up || die "cannot bring eth0 up"
ip addr add "$ADDRESS" dev eth0 || die "cannot give eth0 its address"
# Faults come and go below this one: while the root is exchanged the device drops what is sent.
chroot /host /sbin/tc qdisc add dev eth0 root handle 1: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ||
	die "cannot give eth0 its queue"

if [ "$SOFT_ROCE" = 1 ]; then
	chroot /host rdma link add rxe0 type rxe netdev eth0 || die "cannot create rxe0"
	tries=0
	until grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || die "rxe0 does not become active"
		usleep 50000
	done
fi

# From here on whatever the kernel says matters.
dmesg -n 7
# Nobody makes a user namespace in a mere chroot. So the host's root takes the place of this one, as with
# switch_root, but that the agent keeps the old one, and has the new one as its working directory.
cd /host && mount --move /host / || die "cannot move the host's root"
exec /agent .
