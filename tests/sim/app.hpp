// SPDX-License-Identifier: GPL-2.0-only
//
// The applications: processes that open endpoints, send and receive at random, and believe nothing.
// Everything that they submitted and were told is kept, for the model (model.hpp) to judge in the end.

#pragma once

#include "module.h"

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process.h"

namespace sim
{

struct Life;
struct Receive;

constexpr int pending = 1;

// The heap of a process, at addresses that are the same on every machine: which memory is used again, and so
// what the module finds pinned, is part of what a seed determines.
class Heap
{
public:
	explicit Heap(mm_struct *mm) : mm_(mm)
	{
	}
	~Heap();
	Heap(const Heap &) = delete;
	Heap &operator=(const Heap &) = delete;
	u8 *get(u64 pages);
	// Given back to the system now and then; what comes here next is other memory.
	void put(u8 *memory, u64 pages);

private:
	mm_struct *mm_;
	u8 *base_ = nullptr;
	u64 used_ = 0;
	std::map<u64, std::vector<u8 *>> free_; // by size, in pages
};

// User memory, at a place in its page that is drawn: how many pages it touches must be the same on every
// machine.
class Buffer
{
public:
	Buffer() = default;
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;
	~Buffer()
	{
		reset();
	}
	void make(Heap &heap, u64 bytes);
	void reset();
	[[nodiscard]] u8 *get() const
	{
		return data_;
	}
	u8 &operator[](u64 i) const
	{
		return data_[i];
	}

private:
	Heap *heap_ = nullptr;
	u8 *base_ = nullptr;
	u64 pages_ = 0;
	u8 *data_ = nullptr;
};

// The pieces that a buffer is cut into, in the order of the message, which is not that of memory; or none.
class Pieces
{
public:
	// Cuts what the command names.
	void cut(ibrelk_command &command);
	// Moves what lies in one piece in memory to where the pieces say, or back.
	void scatter(u8 *memory, u64 length) const;
	[[nodiscard]] std::vector<u8> gather() const;
	[[nodiscard]] bool empty() const
	{
		return pieces_.empty();
	}

private:
	std::vector<ibrelk_iovec> pieces_;
};

// How a life knows another slot.
struct Peer {
	u32 handle = 0;
	u32 slot = 0;
	u32 generation = 0; // 0: any
	bool loop = false;
};

struct Send {
	u64 id = 0;
	Life *from = nullptr;
	Peer to;
	u64 tag = 0;
	bool untagged = false;
	bool immediate = false;
	bool quiet = false;
	u8 level = 0;
	u64 length = 0;
	u64 order = 0; // of submission, in its stream: (from, handle)
	int status = pending;
	u32 completions = 0;
	Buffer buffer;
	Pieces pieces;
	Receive *taken = nullptr; // by which it arrived
	u32 arrivals = 0;
	Life *seen = nullptr; // by whom it was seen waiting
	bool claimed = false;
};

// Whatever looks for a message: a receive (also one of many messages, or a part of that), a probe, a claim,
// and what becomes of the latter.
struct Receive {
	u64 id = 0;
	u8 opcode = IBRELK_OP_RECV;
	Life *at = nullptr;
	bool any = true;
	bool catch_all = false;
	Peer from;
	u64 tag = 0, ignore = 0;
	bool untagged = false;
	u64 length = 0;
	u64 order = 0; // of posting, in its life
	int status = pending;
	u32 completions = 0;
	u64 completed_at = 0;
	u64 cancelled_at = ~0ull; // when that was first asked for
	Buffer buffer;            // with guards; a large one is let go when it is complete
	Pieces pieces;
	u64 sum = 0; // of the buffer, when it was complete, if it is kept
	bool kept = false;
	Send *took = nullptr;
	// Of many messages: how many more, those that it has, and bytes left when it ends; of a part: which.
	u64 messages = 0;
	u64 room = 0;
	std::vector<std::unique_ptr<Receive>> parts;
	Receive *whole = nullptr;
	u64 offset = 0;
	// Of a claim, or what becomes of it: the number, and the message.
	u64 claim = 0;
	Send *claimed = nullptr;
};

// A put, a get or an atomic has a stretch of the target's window for itself, so that what is there says what
// became of it.
struct Put {
	u64 id = 0;
	u32 opcode = IBRELK_OP_PUT;
	bool get = false;     // it brings something, after which its place is the same
	u32 what = 0;         // IBRELK_ATOMIC(), and of its elements:
	bool fetches = false; // the buffer gets what was there
	u8 before[64]{}, after[64]{};
	Life *from = nullptr;
	Life *target = nullptr; // whose key it has
	Peer to;
	u64 length = 0;
	int wrong = 0; // with what it has to fail
	int status = pending;
	u32 completions = 0;
	bool tells = false; // the target of it
	u32 told = 0;
	Buffer buffer;
	u8 *place = nullptr; // with guards around it
};

struct Cancel {
	u64 id = 0;
	Life *at = nullptr;
	u32 completions = 0;
};

// One life of an endpoint, and the process that has it.
struct Life {
	u32 slot = 0, node = 0, mode = 0;
	sim_task task{};
	mm_struct mm{};
	Heap heap{&mm};
	ibr_endpoint *endpoint = nullptr;
	ibrelk_ring_header *ring = nullptr;
	int fd = -1;
	ibrelk_addr addr{};
	bool open = false;
	bool killed = false; // its node went down
	bool wrong_job = false;
	bool exact = false; // knows its peers by generation
	u64 slow = 1;
	u64 stopped_until = 0; // it stands still
	std::vector<Peer> peers;
	// What others put into, if there are puts; the key is 0 if it could not be made.
	Buffer window;
	u64 window_used = 0, key = 0;
	int region = -1;
	u64 notice = 0;       // the receive of what tells of puts
	bool listens = false; // it is posted
	std::vector<Receive *> posted;
	std::vector<Receive *> claims; // neither received nor discarded
	u64 receives = 0;
	u64 idle = 0; // steps in which nothing happened
	std::map<u32, u64> streams;
	std::deque<std::pair<ibrelk_command, std::unique_ptr<Send>>>
		refused; // to be tried again, in their order
};

class Apps
{
public:
	void start();
	// The end of the time of faults: from now on everything is to arrive.
	void drain();
	[[nodiscard]] bool done() const;
	[[nodiscard]] std::string stuck() const;
	// Bytes of messages that are under way, or to come, at most.
	[[nodiscard]] u64 left() const;
	void close_all();
	void reap_all();
	void reap_closed();
	// All descriptors go.
	void shut();

