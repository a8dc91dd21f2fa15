// SPDX-License-Identifier: GPL-2.0-only
//
// What the programs have in common: who they are, bytes that say whose they are, an end if something is not
// as it should be, and programs of many pieces.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

inline int rank_ = -1;
inline int ranks_ = 0;
inline int next_ = -1, before_ = -1; // in a circle of all

using Bytes = std::vector<unsigned char>;

inline int count_of(const Bytes &bytes)
{
	return static_cast<int>(bytes.size());
}

inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	std::fprintf(stderr, "rank %d: %s\n", rank_, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

inline Bytes pattern(std::size_t bytes, int from, int round)
{
	Bytes all(bytes);

	for (std::size_t i = 0; i < bytes; i++)
		all[i] = static_cast<unsigned char>(
			(i * 31 + (i >> 8) + static_cast<std::size_t>(from + 7 * round)) & 0xff);
	return all;
}

using Pieces = std::vector<std::pair<const char *, std::function<void()>>>;

// What main() does: all of them, or that which the first argument names, in all ranks.
inline int run_pieces(int argc, char **argv, int threads, const Pieces &pieces)
{
	int level = 0, done = 0;

	MPI_Init_thread(&argc, &argv, threads, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
	require(level >= threads, "MPI does not allow so many threads to call it");
	require(ranks_ > 1, "this is for two ranks or more");
	next_ = (rank_ + 1) % ranks_;
	before_ = (rank_ + ranks_ - 1) % ranks_;

	const std::string wanted = argc > 1 ? argv[1] : "";

	for (const auto &[name, piece] : pieces) {
		if (!wanted.empty() && wanted != name)
			continue;
		if (rank_ == 0) {
			std::printf("%s\n", name);
			std::fflush(stdout);
		}
		piece();
		MPI_Barrier(MPI_COMM_WORLD);
		done++;
	}
	require(done > 0, "there is no such piece");
	if (rank_ == 0)
		std::printf("verified %d\n", done);
	MPI_Finalize();
	return 0;
}
