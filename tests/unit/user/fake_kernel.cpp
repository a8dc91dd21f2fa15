// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See fake_kernel.hpp. One lock for everything; simple, since it is only there to be believed.
#include "fake_kernel.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "system.hpp"

namespace
{

struct Ring {
	std::uint32_t entries = 0;
	std::size_t map_bytes = 0;
	ibrelk_ring_header *header = nullptr;
	ibrelk_completion *entry = nullptr;
	std::uint32_t tail = 0;
	std::deque<ibrelk_completion> overflow;

	~Ring()
	{
		if (header)
			::munmap(header, map_bytes);
	}
	[[nodiscard]] std::uint32_t available() const
	{
		return tail - __atomic_load_n(&header->head, __ATOMIC_ACQUIRE);
	}
	void refill()
	{
		while (!overflow.empty() && available() < entries) {
			entry[tail++ & (entries - 1)] = overflow.front();
			overflow.pop_front();
		}
		__atomic_store_n(&header->tail, tail, __ATOMIC_RELEASE);
		__atomic_store_n(
			&header->flags, overflow.empty() ? 0 : IBRELK_RING_OVERFLOW, __ATOMIC_RELAXED);
	}
	void complete(const ibrelk_completion &completion)
	{
		overflow.push_back(completion);
		if (overflow.size() == 1)
			refill();
		else
			__atomic_store_n(&header->flags, IBRELK_RING_OVERFLOW, __ATOMIC_RELAXED);
	}
};

struct Message {
	ibrelk_addr source;
	ibrelk_command command;
	std::vector<std::byte> bytes;
};

struct Endpoint {
	ibrelk_addr addr{};
	std::uint32_t mode = 0;
	std::uint32_t sends_max = 0;
	std::shared_ptr<Ring> send_ring;
	std::shared_ptr<Ring> recv_ring;
	std::vector<ibrelk_addr> peers;
	std::deque<ibrelk_command> posted;
	std::deque<Message> unexpected;
	std::map<std::uint64_t, Message> claims;
	std::uint64_t claims_made = 0;
	std::deque<ibrelk_completion> held; // sends that are outstanding
};

struct State {
	fake::Behaviour behaviour;
	fake::Calls calls;
	std::map<int, int> devices;
	std::map<int, std::shared_ptr<Ring>> rings;
	std::map<int, std::shared_ptr<Endpoint>> endpoints;
	std::map<int, ibrelk_region_create> regions;
	std::uint32_t next_number = 65536;
	std::uint32_t generation = 1;
	std::uint64_t messages = 0;
	std::vector<std::pair<int, Message>> wire; // held back, and for whom
	std::chrono::steady_clock::time_point refused_since{};
};

std::mutex lock;
std::condition_variable changed;
State state;

int memory_fd(std::size_t bytes)
{
	int fd = ::memfd_create("ibrelk-fake", MFD_CLOEXEC);

	if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) < 0)
		return -1;
	state.calls.open_fds++;
	return fd;
}

int create_region(ibrelk_region_create *create)
{
	constexpr std::uint32_t remote = IBRELK_REGION_REMOTE_WRITE | IBRELK_REGION_REMOTE_READ;

	if (!create->length || create->flags & ~(IBRELK_REGION_WRITE | remote) || create->key ||
		(create->flags & IBRELK_REGION_REMOTE_WRITE && !(create->flags & IBRELK_REGION_WRITE)))
		return -EINVAL;
	create->fd = memory_fd(0);
	if (create->flags & remote)
		create->key = 0xabc0000000000000 + static_cast<std::uint64_t>(create->fd);
	state.regions[create->fd] = *create;
	return 0;
}

bool native(std::uint32_t mode)
{
	return mode >= IBRELK_MODE_RC_NATIVE && mode <= IBRELK_MODE_UD_NATIVE;
}

