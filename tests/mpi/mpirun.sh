#!/bin/sh
# mpirun over the nodes of the lab. To be run on node 1.
#
# usage: mpirun.sh KEYS PROVIDER_FOLDER OVER HOSTS COMMAND...
#
#   OVER     ibrelk: our libfabric provider, in mode FI_IBRELK_MODE; tcp: Open MPI's own; ucx-TRANSPORT: that of UCX;
#            else another provider of libfabric
#   HOSTS    as for mpirun -H
set -eu

keys=$1 provider=$2 over=$3 hosts=$4
shift 4

wire=10.1.0.0/24
case $over in
tcp) over="--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include $wire" ;;
ucx-*)
	over="--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=${over#ucx-},self -x UCX_IB_GID_INDEX=0"
	;;
*) over="--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include $over" ;;
esac
export HOME=/tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PMIX_MCA_ptl_base_if_include=$wire FI_PROVIDER_PATH="$provider"
# shellcheck disable=SC2086
exec mpirun -H "$hosts" --bind-to none --mca oob_tcp_if_include $wire \
	--mca plm_rsh_args "-i $keys/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR" \
	$over --mca mpi_yield_when_idle 1 -x FI_PROVIDER_PATH -x FI_IBRELK_MODE "$@"
