#!/bin/sh
# As mpirun.sh, with Slurm (see slurm.sh): what mpi.rst says of it. Over ibrelk, in mode FI_IBRELK_MODE.
#
# usage: srun.sh PROVIDER_FOLDER RANKS COMMAND...        so many ranks on each of the two nodes
set -eu

ranks=$2
export FI_PROVIDER_PATH="$1"
shift 2

export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=ibrelk OMPI_MCA_mpi_yield_when_idle=1
exec srun --mpi=pmix --kill-on-bad-exit --nodes=2 --ntasks-per-node="$ranks" --overcommit "$@"