int query(ibrelk_query *query)
{
	*query = {};
	query->abi_version = state.behaviour.abi_version;
	query->protocol_version = 1;
	query->modes = state.behaviour.modes;
	query->ports = 1;
	query->instance[0] = 0xab;
	query->eager_max = 8192;
	query->message_max = 32ull << 30;
	query->recvs_max = state.behaviour.recvs_max;
	query->sends_max = 4096;
	query->ring_entries_max = 65536;
	query->batch_max = 1024;
	return 0;
}

int create_ring(ibrelk_ring_create *create)
{
	if (create->entries == 0 || create->entries > 65536 || create->flags)
		return -EINVAL;

	auto ring = std::make_shared<Ring>();
	const std::size_t page = 4096;

	ring->entries = std::bit_ceil(create->entries);
	ring->map_bytes = (page + ring->entries * sizeof(ibrelk_completion) + page - 1) / page * page;
	create->fd = memory_fd(ring->map_bytes);

	void *address = ::mmap(nullptr, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, create->fd, 0);

	ring->header = static_cast<ibrelk_ring_header *>(address);
	ring->entry = reinterpret_cast<ibrelk_completion *>(static_cast<std::byte *>(address) + page);
	ring->header->entries = ring->entries;
	ring->header->entries_offset = page;
	create->entries = ring->entries;
	create->map_bytes = state.behaviour.ring_map_bytes ? state.behaviour.ring_map_bytes : ring->map_bytes;
	state.rings[create->fd] = ring;
	return 0;
}

int create_endpoint(ibrelk_endpoint_create *create)
{
	auto send_ring = state.rings.find(create->send_ring);
	auto recv_ring = state.rings.find(create->recv_ring);

	if (state.behaviour.endpoint_error)
		return -state.behaviour.endpoint_error;
	if (create->mode >= IBRELK_MODE_COUNT || create->flags || create->local.generation)
		return -EINVAL;
	if (send_ring == state.rings.end() || recv_ring == state.rings.end())
		return -EBADF;
	if (!create->mode)
		create->mode = IBRELK_MODE_UC_RELIABLE;
	if (!(state.behaviour.modes & 1u << create->mode))
		return native(create->mode) ? -EPERM : -ENODEV;
	for (const auto &[fd, other] : state.endpoints) {
		if (other->addr.endpoint == create->local.endpoint)
			return -EADDRINUSE;
	}

	auto endpoint = std::make_shared<Endpoint>();
	static constexpr unsigned char any[16] = {};

	if (!create->local.endpoint)
		create->local.endpoint = state.next_number++;
	if (std::memcmp(create->local.gid, any, sizeof(any)) == 0) {
		create->local.gid[10] = create->local.gid[11] = 0xff;
		create->local.gid[12] = 10;
		create->local.gid[15] = 1;
	}
	create->local.generation = state.generation++;
	endpoint->addr = create->local;
	endpoint->mode = create->mode;
	endpoint->sends_max = create->sends ? create->sends : state.behaviour.sends_max;
	endpoint->send_ring = send_ring->second;
	endpoint->recv_ring = recv_ring->second;
	create->fd = memory_fd(0);
	state.endpoints[create->fd] = endpoint;
	return 0;
}

int dump(ibrelk_dump *dump)
{
	auto put = [&](const auto &entry) {
		if (dump->total++ >= dump->entries)
			return;
		std::memcpy(reinterpret_cast<std::byte *>(dump->buffer) +
				static_cast<std::size_t>(dump->total - 1) * dump->entry_bytes,
			&entry, std::min<std::size_t>(dump->entry_bytes, sizeof(entry)));
	};

	dump->total = 0;
	if (dump->kind == IBRELK_DUMP_ENDPOINTS) {
		for (const auto &[fd, endpoint] : state.endpoints) {
			ibrelk_endpoint_info info{};

			info.local = endpoint->addr;
			info.mode = endpoint->mode;
			put(info);
		}
		for (std::uint32_t i = 0; i < state.behaviour.extra_endpoints; i++)
			put(ibrelk_endpoint_info{});
	} else if (dump->kind == IBRELK_DUMP_PATHS) {
		ibrelk_path_info info{};

		info.mode = IBRELK_MODE_UC_RELIABLE;
		info.counters.tx_acks_explicit = state.messages / 4;
		put(info);
	} else if (dump->kind != IBRELK_DUMP_PORTS) {
		return -EINVAL;
	}
	dump->entries = std::min(dump->entries, dump->total);
	return 0;
}

