#!/bin/sh
# Installs the Debian packages that building and testing ibrelk need, and is quick when they are there.
#
# usage: deps.sh [PACKAGE ...]        these too: what only one target needs
set -eu

packages="build-essential ca-certificates cmake ninja-build pkg-config clang clang-format clang-tidy libclang-rt-14-dev sparse
	bc bison flex cpio kmod libelf-dev libssl-dev xz-utils zstd dash
	qemu-system-x86 busybox-static iproute2
	libcli11-dev libfmt-dev libgtest-dev libgmock-dev libbenchmark-dev liburing-dev
	rdma-core libibverbs-dev librdmacm-dev ibverbs-utils ibverbs-providers perftest libfabric-dev libfabric-bin iperf3 ethtool gnuplot-nox
	spin openmpi-bin libopenmpi-dev openssh-server lammps lammps-examples netpipe-openmpi hpcc $*"

missing=
for package in $packages; do
	dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "missing packages, install them as root (sudo make deps):$missing" >&2
	exit 1
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=600 -q update >&2
# Of a server, only the program is wanted: it does not start now, nor, if it was not here before, with the machine.
case "$missing " in
*" openssh-server "*) mkdir -p /etc/ssh && touch /etc/ssh/sshd_not_to_be_run ;;
esac
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi
# shellcheck disable=SC2086
apt-get -o DPkg::Lock::Timeout=600 -q -y install --no-install-recommends $missing >&2
for service in munge slurmd slurmctld; do
	case "$missing " in
	*" $service "*) update-rc.d "$service" disable >&2 || echo "$service may start with the machine" >&2 ;;
	esac
done
