// SPDX-License-Identifier: GPL-2.0-only
//
// What MPI says of messages from one rank to another, piece by piece: modes of sending, wildcards, probes,
// cancelled and truncated receives, persistent requests, waiting for some of many, derived datatypes,
// messages to oneself, several threads. Every rank takes part, with the next and the one before it in a
// circle. Says "verified N" at the end, of N pieces.
//
//	pointtopoint [PIECE]
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "check.hpp"

namespace
{

// Of nothing, of what is eager, and of what is not.
constexpr std::array<std::size_t, 5> lengths = {0, 1, 8192, 8193, 300000};

// A receive of so many bytes from a rank, that has not been waited for.
struct Receive {
	Receive(std::size_t bytes, int from, int tag) : buffer(bytes)
	{
		MPI_Irecv(buffer.data(), count_of(buffer), MPI_BYTE, from, tag, MPI_COMM_WORLD, &request);
	}

	Bytes buffer;
	MPI_Request request = MPI_REQUEST_NULL;
};

void expect(const MPI_Status &status, int source, int tag, std::size_t bytes, const char *what)
{
	int count = -1;

	MPI_Get_count(&status, MPI_BYTE, &count);
	require(status.MPI_SOURCE == source && status.MPI_TAG == tag && count == static_cast<int>(bytes),
		what);
}

// ---- modes of sending -------------------------------------------------------------------------------------

// Room for buffered sends, for as long as this is there.
class Buffered
{
public:
	Buffered() : room_(4 * 300000 + 16 * MPI_BSEND_OVERHEAD)
	{
		MPI_Buffer_attach(room_.data(), count_of(room_));
	}
	~Buffered()
	{
		void *attached = nullptr;
		int size = 0;

		MPI_Buffer_detach(&attached, &size);
		require(attached == room_.data(), "the buffer is another one");
	}
	Buffered(const Buffered &) = delete;
	Buffered &operator=(const Buffered &) = delete;

private:
	Bytes room_;
};

// Blocking ones, while the receive is posted: no rank waits for another in a circle.
void blocking_sends()
{
	using Send = int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	constexpr std::array<Send, 4> sends = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
	const Buffered buffered;

	for (std::size_t i = 0; i < sends.size(); i++) {
		for (const std::size_t bytes : lengths) {
			Receive receive(bytes, before_, static_cast<int>(i));
			const Bytes message = pattern(bytes, rank_, static_cast<int>(i));
			MPI_Status status;

			// A ready send is for a receive that is posted.
			MPI_Barrier(MPI_COMM_WORLD);
			sends[i](message.data(), count_of(message), MPI_BYTE, next_, static_cast<int>(i),
				MPI_COMM_WORLD);
			MPI_Wait(&receive.request, &status);
			expect(status, before_, static_cast<int>(i), bytes, "a blocking send's status");
			require(receive.buffer == pattern(bytes, before_, static_cast<int>(i)),
				"a blocking send's bytes");
		}
	}
}

void immediate_sends()
{
	using Send = int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	constexpr std::array<Send, 4> sends = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
	const Buffered buffered;

	for (std::size_t i = 0; i < sends.size(); i++) {
		std::vector<Receive> receives;
		std::vector<Bytes> messages;
		std::vector<MPI_Request> requests;

		receives.reserve(lengths.size());
		for (const std::size_t bytes : lengths) {
			receives.emplace_back(bytes, before_, 5);
			messages.push_back(pattern(bytes, rank_, static_cast<int>(bytes)));
		}
		MPI_Barrier(MPI_COMM_WORLD);
		for (const Bytes &message : messages) {
			requests.emplace_back();
			sends[i](message.data(), count_of(message), MPI_BYTE, next_, 5, MPI_COMM_WORLD,
				&requests.back());
		}
		for (const Receive &receive : receives)
			requests.push_back(receive.request);
		MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
		// All have the same tag: they come in order.
		for (const Receive &receive : receives)
			require(receive.buffer ==
					pattern(receive.buffer.size(), before_,
						static_cast<int>(receive.buffer.size())),
				"an immediate send's bytes");
	}
}

// A synchronous send is complete when its receive has begun, and not before.
void synchronous_sends_wait()
{
	const Bytes message = pattern(10, rank_, 1);
	Bytes buffer(10);
	MPI_Request request;
	int done = 0;

	MPI_Issend(message.data(), 10, MPI_BYTE, next_, 1, MPI_COMM_WORLD, &request);
	for (int i = 0; i < 100; i++) {
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		require(!done, "a synchronous send is complete before its receive");
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Recv(buffer.data(), 10, MPI_BYTE, before_, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	require(buffer == pattern(10, before_, 1), "a synchronous send's bytes");
}

void send_and_receive_in_one()
{
	for (const std::size_t bytes : lengths) {
		const Bytes message = pattern(bytes, rank_, 3);
		Bytes buffer(bytes), both = message;
		MPI_Status status;

		MPI_Sendrecv(message.data(), count_of(message), MPI_BYTE, next_, 3, buffer.data(),
			count_of(buffer), MPI_BYTE, before_, 3, MPI_COMM_WORLD, &status);
		expect(status, before_, 3, bytes, "sendrecv's status");
		require(buffer == pattern(bytes, before_, 3), "sendrecv's bytes");
		MPI_Sendrecv_replace(both.data(), count_of(both), MPI_BYTE, next_, 4, before_, 4,
			MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		require(both == buffer, "sendrecv_replace's bytes");
	}
}

// Nobody is a peer like others.
void nobody()
{
	char byte = 'x';
	MPI_Status status;

	MPI_Send(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
	MPI_Recv(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
	expect(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, "nobody's status");
	require(byte == 'x', "nobody has sent something");
}

// ---- matching ---------------------------------------------------------------------------------------------

void wildcards()
{
	constexpr int each = 20;

	if (rank_ != 0) {
		for (int i = 0; i < each; i++)
			MPI_Send(&i, 1, MPI_INT, 0, rank_ * 100 + i, MPI_COMM_WORLD);
		return;
	}

	std::vector<int> expected(static_cast<std::size_t>(ranks_));

	for (int i = 0; i < each * (ranks_ - 1); i++) {
		MPI_Status status;
		int number = -1;

		MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);

		int &mine = expected[static_cast<std::size_t>(status.MPI_SOURCE)];

		require(status.MPI_TAG == status.MPI_SOURCE * 100 + number, "the tag is another message's");
		require(number == mine++, "messages of one rank are not in order");
	}
}

// Of two receives that a message fits, the first takes it, whichever has a wildcard.
void wildcards_in_order()
{
	std::array<int, 4> values{};
	std::array<MPI_Request, 4> requests{};

	for (std::size_t i = 0; i < 4; i++)
		MPI_Irecv(&values[i], 1, MPI_INT, i % 2 ? before_ : MPI_ANY_SOURCE, i / 2 ? MPI_ANY_TAG : 7,
			MPI_COMM_WORLD, &requests[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 4; i++)
		MPI_Send(&i, 1, MPI_INT, next_, 7, MPI_COMM_WORLD);
	MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
	require(values == std::array<int, 4>{0, 1, 2, 3}, "receives take messages out of order");
}

// What is sent within one communicator is not received within another.
void communicators()
{
	MPI_Comm other;
	int first = 0, second = 0;
	const int one = 1, two = 2;
	MPI_Request request;

	MPI_Comm_dup(MPI_COMM_WORLD, &other);
	MPI_Isend(&one, 1, MPI_INT, next_, 7, other, &request);
	MPI_Request_free(&request);
	MPI_Isend(&two, 1, MPI_INT, next_, 7, MPI_COMM_WORLD, &request);
	MPI_Request_free(&request);
	MPI_Recv(&second, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Recv(&first, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE);
	require(first == one && second == two, "communicators are mixed up");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_free(&other);
}

// Many that nobody has asked for yet, taken from the last to the first.
void unexpected()
{
	constexpr int messages = 200;
	std::vector<Bytes> sent;
	std::vector<MPI_Request> requests(messages);

	for (int i = 0; i < messages; i++) {
		sent.push_back(pattern(i % 10 ? 1000 : 20000, rank_, i));
		MPI_Isend(sent.back().data(), count_of(sent.back()), MPI_BYTE, next_, i, MPI_COMM_WORLD,
			&requests[static_cast<std::size_t>(i)]);
	}
	for (int i = messages - 1; i >= 0; i--) {
		Bytes buffer(i % 10 ? 1000 : 20000);

		MPI_Recv(buffer.data(), count_of(buffer), MPI_BYTE, before_, i, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
		require(buffer == pattern(buffer.size(), before_, i), "bytes of what was not asked for");
	}
	MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
}

// ---- probes -----------------------------------------------------------------------------------------------

void probes()
{
	for (const std::size_t bytes : lengths) {
		const Bytes message = pattern(bytes, rank_, 1);
		Bytes buffer(bytes);
		MPI_Request request;
		MPI_Status status;
		int found = 0;

		MPI_Iprobe(before_, 11, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
		require(!found, "a message is found that was not sent");
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Isend(message.data(), count_of(message), MPI_BYTE, next_, 11, MPI_COMM_WORLD, &request);
		MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
		expect(status, before_, 11, bytes, "the probe says something else");
		while (!found)
			MPI_Iprobe(before_, 11, MPI_COMM_WORLD, &found, &status);
		expect(status, before_, 11, bytes, "the immediate probe says something else");
		MPI_Recv(buffer.data(), count_of(buffer), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
			MPI_COMM_WORLD, &status);
		expect(status, before_, 11, bytes, "the status after a probe");
		require(buffer == pattern(bytes, before_, 1), "bytes after a probe");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

void matched_probes()
{
	for (const std::size_t bytes : lengths) {
		const Bytes first = pattern(bytes, rank_, 1), second = pattern(bytes, rank_, 2);
		std::array<Bytes, 2> buffers = {Bytes(bytes), Bytes(bytes)};
		std::array<MPI_Request, 3> requests{};
		MPI_Message message = MPI_MESSAGE_NULL;
		MPI_Status status;
		int found = 0;

		MPI_Improbe(before_, 12, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
		require(!found, "a message is matched that was not sent");
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Isend(first.data(), count_of(first), MPI_BYTE, next_, 12, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(second.data(), count_of(second), MPI_BYTE, next_, 12, MPI_COMM_WORLD, &requests[1]);
		MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
		expect(status, before_, 12, bytes, "the matched probe says something else");
		// Which nobody else gets any more: the next receive takes the second.
		MPI_Recv(buffers[1].data(), count_of(buffers[1]), MPI_BYTE, before_, 12, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
		MPI_Imrecv(buffers[0].data(), count_of(buffers[0]), MPI_BYTE, &message, &requests[2]);
		require(message == MPI_MESSAGE_NULL, "the message is there still");
		MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE);
		require(buffers[0] == pattern(bytes, before_, 1), "bytes of a matched message");
		require(buffers[1] == pattern(bytes, before_, 2), "bytes of the message after a matched one");
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

// ---- what does not come to its end
// --------------------------------------------------------------------------

void cancelled()
{
	std::array<char, 8> buffer{};
	MPI_Request request;
	MPI_Status status;
	int yes = 0;

	MPI_Irecv(buffer.data(), 8, MPI_BYTE, before_, 13, MPI_COMM_WORLD, &request);
	MPI_Cancel(&request);
	MPI_Wait(&request, &status);
	MPI_Test_cancelled(&status, &yes);
	require(yes, "a receive was not cancelled");
	MPI_Barrier(MPI_COMM_WORLD);

	// What it would have taken is there for another one.
	MPI_Sendrecv("message", 8, MPI_BYTE, next_, 13, buffer.data(), 8, MPI_BYTE, before_, 13,
		MPI_COMM_WORLD, &status);
	MPI_Test_cancelled(&status, &yes);
	require(!yes && std::strcmp(buffer.data(), "message") == 0, "the message after a cancelled receive");
}

void truncated()
{
	for (const std::size_t bytes : {100UL, 300000UL}) {
		const Bytes message = pattern(bytes, rank_, 1);
		Bytes buffer(bytes + 8, 0xee);
		Receive after(bytes, before_, 15);
		std::array<MPI_Request, 2> requests{};
		MPI_Request receiving;
		int error = MPI_SUCCESS, kind = 0;

		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		MPI_Irecv(buffer.data(), 50, MPI_BYTE, before_, 14, MPI_COMM_WORLD, &receiving);
		MPI_Isend(
			message.data(), count_of(message), MPI_BYTE, next_, 14, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(
			message.data(), count_of(message), MPI_BYTE, next_, 15, MPI_COMM_WORLD, &requests[1]);
		error = MPI_Wait(&receiving, MPI_STATUS_IGNORE);
		MPI_Error_class(error, &kind);
		require(kind == MPI_ERR_TRUNCATE, "what is cut is not said to be");
		require(std::all_of(
				buffer.begin() + 50, buffer.end(), [](auto byte) { return byte == 0xee; }),
			"bytes behind the buffer");
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		MPI_Wait(&after.request, MPI_STATUS_IGNORE);
		require(after.buffer == pattern(bytes, before_, 1), "the message after one that is cut");
		MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
	}
}

// ---- requests
// -----------------------------------------------------------------------------------------------

void persistent()
{
	using Init = int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	const Buffered buffered;

	for (const Init init : {
		     MPI_Send_init,
		     MPI_Ssend_init,
		     MPI_Rsend_init,
#ifndef OPEN_MPI // that of 4.1.4 sends other bytes, over its own TCP, too
		     MPI_Bsend_init,
#endif
	     }) {
		for (const std::size_t bytes : lengths) {
			Bytes message(bytes), buffer(bytes);
			MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;

			init(message.data(), count_of(message), MPI_BYTE, next_, 16, MPI_COMM_WORLD, &send);
			MPI_Recv_init(buffer.data(), count_of(buffer), MPI_BYTE, before_, 16, MPI_COMM_WORLD,
				&receive);
			for (int round = 0; round < 5; round++) {
				const Bytes now = pattern(bytes, rank_, round);

				// The requests know where it is.
				std::copy(now.begin(), now.end(), message.begin());
				MPI_Start(&receive);
				// A ready send is for a receive that is posted.
				if (init == MPI_Rsend_init)
					MPI_Barrier(MPI_COMM_WORLD);
				MPI_Start(&send);
				MPI_Wait(&send, MPI_STATUS_IGNORE);
				MPI_Wait(&receive, MPI_STATUS_IGNORE);
				require(buffer == pattern(bytes, before_, round),
					"bytes of a persistent request");
			}
			MPI_Request_free(&send);
			MPI_Request_free(&receive);
		}
	}
}

// Each of 30 receives is found complete once, by whichever call.
void some_of_many()
{
	constexpr int count = 30;
	std::vector<Receive> receives;
	std::vector<MPI_Request> requests;
	std::vector<bool> seen(count);
	std::vector<int> found(count);
	int left = count;

	receives.reserve(count);
	for (int i = 0; i < count; i++) {
		receives.emplace_back(static_cast<std::size_t>(i) * 700, before_, i);
		requests.push_back(receives.back().request);
	}
	MPI_Barrier(MPI_COMM_WORLD);

	std::vector<Bytes> messages;
	std::vector<MPI_Request> sends(count);

	for (int i = 0; i < count; i++)
		messages.push_back(pattern(static_cast<std::size_t>(i) * 700, rank_, i));
	for (int i = count - 1; i >= 0; i--) {
		const Bytes &message = messages[static_cast<std::size_t>(i)];

		MPI_Isend(message.data(), count_of(message), MPI_BYTE, next_, i, MPI_COMM_WORLD,
			&sends[static_cast<std::size_t>(i)]);
	}
	const auto take = [&](int index) {
		const auto i = static_cast<std::size_t>(index);

		require(!seen[i], "a request is complete twice");
		seen[i] = true;
		require(receives[i].buffer == pattern(receives[i].buffer.size(), before_, index),
			"bytes of one of many");
		left--;
	};

	for (int round = 0; left; round++) {
		int many = 0, index = 0, flag = 0;

		switch (round % 4) {
		case 0:
			MPI_Waitany(count, requests.data(), &index, MPI_STATUS_IGNORE);
			take(index);
			break;
		case 1:
			MPI_Waitsome(count, requests.data(), &many, found.data(), MPI_STATUSES_IGNORE);
			std::for_each(found.begin(), found.begin() + many, take);
			break;
		case 2:
			MPI_Testany(count, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
			if (flag && index != MPI_UNDEFINED)
				take(index);
			break;
		default:
			MPI_Testsome(count, requests.data(), &many, found.data(), MPI_STATUSES_IGNORE);
			if (many != MPI_UNDEFINED)
				std::for_each(found.begin(), found.begin() + many, take);
		}
	}

	int all = 0;

	while (!all)
		MPI_Testall(count, sends.data(), &all, MPI_STATUSES_IGNORE);
}

// ---- datatypes
// ----------------------------------------------------------------------------------------------

// A column of a matrix arrives as a row, and the other way round.
void vectors()
{
	constexpr int rows = 300, columns = 20;
	std::vector<double> matrix(rows * columns), column(rows), back(rows * columns, -1);
	MPI_Datatype type;
	MPI_Request request;

	std::iota(matrix.begin(), matrix.end(), rank_ * 1e6);
	MPI_Type_vector(rows, 1, columns, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	MPI_Isend(&matrix[3], 1, type, next_, 20, MPI_COMM_WORLD, &request);
	MPI_Recv(column.data(), rows, MPI_DOUBLE, before_, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int row = 0; row < rows; row++)
		require(column[static_cast<std::size_t>(row)] == before_ * 1e6 + row * columns + 3,
			"a column that was sent");
	MPI_Isend(column.data(), rows, MPI_DOUBLE, before_, 21, MPI_COMM_WORLD, &request);
	MPI_Recv(&back[3], 1, type, next_, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (std::size_t i = 0; i < back.size(); i++)
		require(back[i] == (i % columns == 3 ? matrix[i] : -1), "a column that was received");
	MPI_Type_free(&type);
}

void structures()
{
	struct Particle {
		char kind;
		double place[3];
		int number;
	};
	constexpr int count = 2000;
	std::vector<Particle> sent(count), received(count);
	std::array<int, 3> blocks = {1, 3, 1};
	std::array<MPI_Aint, 3> places = {
		offsetof(Particle, kind), offsetof(Particle, place), offsetof(Particle, number)};
	std::array<MPI_Datatype, 3> types = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
	MPI_Datatype loose, type;
	MPI_Request request;

	MPI_Type_create_struct(3, blocks.data(), places.data(), types.data(), &loose);
	MPI_Type_create_resized(loose, 0, sizeof(Particle), &type);
	MPI_Type_commit(&type);
	for (int i = 0; i < count; i++)
		sent[static_cast<std::size_t>(i)] = {
			static_cast<char>('a' + i % 26), {i + 0.25, i + 0.5, i + 0.75}, rank_ * count + i};
	MPI_Isend(sent.data(), count, type, next_, 22, MPI_COMM_WORLD, &request);
	MPI_Recv(received.data(), count, type, before_, 22, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (int i = 0; i < count; i++) {
		const auto &a = sent[static_cast<std::size_t>(i)], &b = received[static_cast<std::size_t>(i)];

		require(a.kind == b.kind && std::equal(a.place, a.place + 3, b.place) &&
				b.number == before_ * count + i,
			"a structure");
	}
	MPI_Type_free(&type);
	MPI_Type_free(&loose);
}

void indexed()
{
	constexpr int blocks = 100;
	std::vector<int> lengths_of, places, sent(blocks * 20), received(blocks * 20, -1);
	MPI_Datatype type;
	MPI_Request request;
	std::size_t k = 0;

	for (int i = 0; i < blocks; i++) {
		lengths_of.push_back(i % 7);
		places.push_back(i * 20 + i % 5);
	}
	std::iota(sent.begin(), sent.end(), rank_);
	MPI_Type_indexed(blocks, lengths_of.data(), places.data(), MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Isend(sent.data(), 1, type, next_, 23, MPI_COMM_WORLD, &request);
	MPI_Recv(received.data(), 1, type, before_, 23, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (std::size_t i = 0; i < received.size(); i++) {
		while (k < blocks && static_cast<std::size_t>(places[k] + lengths_of[k]) <= i)
			k++;

		const bool inside = k < blocks && i >= static_cast<std::size_t>(places[k]);

		require(received[i] == (inside ? before_ + static_cast<int>(i) : -1), "an indexed type");
	}
	MPI_Type_free(&type);
}

// ---- oneself, and threads
// -----------------------------------------------------------------------------------

void oneself()
{
	for (const std::size_t bytes : lengths) {
		Receive receive(bytes, rank_, 24);
		const Bytes message = pattern(bytes, rank_, 1);
		MPI_Status status;

		MPI_Send(message.data(), count_of(message), MPI_BYTE, rank_, 24, MPI_COMM_WORLD);
		MPI_Wait(&receive.request, &status);
		expect(status, rank_, 24, bytes, "the status of a message to oneself");
		require(receive.buffer == message, "bytes of a message to oneself");
	}
}

void threads()
{
	constexpr int count = 3, rounds = 30;
	std::vector<std::thread> all;

	for (int t = 0; t < count; t++)
		all.emplace_back([t] {
			for (int round = 0; round < rounds; round++) {
				const std::size_t bytes =
					lengths[static_cast<std::size_t>(round + t) % lengths.size()];
				const int tag = 100 + t;
				Receive receive(bytes, before_, tag);
				const Bytes message = pattern(bytes, rank_, t * rounds + round);

				MPI_Send(message.data(), count_of(message), MPI_BYTE, next_, tag,
					MPI_COMM_WORLD);
				MPI_Wait(&receive.request, MPI_STATUS_IGNORE);
				require(receive.buffer == pattern(bytes, before_, t * rounds + round),
					"bytes of a thread's message");
			}
		});
	for (std::thread &thread : all)
		thread.join();
}

const Pieces pieces = {
	{"blocking sends", blocking_sends},
	{"immediate sends", immediate_sends},
	{"synchronous sends wait", synchronous_sends_wait},
	{"send and receive in one", send_and_receive_in_one},
	{"nobody", nobody},
	{"wildcards", wildcards},
	{"wildcards in order", wildcards_in_order},
	{"communicators", communicators},
	{"unexpected", unexpected},
	{"probes", probes},
	{"matched probes", matched_probes},
	{"cancelled", cancelled},
	{"truncated", truncated},
	{"persistent", persistent},
	{"some of many", some_of_many},
	{"vectors", vectors},
	{"structures", structures},
	{"indexed", indexed},
	{"oneself", oneself},
	{"threads", threads},
};

} // namespace

int main(int argc, char **argv)
{
	return run_pieces(argc, argv, MPI_THREAD_MULTIPLE, pieces);
}