ibrelk_completion completion_of(const Endpoint &endpoint, const ibrelk_command &command)
{
	ibrelk_completion completion{};

	completion.user_data = command.user_data;
	completion.opcode = command.opcode;
	completion.endpoint = endpoint.addr.endpoint;
	completion.peer = IBRELK_PEER_ANY;
	completion.tag = command.tag;
	return completion;
}

// Handle of an address, as the endpoint knows it. Whoever is known without a generation is still the same.
std::uint32_t contact(Endpoint &endpoint, const ibrelk_addr &addr)
{
	for (std::uint32_t i = 0; i < endpoint.peers.size(); i++) {
		if (endpoint.peers[i].endpoint == addr.endpoint)
			return i;
	}
	endpoint.peers.push_back(addr);
	return static_cast<std::uint32_t>(endpoint.peers.size() - 1);
}

bool matches(const ibrelk_command &recv, const Message &message, std::uint32_t source)
{
	return ((recv.tag ^ message.command.tag) & ~recv.ignore) == 0 &&
		(recv.peer == IBRELK_PEER_ANY || recv.peer == source);
}

void describe(ibrelk_completion &completion, const Message &message, std::uint32_t source)
{
	completion.length = message.bytes.size();
	completion.tag = message.command.tag;
	completion.peer = source;
	if (message.command.flags & IBRELK_CMD_IMMEDIATE) {
		completion.flags |= IBRELK_CQE_IMMEDIATE;
		completion.immediate = message.command.immediate;
	}
}

void give(Endpoint &endpoint, const ibrelk_command &recv, const Message &message, std::uint32_t source)
{
	ibrelk_completion completion = completion_of(endpoint, recv);
	const std::uint64_t fits = std::min<std::uint64_t>(recv.length, message.bytes.size());

	if (fits)
		std::memcpy(reinterpret_cast<void *>(recv.addr), message.bytes.data(), fits);
	completion.status = fits < message.bytes.size() ? -EMSGSIZE : 0;
	describe(completion, message, source);
	endpoint.recv_ring->complete(completion);
}

// Of a receive of many messages: what it has of the next one. It ends with its last message, or its last
// byte.
bool give_part(Endpoint &endpoint, ibrelk_command &multi, const Message &message, std::uint32_t source)
{
	// Here, what is used counts from the start of the buffer in a member that such a command has no use
	// for.
	auto &used = multi.remote_addr, &taken = multi.remote_key;
	ibrelk_completion completion = completion_of(endpoint, multi);

	std::memcpy(reinterpret_cast<void *>(multi.addr + used), message.bytes.data(), message.bytes.size());
	describe(completion, message, source);
	completion.offset = used;
	endpoint.recv_ring->complete(completion);
	used = std::min<decltype(multi.length)>((used + message.bytes.size() + 7) / 8 * 8, multi.length);
	if (++taken < multi.messages && multi.length - used >= std::max<std::uint64_t>(multi.room, 1))
		return false;
	completion = completion_of(endpoint, multi);
	completion.flags = IBRELK_CQE_RELEASED;
	completion.length = taken;
	completion.offset = used;
	endpoint.recv_ring->complete(completion);
	return true;
}

