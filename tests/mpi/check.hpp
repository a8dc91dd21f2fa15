// SPDX-License-Identifier: GPL-2.0-only
//
// What the programs have in common: who they are, bytes that say whose they are, and an end if something is
// not as it should be.
#pragma once

#include <cstddef>
#include <cstdio>
#include <vector>

#include <mpi.h>

inline int rank_ = -1;
inline int ranks_ = 0;

inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	std::fprintf(stderr, "rank %d: %s\n", rank_, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

inline std::vector<unsigned char> pattern(std::size_t bytes, int from, int round)
{
	std::vector<unsigned char> all(bytes);

	for (std::size_t i = 0; i < bytes; i++)
		all[i] = static_cast<unsigned char>(
			(i * 31 + (i >> 8) + static_cast<std::size_t>(from + 7 * round)) & 0xff);
	return all;
}
