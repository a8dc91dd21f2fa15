#!/bin/bash
# Makes a node of the lab one of a Slurm cluster: munged, slurmd, and on node 1 the controller.
#
# usage: slurm.sh KEY        a munge key, which all nodes see
set -eu

key=$1 name=$(hostname)
! [ -e /run/slurm/ready ] || exit 0

mkdir -p /run/slurm /run/munge /var/lib/munge /var/log/munge
# munged wants all that it uses to be its own, whatever the host's are.
install -m 400 "$key" /run/slurm/munge.key
munged --force --key-file=/run/slurm/munge.key --log-file=/run/slurm/munged.log --pid-file=/run/slurm/munged.pid \
	--seed-file=/run/slurm/munged.seed

# The times are those of emulated nodes.
cat >/etc/slurm/slurm.conf <<END
ClusterName=lab
SlurmctldHost=node1
SlurmUser=root
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
PropagateResourceLimitsExcept=MEMLOCK
KillWait=5
TCPTimeout=30
MessageTimeout=100
UnkillableStepTimeout=300
NodeName=node[1-2] CPUs=1
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4
END
# No systemd is here to make it a cgroup.
echo "IgnoreSystemd=yes" >/etc/slurm/cgroup.conf
mkdir -p /sys/fs/cgroup/system.slice
mkdir -p /run/slurm/state /run/slurm/spool
[ "$name" != node1 ] || slurmctld
# As slurmd.service has it: what is pinned is not limited.
ulimit -l unlimited
slurmd
touch /run/slurm/ready