void arrive(Endpoint &endpoint, const Message &message)
{
	const std::uint32_t source = contact(endpoint, message.source);

	for (auto recv = endpoint.posted.begin(); recv != endpoint.posted.end(); ++recv) {
		if (!matches(*recv, message, source))
			continue;
		if (recv->opcode == IBRELK_OP_RECV_MULTI && !give_part(endpoint, *recv, message, source))
			return;
		if (recv->opcode == IBRELK_OP_RECV)
			give(endpoint, *recv, message, source);
		endpoint.posted.erase(recv);
		return;
	}
	endpoint.unexpected.push_back(message);
}

bool every(std::uint32_t n)
{
	return n && state.messages % n == 0;
}

bool refused()
{
	const auto now = std::chrono::steady_clock::now();

	if (!state.behaviour.refuse_from || state.messages + 1 != state.behaviour.refuse_from)
		return false;
	if (state.refused_since == std::chrono::steady_clock::time_point{})
		state.refused_since = now;
	return now - state.refused_since < std::chrono::milliseconds(state.behaviour.refuse_ms);
}

// Does as much wait there as may, and would this one wait, too?
bool crowded(Endpoint &to, const Message &message)
{
	const std::uint32_t source = contact(to, message.source);

	return state.behaviour.unexpected_max && to.unexpected.size() >= state.behaviour.unexpected_max &&
		std::none_of(to.posted.begin(), to.posted.end(),
			[&](const ibrelk_command &recv) { return matches(recv, message, source); });
}

bool held_back(int to, const Message &message)
{
	if (state.messages < state.behaviour.hold_from || !state.behaviour.hold_count)
		return false;
	state.wire.emplace_back(to, message);
	if (state.wire.size() < state.behaviour.hold_count)
		return true;
	state.behaviour.hold_count = 0;
	for (const auto &[fd, held] : state.wire)
		arrive(*state.endpoints.at(fd), held);
	state.wire.clear();
	return true;
}

int send(Endpoint &endpoint, const ibrelk_command &command)
{
	if (command.peer >= endpoint.peers.size())
		return -ENOENT;
	if (endpoint.held.size() >= endpoint.sends_max)
		return 1;
	if ((command.flags & IBRELK_CMD_IMMEDIATE) && refused())
		return 1;

	const ibrelk_addr &to = endpoint.peers[command.peer];
	const auto *first = reinterpret_cast<const std::byte *>(command.addr);
	Message message{endpoint.addr, command, {first, first + command.length}};
	ibrelk_completion completion = completion_of(endpoint, command);
	// Control messages have no immediate, and get through.
	const bool data = command.flags & IBRELK_CMD_IMMEDIATE;
	bool found = false;

	for (auto &[fd, other] : state.endpoints) {
		if (data && other->addr.endpoint == to.endpoint && other->mode == endpoint.mode &&
			crowded(*other, message))
			return 1;
	}
	state.messages += data;
	if (data && !message.bytes.empty() && every(state.behaviour.corrupt_every))
		message.bytes.back() ^= std::byte{1};
	for (auto &[fd, other] : state.endpoints) {
		if (other->addr.endpoint != to.endpoint || other->mode != endpoint.mode)
			continue;
		found = true;
		if (data && native(endpoint.mode) && every(state.behaviour.lose_every))
			break;
		if (data && held_back(fd, message))
			break;
		arrive(*other, message);
		if (data && every(state.behaviour.repeat_every))
			arrive(*other, message);
		break;
	}
	completion.status = found ? 0 : -ECONNREFUSED;
	completion.length = command.length;
	if (found && (command.flags & IBRELK_CMD_NO_SUCCESS))
		return 0;
	if (state.behaviour.hold_sends || state.behaviour.lazy_sends)
		endpoint.held.push_back(completion);
	else
		endpoint.send_ring->complete(completion);
	return 0;
}

