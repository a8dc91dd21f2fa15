// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// An endpoint (FI_EP_RDM): the kernel's endpoint, made by fi_enable(), and what libfabric's words mean to it.
// Operations come from msg.cpp, tagged.cpp, rma.cpp and atomic.cpp.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include <sys/uio.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <ibrelk/ibrelk.hpp>

#include "atomic.hpp"
#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "operation.hpp"
#include "support.hpp"

namespace ibrelk::ofi
{

extern fi_ops_msg msg_ops;
extern fi_ops_tagged tagged_ops;
extern fi_ops_rma rma_ops;

/// A message, read or write as an operation has it; members that an operation does not have stay as they are
/// here.
struct Message {
	const iovec *pieces;
	std::size_t count;
	fi_addr_t address;
	void *context;
	std::uint64_t flags;
	bool tagged = false;
	std::uint64_t tag = 0;
	std::uint64_t ignore = 0;
	std::uint64_t data = 0;
	const fi_rma_iov *remote = nullptr; // memory of the peer
	std::size_t remote_count = 0;
	bool injected = false; // fi_inject() and its relatives: success is never reported
};

/// Bytes of all pieces.
std::uint64_t length_of(const iovec *pieces, std::size_t count) noexcept;

class Endpoint : public fid_ep
{
public:
	static int open(fid_domain *domain, fi_info *info, fid_ep **ep, void *context);
	static int open_with_flags(
		fid_domain *domain, fi_info *info, fid_ep **ep, std::uint64_t flags, void *context);

	ssize_t send(const Message &message);
	/// A receive, or with FI_PEEK or FI_CLAIM something about a message that waits.
	ssize_t receive(const Message &message);
	/// From memory of the peer, and to it.
	ssize_t read(const Message &message);
	ssize_t write(const Message &message);
	/// Computes there.
	ssize_t atomic(const Atomic &atomic);

	/// Flags of operations that have none of their own.
	[[nodiscard]] std::uint64_t tx_flags() const noexcept
	{
		return tx_flags_;
	}
	[[nodiscard]] std::uint64_t rx_flags() const noexcept
	{
		return rx_flags_;
	}

	/// Hands a command to the kernel: 0, -FI_EAGAIN, or its error.
	ssize_t submit(const Command &command) noexcept;
	/// Says once for each peer why operations with it fail, as MPIs only say that they do: in the log. Of
	/// what was injected an application is not told (there is no context that it could know it by, and
	/// Open MPI takes for granted that there is one), so of that once for each peer on stderr, if there
	/// is no log.
	void send_failed(Peer peer, int status, bool injected);
	/// Has the kernel receive what tells of writes with data: 0, -FI_EAGAIN, or its error.
	ssize_t post_notices(std::uint64_t user_data) noexcept;
	/// Throws a claimed message away, now or when there is room.
	void discard(std::uint64_t claim);
	/// An index of the address vector does not mean what it did.
	void forget(fi_addr_t index);
	/// The address vector has one more.
	void meet() noexcept;
	/// The index of who sent something, FI_ADDR_NOTAVAIL if the address vector does not have him.
	fi_addr_t source(Peer peer);
	/// What was to be thrown away, if there is room by now.
	void discard_pending();
	/// 0: it is not enabled.
	[[nodiscard]] std::uint32_t number() const noexcept
	{
		return number_.load(std::memory_order_acquire);
	}
	/// The number was asked for, and may have been another one's. All that is under way is remembered.
	/// Only when it has a number.
	[[nodiscard]] bool is_named() const noexcept
	{
		return named_;
	}

	/// A claim is kept in the struct fi_context that who claims must supply.
	static void set_claim(void *context, const Completion &peeked) noexcept;

private:
	// What counts operations of a kind.
	struct Count {
		std::atomic<Counter *> counter = nullptr; // may be bound while others are at work
		Use use;
		bool attached = false; // to the queue, which others may have attached the same counter to
	};
	// A direction: where its completions go, and what counts them.
	struct Way {
		CompletionQueue *queue = nullptr;
		Use queue_use;
		bool own = false;       // made here, for the counters
		bool selective = false; // only operations with FI_COMPLETION are reported
		Count messages;
		Count reads; // these are of the way out
		Count writes;

		[[nodiscard]] bool is_watched() const noexcept
		{
			return queue || messages.counter || reads.counter || writes.counter;
		}
	};

	Endpoint(Domain &domain, const fi_info &info, void *context);
	~Endpoint();

	int enable();
	[[nodiscard]] std::optional<std::size_t> most_of(int option) const noexcept;
	void set_local(const void *address) noexcept;
	int open_way(Way &way);
	void close_way(Way &way) noexcept;
	int bind_queue(CompletionQueue &queue, std::uint64_t flags);
	int bind_counter(Counter &counter, std::uint64_t flags);

	[[nodiscard]] bool can(std::uint64_t direction, const Message &message) const noexcept;
	ssize_t submit(const Command &command, Way &way);
	result<Peer> peer(fi_addr_t index);
	ssize_t post(const Message &message, Way &way, Command command, Operation &&operation);
	ssize_t start(const Message &message, Command command, Operation &&operation);
	ssize_t transfer(const Message &message, Command command, Operation &&operation);
	ssize_t peek(const Message &message);
	ssize_t receive_claimed(const Message &message);

	static int close(Fid *any);
	static int bind(Fid *any, Fid *other, std::uint64_t flags);
	static int control(Fid *any, int command, void *argument);
	static ssize_t cancel(fid_t any, void *context);
	static int getopt(fid_t any, int level, int option, void *value, std::size_t *length);
	static int setopt(fid_t any, int level, int option, const void *value, std::size_t length);
	static int setname(fid_t any, void *address, std::size_t length);
	static int getname(fid_t any, void *address, std::size_t *length);

	static fi_ops fid_ops;
	static fi_ops_ep ep_ops;
	static fi_ops_cm cm_ops;
	static fi_ops_rma no_rma_ops;
	static fi_ops_collective no_collective_ops;
	static fi_ops_atomic no_atomic_ops;

	Domain &domain_;
	Use domain_use_;
	const std::uint64_t caps_;
	std::uint64_t tx_flags_;
	std::uint64_t rx_flags_;
	const std::size_t sends_;
	::ibrelk_addr local_{};
	std::size_t min_multi_recv_ = 64;
	AddressVector *av_ = nullptr;
	Use events_use_;
	std::vector<Use> idle_counters_; // bound, and told nothing
	Way tx_;
	Way rx_;
	std::optional<ibrelk::Endpoint> kernel_;
	bool named_ = false; // valid when there is a number
	std::atomic<std::uint32_t> number_{0};
	std::atomic<bool> discards_wait_{false}; // discards_ has something

	// What an index is to the kernel, and the other way round.
	static constexpr Peer unknown = IBRELK_PEER_ANY;
	// A source that was looked for, and is not in the address vector. (FI_ADDR_NOTAVAIL: it was not.)
	static constexpr fi_addr_t stranger = FI_ADDR_NOTAVAIL - 1;
	std::mutex lock_; // protects what follows; taken after that of a queue or an address vector
	std::vector<Peer> peers_;
	std::vector<fi_addr_t> sources_;
	std::uint64_t forgotten_ = 0;               // how often the address vector has changed
	bool strangers_ = false;                    // sources_ has some
	std::vector<std::uint64_t> discards_;       // claims for which there was no room
	std::vector<std::pair<Peer, bool>> failed_; // with whom, and whether it was injected: what was said
};

} // namespace ibrelk::ofi
