#!/bin/sh
# Prints an input of HPCC for two ranks and a matrix that an emulated processor has done soon.
#
# usage: hpccinf.sh SIZE
set -eu

# The package's example; line 6 is the size of the matrix, lines 8, 11 and 12 blocks and processes.
sed -E "6s/^[0-9]+/$1/; 8s/^[0-9]+/32/; 11s/^[0-9]+/1/; 12s/^[0-9]+/2/" /usr/share/doc/hpcc/examples/_hpccinf.txt
