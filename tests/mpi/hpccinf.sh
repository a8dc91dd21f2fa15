#!/bin/sh
# Prints an input of HPCC for two ranks and a matrix that an emulated processor has done soon.
#
# usage: hpccinf.sh SIZE
set -eu

# HPL reads by lines; of each, what comes after the values is for people. PTRANS takes the same matrix and blocks.
cat <<EOF
HPCC on two ranks
of which one is on each node
HPL.out      file
8            ... that the output goes to
1            matrices
$1           ... of this size
1            sizes of blocks
32           ... this one
0            processes by rows
1            grids of processes
1            ... P
2            ... Q
16.0         threshold of the residual
1            panel factorisations
2            ... right-looking
1            ends of recursion
4            ... at so many columns
1            panels in recursion
2            ... so many
1            recursive factorisations
1            ... Crout
1            broadcasts
1            ... increasing ring, modified
1            depths of looking ahead
0            ... none
2            exchange of rows: mixed
64           ... from so many on
0            L1 transposed
0            U transposed
1            equilibration
8            alignment
#####
0            more sizes for PTRANS
0
0            more blocks for PTRANS
0
EOF
