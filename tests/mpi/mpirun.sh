#!/bin/sh
# mpirun over the nodes of the lab, with MPI's messages over our libfabric provider. To be run on node 1.
#
# usage: mpirun.sh KEYS PROVIDER_FOLDER HOSTS COMMAND...       HOSTS as for mpirun -H
set -eu

keys=$1 provider=$2 hosts=$3
shift 3

export HOME=/tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PMIX_MCA_ptl_base_if_include=10.1.0.0/24 FI_PROVIDER_PATH="$provider"
exec mpirun -H "$hosts" --bind-to none --mca oob_tcp_if_include 10.1.0.0/24 \
	--mca plm_rsh_args "-i $keys/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR" \
	--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ibrelk --mca mpi_yield_when_idle 1 \
	-x FI_PROVIDER_PATH -x FI_IBRELK_MODE "$@"
