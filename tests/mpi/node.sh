#!/bin/sh
# Makes a lab node one that mpirun can start processes on: a name of its own, terminals, shared memory, sshd.
#
# usage: node.sh KEYS        folder with a key pair `id` and a host key `host`, which all nodes see
set -eu

keys=$1
! [ -e /run/sshd/ready ] || exit 0

mkdir -p /dev/pts /dev/shm /run/sshd
mountpoint -q /dev/pts || mount -t devpts devpts /dev/pts
mountpoint -q /dev/shm || mount -t tmpfs tmpfs /dev/shm
ip link set lo up
hostname "node$(ip -4 -o addr show eth0 | sed 's/.* 10\.1\.0\.\([0-9]*\).*/\1/')"

# sshd wants its key to be nobody else's, whatever the folder's modes are.
install -m 600 "$keys/host" /run/sshd/host
/usr/sbin/sshd -f /dev/null -h /run/sshd/host -o StrictModes=no -o UsePAM=no -o PermitRootLogin=yes \
	-o AuthorizedKeysFile="$keys/id.pub" -o PidFile=/run/sshd/pid
touch /run/sshd/ready