	// A node goes down with all its processes, and comes back.
	void node_down(u32 node);
	void node_up(u32 node);
	void close_random();
	void stop_random(u64 ns);
	static u64 sum(const Receive &receive);

	std::vector<std::unique_ptr<Life>> lives;
	std::map<u64, std::unique_ptr<Send>> sends;
	std::map<u64, std::unique_ptr<Receive>> receives;
	std::map<u64, std::unique_ptr<Cancel>> cancels;
	std::map<u64, std::unique_ptr<Put>> puts;
	u64 last_arrival = 0;

private:
	friend void step_event(void *);
	void open(u32 slot);
	void close(Life &life);
	void open_window(Life &life);
	static void close_window(Life &life);
	void step(Life &life);
	bool submit(Life &life);
	bool reap(Life &life);
	void judge(Life &life, const ibrelk_completion &completion);
	static void put_over(Put &put, const ibrelk_completion &completion);
	static void listen(Life &life);
	void told(Life &life, const ibrelk_completion &completion);
	static void atomic_over(Put &put);
	void sent(Life &life, Send &send, const ibrelk_completion &completion);
	void received(Life &life, Receive &receive, const ibrelk_completion &completion);
	void part_received(Receive &whole, const ibrelk_completion &completion);
	void released(Life &life, Receive &whole, const ibrelk_completion &completion);
	void probed(Life &life, Receive &probe, const ibrelk_completion &completion);
	void discarded(Receive &discard, const ibrelk_completion &completion);
	Send *described(const Receive &receive, const ibrelk_completion &completion);
	void draw_wanted(Life &life, Receive &receive);
	void make_buffer(Receive &receive, ibrelk_command &command);
	Peer *peer_for(Life &life, u32 slot, bool loop);
	bool make_send(Life &life, ibrelk_command &command);
	bool make_put(Life &life, ibrelk_command &command);
	void make_atomic(Put &put, ibrelk_command &command);
	bool take_refused(Life &life, ibrelk_command &command);
	bool make_receive(Life &life, ibrelk_command &command, bool catch_all, bool untagged);
	bool make_multi(Life &life, ibrelk_command &command);
	bool make_probe(Life &life, ibrelk_command &command);
	bool make_claimed(Life &life, ibrelk_command &command);
	bool make_cancel(Life &life, ibrelk_command &command);
	bool make_room(Life &life, ibrelk_command &command);
	void withdraw(Life &life, const ibrelk_command &command);
	u64 draw_length(bool may_be_big);

	std::vector<Life *> slot_;
	u64 left_ = 0;
	u64 puts_left_ = 0;
	u64 longest_ = 8;
	u64 next_id_ = 1;
	bool draining_ = false;
	bool closing_ = false;
};

// Word i of what message `id` contains; a receiver knows the message by its first word, or by its immediate.
u64 content(u64 id, u64 i);
void content_fill(u8 *to, u64 id, u64 length);
// The bytes of a stretch that a put had, and the guards around it: are they as they are to be in the end?
void put_check(const Put &put);
// Where the first difference is, or `length`.
u64 content_check(const u8 *data, u64 id, u64 length);

extern Apps apps;

} // namespace sim