int look(Endpoint &endpoint, const ibrelk_command &command)
{
	ibrelk_completion completion = completion_of(endpoint, command);

	completion.status = -ENOMSG;
	for (auto message = endpoint.unexpected.begin(); message != endpoint.unexpected.end(); ++message) {
		const std::uint32_t source = contact(endpoint, message->source);

		if (!matches(command, *message, source))
			continue;
		completion.status = 0;
		describe(completion, *message, source);
		if (command.opcode == IBRELK_OP_CLAIM) {
			completion.claim = ++endpoint.claims_made;
			endpoint.claims.emplace(completion.claim, *message);
			endpoint.unexpected.erase(message);
		}
		break;
	}
	endpoint.recv_ring->complete(completion);
	return 0;
}

int take_claimed(Endpoint &endpoint, const ibrelk_command &command)
{
	const auto claim = endpoint.claims.find(command.tag);

	if (claim == endpoint.claims.end())
		return -ENOENT;
	if (command.opcode == IBRELK_OP_RECV)
		give(endpoint, command, claim->second, contact(endpoint, claim->second.source));
	else
		endpoint.recv_ring->complete(completion_of(endpoint, command));
	endpoint.claims.erase(claim);
	return 0;
}

int recv(Endpoint &endpoint, const ibrelk_command &command)
{
	for (auto message = endpoint.unexpected.begin(); message != endpoint.unexpected.end(); ++message) {
		const std::uint32_t source = contact(endpoint, message->source);

		if (!matches(command, *message, source))
			continue;
		give(endpoint, command, *message, source);
		endpoint.unexpected.erase(message);
		return 0;
	}
	endpoint.posted.push_back(command);
	return 0;
}

int cancel(Endpoint &endpoint, const ibrelk_command &command)
{
	ibrelk_completion done = completion_of(endpoint, command);

	if (command.peer || command.length || command.tag)
		return -EINVAL;
	for (auto posted = endpoint.posted.begin(); posted != endpoint.posted.end();) {
		if (posted->user_data != command.addr) {
			++posted;
			continue;
		}

		ibrelk_completion completion = completion_of(endpoint, *posted);

		completion.status = -ECANCELED;
		endpoint.recv_ring->complete(completion);
		posted = endpoint.posted.erase(posted);
		done.length++;
	}
	done.status = done.length ? 0 : -ENOENT;
	endpoint.recv_ring->complete(done);
	return 0;
}

// Into a region of this process, which is the peer, or out of it.
int remote(Endpoint &endpoint, const ibrelk_command &command)
{
	if (command.peer >= endpoint.peers.size())
		return -ENOENT;

	const bool writes = command.opcode == IBRELK_OP_PUT;
	const std::uint32_t right = writes ? IBRELK_REGION_REMOTE_WRITE : IBRELK_REGION_REMOTE_READ;
	ibrelk_completion completion = completion_of(endpoint, command);

	completion.length = command.length;
	completion.status = -EACCES;
	for (const auto &[fd, region] : state.regions) {
		if (!(region.flags & right) || region.key != command.remote_key)
			continue;
		completion.status = -EFAULT;
		if (command.remote_addr < region.addr || command.remote_addr - region.addr > region.length ||
			command.length > region.length - (command.remote_addr - region.addr))
			continue;
		completion.status = 0;

		auto *there = reinterpret_cast<void *>(command.remote_addr);
		auto *here = reinterpret_cast<void *>(command.addr);

		std::memcpy(writes ? there : here, writes ? here : there, command.length);
	}
	endpoint.send_ring->complete(completion);
	return 0;
}

