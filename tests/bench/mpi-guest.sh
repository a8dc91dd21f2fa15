#!/bin/sh
# Open MPI in the guest of `ibrelk-lab bench`: two ranks that give way to each other on one processor, over a device
# each, over ibrelk and over other networks, all in one boot, without loss and, but for TCP, with 1 % each way. Prints
# lines "row: " and a row of the CSV file, as guest.sh does. To Open MPI they are on two nodes, "near" and "away":
# windows of two ranks of one node would be its memory.
#
# usage: mpi-guest.sh [NETWORK ...]
#   NETWORK   a mode of ibrelk, ofi-rxd (libfabric's verbs;ofi_rxd), ucx-ud, ofi-tcp (tcp;ofi_rxm), openmpi-tcp, TCP
#             last; all of them if none is given
set -u

[ $# -gt 0 ] || set -- uc-reliable ud-reliable auto ofi-rxd ucx-ud ofi-tcp openmpi-tcp
wire=10.9.0.0/24
far=	# what runs a command where v1 is

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMIX_MCA_ptl_base_if_include=$wire
export FI_PROVIDER_PATH=/files TMPDIR=/tmp

# apart: as in guest.sh, for what takes no way between two addresses of one node but the shortest.
apart()
{
	[ -z "$far" ] || return 0
	rmmod ibrelk
	rdma link delete rxe0
	rdma link delete rxe1
	far='ip netns exec far'
	{
		ip netns add far && ip link set v1 netns far && $far ip link set lo up &&
			$far ip addr add 10.9.0.2/24 dev v1 && $far ip link set v1 up &&
			ethtool -K v0 tso off gso off gro off && $far ethtool -K v1 tso off gso off gro off
	} || echo "FAILED: v1 in a network namespace of its own"
}

# wire LOSS: from here on, each direction loses so many percent of its packets.
wire()
{
	tc qdisc del dev v0 root 2>/dev/null
	$far tc qdisc del dev v1 root 2>/dev/null
	[ "$1" != 0 ] || return 0
	tc qdisc add dev v0 root netem limit 100000 loss "$1%" &&
		$far tc qdisc add dev v1 root netem limit 100000 loss "$1%" || echo "FAILED: netem loss $1"
}

# job NETWORK PIECE: of bench.cpp, in two ranks, over a network, and its rows.
job()
{
	network=$1 piece=$2
	set --
	left='' right='' windows=pt2pt
	case $network in
	openmpi-tcp)
		set -- --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include $wire
		;;
	ucx-*)
		windows=ucx
		export UCX_TLS=ud_v,self UCX_IB_GID_INDEX=0
		set -- --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any
		left='-x UCX_NET_DEVICES=rxe0:1' right='-x UCX_NET_DEVICES=rxe1:1'
		;;
	ofi-tcp)
		set -- --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'tcp;ofi_rxm'
		left='-x FI_TCP_IFACE=v0' right='-x FI_TCP_IFACE=v1'
		;;
	ofi-rxd)
		set -- --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxd'
		left='-x FI_VERBS_DEVICE_NAME=rxe0' right='-x FI_VERBS_DEVICE_NAME=rxe1'
		;;
	*)
		set -- --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ibrelk
		windows='rdma --mca osc_rdma_btl_names ofi --mca btl ofi,self --mca btl_ofi_provider_include ibrelk'
		left="-x FI_IBRELK_MODE=$network -x FI_IBRELK_DEVICE=rxe0"
		right="-x FI_IBRELK_MODE=$network -x FI_IBRELK_DEVICE=rxe1"
		;;
	esac
	# What windows are made of would be polled for messages, too.
	[ "$piece" != one-sided ] || set -- "$@" --mca osc $windows
	timeout -s KILL 400 mpirun --bind-to none --mca plm_rsh_agent /tmp/node --mca oob_tcp_if_include $wire \
		--mca mpi_yield_when_idle 1 "$@" -host near -n 1 $left bench "$piece" : -host away -n 1 $right bench "$piece" \
		>/tmp/out 2>&1
	status=$?
	sed -n 's/^row: \([^,]*\),\([^,]*\),\([^,]*\),\(.*\)/row: '"$network,\\1,\\2,$loss"',0,\3,\4/p' /tmp/out
	[ $status -ne 0 ] || return
	echo "FAILED: $network, loss $loss %: $piece"
	grep -v '^row: ' /tmp/out | head -n 12
	# Who is left would poll on.
	kill -KILL $(pidof bench orted) 2>/dev/null
}

# perf MODE: what the same messages take without MPI.
perf()
{
	rm -f /tmp/perf.csv
	ibrelk-perf latency --mode "$1" --self 10.9.0.1 10.9.0.2 --size 8,1k,4k,8k,64k,1m -n 200 --events --quiet \
		--csv /tmp/perf.csv || echo "FAILED: ibrelk-perf, $1"
	awk -F, -v OFS=, '$2 == "latency_us" { print "row: " $1, "perf_" $2, $3, $4, $5, $6, $7 }' /tmp/perf.csv
}

timeout 60 head -c 1 /dev/random >/dev/null
# What mpirun starts on the other node, it starts here.
echo near >/proc/sys/kernel/hostname
cat >/tmp/node <<-'end'
	#!/bin/sh
	name=$1
	shift
	far=
	[ ! -e /run/netns/far ] || far='ip netns exec far'
	exec unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname; exec $1 sh -c "$2"' "$name" "$far" "$*"
end
chmod +x /tmp/node
# Who yields yields, however much more than the other one, up to this, he has had of the processor. (Kernels since 6.6
# have no such limit.)
granularity=/sys/kernel/debug/sched/wakeup_granularity_ns
[ ! -e $granularity ] || echo 1000000000 >$granularity
insmod /files/ibrelk.ko loopback=0 || echo "FAILED: insmod"
for network; do
	losses='0 1'
	case $network in
	*-reliable) perf "$network" ;;
	*-tcp)
		apart
		# It takes 200 ms until it repeats what was lost, in which both ranks poll, and that is counted.
		losses=0
		;;
	esac
	for loss in $losses; do
		wire "$loss"
		job "$network" giving-way
		# osc/rdma has operations of a rank with itself, which UC does not connect if the module does not.
		[ "$network" = uc-reliable ] || job "$network" one-sided
	done
	wire 0
done
