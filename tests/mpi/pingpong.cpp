// SPDX-License-Identifier: GPL-2.0-only
//
// Two ranks send messages to and fro and compare every byte. Says "verified" at the end.
//
//	pingpong		some messages of several lengths, and how long they took
//	pingpong --until FILE	goes on ("going") until the file exists on rank 0's node
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "check.hpp"

namespace
{

void send(const std::vector<unsigned char> &message, int tag)
{
	MPI_Send(message.data(), static_cast<int>(message.size()), MPI_BYTE, 1 - rank_, tag, MPI_COMM_WORLD);
}

void receive(std::vector<unsigned char> &buffer, int tag)
{
	MPI_Recv(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, 1 - rank_, tag, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
}

void ping_pong(std::size_t bytes, int rounds)
{
	std::vector<unsigned char> buffer(bytes);
	const double begun = MPI_Wtime();

	for (int round = 0; round < rounds; round++) {
		if (rank_ == 0)
			send(pattern(bytes, 0, round), round);
		receive(buffer, round);
		require(buffer == pattern(bytes, 1 - rank_, round), "wrong bytes");
		if (rank_ == 1)
			send(pattern(bytes, 1, round), round);
	}
	if (rank_ == 0)
		std::printf(
			"%8zu bytes %10.1f us one way\n", bytes, (MPI_Wtime() - begun) * 1e6 / rounds / 2);
}

void ping_pong_until(const char *file)
{
	for (int more = 1, round = 0; more; round++) {
		ping_pong(round % 2 ? 100 : 100000, 1);
		if (rank_ == 0) {
			more = !std::filesystem::exists(file);
			std::printf("going\n");
			std::fflush(stdout);
		}
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
}

} // namespace

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
	require(ranks_ == 2, "this is for two ranks");
	if (argc == 3 && std::strcmp(argv[1], "--until") == 0)
		ping_pong_until(argv[2]);
	else
		for (const std::size_t bytes : {0UL, 1UL, 8192UL, 8193UL, 65536UL, 262144UL})
			ping_pong(bytes, 4);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank_ == 0)
		std::printf("verified\n");
	MPI_Finalize();
	return 0;
}