// Sums of one element, of 64 bits.
int compute(Endpoint &endpoint, const ibrelk_command &command)
{
	ibrelk_completion completion = completion_of(endpoint, command);

	if (command.peer >= endpoint.peers.size())
		return -ENOENT;
	if (command.messages != IBRELK_ATOMIC(IBRELK_ATOMIC_SUM, IBRELK_ATOMIC_U64) || command.length != 8)
		return -EINVAL;
	completion.peer = command.peer;
	completion.length = command.length;
	completion.status = -EACCES;
	for (const auto &[fd, region] : state.regions) {
		if (region.key != command.remote_key)
			continue;
		completion.status = 0;

		auto *there = reinterpret_cast<std::uint64_t *>(command.remote_addr);

		if (command.tag)
			*reinterpret_cast<std::uint64_t *>(command.tag) = *there;
		*there += *reinterpret_cast<const std::uint64_t *>(command.addr);
	}
	endpoint.send_ring->complete(completion);
	return 0;
}

int accept(Endpoint &endpoint, const ibrelk_command &command)
{
	switch (command.opcode) {
	case IBRELK_OP_NOP:
		if (!(command.flags & IBRELK_CMD_NO_SUCCESS))
			endpoint.send_ring->complete(completion_of(endpoint, command));
		return 0;
	case IBRELK_OP_SEND: return send(endpoint, command);
	case IBRELK_OP_PUT:
	case IBRELK_OP_GET: return remote(endpoint, command);
	case IBRELK_OP_RECV:
		return command.flags & IBRELK_CMD_CLAIMED ? take_claimed(endpoint, command)
							  : recv(endpoint, command);
	case IBRELK_OP_RECV_MULTI: endpoint.posted.push_back(command); return 0;
	case IBRELK_OP_PROBE:
	case IBRELK_OP_CLAIM: return look(endpoint, command);
	case IBRELK_OP_DISCARD: return take_claimed(endpoint, command);
	case IBRELK_OP_CANCEL: return cancel(endpoint, command);
	case IBRELK_OP_ATOMIC: return compute(endpoint, command);
	default: return -EINVAL;
	}
}

int submit(int fd, std::uint64_t commands, std::uint32_t count, std::uint32_t flags)
{
	auto endpoint = state.endpoints.find(fd);
	int accepted = 0;

	if (endpoint == state.endpoints.end())
		return -ENOTTY;
	if (count == 0 || count > 1024 || flags)
		return -EINVAL;
	count = std::min(count, state.behaviour.accept_max);
	for (std::uint32_t i = 0; i < count; i++) {
		const int code =
			accept(*endpoint->second, reinterpret_cast<const ibrelk_command *>(commands)[i]);

		if (code < 0 && accepted == 0)
			return code;
		if (code != 0)
			break;
		accepted++;
	}
	changed.notify_all();
	return accepted;
}

void release(Endpoint &endpoint, std::uint32_t &count)
{
	for (; count && !endpoint.held.empty(); count--) {
		endpoint.send_ring->complete(endpoint.held.front());
		endpoint.held.pop_front();
	}
}

int ring_wait(std::unique_lock<std::mutex> &guard, int fd, const ibrelk_ring_wait *wait)
{
	auto found = state.rings.find(fd);

	state.calls.ring_wait++;
	if (found == state.rings.end())
		return -ENOTTY;

	const std::shared_ptr<Ring> ring = found->second;

	if (wait->count == 0 || wait->count > ring->entries || wait->flags)
		return -EINVAL;

	for (auto &[number, endpoint] : state.endpoints) {
		std::uint32_t all = UINT32_MAX;

		if (state.behaviour.lazy_sends && endpoint->send_ring == ring)
			release(*endpoint, all);
	}

	const auto enough = [&] {
		ring->refill();
		return ring->available() >= wait->count;
	};

	if (wait->timeout_ns == UINT64_MAX)
		changed.wait(guard, enough);
	else
		changed.wait_for(guard, std::chrono::nanoseconds(wait->timeout_ns), enough);
	return static_cast<int>(ring->available());
}

int peer_add(int fd, ibrelk_peer *peer)
{
	auto endpoint = state.endpoints.find(fd);

	if (endpoint == state.endpoints.end())
		return -ENOTTY;
	if (!peer->addr.endpoint || peer->reserved)
		return -EINVAL;
	peer->handle = contact(*endpoint->second, peer->addr);
	return 0;
}

