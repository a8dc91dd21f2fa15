// SPDX-License-Identifier: GPL-2.0-only
//
// See app.hpp.

#include "app.hpp"

#include "adapter.hpp"
#include "model.hpp"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace sim
{

Apps apps;

namespace
{

constexpr auto stream = SIM_RANDOM_APP;
constexpr u64 guard = 32; // bytes around each receive's buffer that nobody may touch
constexpr u8 guard_byte = 0xc3;
constexpr u64 large = 65536;
constexpr u64 window_bytes = 16u << 20;
constexpr u8 used_byte = 0xee;
constexpr u64 job_key = 0x1234;
constexpr u64 id_salt = 0x1db0000000000000ull;

u64 mix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void box_step(Life *life, u64 delay);

} // namespace

constexpr u64 heap_bytes = 16ull << 30; // reserved for each process
constexpr u64 heap_base = 0x200000000000;

Heap::~Heap()
{
	if (base_)
		munmap(base_, heap_bytes);
}

u8 *Heap::get(u64 pages)
{
	static u64 heaps;
	auto &free = free_[pages];

	if (!free.empty()) {
		u8 *memory = free.back();
		free.pop_back();
		return memory;
	}
	if (!base_) {
		void *wanted = reinterpret_cast<void *>(heap_base + heaps++ * heap_bytes);
		void *got = mmap(wanted, heap_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (got != wanted)
			sim_fail("memory", "the addresses of a heap are taken");
		base_ = static_cast<u8 *>(got);
		/* Most of it is written: a page fault for each small page costs more than that. */
		madvise(base_, heap_bytes, MADV_HUGEPAGE);
	}
	used_ += pages * PAGE_SIZE;
	if (used_ > heap_bytes)
		sim_fail("memory", "a heap is used up");
	return base_ + used_ - pages * PAGE_SIZE;
}

void Heap::put(u8 *memory, u64 pages)
{
	if (sim_config.unmap && sim_chance(stream, sim_config.unmap)) {
		sim_mm_change(mm_, memory, pages * PAGE_SIZE, MMU_NOTIFY_UNMAP);
		std::memset(memory, 0, pages * PAGE_SIZE);
		// As fork() does: all of it might be other memory from now on, and is not.
		if (sim_chance(stream, 200'000))
			sim_mm_change(mm_, base_, used_, MMU_NOTIFY_CLEAR);
		// As mprotect() does: it is the same, and may be used as before.
		else if (sim_chance(stream, 200'000))
			sim_mm_change(mm_, base_, used_, MMU_NOTIFY_PROTECTION_VMA);
	}
	free_[pages].push_back(memory);
}

void Buffer::make(Heap &heap, u64 bytes)
{
	const u64 offset = sim_below(stream, PAGE_SIZE);
	heap_ = &heap;
	pages_ = ALIGN(offset + bytes + 1, PAGE_SIZE) / PAGE_SIZE;
	base_ = heap.get(pages_);
	data_ = base_ + offset;
}

void Buffer::reset()
{
	if (base_)
		heap_->put(base_, pages_);
	base_ = nullptr;
	data_ = nullptr;
}

void Pieces::cut(ibrelk_command &command)
{
	const u64 count = 1 + sim_below(stream, sim_chance(stream, 100'000) ? 60 : 5);
	std::vector<u64> edges{0, command.length};

	for (u64 i = 1; i < count; i++)
		edges.push_back(sim_below(stream, command.length + 1));
	std::sort(edges.begin(), edges.end());
	for (std::size_t i = 1; i < edges.size(); i++)
		pieces_.push_back({command.addr + edges[i - 1], edges[i] - edges[i - 1]});
	std::rotate(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(sim_below(stream, count)),
		pieces_.end());
	command.flags |= IBRELK_CMD_IOVEC;
	command.addr = reinterpret_cast<u64>(pieces_.data());
	command.length = pieces_.size();
}

void Pieces::scatter(u8 *memory, u64 length) const
{
	const std::vector<u8> whole(memory, memory + length);
	const u8 *from = whole.data();

	for (const auto &piece : pieces_) {
		if (piece.length)
			std::memcpy(reinterpret_cast<u8 *>(piece.addr), from, piece.length);
		from += piece.length;
	}
}

std::vector<u8> Pieces::gather() const
{
	std::vector<u8> whole;

	for (const auto &piece : pieces_) {
		const auto *from = reinterpret_cast<const u8 *>(piece.addr);
		whole.insert(whole.end(), from, from + piece.length);
	}
	return whole;
}

u64 Apps::sum(const Receive &receive)
{
	const u64 bytes = receive.length + 2 * guard;
	u64 sum = bytes;
	u64 i = 0;
	for (; i + 8 <= bytes; i += 8) {
		u64 word;
		std::memcpy(&word, &receive.buffer[i], 8);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
		sum ^= sum >> 29;
	}
	for (; i < bytes; i++)
		sum = (sum ^ receive.buffer[i]) * 0x100000001b3ull;
	return sum;
}

u64 content(u64 id, u64 i)
{
	return i ? mix(id * 0x9e3779b97f4a7c15ull + i) : id ^ id_salt;
}

void content_fill(u8 *to, u64 id, u64 length)
{
	for (u64 i = 0; i * 8 < length; i++) {
		const u64 word = content(id, i);
		std::memcpy(to + i * 8, &word, std::min<u64>(8, length - i * 8));
	}
}

u64 content_check(const u8 *data, u64 id, u64 length)
{
	for (u64 i = 0; i * 8 < length; i++) {
		const u64 word = content(id, i);
		if (std::memcmp(data + i * 8, &word, std::min<u64>(8, length - i * 8)) != 0)
			return i * 8;
	}
	return length;
}

void step_event(void *argument)
{
	auto *life = static_cast<Life *>(argument);
	sim_counts.steps++;
	apps.step(*life);
}

namespace
{

void box_step(Life *life, u64 delay)
{
	sim_after(delay, SIM_PROCESS, life->node, step_event, life);
}

} // namespace

// ---- lives -------------------------------------------------------------------------------------

void Apps::start()
{
	const u64 slots = sim_config.nodes * sim_config.endpoints;

	left_ = sim_config.messages;
	puts_left_ = sim_config.puts ? sim_config.messages / 2 : 0;
	slot_.assign(slots, nullptr);
	for (u32 slot = 0; slot < slots; slot++)
		open(slot);
}

void Apps::open(u32 slot)
{
	auto made = std::make_unique<Life>();
	Life &life = *made;
	std::vector<u32> modes;
	ibrelk_endpoint_create create{};

	for (u32 mode = 1; mode < IBRELK_MODE_COUNT; mode++)
		if (sim_config.modes & 1u << mode)
			modes.push_back(mode);
	life.slot = slot;
	life.node = static_cast<u32>(slot / sim_config.endpoints);
	life.mode = modes[sim_below(stream, modes.size())];
	life.task.mm = &life.mm;
	life.task.pid = 1000 + slot;
	life.task.uid = 100;
	life.task.memlock = sim_config.memlock_kib * 1024;
	life.mm.users = 1;
	life.exact = sim_chance(stream, 200'000);
	life.slow = sim_chance(stream, 100'000) ? 1 + sim_below(stream, 100) : 1;
	life.wrong_job = slot + sim_config.wrong_job >= sim_config.nodes * sim_config.endpoints;
	sim_current = &life.task;
	create.mode = life.mode;
	sim_gid(life.node, false, create.local.gid);
	create.local.endpoint = 100 + slot;
	create.job_key = life.wrong_job ? job_key + 1 : job_key;
	create.unexpected_bytes = sim_config.unexpected_kib * 1024;
	create.sends = static_cast<u32>(sim_config.sends_max);
	create.recvs = static_cast<u32>(sim_config.recvs_max);
	sim_alloc_calm++;
	life.fd = sim_ring_create(static_cast<u32>(sim_config.ring), &life.ring);
	create.send_ring = create.recv_ring = life.fd;
	sim_preempt_off++;
	const long error = sim_endpoint_create(&create, &life.endpoint);
	sim_preempt_off--;
	sim_alloc_calm--;
	if (error)
		sim_fail("open", "an endpoint cannot be made: %ld", error);
	life.addr = create.local;
	life.open = true;
	slot_[slot] = &life;
	lives.push_back(std::move(made));
	// Before anybody makes contact: who was learned by contact has another handle than who is added
	// later.
	sim_alloc_calm++;
	sim_preempt_off++;
	for (u32 other = 0; other < slot_.size() && !life.exact; other++) {
		const bool same = other / sim_config.endpoints == life.node;
		if (same && !sim_config.loop)
			continue;
		peer_for(life, other, same);
		if (same)
			peer_for(life, other, false);
	}
	sim_preempt_off--;
	sim_alloc_calm--;
	if (sim_config.puts)
		open_window(life);
	life.notice = sim_config.tells ? next_id_++ : 0;
	sim_trace("endpoint %u of node %u opens, mode %u", life.slot, life.node, life.mode);
	box_step(&life, sim_below(stream, 2000 * sim_config.app_us));
}

void Apps::close(Life &life)
{
	if (!life.open)
		return;
	sim_trace("endpoint %u of node %u closes", life.slot, life.node);
	life.open = false;
	slot_[life.slot] = nullptr;
	sim_current = &life.task;
	if (life.region >= 0 && sim_chance(stream, 500'000))
		close_window(life);
	sim_endpoint_close(life.endpoint);
	if (life.region >= 0)
		close_window(life);
}

// Where it may pin as much.
void Apps::open_window(Life &life)
{
	ibrelk_region_create create{};

	life.window.make(life.heap, window_bytes);
	create.addr = reinterpret_cast<u64>(life.window.get());
	create.length = window_bytes;
	create.flags = IBRELK_REGION_WRITE | IBRELK_REGION_REMOTE_WRITE | IBRELK_REGION_REMOTE_READ;
	sim_current = &life.task;
	// All endpoints are there before anybody sends.
	sim_alloc_calm++;
	sim_preempt_off++;
	life.region = sim_region_create(&create);
	sim_preempt_off--;
	sim_alloc_calm--;
	life.key = life.region < 0 ? 0 : create.key;
}

void Apps::close_window(Life &life)
{
	sim_fd_close(life.region);
	life.region = -1;
	life.key = 0;
}

void Apps::close_random()
{
	auto *life = slot_[sim_below(SIM_RANDOM_FAULT, slot_.size())];
	if (!life)
		return;
	const u32 slot = life->slot;
	close(*life);
	open(slot);
}

// As a process that is stopped, swapped out, or has something else to do.
void Apps::stop_random(u64 ns)
{
	auto *life = slot_[sim_below(SIM_RANDOM_FAULT, slot_.size())];
	if (!life)
		return;
	sim_trace("the process of endpoint %u stands still for %llu us", life->slot, ns / 1000);
	life->stopped_until = std::max(life->stopped_until, sim_now() + ns);
}

void Apps::node_down(u32 node)
{
	for (auto *life : std::vector<Life *>(slot_))
		if (life && life->node == node) {
			life->killed = true;
			close(*life);
		}
}

void Apps::node_up(u32 node)
{
	for (u32 slot = 0; slot < slot_.size(); slot++)
		if (slot / sim_config.endpoints == node && !slot_[slot])
			open(slot);
}

void Apps::drain()
{
	draining_ = true;
}

namespace
{

// The sender knows that it was delivered, so it has to come, unless the flow ends with something before it
// missing.
bool put_untold(const Put &put)
{
	return put.tells && !put.status && !put.told && put.target->open && model_gentle();
}

} // namespace

bool Apps::done() const
{
	if (left_ || !draining_)
		return false;
	for (const auto &[id, send] : sends) {
		if (send->status == pending && !send->quiet)
			return false;
		if (!model_arrives(*send) || send->taken)
			continue;
		return false;
	}
	return std::all_of(puts.begin(), puts.end(),
		[](const auto &put) { return put.second->status != pending && !put_untold(*put.second); });
}

u64 Apps::left() const
{
	u64 bytes = left_ * (sim_config.big ? 6u << 20 : sim_config.size_max);

	for (const auto &[id, send] : sends)
		// What is buffered has been told of, and is still to go.
		if (send->status == pending || (!send->status && !send->taken))
			bytes += send->length;
	for (const auto &[id, put] : puts)
		if (put->status == pending)
			bytes += put->length;
	return bytes;
}

std::string Apps::stuck() const
{
	for (const auto &[id, send] : sends)
		if ((send->status == pending && !send->quiet) || (model_arrives(*send) && !send->taken))
			return "message " + std::to_string(id) + " of " + std::to_string(send->length) +
				" bytes from endpoint " + std::to_string(send->from->slot) + " to " +
				std::to_string(send->to.slot) + ", status " + std::to_string(send->status) +
				", tag " + std::to_string(send->tag) + (send->untagged ? " untagged" : "");
	for (const auto &[id, put] : puts)
		if (put->status == pending || put_untold(*put))
			return "put " + std::to_string(id) + " of " + std::to_string(put->length) +
				" bytes from endpoint " + std::to_string(put->from->slot) + " to " +
				std::to_string(put->to.slot);
	return left_ ? "some that were never sent" : "none";
}

void Apps::close_all()
{
	closing_ = true;
	for (auto *life : std::vector<Life *>(slot_))
		if (life)
			close(*life);
}

void Apps::reap_all()
{
	for (auto &life : lives)
		reap(*life);
}

void Apps::reap_closed()
{
	for (auto &life : lives)
		if (!life->open)
			reap(*life);
}

void Apps::shut()
{
	for (auto &life : lives) {
		sim_current = &life->task;
		sim_fd_close(life->fd);
		sim_mm_end(&life->mm);
	}
}

// ---- what a process does -----------------------------------------------------------------------

u64 Apps::draw_length(bool may_be_big)
{
	const u64 payload = sim_config.mtu - 88, window = 2u << 20;
	const u64 edges[] = {0, 1, 7, 8, 168, 169, payload, payload + 1, 2 * payload, sim_config.eager_max,
		sim_config.eager_max + 1, 60 * payload, 60 * payload + 1, 8192, 65536};
	u64 length;

	if (may_be_big && sim_chance(stream, sim_config.big)) {
		const u64 large[] = {
			window - 1, window, window + 1, 2 * window, 2 * window + 1, 100'000, 1'000'000};
		return sim_chance(stream, 500'000) ? large[sim_below(stream, std::size(large))]
						   : 65536 + sim_below(stream, 5u << 20);
	}
	length = sim_chance(stream, 400'000) ? edges[sim_below(stream, std::size(edges))]
					     : sim_below(stream, sim_config.size_max + 1);
	if (sim_chance(stream, 300'000))
		length = sim_below(stream, 64);
	return std::min(length, sim_config.size_max);
}

Peer *Apps::peer_for(Life &life, u32 slot, bool loop)
{
	const Life *target = slot_[slot];
	const u32 generation = life.exact && target ? target->addr.generation : 0;

	if (life.exact && !target)
		return nullptr;
	for (auto &peer : life.peers)
		if (peer.slot == slot && peer.loop == loop && peer.generation == generation)
			return &peer;
	ibrelk_addr addr{};
	Peer peer;
	peer.slot = slot;
	peer.loop = loop;
	peer.generation = generation;
	sim_gid(static_cast<u32>(slot / sim_config.endpoints), loop, addr.gid);
	addr.endpoint = 100 + slot;
	addr.generation = generation;
	if (sim_peer_add(life.endpoint, &addr, &peer.handle))
		return nullptr;
	life.peers.push_back(peer);
	return &life.peers.back();
}

bool Apps::make_send(Life &life, ibrelk_command &command)
{
	if (!life.refused.empty())
		return take_refused(life, command);
	const u32 slot = static_cast<u32>(sim_below(stream, slot_.size()));
	const bool same = slot / sim_config.endpoints == life.node;

	if (!left_ || (same && !sim_config.loop))
		return false;
	const Peer *peer = peer_for(life, slot, same);
	if (!peer)
		return false;
	auto send = std::make_unique<Send>();
	send->id = next_id_++;
	send->from = &life;
	send->to = *peer;
	send->length = draw_length(true);
	longest_ = std::max(longest_, send->length);
	send->untagged = sim_chance(stream, sim_config.untagged);
	send->tag = send->untagged ? 0 : sim_below(stream, sim_config.tags) | (sim_random(stream) & 1) << 40;
	// Where a receive may fail, or get too little, the message is known by its immediate only.
	send->immediate = send->length < 8 || sim_config.multis || sim_config.claims ||
		sim_config.short_buffer || sim_config.pin || sim_config.alloc ||
		sim_config.memlock_kib < 60000 || sim_chance(stream, 500'000);
	send->quiet = sim_chance(stream, sim_config.quiet);
	do {
		send->level = static_cast<u8>(sim_below(stream, 4));
	} while (!(sim_config.levels & 1u << send->level));
	send->order = life.streams[peer->handle]++;
	send->buffer.make(life.heap, send->length);
	content_fill(send->buffer.get(), send->id, send->length);
	command.opcode = IBRELK_OP_SEND;
	command.level = send->level;
	command.flags = static_cast<u16>((send->untagged ? IBRELK_CMD_UNTAGGED : 0) |
		(send->immediate ? IBRELK_CMD_IMMEDIATE : 0) | (send->quiet ? IBRELK_CMD_NO_SUCCESS : 0));
	command.peer = peer->handle;
	command.user_data = send->id;
	command.addr = reinterpret_cast<u64>(send->buffer.get());
	command.length = send->length;
	command.tag = send->tag;
	command.immediate = send->immediate ? send->id : 0;
	if (sim_config.pieces && sim_chance(stream, sim_config.pieces)) {
		send->pieces.cut(command);
		send->pieces.scatter(send->buffer.get(), send->length);
	}
	left_--;
	sends[send->id] = std::move(send);
	return true;
}

bool Apps::make_put(Life &life, ibrelk_command &command)
{
	const u32 slot = static_cast<u32>(sim_below(stream, slot_.size()));
	const bool same = slot / sim_config.endpoints == life.node;
	Life *target = slot_[slot];

	if (!target || !target->key || (same && !sim_config.loop))
		return false;
	const Peer *peer = peer_for(life, slot, same);
	if (!peer)
		return false;
	auto put = std::make_unique<Put>();
	const bool atomic = sim_chance(stream, 300'000);
	const u64 size = sim_chance(stream, 500'000) ? 4 : 8;

	put->length = atomic ? size * (1 + sim_below(stream, 64 / size)) : draw_length(true);
	if (target->window_used + put->length + 3 * guard > window_bytes)
		return false;
	if (atomic)
		target->window_used +=
			-reinterpret_cast<u64>(target->window.get() + target->window_used) % size;
	put->id = next_id_++;
	put->from = &life;
	put->to = *peer;
	put->target = target;
	put->place = target->window.get() + target->window_used + guard;
	target->window_used += put->length + 2 * guard;
	std::memset(put->place - guard, guard_byte, put->length + 2 * guard);
	put->buffer.make(life.heap, atomic ? 3ull * 64 : put->length);
	put->get = !atomic && sim_chance(stream, 400'000);
	content_fill(put->get ? put->place : put->buffer.get(), put->id, put->length);
	if (put->get)
		std::memset(put->buffer.get(), guard_byte, put->length);
	put->opcode = atomic ? IBRELK_OP_ATOMIC : put->get ? IBRELK_OP_GET : IBRELK_OP_PUT;
	put->tells = put->opcode == IBRELK_OP_PUT && sim_config.recvs_max > 16 && sim_config.tells &&
		sim_chance(stream, sim_config.tells);
	if (put->tells) {
		command.flags |= IBRELK_CMD_IMMEDIATE;
		command.immediate = put->id;
	}
	command.opcode = put->opcode;
	command.peer = peer->handle;
	command.user_data = put->id;
	command.addr = reinterpret_cast<u64>(put->buffer.get());
	command.length = put->length;
	command.remote_addr = reinterpret_cast<u64>(put->place);
	command.remote_key = target->key;
	if (atomic)
		make_atomic(*put, command);
	switch (sim_below(stream, 20)) {
	case 0:
		put->wrong = -EACCES;
		command.remote_key ^= 1ull << sim_below(stream, 64);
		break;
	case 1:
		put->wrong = -EFAULT;
		command.remote_addr += sim_chance(stream, 500'000) ? window_bytes : ~0ull << 40;
		break;
	default: break;
	}
	puts_left_--;
	puts[put->id] = std::move(put);
	return true;
}

namespace
{

template<class T>
T computed(u32 op, T old, T operand, T compare)
{
	using U = std::make_unsigned_t<T>;
	const U a = static_cast<U>(old), b = static_cast<U>(operand), c = static_cast<U>(compare);

	switch (op) {
	case IBRELK_ATOMIC_MIN: return std::min(old, operand);
	case IBRELK_ATOMIC_MAX: return std::max(old, operand);
	case IBRELK_ATOMIC_SUM: return static_cast<T>(a + b);
	case IBRELK_ATOMIC_PROD: return static_cast<T>(static_cast<u64>(a) * b);
	case IBRELK_ATOMIC_LOR: return old || operand;
	case IBRELK_ATOMIC_LAND: return old && operand;
	case IBRELK_ATOMIC_BOR: return old | operand;
	case IBRELK_ATOMIC_BAND: return old & operand;
	case IBRELK_ATOMIC_LXOR: return (old != 0) != (operand != 0);
	case IBRELK_ATOMIC_BXOR: return old ^ operand;
	case IBRELK_ATOMIC_WRITE: return operand;
	case IBRELK_ATOMIC_CSWAP: return compare == old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_NE: return compare != old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_LE: return compare <= old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_LT: return compare < old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_GE: return compare >= old ? operand : old;
	case IBRELK_ATOMIC_CSWAP_GT: return compare > old ? operand : old;
	case IBRELK_ATOMIC_MSWAP: return static_cast<T>((b & c) | (a & ~c));
	default: return old;
	}
}

template<class T>
void compute(Put &put, const u8 *operand, const u8 *compare)
{
	for (u64 i = 0; i < put.length; i += sizeof(T)) {
		T values[3];

		std::memcpy(&values[0], put.before + i, sizeof(T));
		std::memcpy(&values[1], operand + i, sizeof(T));
		std::memcpy(&values[2], compare + i, sizeof(T));
		values[0] = computed<T>(put.what & 0xffff, values[0], values[1], values[2]);
		std::memcpy(put.after + i, &values[0], sizeof(T));
	}
}

} // namespace

// The buffer is that for what was there, the operands and what they are compared with.
void Apps::make_atomic(Put &put, ibrelk_command &command)
{
	u8 *const buffer = put.buffer.get(), *const operand = buffer + 64, *const compare = buffer + 128;
	const bool wide = reinterpret_cast<u64>(put.place) % 8 == 0 && put.length % 8 == 0;
	const u32 op = 1 + static_cast<u32>(sim_below(stream, 19));
	const u32 type = 1 + static_cast<u32>(sim_below(stream, wide ? 4 : 2));

	put.what = IBRELK_ATOMIC(op, type);
	put.fetches = op == IBRELK_ATOMIC_READ || sim_chance(stream, 500'000);
	std::memset(buffer, guard_byte, 64);
	for (u8 *byte = operand; byte < buffer + 3l * 64; byte++)
		*byte = static_cast<u8>(sim_below(stream, 256));
	// Often equal, or there would be nothing to be swapped.
	if (sim_chance(stream, 500'000))
		std::memcpy(compare, put.place, put.length);
	std::memcpy(put.before, put.place, put.length);
	switch (type) {
	case IBRELK_ATOMIC_S32: compute<s32>(put, operand, compare); break;
	case IBRELK_ATOMIC_U32: compute<u32>(put, operand, compare); break;
	case IBRELK_ATOMIC_S64: compute<s64>(put, operand, compare); break;
	default: compute<u64>(put, operand, compare);
	}
	command.messages = put.what;
	command.addr = op == IBRELK_ATOMIC_READ ? 0 : reinterpret_cast<u64>(operand);
	command.tag = put.fetches ? reinterpret_cast<u64>(buffer) : 0;
	command.ignore = op >= IBRELK_ATOMIC_CSWAP ? reinterpret_cast<u64>(compare) : 0;
}

// As a program does that is told to come back: what was refused is made no second time, which takes long if
// it is large.
bool Apps::take_refused(Life &life, ibrelk_command &command)
{
	if (!left_)
		return false;
	auto [refused, send] = std::move(life.refused.front());
	life.refused.pop_front();
	command = refused;
	left_--;
	sends[send->id] = std::move(send);
	return true;
}

// What it wants: from whom, and with which tag.
void Apps::draw_wanted(Life &life, Receive &receive)
{
	if (!receive.catch_all && !sim_chance(stream, sim_config.wild_source)) {
		const u32 slot = static_cast<u32>(sim_below(stream, slot_.size()));
		const bool same = slot / sim_config.endpoints == life.node;
		// Also who sends to the loopback address is known by the address that he is bound to.
		const Peer *peer = same && !sim_config.loop ? nullptr : peer_for(life, slot, false);
		if (peer) {
			receive.any = false;
			receive.from = *peer;
		}
	}
	if (!receive.untagged) {
		receive.tag = sim_below(stream, sim_config.tags) | (sim_random(stream) & 1) << 40;
		if (receive.catch_all)
			receive.ignore = ~0ull;
		else if (sim_chance(stream, sim_config.wild_tag))
			receive.ignore = sim_chance(stream, 500'000) ? ~0ull : 1ull << 40;
	}
}

namespace
{

void command_wanted(const Receive &receive, ibrelk_command &command)
{
	command.opcode = receive.opcode;
	command.flags = receive.untagged ? IBRELK_CMD_UNTAGGED : 0;
	command.peer = receive.any ? IBRELK_PEER_ANY : receive.from.handle;
	command.user_data = receive.id;
	command.tag = receive.tag;
	command.ignore = receive.ignore;
}

} // namespace

void Apps::make_buffer(Receive &receive, ibrelk_command &command)
{
	receive.buffer.make(receive.at->heap, receive.length + 2 * guard);
	if (receive.length <= large) {
		std::memset(receive.buffer.get(), guard_byte, receive.length + 2 * guard);
	} else {
		std::memset(receive.buffer.get(), guard_byte, guard);
		std::memset(receive.buffer.get() + guard + receive.length, guard_byte, guard);
	}
	command.addr = reinterpret_cast<u64>(receive.buffer.get() + guard);
	command.length = receive.length;
	if (receive.opcode == IBRELK_OP_RECV && sim_config.pieces && sim_chance(stream, sim_config.pieces))
		receive.pieces.cut(command);
}

bool Apps::make_receive(Life &life, ibrelk_command &command, bool catch_all, bool untagged)
{
	auto receive = std::make_unique<Receive>();

	receive->id = next_id_++;
	receive->at = &life;
	receive->order = life.receives;
	receive->catch_all = catch_all;
	receive->untagged = untagged;
	draw_wanted(life, *receive);
	receive->length = catch_all ? longest_ : std::max<u64>(sim_config.size_max, 8);
	if (!catch_all && sim_config.big && sim_chance(stream, sim_config.big))
		receive->length = std::max(longest_, receive->length);
	if (!catch_all && sim_chance(stream, sim_config.short_buffer))
		receive->length = draw_length(true);
	command_wanted(*receive, command);
	make_buffer(*receive, command);
	life.receives++;
	life.posted.push_back(receive.get());
	receives[receive->id] = std::move(receive);
	return true;
}

bool Apps::make_multi(Life &life, ibrelk_command &command)
{
	if (sim_config.recvs_max < 3)
		return false;
	auto receive = std::make_unique<Receive>();
	receive->id = next_id_++;
	receive->opcode = IBRELK_OP_RECV_MULTI;
	receive->at = &life;
	receive->order = life.receives++;
	receive->untagged = sim_chance(stream, sim_config.untagged);
	draw_wanted(life, *receive);
	receive->length = 1 + sim_below(stream, 4 * sim_config.size_max + 64);
	if (sim_chance(stream, sim_config.big))
		receive->length = std::min<u64>(receive->length + sim_below(stream, 4u << 20), 4u << 20);
	receive->messages = 1 + sim_below(stream, std::min<u64>(sim_config.recvs_max - 1, 8));
	receive->room = sim_chance(stream, 500'000) ? 0 : sim_below(stream, receive->length + 1);
	command_wanted(*receive, command);
	make_buffer(*receive, command);
	command.messages = static_cast<u32>(receive->messages);
	command.room = receive->room;
	life.posted.push_back(receive.get());
	receives[receive->id] = std::move(receive);
	return true;
}

bool Apps::make_probe(Life &life, ibrelk_command &command)
{
	auto probe = std::make_unique<Receive>();

	probe->id = next_id_++;
	probe->opcode = sim_chance(stream, 500'000) ? IBRELK_OP_PROBE : IBRELK_OP_CLAIM;
	probe->at = &life;
	probe->order = life.receives++;
	probe->untagged = sim_chance(stream, sim_config.untagged);
	draw_wanted(life, *probe);
	command_wanted(*probe, command);
	receives[probe->id] = std::move(probe);
	return true;
}

// What was claimed is received, or thrown away.
bool Apps::make_claimed(Life &life, ibrelk_command &command)
{
	if (life.claims.empty())
		return false;
	const auto chosen =
		life.claims.begin() + static_cast<std::ptrdiff_t>(sim_below(stream, life.claims.size()));
	const Receive &claim = **chosen;
	auto receive = std::make_unique<Receive>();
	receive->id = next_id_++;
	receive->opcode = sim_chance(stream, 700'000) ? IBRELK_OP_RECV : IBRELK_OP_DISCARD;
	receive->at = &life;
	receive->order = claim.order;
	receive->any = claim.any;
	receive->from = claim.from;
	receive->tag = claim.tag;
	receive->ignore = claim.ignore;
	receive->untagged = claim.untagged;
	receive->claim = claim.id;
	receive->claimed = claim.claimed;
	command.opcode = receive->opcode;
	command.user_data = receive->id;
	command.tag = claim.claim;
	if (receive->opcode == IBRELK_OP_RECV) {
		command.flags = IBRELK_CMD_CLAIMED;
		receive->length = sim_chance(stream, 900'000) ? claim.claimed->length : draw_length(true);
		make_buffer(*receive, command);
		life.posted.push_back(receive.get());
	}
	life.claims.erase(chosen);
	receives[receive->id] = std::move(receive);
	return true;
}

bool Apps::make_cancel(Life &life, ibrelk_command &command)
{
	if (life.posted.empty())
		return false;
	auto cancel = std::make_unique<Cancel>();
	cancel->id = next_id_++;
	cancel->at = &life;
	command.opcode = IBRELK_OP_CANCEL;
	command.user_data = cancel->id;
	auto *receive = life.posted[sim_below(stream, life.posted.size())];
	receive->cancelled_at = std::min(receive->cancelled_at, sim_now());
	command.addr = receive->id;
	cancels[cancel->id] = std::move(cancel);
	return true;
}

// In the end some receives of either space have to take whatever comes.
bool Apps::make_room(Life &life, ibrelk_command &command)
{
	const u64 want = sim_config.recvs_max < 16 ? 1 : 4;
	u64 catching[2] = {};

	u64 posted = life.listens;
	for (const auto *receive : life.posted) {
		catching[receive->untagged] += receive->catch_all;
		posted += 1 + receive->messages;
	}
	const bool untagged = sim_config.untagged && catching[1] < catching[0];
	if (catching[untagged] >= want)
		return false;
	return posted < sim_config.recvs_max ? make_receive(life, command, true, untagged)
					     : make_cancel(life, command);
}

// It was not accepted, so it never was. Of several that were not, the last one comes first.
void Apps::withdraw(Life &life, const ibrelk_command &command)
{
	if (command.opcode == IBRELK_OP_SEND) {
		auto send = sends.extract(command.user_data);
		life.refused.emplace_front(command, std::move(send.mapped()));
		left_++;
	} else if (command.opcode >= IBRELK_OP_PUT) {
		puts.erase(command.user_data);
		puts_left_++;
	} else if (command.opcode == IBRELK_OP_CANCEL) {
		cancels.erase(command.user_data);
	} else {
		auto *receive = receives[command.user_data].get();
		auto &posted = receive->at->posted;
		posted.erase(std::remove(posted.begin(), posted.end(), receive), posted.end());
		if (receive->claimed)
			receive->at->claims.push_back(receives[receive->claim].get());
		receives.erase(command.user_data);
	}
}

bool Apps::submit(Life &life)
{
	std::vector<ibrelk_command> commands;
	const u64 want = 1 + sim_below(stream, sim_config.batch);
	const bool late = !draining_ && sim_now() < 1'000'000'000 + sim_config.late * 1000;

	for (u64 tries = 0; tries < 3 * want && commands.size() < want; tries++) {
		ibrelk_command command{};
		bool made;
		if (puts_left_ && !draining_ && sim_chance(stream, sim_config.puts))
			made = make_put(life, command);
		else if (sim_chance(stream, sim_config.cancels) && !draining_)
			made = make_cancel(life, command);
		else if (!life.claims.empty() && (draining_ || sim_chance(stream, 300'000)))
			made = make_claimed(life, command);
		else if (sim_config.claims && !late && !draining_ && sim_chance(stream, sim_config.claims) &&
			life.receives < 80 + 4 * sim_config.messages)
			made = make_probe(life, command);
		else if (left_ && sim_chance(stream, 500'000))
			made = make_send(life, command);
		else if (late)
			made = false;
		else if (draining_)
			made = commands.empty() && make_room(life, command);
		else
			made = life.posted.size() < 40 && life.receives < 40 + 2 * sim_config.messages &&
				(sim_config.multis && sim_chance(stream, sim_config.multis)
						? make_multi(life, command)
						: make_receive(life, command, false,
							  sim_chance(stream, sim_config.untagged)));
		if (made)
			commands.push_back(command);
	}
	if (commands.empty())
		return false;
	int accepted = sim_submit(life.endpoint, commands.data(), static_cast<u32>(commands.size()));
	if (accepted < 0) {
		if (!model_may_refuse(life, accepted))
			sim_fail("submit", "a right command is refused: %d", accepted);
		accepted = 0;
	}
	for (std::size_t i = commands.size(); i-- > static_cast<std::size_t>(accepted);)
		withdraw(life, commands[i]);
	for (int i = 0; i < accepted; i++)
		sim_counts.messages += commands[static_cast<std::size_t>(i)].opcode == IBRELK_OP_SEND;
	const bool only_cancels = draining_ && commands[0].opcode == IBRELK_OP_CANCEL;
	return accepted > 0 && !only_cancels;
}

void Apps::step(Life &life)
{
	if (!life.open)
		return;
	if (sim_now() < life.stopped_until) {
		box_step(&life, life.stopped_until - sim_now());
		return;
	}
	sim_current = &life.task;
	bool busy = false;
	if (draining_ || !sim_chance(stream, sim_config.ring_lazy))
		busy = reap(life);
	if (sim_config.tells && sim_config.recvs_max > 16 && !life.listens)
		listen(life);
	busy |= submit(life);
	life.idle = busy ? 0 : life.idle + 1;
	u64 most = 2000 * sim_config.app_us * (draining_ ? 1 : life.slow);
	// Who has nothing to do looks less and less often.
	if (life.idle)
		most = std::min<u64>(std::max<u64>(most, 20'000) << std::min<u64>(life.idle, 20),
			draining_ ? 50'000'000 : std::max<u64>(most, 2'000'000));
	if (!closing_)
		box_step(&life, 1 + sim_below(stream, most));
}

// ---- what it is told ---------------------------------------------------------------------------

bool Apps::reap(Life &life)
{
	bool found = false;
	auto *ring = life.ring;
	const auto *entries = reinterpret_cast<const ibrelk_completion *>(
		reinterpret_cast<const u8 *>(ring) + ring->entries_offset);

	for (;;) {
		if (ring->tail - ring->head > ring->entries)
			sim_fail("ring", "tail %u, head %u of %u", ring->tail, ring->head, ring->entries);
		while (ring->head != ring->tail) {
			const ibrelk_completion completion = entries[ring->head & (ring->entries - 1)];
			ring->head++;
			// In the end, to cancel in vain is nothing to be busy with.
			found |= !draining_ || completion.opcode != IBRELK_OP_CANCEL;
			judge(life, completion);
		}
		if (!(ring->flags & IBRELK_RING_OVERFLOW))
			return found;
		sim_task *caller = sim_current;
		sim_current = &life.task;
		sim_ring_drain(life.fd);
		sim_current = caller;
	}
}

void Apps::judge(Life &life, const ibrelk_completion &completion)
{
	sim_note(completion.user_data << 20 ^ static_cast<u32>(completion.status) ^ sim_now() << 32);
	sim_trace("endpoint %u: completion of %llu, opcode %u, status %d, length %llu", life.slot,
		static_cast<u64>(completion.user_data), completion.opcode, completion.status,
		static_cast<u64>(completion.length));
	if (const auto it = sends.find(completion.user_data);
		it != sends.end() && it->second->from == &life) {
		sent(life, *it->second, completion);
		return;
	}
	if (const auto it = receives.find(completion.user_data);
		it != receives.end() && it->second->at == &life) {
		auto &receive = *it->second;
		if (completion.opcode != receive.opcode)
			sim_fail("completion", "receive %llu completes as something else", receive.id);
		if (receive.opcode == IBRELK_OP_RECV_MULTI && !(completion.flags & IBRELK_CQE_RELEASED)) {
			part_received(receive, completion);
			return;
		}
		if (receive.completions++)
			sim_fail("completion", "receive %llu completes twice", receive.id);
		switch (receive.opcode) {
		case IBRELK_OP_RECV: received(life, receive, completion); break;
		case IBRELK_OP_RECV_MULTI: released(life, receive, completion); break;
		case IBRELK_OP_DISCARD: discarded(receive, completion); break;
		default: probed(life, receive, completion);
		}
		return;
	}
	if (const auto it = puts.find(completion.user_data); it != puts.end() && it->second->from == &life) {
		put_over(*it->second, completion);
		return;
	}
	if (life.notice && completion.user_data == life.notice) {
		told(life, completion);
		return;
	}
	const auto it = cancels.find(completion.user_data);
	if (it == cancels.end() || it->second->at != &life || completion.opcode != IBRELK_OP_CANCEL)
		sim_fail("completion", "a completion of what was never submitted: %llu",
			static_cast<u64>(completion.user_data));
	if (it->second->completions++)
		sim_fail("completion", "a cancellation completes twice");
	if ((completion.status == 0) != (completion.length > 0) || completion.length > 1 ||
		(completion.status && completion.status != -ENOENT))
		sim_fail("completion", "a cancellation of %llu receives with status %d",
			static_cast<u64>(completion.length), completion.status);
}

void Apps::listen(Life &life)
{
	ibrelk_command command{};

	command.opcode = IBRELK_OP_RECV;
	command.flags = IBRELK_CMD_UNTAGGED;
	command.peer = IBRELK_PEER_ANY;
	command.user_data = life.notice;
	command.tag = IBRELK_TAG_WRITTEN;
	command.ignore = IBRELK_TAG_WRITTEN - 1;
	life.listens = sim_submit(life.endpoint, &command, 1) == 1;
}

// A peer says that one of its puts is in its place.
void Apps::told(Life &life, const ibrelk_completion &completion)
{
	if (!life.listens)
		sim_fail("completion", "endpoint %u is told of a put twice", life.slot);
	life.listens = false;
	if (completion.status == -ECANCELED && !life.open)
		return;
	// A notice that goes by RTS may be given up like any other message.
	if (completion.status) {
		if (model_gentle())
			sim_fail("status", "endpoint %u is told of a put with status %d", life.slot,
				completion.status);
		return;
	}
	const auto it = puts.find(completion.immediate);
	if (it == puts.end())
		sim_fail("completion", "endpoint %u is told of put %llu, that was none", life.slot,
			static_cast<u64>(completion.immediate));
	Put &put = *it->second;
	if (!put.tells || put.target != &life || put.wrong || put.told++ || completion.length ||
		completion.tag != (IBRELK_TAG_WRITTEN | put.length))
		sim_fail("completion", "endpoint %u is told wrong of put %llu", life.slot, put.id);
	// When the sender knows, too, it is wiped out.
	if (put.status == pending && content_check(put.place, put.id, put.length) < put.length)
		sim_fail("bytes", "put %llu is told of before it is there", put.id);
}

void Apps::put_over(Put &put, const ibrelk_completion &completion)
{
	if (put.completions++)
		sim_fail("completion", "put %llu completes twice", put.id);
	if (completion.opcode != put.opcode || completion.length != put.length || completion.tag ||
		completion.peer != put.to.handle)
		sim_fail("completion", "put %llu completes as something else", put.id);
	put.status = completion.status;
	if (put.length && adapter_may_read(put.buffer.get(), put.length))
		sim_fail("fence", "put %llu completes, and an adapter may still read it", put.id);
	if (put.get && put.length && adapter_may_write(put.buffer.get(), put.length))
		sim_fail("fence", "get %llu completes, and an adapter may still write to it", put.id);
	model_put(put);
	if (put.what) {
		atomic_over(put);
		return;
	}
	const u64 got =
		put.get && !put.status ? content_check(put.buffer.get(), put.id, put.length) : put.length;
	if (got < put.length)
		sim_fail(
			"bytes", "get %llu of %llu bytes differs from byte %llu on", put.id, put.length, got);
	std::memset(put.buffer.get(), used_byte, put.length);
	put.buffer.reset();
	if (put.status)
		return;
	if (put.get) {
		sim_counts.delivered++;
		sim_counts.bytes += put.length;
		return;
	}
	if (put.length && adapter_may_write(put.place, put.length))
		sim_fail("fence", "put %llu completes, and an adapter may still write it", put.id);
	const u64 same = content_check(put.place, put.id, put.length);
	if (same < put.length)
		sim_fail("bytes", "put %llu of %llu bytes differs from byte %llu on", put.id, put.length,
			same);
	sim_counts.delivered++;
	sim_counts.bytes += put.length;
	// Whatever still writes it is seen in the end.
	std::memset(put.place, used_byte, put.length);
}

// What it found and left, and that it did so once.
void Apps::atomic_over(Put &put)
{
	const u8 *const fetched = put.buffer.get();

	if (!put.status && put.fetches && std::memcmp(fetched, put.before, put.length) != 0)
		sim_fail("bytes", "atomic %llu (%x) says that there was something else", put.id, put.what);
	if (!(put.fetches && !put.status) &&
		!std::all_of(fetched, fetched + put.length, [](u8 byte) { return byte == guard_byte; }))
		sim_fail("bytes", "atomic %llu says what it was not to", put.id);
	put.buffer.reset();
	if (put.status)
		return;
	if (std::memcmp(put.place, put.after, put.length) != 0)
		sim_fail("bytes", "atomic %llu (%x) left something else", put.id, put.what);
	sim_counts.delivered++;
	sim_counts.bytes += put.length;
	std::memset(put.place, used_byte, put.length);
}

void put_check(const Put &put)
{
	const auto all = [](const u8 *from, u64 bytes, u8 value) {
		return std::all_of(from, from + bytes, [value](u8 byte) { return byte == value; });
	};

	if (!all(put.place - guard, guard, guard_byte) || !all(put.place + put.length, guard, guard_byte))
		sim_fail("bytes", "put %llu wrote beside its place", put.id);
	if (put.get && content_check(put.place, put.id, put.length) < put.length)
		sim_fail("bytes", "get %llu has changed what it was to read", put.id);
	if (put.get)
		return;
	if (put.what && put.status) {
		const bool same = !std::memcmp(put.place, put.before, put.length);
		const bool done = !std::memcmp(put.place, put.after, put.length);

		if (!same && (put.wrong || put.status == -EACCES || !done))
			sim_fail("bytes", "atomic %llu (%x) failed, and left something else", put.id,
				put.what);
		return;
	}
	if (!put.status && !all(put.place, put.length, used_byte))
		sim_fail("bytes", "the place of put %llu was written after its completion", put.id);
	if (put.wrong && !all(put.place, put.length, guard_byte))
		sim_fail("bytes", "put %llu wrote where it must not", put.id);
}

void Apps::sent(Life &, Send &send, const ibrelk_completion &completion)
{
	if (send.completions++)
		sim_fail("completion", "send %llu completes twice", send.id);
	if (completion.opcode != IBRELK_OP_SEND || completion.length != send.length ||
		completion.tag != send.tag || completion.peer != send.to.handle)
		sim_fail("completion", "send %llu completes as something else", send.id);
	if (send.quiet && !completion.status)
		sim_fail("completion", "send %llu succeeds aloud", send.id);
	send.status = completion.status;
	if (send.length && adapter_may_read(send.buffer.get(), send.length))
		sim_fail("fence", "send %llu completes, and an adapter may still read it", send.id);
	model_sent(send);
	// Whoever still reads it reads rubbish.
	std::memset(send.buffer.get(), 0xee, send.length);
	send.buffer.reset();
}

void Apps::received(Life &life, Receive &receive, const ibrelk_completion &completion)
{
	const std::vector<u8> whole = receive.pieces.gather();
	const u8 *data = receive.pieces.empty() ? receive.buffer.get() + guard : whole.data();
	u64 id = 0;

	receive.status = completion.status;
	receive.completed_at = sim_now();
	if (adapter_may_write(receive.buffer.get(), receive.length + 2 * guard))
		sim_fail("fence", "receive %llu completes, and an adapter may still write to it", receive.id);
	life.posted.erase(std::remove(life.posted.begin(), life.posted.end(), &receive), life.posted.end());
	for (u64 i = 0; i < guard; i++)
		if (receive.buffer[i] != guard_byte ||
			receive.buffer[receive.length + guard + i] != guard_byte)
			sim_fail("bytes", "receive %llu wrote outside of its buffer", receive.id);
	receive.kept = receive.length <= large && !(sim_config.unmap && sim_chance(stream, 500'000));
	if (receive.kept)
		receive.sum = sum(receive);
	if (completion.status == -ECANCELED) {
		if (!receive.kept)
			receive.buffer.reset();
		return;
	}
	if (completion.flags & IBRELK_CQE_IMMEDIATE)
		id = completion.immediate;
	else if (!completion.status || (completion.status == -EMSGSIZE && receive.length >= 8)) {
		std::memcpy(&id, data, sizeof(id));
		id ^= id_salt;
	}
	const auto it = sends.find(id);
	if (it == sends.end()) {
		if (!completion.status)
			sim_fail("bytes", "receive %llu got a message that nobody sent", receive.id);
		return;
	}
	last_arrival = sim_now();
	if (receive.claimed && receive.claimed != it->second.get())
		sim_fail("claim", "receive %llu got message %llu, and had claimed %llu", receive.id, id,
			receive.claimed->id);
	model_received(receive, *it->second, completion, data);
	if (!receive.kept)
		receive.buffer.reset();
}

// The message that a completion speaks of. Where there is anything but plain receives, all have an immediate
// value.
Send *Apps::described(const Receive &receive, const ibrelk_completion &completion)
{
	const auto it = sends.find(completion.immediate);

	if (!(completion.flags & IBRELK_CQE_IMMEDIATE) || it == sends.end())
		sim_fail("envelope", "receive %llu speaks of a message that nobody sent", receive.id);
	return it->second.get();
}

void Apps::part_received(Receive &whole, const ibrelk_completion &completion)
{
	if (whole.completions)
		sim_fail("completion", "receive %llu takes a message, and was given back", whole.id);
	if (!whole.messages)
		sim_fail("bound", "receive %llu takes too many messages", whole.id);
	if (completion.offset % 8 || completion.offset > whole.length)
		sim_fail("bytes", "receive %llu of %llu bytes has a message at %llu", whole.id, whole.length,
			static_cast<u64>(completion.offset));
	auto made = std::make_unique<Receive>();
	Receive &part = *made;
	part.id = whole.id;
	part.opcode = whole.opcode;
	part.at = whole.at;
	part.order = whole.order;
	part.any = whole.any;
	part.from = whole.from;
	part.tag = whole.tag;
	part.ignore = whole.ignore;
	part.untagged = whole.untagged;
	part.whole = &whole;
	part.offset = completion.offset;
	part.length = whole.length - completion.offset;
	part.status = completion.status;
	part.completed_at = sim_now();
	if (completion.length > part.length && part.offset)
		sim_fail("status", "receive %llu takes %llu bytes at %llu, too many", whole.id,
			static_cast<u64>(completion.length), part.offset);
	if (adapter_may_write(
		    whole.buffer.get() + guard + part.offset, std::min<u64>(part.length, completion.length)))
		sim_fail("fence", "receive %llu has a message, and an adapter may still write to it",
			whole.id);
	whole.messages--;
	whole.parts.push_back(std::move(made));
	last_arrival = sim_now();
	model_received(
		part, *described(part, completion), completion, whole.buffer.get() + guard + part.offset);
	part.length = std::min<u64>(part.length, completion.length);
}

void Apps::released(Life &life, Receive &whole, const ibrelk_completion &completion)
{
	std::vector<const Receive *> parts;
	u64 end = 0;

	if (completion.status && completion.status != -ECANCELED)
		sim_fail("status", "receive %llu is given back with %d", whole.id, completion.status);
	if (completion.length != whole.parts.size())
		sim_fail("completion", "receive %llu took %zu messages, not %llu", whole.id,
			whole.parts.size(), static_cast<u64>(completion.length));
	whole.status = completion.status;
	whole.completed_at = sim_now();
	life.posted.erase(std::remove(life.posted.begin(), life.posted.end(), &whole), life.posted.end());
	// Each message has a stretch of its own; what is between them, and behind, is as it was.
	for (const auto &part : whole.parts)
		parts.push_back(part.get());
	std::stable_sort(parts.begin(), parts.end(),
		[](const Receive *a, const Receive *b) { return a->offset < b->offset; });
	const u8 *data = whole.buffer.get() + guard;
	const auto untouched = [&](u64 from, u64 to) {
		for (; whole.length <= large && from < to; from++)
			if (data[from] != guard_byte)
				sim_fail("bytes", "receive %llu wrote where it has no message", whole.id);
	};
	for (const auto *part : parts) {
		if (part->offset && whole.length - part->offset < std::max<u64>(whole.room, 1))
			sim_fail("bound", "receive %llu takes a message with %llu bytes left", whole.id,
				whole.length - part->offset);
		if (part->offset < end)
			sim_fail("bytes", "receive %llu has two messages at %llu", whole.id, part->offset);
		untouched(end, part->offset);
		end = part->offset + part->length;
		if (part->took && (!part->status || part->status == -EMSGSIZE) &&
			content_check(data + part->offset, part->took->id, part->length) < part->length)
			sim_fail("bytes", "receive %llu wrote over a message", whole.id);
	}
	untouched(end, whole.length);
	if (completion.offset != std::min<u64>(ALIGN(end, 8), whole.length))
		sim_fail("bytes", "receive %llu used %llu bytes, and says %llu", whole.id, end,
			static_cast<u64>(completion.offset));
	for (u64 i = 0; i < guard; i++)
		if (whole.buffer[i] != guard_byte || whole.buffer[whole.length + guard + i] != guard_byte)
			sim_fail("bytes", "receive %llu wrote outside of its buffer", whole.id);
	whole.kept = whole.length <= large;
	if (whole.kept)
		whole.sum = sum(whole);
	else
		whole.buffer.reset();
}

void Apps::probed(Life &life, Receive &probe, const ibrelk_completion &completion)
{
	probe.status = completion.status;
	probe.completed_at = sim_now();
	if (completion.status == -ENOMSG) {
		model_nothing(probe);
		return;
	}
	if (completion.status)
		sim_fail("status", "probe %llu ends with %d", probe.id, completion.status);
	Send &send = *described(probe, completion);
	model_described(probe, send, completion);
	if (send.taken || send.claimed)
		sim_fail("twice", "message %llu waits although it was taken", send.id);
	send.seen = &life;
	if (probe.opcode != IBRELK_OP_CLAIM)
		return;
	if (!completion.claim)
		sim_fail("claim", "claim %llu has no number", probe.id);
	for (const auto *other : life.claims)
		if (other->claim == completion.claim)
			sim_fail("claim", "claim %llu has the number of another", probe.id);
	send.claimed = true;
	probe.claim = completion.claim;
	probe.claimed = &send;
	life.claims.push_back(&probe);
}

void Apps::discarded(Receive &discard, const ibrelk_completion &completion)
{
	discard.status = completion.status;
	discard.completed_at = sim_now();
	if (completion.status)
		sim_fail("status", "a claim is discarded with %d", completion.status);
	if (discard.claimed->arrivals++)
		sim_fail("twice", "message %llu arrives, and is discarded", discard.claimed->id);
	discard.claimed->taken = &discard;
	discard.took = discard.claimed;
	last_arrival = sim_now();
}

} // namespace sim
