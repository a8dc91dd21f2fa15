// SPDX-License-Identifier: GPL-2.0-only
//
// How fast MPI is between two ranks, in the usual ways (as the OSU benchmarks measure them). Every message
// that comes back is compared where that costs nothing that is measured.
//
//	bench point-to-point | giving-way | one-sided
//
// giving-way: point-to-point for ranks that share a processor. Over libfabric Open MPI's MPI_Send() does not
// give way while it waits; MPI_Wait() does, if it is told to (mpi_yield_when_idle).
//
// Prints rows "row: METRIC,SIZE,VALUE,UNIT". How often something is done depends on how long it takes, so
// that a network that loses much takes no more time than another one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "check.hpp"

namespace
{

constexpr double wanted_s = 0.3; // for each figure
constexpr int count_min = 3, count_max = 1000;
// Messages under way, and bytes of them.
constexpr std::size_t window_max = 64, window_bytes_max = 4u << 20;
constexpr int tag = 1;

constexpr std::array<std::size_t, 6> sizes = {8, 1024, 4096, 8192, 65536, 1 << 20};
constexpr std::array<std::size_t, 3> remote_sizes = {8, 4096, 65536};

void row(const char *metric, std::size_t size, double value, const char *unit)
{
	if (rank_ != 0)
		return;
	std::printf("row: %s,%zu,%.4f,%s\n", metric, size, value, unit);
	std::fflush(stdout);
}

/// Seconds that @p action takes, which both ranks do; @p action does it so many times. It is repeated for as
/// long as rank 0 says, few times first: on a wire that loses the next one may take far longer.
template<typename Action>
double seconds_of(const Action &action)
{
	double elapsed_s = 0;
	int done = 0;

	action(1); // warm from here on
	for (int count = 1; count > 0;) {
		MPI_Barrier(MPI_COMM_WORLD);

		const double begun = MPI_Wtime();

		action(count);
		elapsed_s += MPI_Wtime() - begun;
		done += count;
		count = 0;
		if (done < count_min || (done < count_max && elapsed_s < wanted_s))
			count = static_cast<int>(std::clamp((wanted_s - elapsed_s) / (elapsed_s / done), 1.0,
				static_cast<double>(std::min(count_max - done, 4 * done))));
		MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	return elapsed_s / done;
}

// ---- point to point ---------------------------------------------------------------------------------------

// Up to here MPI_Send() has nothing to wait for, over any network.
constexpr std::size_t sent_at_once_max = 1024;

void send(const Bytes &out, int to, bool gives_way)
{
	MPI_Request request;

	if (!gives_way || out.size() <= sent_at_once_max) {
		MPI_Send(out.data(), count_of(out), MPI_BYTE, to, tag, MPI_COMM_WORLD);
		return;
	}
	MPI_Isend(out.data(), count_of(out), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void latency(std::size_t bytes, bool gives_way)
{
	Bytes out = pattern(bytes, rank_, 0), in(bytes);
	const double seconds = seconds_of([&](int count) {
		for (int i = 0; i < count; i++) {
			if (rank_ == 0)
				send(out, 1, gives_way);
			MPI_Recv(in.data(), count_of(in), MPI_BYTE, 1 - rank_, tag, MPI_COMM_WORLD,
				MPI_STATUS_IGNORE);
			if (rank_ == 1)
				send(out, 0, gives_way);
		}
	});

	require(in == pattern(bytes, 1 - rank_, 0), "wrong bytes");
	row("latency_us", bytes, seconds * 1e6 / 2, "us");
}

// Of messages of a window, from rank 0 to rank 1, which says when it has all.
void rate_and_bandwidth(std::size_t bytes)
{
	const std::size_t window = std::min(window_max, window_bytes_max / bytes);
	std::vector<Bytes> buffers(window, pattern(bytes, rank_, 0));
	std::vector<MPI_Request> requests(window);
	const double seconds = seconds_of([&](int count) {
		for (int i = 0; i < count; i++) {
			for (std::size_t k = 0; k < requests.size(); k++) {
				Bytes &buffer = buffers[k];

				if (rank_ == 0)
					MPI_Isend(buffer.data(), count_of(buffer), MPI_BYTE, 1, tag,
						MPI_COMM_WORLD, &requests[k]);
				else
					MPI_Irecv(buffer.data(), count_of(buffer), MPI_BYTE, 0, tag,
						MPI_COMM_WORLD, &requests[k]);
			}
			MPI_Waitall(static_cast<int>(window), requests.data(), MPI_STATUSES_IGNORE);
			if (rank_ == 0)
				MPI_Recv(nullptr, 0, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			else
				MPI_Send(nullptr, 0, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
		}
	});

	for (const Bytes &buffer : buffers)
		require(buffer == pattern(bytes, 0, 0), "wrong bytes");

	const double a_second = static_cast<double>(window) / seconds;

	row("msg_rate_kps", bytes, a_second / 1e3, "k/s");
	row("bandwidth_mbps", bytes, a_second * static_cast<double>(bytes) / 1e6, "MB/s");
}

/// Computes for so long, and looks at the clock now and then.
void compute(double seconds)
{
	const double begun = MPI_Wtime();
	volatile std::uint64_t number = 1;

	while (MPI_Wtime() - begun < seconds)
		for (int i = 0; i < 1000; i++)
			number = number * 6364136223846793005u + 1;
}

// How much of the time of an exchange is hidden by as much computing, on both ranks, without a call
// meanwhile.
void overlap(std::size_t bytes)
{
	Bytes out = pattern(bytes, rank_, 0), in(bytes);
	const auto exchange = [&](int count, double compute_s) {
		for (int i = 0; i < count; i++) {
			std::array<MPI_Request, 2> requests;

			MPI_Irecv(in.data(), count_of(in), MPI_BYTE, 1 - rank_, tag, MPI_COMM_WORLD,
				&requests[0]);
			MPI_Isend(out.data(), count_of(out), MPI_BYTE, 1 - rank_, tag, MPI_COMM_WORLD,
				&requests[1]);
			if (compute_s > 0)
				compute(compute_s);
			MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
		}
	};
	const double alone_s = seconds_of([&](int count) { exchange(count, 0); });
	double compute_s = alone_s;

	MPI_Bcast(&compute_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);

	const double both_s = seconds_of([&](int count) { exchange(count, compute_s); });

	require(in == pattern(bytes, 1 - rank_, 0), "wrong bytes");
	row("overlap_pct", bytes, 100 * std::clamp(1 - (both_s - compute_s) / alone_s, 0.0, 1.0), "%");
}

void point_to_point(bool gives_way)
{
	for (const std::size_t bytes : sizes)
		latency(bytes, gives_way);
	for (const std::size_t bytes : sizes)
		rate_and_bandwidth(bytes);
	// With one processor there is nothing that could overlap.
	if (gives_way)
		return;
	for (const std::size_t bytes : sizes)
		overlap(bytes);
}

// ---- one-sided --------------------------------------------------------------------------------------------

// Rank 0 alone does something and waits until it is done there. Returns how often.
template<typename Action>
std::int64_t remote(const char *metric, std::size_t bytes, MPI_Win win, const Action &action)
{
	std::int64_t done = 0;
	const double seconds = seconds_of([&](int count) {
		for (int i = 0; rank_ == 0 && i < count; i++) {
			action();
			MPI_Win_flush(1, win);
			done++;
		}
	});

	row(metric, bytes, seconds * 1e6, "us");
	return done;
}

void one_sided()
{
	// What is added to lies behind the bytes.
	constexpr MPI_Aint sum_at = static_cast<MPI_Aint>(remote_sizes.back());
	constexpr MPI_Aint room = sum_at + sizeof(std::int64_t);
	unsigned char *memory = nullptr;
	MPI_Win win = MPI_WIN_NULL;

	MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
	std::memset(memory, 0, static_cast<std::size_t>(room));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (const std::size_t bytes : remote_sizes) {
		const Bytes out = pattern(bytes, 0, 1);
		Bytes in(bytes);

		remote("put_us", bytes, win, [&] {
			MPI_Put(out.data(), count_of(out), MPI_BYTE, 1, 0, count_of(out), MPI_BYTE, win);
		});
		remote("get_us", bytes, win, [&] {
			MPI_Get(in.data(), count_of(in), MPI_BYTE, 1, 0, count_of(in), MPI_BYTE, win);
		});
		require(rank_ != 0 || in == out, "what was put is not what was got");
	}

	const std::int64_t one = 1;
	std::int64_t before = 0, added = 0;

	added += remote("accumulate_us", sizeof(one), win,
		[&] { MPI_Accumulate(&one, 1, MPI_INT64_T, 1, sum_at, 1, MPI_INT64_T, MPI_SUM, win); });
	added += remote("fetch_and_op_us", sizeof(one), win,
		[&] { MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 1, sum_at, MPI_SUM, win); });
	require(before + 1 == added || rank_ != 0, "a sum");
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
}

} // namespace

int main(int argc, char **argv)
{
	return run_pieces(argc, argv, MPI_THREAD_SINGLE,
		{{"point-to-point",
			 [] {
				 point_to_point(false);
			 }},
			{"giving-way",
				[] {
					point_to_point(true);
				}},
			{"one-sided", one_sided}});
}