int peer_query(int fd, ibrelk_peer *peer)
{
	auto endpoint = state.endpoints.find(fd);

	if (endpoint == state.endpoints.end())
		return -ENOTTY;
	if (peer->handle >= endpoint->second->peers.size())
		return -ENOENT;
	peer->addr = endpoint->second->peers[peer->handle];
	return 0;
}

// The memory of an io_uring, in which liburing's inline functions walk about.
struct FakeUring {
	unsigned sq_head = 0;
	unsigned sq_tail = 0;
	unsigned cq_head = 0;
	unsigned cq_tail = 0;
	unsigned entries = 0;
	unsigned mask = 0;
	io_uring_sqe sqes[8];
	io_uring_cqe cqes[16];
};

} // namespace

namespace fake
{

void reset()
{
	std::scoped_lock guard(lock);

	state.behaviour = {};
	state.calls.submit_ioctl = state.calls.submit_uring = state.calls.ring_wait = 0;
	state.messages = 0;
	state.refused_since = {};
}

Behaviour &behaviour()
{
	return state.behaviour;
}

Calls calls()
{
	std::scoped_lock guard(lock);

	return state.calls;
}

void release_sends(std::uint32_t count)
{
	std::scoped_lock guard(lock);

	for (auto &[fd, endpoint] : state.endpoints)
		release(*endpoint, count);
	changed.notify_all();
}

} // namespace fake

namespace ibrelk::system
{

int open(const char *path) noexcept
{
	std::scoped_lock guard(lock);

	if (state.behaviour.open_error || std::strcmp(path, IBRELK_DEVICE_PATH) != 0)
		return -(state.behaviour.open_error ? state.behaviour.open_error : ENOENT);

	int fd = memory_fd(0);

	state.devices[fd] = 1;
	return fd;
}

void close(int fd) noexcept
{
	std::scoped_lock guard(lock);

	if (!state.devices.erase(fd) && !state.rings.erase(fd) && !state.endpoints.erase(fd) &&
		!state.regions.erase(fd))
		return;
	state.calls.open_fds--;
	::close(fd);
}

int ioctl(int fd, unsigned long request, void *argument) noexcept
{
	std::unique_lock guard(lock);
	const bool device = state.devices.contains(fd);

	switch (request) {
	case IBRELK_IOC_QUERY: return device ? query(static_cast<ibrelk_query *>(argument)) : -ENOTTY;
	case IBRELK_IOC_RING_CREATE:
		return device ? create_ring(static_cast<ibrelk_ring_create *>(argument)) : -ENOTTY;
	case IBRELK_IOC_ENDPOINT_CREATE:
		return device ? create_endpoint(static_cast<ibrelk_endpoint_create *>(argument)) : -ENOTTY;
	case IBRELK_IOC_REGION_CREATE:
		return device ? create_region(static_cast<ibrelk_region_create *>(argument)) : -ENOTTY;
	case IBRELK_IOC_DUMP: return device ? dump(static_cast<ibrelk_dump *>(argument)) : -ENOTTY;
	case IBRELK_IOC_RING_WAIT:
		return ring_wait(guard, fd, static_cast<const ibrelk_ring_wait *>(argument));
	case IBRELK_IOC_PEER_ADD: return peer_add(fd, static_cast<ibrelk_peer *>(argument));
	case IBRELK_IOC_PEER_QUERY: return peer_query(fd, static_cast<ibrelk_peer *>(argument));
	case IBRELK_IOC_SUBMIT: {
		const auto *batch = static_cast<const ibrelk_submit *>(argument);

		state.calls.submit_ioctl++;
		return submit(fd, batch->commands, batch->count, batch->flags);
	}
	default: return -ENOTTY;
	}
}

void *map(int fd, std::size_t bytes, int *error) noexcept
{
	void *address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (address != MAP_FAILED)
		return address;
	*error = -errno;
	return nullptr;
}

void unmap(void *address, std::size_t bytes) noexcept
{
	::munmap(address, bytes);
}

std::uint64_t now_ns() noexcept
{
	timespec time;

	::clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
		static_cast<std::uint64_t>(time.tv_nsec);
}

int poll(int fd, short events, std::uint64_t timeout_ns) noexcept
{
	std::unique_lock guard(lock);
	auto endpoint = state.endpoints.find(fd);

	if (endpoint == state.endpoints.end())
		return -EBADF;

	const auto room = [&] {
		return (events & (POLLWRBAND | POLLPRI)) ||
			endpoint->second->held.size() < endpoint->second->sends_max;
	};

	if (timeout_ns == UINT64_MAX)
		changed.wait(guard, room);
	else
		changed.wait_for(guard, std::chrono::nanoseconds(timeout_ns), room);
	return room() ? 1 : 0;
}

void sleep_ns(std::uint64_t time_ns) noexcept
{
	std::this_thread::sleep_for(std::chrono::nanoseconds(time_ns));
}

int uring_init(unsigned entries, ::io_uring *ring) noexcept
{
	std::scoped_lock guard(lock);

	if (!state.behaviour.uring_works)
		return -EPERM;

	auto *memory = new (std::nothrow) FakeUring{};

	if (!memory)
		return -ENOMEM;

	*ring = {};
	memory->entries = entries;
	memory->mask = entries - 1;
	ring->sq.khead = &memory->sq_head;
	ring->sq.ktail = &memory->sq_tail;
	ring->sq.kring_mask = &memory->mask;
	ring->sq.kring_entries = &memory->entries;
	ring->sq.sqes = memory->sqes;
	ring->sq.ring_mask = memory->mask;
	ring->sq.ring_entries = entries;
	ring->sq.ring_ptr = memory;
	ring->cq.khead = &memory->cq_head;
	ring->cq.ktail = &memory->cq_tail;
	ring->cq.kring_mask = &memory->mask;
	ring->cq.kring_entries = &memory->entries;
	ring->cq.cqes = memory->cqes;
	ring->cq.ring_mask = memory->mask;
	ring->cq.ring_entries = entries;
	ring->features = IORING_FEAT_EXT_ARG;
	state.calls.open_urings++;
	return 0;
}

void uring_exit(::io_uring *ring) noexcept
{
	std::scoped_lock guard(lock);

	delete static_cast<FakeUring *>(ring->sq.ring_ptr);
	state.calls.open_urings--;
}

int uring_submit(::io_uring *ring) noexcept
{
	std::scoped_lock guard(lock);
	int submitted = 0;

	for (; *ring->sq.khead != ring->sq.sqe_tail; ++*ring->sq.khead, submitted++) {
		const io_uring_sqe &sqe = ring->sq.sqes[*ring->sq.khead & ring->sq.ring_mask];
		io_uring_cqe &cqe = ring->cq.cqes[*ring->cq.ktail & ring->cq.ring_mask];
		ibrelk_submit_uring batch;

		std::memcpy(&batch, sqe.cmd, sizeof(batch));
		state.calls.submit_uring++;
		cqe.user_data = sqe.user_data;
		cqe.res = sqe.opcode == IORING_OP_URING_CMD && sqe.cmd_op == IBRELK_IOC_SUBMIT &&
				state.behaviour.uring_commands
			? submit(sqe.fd, batch.commands, batch.count, batch.flags)
			: -EOPNOTSUPP;
		__atomic_store_n(ring->cq.ktail, *ring->cq.ktail + 1, __ATOMIC_RELEASE);
	}
	return submitted;
}

int uring_wait(::io_uring *, ::io_uring_cqe **) noexcept
{
	return -EIO; // a command completes before it is waited for
}

} // namespace ibrelk::system
