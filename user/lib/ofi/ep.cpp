// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ep.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>

#include "info.hpp"
#include "job.hpp"
#include "provider.hpp"

namespace ibrelk::ofi
{

namespace
{

// Messages that a multi-receive may take, if they are short: the kernel keeps a completion for each, until it
// is over. Another one follows it. How short they are is what an application says it needs room for; the
// kernel begins each at a multiple of 8 bytes.
constexpr std::uint64_t multi_messages_max = 256;
constexpr std::uint64_t multi_message_bytes_min = 8;
constexpr std::uint64_t multi_message_bytes_max = 64;

// Writes with data of which others may have told before the queue is read: the kernel keeps a completion for
// each. More of them wait like messages that nobody has posted a receive for.
constexpr std::uint32_t notices_max = 32;

// The strictest that is asked for.
std::uint8_t level_of(std::uint64_t flags) noexcept
{
	if (flags & FI_MATCH_COMPLETE)
		return IBRELK_LEVEL_MATCHED;
	if (flags & (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE))
		return IBRELK_LEVEL_DELIVERED;
	if (flags & FI_INJECT_COMPLETE)
		return IBRELK_LEVEL_BUFFERED;
	return IBRELK_LEVEL_DEFAULT;
}

// A piece is the same to POSIX and to the kernel.
void set_buffer(Command &command, const Message &message) noexcept
{
	static_assert(sizeof(iovec) == sizeof(::ibrelk_iovec) && sizeof(void *) == sizeof(std::uint64_t));
	if (message.count == 1) {
		command.addr = reinterpret_cast<std::uintptr_t>(message.pieces->iov_base);
		command.length = message.pieces->iov_len;
	} else if (message.count > 1) {
		command.flags |= IBRELK_CMD_IOVEC;
		command.addr = reinterpret_cast<std::uintptr_t>(message.pieces);
		command.length = message.count;
	}
}

void set_space(Command &command, const Message &message) noexcept
{
	if (message.tagged) {
		command.tag = message.tag;
		command.ignore = message.ignore;
	} else {
		command.flags |= IBRELK_CMD_UNTAGGED;
	}
}

std::uint64_t space_flag(const Message &message) noexcept
{
	return message.tagged ? FI_TAGGED : FI_MSG;
}

std::byte *first_byte(const Message &message) noexcept
{
	return message.count ? static_cast<std::byte *>(message.pieces->iov_base) : nullptr;
}

// What a context that has claimed a message, which must be a struct fi_context, says of it.
struct Claimed {
	std::uint64_t claim;
	std::uint64_t tag;
	std::uint64_t length;
};
static_assert(sizeof(Claimed) <= sizeof(fi_context));

// For the log.
std::array<char, IBRELK_ADDRESS_TEXT_MAX> text_of(const Address &address) noexcept
{
	std::array<char, IBRELK_ADDRESS_TEXT_MAX> text{};

	if (!address.to_text(text))
		std::string_view("an address").copy(text.data(), text.size() - 1);
	return text;
}

} // namespace

std::uint64_t length_of(const iovec *pieces, std::size_t count) noexcept
{
	return std::accumulate(pieces, pieces + count, std::uint64_t{0},
		[](std::uint64_t sum, const iovec &piece) { return sum + piece.iov_len; });
}

fi_ops Endpoint::fid_ops = {
	.size = sizeof(fi_ops),
	.close = Endpoint::close,
	.bind = Endpoint::bind,
	.control = Endpoint::control,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_ep Endpoint::ep_ops = {
	.size = sizeof(fi_ops_ep),
	.cancel = Endpoint::cancel,
	.getopt = Endpoint::getopt,
	.setopt = Endpoint::setopt,
	.tx_ctx = unsupported,
	.rx_ctx = unsupported,
	.rx_size_left = unsupported,
	.tx_size_left = unsupported,
};

fi_ops_cm Endpoint::cm_ops = {
	.size = sizeof(fi_ops_cm),
	.setname = Endpoint::setname,
	.getname = Endpoint::getname,
	.getpeer = unsupported,
	.connect = unsupported,
	.listen = unsupported,
	.accept = unsupported,
	.reject = unsupported,
	.shutdown = unsupported,
	.join = unsupported,
};

// Of an endpoint without the capability, as the next one.
fi_ops_rma Endpoint::no_rma_ops = {
	.size = sizeof(fi_ops_rma),
	.read = not_capable,
	.readv = not_capable,
	.readmsg = not_capable,
	.write = not_capable,
	.writev = not_capable,
	.writemsg = not_capable,
	.inject = not_capable,
	.writedata = not_capable,
	.injectdata = not_capable,
};

fi_ops_atomic Endpoint::no_atomic_ops = {
	.size = sizeof(fi_ops_atomic),
	.write = not_capable,
	.writev = not_capable,
	.writemsg = not_capable,
	.inject = not_capable,
	.readwrite = not_capable,
	.readwritev = not_capable,
	.readwritemsg = not_capable,
	.compwrite = not_capable,
	.compwritev = not_capable,
	.compwritemsg = not_capable,
	.writevalid = not_capable,
	.readwritevalid = not_capable,
	.compwritevalid = not_capable,
};

// There are no collective operations, and libfabric does not look whether there are.
fi_ops_collective Endpoint::no_collective_ops = {
	.size = sizeof(fi_ops_collective),
	.barrier = unsupported,
	.broadcast = unsupported,
	.alltoall = unsupported,
	.allreduce = unsupported,
	.allgather = unsupported,
	.reduce_scatter = unsupported,
	.reduce = unsupported,
	.scatter = unsupported,
	.gather = unsupported,
	.msg = unsupported,
	.barrier2 = unsupported,
};

// ---- life -------------------------------------------------------------------------------------------------

Endpoint::Endpoint(Domain &domain, const fi_info &info, void *context) :
	fid_ep{}, domain_(domain), domain_use_(domain.users()), caps_(caps_of(info)),
	tx_flags_(info.tx_attr ? info.tx_attr->op_flags : 0),
	rx_flags_(info.rx_attr ? info.rx_attr->op_flags : 0),
	sends_(info.tx_attr && info.tx_attr->size ? info.tx_attr->size : sends_default)
{
	fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &fid_ops};
	ops = &ep_ops;
	cm = &cm_ops;
	msg = &msg_ops;
	rma = caps_ & FI_RMA ? &rma_ops : &no_rma_ops;
	tagged = &tagged_ops;
	collective = &no_collective_ops;
	fid_ep::atomic = caps_ & FI_ATOMIC ? &atomic_ops : &no_atomic_ops;
	if (info.src_addr && info.src_addrlen == sizeof(local_))
		set_local(info.src_addr);
}

// Another thread may be reading a queue: first it forgets this endpoint, then the kernel's goes, which
// cancels what is posted.
Endpoint::~Endpoint()
{
	for (Way *way : {&tx_, &rx_}) {
		if (way->queue)
			way->queue->detach(*this);
	}
	kernel_.reset();
	close_way(tx_);
	close_way(rx_);
	if (av_)
		av_->detach(*this);
}

int Endpoint::open(fid_domain *domain, fi_info *info, fid_ep **ep, void *context)
{
	const auto &query = static_cast<Domain &>(*domain).query();

	if (!is_offered(*info) || (info->tx_attr && info->tx_attr->size > query.sends_max) ||
		(info->rx_attr && info->rx_attr->size > query.recvs_max))
		return -FI_EINVAL;
	return guarded([&] {
		*ep = new Endpoint(static_cast<Domain &>(*domain), *info, context);
		return 0;
	});
}

int Endpoint::open_with_flags(
	fid_domain *domain, fi_info *info, fid_ep **ep, std::uint64_t flags, void *context)
{
	return flags ? -FI_ENOSYS : open(domain, info, ep, context);
}

int Endpoint::close(Fid *any)
{
	delete object_of<Endpoint, fid_ep>(any);
	return 0;
}

int Endpoint::bind_queue(CompletionQueue &queue, std::uint64_t flags)
{
	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if (!(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	if (!queue.is_of(domain_))
		return -FI_EDOMAIN;
	if (((flags & FI_TRANSMIT) && tx_.queue) || ((flags & FI_RECV) && rx_.queue))
		return -FI_EINVAL;
	for (Way *way : {flags & FI_TRANSMIT ? &tx_ : nullptr, flags & FI_RECV ? &rx_ : nullptr}) {
		if (!way)
			continue;
		way->queue = &queue;
		way->queue_use = Use(queue.users());
		way->selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return 0;
}

// What others read and write here is counted only where there is FI_RMA_EVENT, which nobody was given; a
// counter for that is taken all the same, as libfabric's own providers do, and stays as it is.
int Endpoint::bind_counter(Counter &counter, std::uint64_t flags)
{
	const std::pair<std::uint64_t, Count *> kinds[] = {{FI_SEND, &tx_.messages}, {FI_RECV, &rx_.messages},
		{FI_READ, &tx_.reads}, {FI_WRITE, &tx_.writes}};

	if (flags & ~(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EBADFLAGS;
	if (!counter.is_of(domain_))
		return -FI_EDOMAIN;
	// Of nothing: programs do so where a queue tells what they would count.
	if (!flags)
		idle_counters_.emplace_back(counter.users());
	if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) && (caps_ & memory_caps))
		FI_WARN(&provider, FI_LOG_EP_CTRL,
			"what peers read and write is not counted: there is no FI_RMA_EVENT\n");
	for (const auto &[flag, count] : kinds) {
		if ((flags & flag) && count->counter)
			return -FI_EINVAL;
	}

	// What could not be done for all is done for none.
	Undo detach([&] {
		for (const auto &[flag, count] : kinds) {
			if ((flags & flag) && count->attached)
				counter.detach(*(flag == FI_RECV ? rx_ : tx_).queue);
			if (flags & flag)
				count->attached = false;
		}
	});

	for (const auto &[flag, count] : kinds) {
		if (!(flags & flag) || !kernel_)
			continue;
		counter.attach(*(flag == FI_RECV ? rx_ : tx_).queue);
		count->attached = true;
	}
	detach.dismiss();
	for (const auto &[flag, count] : kinds) {
		if (!(flags & flag))
			continue;
		count->use = Use(counter.users());
		count->counter = &counter;
	}
	return 0;
}

int Endpoint::bind(Fid *any, Fid *other, std::uint64_t flags)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);

	// Only counters may come later, as libfabric's own providers have it, for what is posted from then
	// on; OpenSHMEM does so.
	if (ep->kernel_ && other->fclass != FI_CLASS_CNTR)
		return -FI_EOPBADSTATE;
	return guarded([&] {
		switch (other->fclass) {
		case FI_CLASS_AV:
			if (ep->av_)
				return -FI_EINVAL;
			if (!object_of<AddressVector, fid_av>(other)->is_of(ep->domain_))
				return -FI_EDOMAIN;
			object_of<AddressVector, fid_av>(other)->attach(*ep);
			ep->av_ = object_of<AddressVector, fid_av>(other);
			return 0;
		case FI_CLASS_CQ: return ep->bind_queue(*object_of<CompletionQueue, fid_cq>(other), flags);
		case FI_CLASS_CNTR: return ep->bind_counter(*object_of<Counter, fid_cntr>(other), flags);
		// An endpoint without connections has no events.
		case FI_CLASS_EQ:
			ep->events_use_ = Use(object_of<EventQueue, fid_eq>(other)->users());
			return 0;
		default: return -FI_EINVAL;
		}
	});
}

int Endpoint::open_way(Way &way)
{
	if (!way.queue) {
		const auto made = CompletionQueue::open_unread(domain_);

		if (!made)
			return -made.error();
		way.queue = *made;
		way.own = true;
		way.selective = true;
	}
	way.queue->attach(*this);
	for (Count *count : {&way.messages, &way.reads, &way.writes}) {
		Counter *counter = count->counter;

		if (!counter)
			continue;
		counter->attach(*way.queue);
		count->attached = true;
	}
	return 0;
}

// What is bound stays so.
void Endpoint::close_way(Way &way) noexcept
{
	if (!way.queue)
		return;
	for (Count *count : {&way.messages, &way.reads, &way.writes}) {
		if (count->attached)
			count->counter.load()->detach(*way.queue);
		count->attached = false;
	}
	way.queue->detach(*this);
	if (!way.own)
		return;
	CompletionQueue::close(&way.queue->fid);
	way.queue = nullptr;
	way.own = false;
}

int Endpoint::enable()
{
	if (kernel_)
		return -FI_EOPBADSTATE;
	if (!av_)
		return -FI_ENOAV;
	if (((caps_ & (FI_SEND | FI_READ | FI_WRITE)) && !tx_.is_watched()) ||
		((caps_ & FI_RECV) && !rx_.is_watched()))
		return -FI_ENOCQ;

	const auto mode = wanted_mode();

	if (!mode)
		return -mode.error();
	// Who is not enabled, or only half, may be closed, or enabled again.
	Undo close_tx([this] { close_way(tx_); });
	Undo close_rx([this] { close_way(rx_); });

	for (Way *way : {&tx_, &rx_}) {
		if (const int error = open_way(*way))
			return error;
	}

	EndpointOptions options;

	named_ = local_.endpoint != 0;
	options.mode = *mode;
	options.local = Address(local_);
	options.job_key = job_key();
	options.sends = static_cast<std::uint32_t>(sends_);
	// Multi-receives need room for their messages, beside the receives that the application was promised.
	options.recvs = domain_.query().recvs_max;

	auto made = ibrelk::Endpoint::create(domain_.device(), tx_.queue->ring(), rx_.queue->ring(), options);

	if (!made) {
		FI_WARN(&provider, FI_LOG_EP_CTRL, "%s\n",
			ibrelk_error_text(IBRELK_CALL_ENDPOINT_CREATE, made.error()));
		return -made.error();
	}
	kernel_.emplace(std::move(*made));
	if ((caps_ & FI_REMOTE_WRITE) && !rx_.queue->await_notices(*this)) {
		kernel_.reset();
		return -FI_ENOMEM;
	}
	close_tx.dismiss();
	close_rx.dismiss();
	local_ = kernel_->address().raw();
	FI_INFO(&provider, FI_LOG_EP_CTRL, "endpoint at %s\n", text_of(kernel_->address()).data());
	number_.store(local_.endpoint, std::memory_order_release);
	return 0;
}

// A multi-receive of messages without bytes, that wants a buffer all the same.
ssize_t Endpoint::post_notices(std::uint64_t user_data) noexcept
{
	static std::byte nowhere[8];
	Command command = ibrelk_command_recv_multi(any_peer, nowhere, sizeof(nowhere),
		std::min(notices_max, domain_.query().recvs_max - 1), IBRELK_TAG_WRITTEN,
		IBRELK_TAG_WRITTEN - 1, user_data);

	command.flags |= IBRELK_CMD_UNTAGGED;
	return submit(command);
}

int Endpoint::control(Fid *any, int command, void *argument)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);
	auto *flags = static_cast<std::uint64_t *>(argument);

	switch (command) {
	case FI_ENABLE: return guarded([&] { return ep->enable(); });
	case FI_GETOPSFLAG:
		if ((*flags & FI_TRANSMIT) && (*flags & FI_RECV))
			return -FI_EINVAL;
		if (*flags & FI_TRANSMIT)
			*flags = ep->tx_flags_;
		else if (*flags & FI_RECV)
			*flags = ep->rx_flags_;
		else
			return -FI_EINVAL;
		return 0;
	case FI_SETOPSFLAG:
		if ((*flags & FI_TRANSMIT) && !(*flags & ~(send_flags | FI_TRANSMIT)))
			ep->tx_flags_ = *flags & send_flags;
		else if ((*flags & FI_RECV) && !(*flags & ~(recv_flags | FI_RECV)))
			ep->rx_flags_ = *flags & recv_flags;
		else
			return -FI_EINVAL;
		return 0;
	default: return -FI_ENOSYS;
	}
}

// How much there may be of what an option is about; none of those, if nothing. By number, as older headers do
// not have these names.
std::optional<std::size_t> Endpoint::most_of(int option) const noexcept
{
	switch (option) {
	case 12: // FI_OPT_MAX_MSG_SIZE
	case 13: // FI_OPT_MAX_TAGGED_SIZE
	case 14: // FI_OPT_MAX_RMA_SIZE
		return domain_.query().message_max;
	case 16: // FI_OPT_INJECT_MSG_SIZE
	case 17: // FI_OPT_INJECT_TAGGED_SIZE
	case 18: // FI_OPT_INJECT_RMA_SIZE
		return domain_.query().eager_max;
	case 15: // FI_OPT_MAX_ATOMIC_SIZE
	case 19: // FI_OPT_INJECT_ATOMIC_SIZE
		return IBRELK_ATOMIC_BYTES;
	default: return std::nullopt;
	}
}

int Endpoint::getopt(fid_t any, int level, int option, void *value, std::size_t *length)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);

	const auto most = ep->most_of(option);
	const std::size_t size = most ? *most : ep->min_multi_recv_;

	if (level != FI_OPT_ENDPOINT || (option != FI_OPT_MIN_MULTI_RECV && !most))
		return -FI_ENOPROTOOPT;
	if (*length < sizeof(size))
		return -FI_ETOOSMALL;
	std::memcpy(value, &size, sizeof(size));
	*length = sizeof(size);
	return 0;
}

int Endpoint::setopt(fid_t any, int level, int option, const void *value, std::size_t length)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);

	const auto most = ep->most_of(option);
	std::size_t size = 0;

	if (level != FI_OPT_ENDPOINT || (option != FI_OPT_MIN_MULTI_RECV && !most))
		return -FI_ENOPROTOOPT;
	if (length != sizeof(size))
		return -FI_EINVAL;
	std::memcpy(&size, value, sizeof(size));
	// Who will do with less may have more.
	if (most)
		return size <= *most ? 0 : -FI_EINVAL;
	ep->min_multi_recv_ = size;
	return 0;
}

// Which life of an endpoint was meant, if it was another's name, does not matter to a new one.
void Endpoint::set_local(const void *address) noexcept
{
	std::memcpy(&local_, address, sizeof(local_));
	local_.generation = 0;
}

int Endpoint::setname(fid_t any, void *address, std::size_t length)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);

	if (ep->kernel_)
		return -FI_EOPBADSTATE;
	if (length != sizeof(ep->local_))
		return -FI_EINVAL;
	ep->set_local(address);
	return 0;
}

int Endpoint::getname(fid_t any, void *address, std::size_t *length)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);
	const std::size_t room = *length;

	if (!ep->kernel_)
		return -FI_EOPBADSTATE;
	*length = sizeof(ep->local_);
	std::memcpy(address, &ep->local_, std::min(room, sizeof(ep->local_)));
	return room < sizeof(ep->local_) ? -FI_ETOOSMALL : 0;
}

// ---- peers ------------------------------------------------------------------------------------------------

result<Peer> Endpoint::peer(fi_addr_t index)
{
	std::uint64_t forgotten = 0;

	{
		const std::lock_guard guard(lock_);

		forgotten = forgotten_;
		if (index < peers_.size() && peers_[index] != unknown)
			return peers_[index];
	}

	const auto address = av_->address(index);

	if (!address)
		return failure(EINVAL);

	const auto added = kernel_->peer_add(Address(*address));

	// A shortage of memory passes, as a rule.
	if (!added)
		return failure(added.error() == ENOMEM ? EAGAIN : added.error());
	try {
		const std::lock_guard guard(lock_);

		// What was looked up may not be so any more.
		if (forgotten != forgotten_)
			return *added;
		if (index >= peers_.size())
			peers_.resize(index + 1, unknown);
		if (*added >= sources_.size())
			sources_.resize(*added + 1, FI_ADDR_NOTAVAIL);
		peers_[index] = *added;
		sources_[*added] = index;
	} catch (const std::bad_alloc &) {
		// It is looked up again.
		return *added;
	}
	return *added;
}

void Endpoint::forget(fi_addr_t index)
{
	const std::lock_guard guard(lock_);

	forgotten_++;
	if (index < peers_.size())
		peers_[index] = unknown;
	std::replace(sources_.begin(), sources_.end(), index, static_cast<fi_addr_t>(FI_ADDR_NOTAVAIL));
}

void Endpoint::meet() noexcept
{
	const std::lock_guard guard(lock_);

	forgotten_++;
	if (!strangers_)
		return;
	std::replace(sources_.begin(), sources_.end(), stranger, static_cast<fi_addr_t>(FI_ADDR_NOTAVAIL));
	strangers_ = false;
}

fi_addr_t Endpoint::source(Peer peer)
{
	std::uint64_t forgotten = 0;

	{
		const std::lock_guard guard(lock_);

		forgotten = forgotten_;
		if (peer < sources_.size() && sources_[peer] != FI_ADDR_NOTAVAIL)
			return sources_[peer] == stranger ? FI_ADDR_NOTAVAIL : sources_[peer];
	}

	const auto address = kernel_->peer_query(peer);
	const fi_addr_t index = address ? av_->find(address->raw()) : FI_ADDR_NOTAVAIL;

	// Now the other way round is known too, but for the sake of a send it is found out anew.
	if (!address)
		return index;
	try {
		const std::lock_guard guard(lock_);

		if (forgotten != forgotten_)
			return index;
		if (peer >= sources_.size())
			sources_.resize(peer + 1, FI_ADDR_NOTAVAIL);
		sources_[peer] = index == FI_ADDR_NOTAVAIL ? stranger : index;
		strangers_ |= index == FI_ADDR_NOTAVAIL;
	} catch (const std::bad_alloc &) {
		// It is looked for again the next time.
		return index;
	}
	return index;
}

// ---- operations -------------------------------------------------------------------------------------------

ssize_t Endpoint::submit(const Command &command) noexcept
{
	const auto accepted = kernel_->submit({&command, 1});

	if (accepted)
		return *accepted == 1 ? 0 : -FI_EAGAIN;
	// A shortage of memory passes, as a rule.
	if (accepted.error() == ENOMEM)
		return -FI_EAGAIN;
	// Applications are known that do not look at what is returned, and wait for ever.
	if (accepted.error() != EAGAIN)
		FI_WARN(&provider, FI_LOG_EP_DATA, "refused, %s\n",
			ibrelk_error_text(IBRELK_CALL_SUBMIT, accepted.error()));
	return -accepted.error();
}

// What is done counts as under way until it is taken from the ring, which may be nobody's business but ours.
ssize_t Endpoint::submit(const Command &command, Way &way)
{
	const ssize_t error = submit(command);

	if (error != -FI_EAGAIN)
		return error;
	way.queue->progress();
	return submit(command);
}

// Remembers the operation, and hands the command to the kernel.
ssize_t Endpoint::post(const Message &message, Way &way, Command command, Operation &&operation)
{
	// A peek is there only for what it reports, and it reports in any case that it has found nothing.
	const bool asks = (message.flags & FI_COMPLETION) || operation.kind == Operation::Kind::peek ||
		operation.kind == Operation::Kind::discard;

	operation.endpoint = this;
	operation.context = message.context;
	operation.reported = !message.injected && !way.own && (!way.selective || asks);
	operation.silent = message.injected;

	Operation *kept = way.queue->operations().take(std::move(operation));

	if (!kept)
		return -FI_EAGAIN;
	command.user_data = kept->user_data();

	const ssize_t error = submit(command, way);

	if (error)
		way.queue->give_back(*kept);
	return error;
}

// Begins a send, read or write; it is remembered only if it is counted, or somebody is to be told of its
// success.
ssize_t Endpoint::start(const Message &message, Command command, Operation &&operation)
{
	const bool told =
		!message.injected && !tx_.own && (!tx_.selective || (message.flags & FI_COMPLETION));

	// Of what is still under way when the endpoint is closed, no other one must be told: the number tells
	// whose it is, and the kernel does not soon give out one again, but may be asked for it.
	if (!told && !operation.counter && (message.injected || Operation::fits(message.context)) &&
		!named_) {
		command.flags |= IBRELK_CMD_NO_SUCCESS;
		command.user_data = message.injected ? Operation::injected
						     : reinterpret_cast<std::uintptr_t>(message.context) | 1;
		return submit(command, tx_);
	}
	return post(message, tx_, command, std::move(operation));
}

// Who names only a direction means both kinds of messages.
bool Endpoint::can(std::uint64_t direction, const Message &message) const noexcept
{
	return (caps_ & direction) && (!(caps_ & message_caps) || (caps_ & space_flag(message)));
}

ssize_t Endpoint::send(const Message &message)
{
	if (!kernel_)
		return -FI_EOPBADSTATE;
	if (!can(FI_SEND, message))
		return -FI_EOPNOTSUPP;
	if (message.flags & ~send_flags)
		return -FI_EBADFLAGS;
	if (message.count > iov_limit)
		return -FI_EINVAL;

	const auto to = peer(message.address);
	const std::uint64_t length = length_of(message.pieces, message.count);

	if (!to)
		return -to.error();
	if (length > domain_.query().message_max)
		return -FI_EMSGSIZE;
	// A message of this length is copied when it is accepted.
	if ((message.injected || (message.flags & FI_INJECT)) && length > domain_.query().eager_max)
		return -FI_EMSGSIZE;

	Command command{};

	command.opcode = IBRELK_OP_SEND;
	command.peer = *to;
	command.level = level_of(message.flags);
	set_space(command, message);
	set_buffer(command, message);
	if (message.flags & FI_REMOTE_CQ_DATA) {
		command.flags |= IBRELK_CMD_IMMEDIATE;
		command.immediate = message.data;
	}

	Operation operation;

	operation.kind = Operation::Kind::send;
	operation.flags = FI_SEND | space_flag(message);
	operation.counter = tx_.messages.counter;
	operation.length = length;
	return start(message, command, std::move(operation));
}

// A read or write, of which only the opcode is known, and who counts it.
ssize_t Endpoint::transfer(const Message &message, Command command, Operation &&operation)
{
	if (message.count > iov_limit || message.remote_count != 1)
		return -FI_EINVAL;

	const auto to = peer(message.address);
	const std::uint64_t length = length_of(message.pieces, message.count);

	if (!to)
		return -to.error();
	if (length != message.remote->len)
		return -FI_EINVAL;
	if (length > domain_.query().message_max)
		return -FI_EMSGSIZE;
	// As of a message.
	if ((message.injected || (message.flags & FI_INJECT)) && length > domain_.query().eager_max)
		return -FI_EMSGSIZE;
	command.peer = *to;
	command.remote_addr = message.remote->addr;
	command.remote_key = message.remote->key;
	set_buffer(command, message);
	operation.kind = Operation::Kind::send;
	operation.length = length;
	return start(message, command, std::move(operation));
}

ssize_t Endpoint::read(const Message &message)
{
	Command command{};
	Operation operation;

	if (!kernel_)
		return -FI_EOPBADSTATE;
	if (!(caps_ & FI_READ))
		return -FI_EOPNOTSUPP;
	if (message.flags & ~read_flags)
		return -FI_EBADFLAGS;
	command.opcode = IBRELK_OP_GET;
	operation.flags = FI_RMA | FI_READ;
	operation.counter = tx_.reads.counter;
	return transfer(message, command, std::move(operation));
}

// It is done when it is in its place: that is more than any level asks for.
ssize_t Endpoint::write(const Message &message)
{
	Command command{};
	Operation operation;

	if (!kernel_)
		return -FI_EOPBADSTATE;
	if (!(caps_ & FI_WRITE))
		return -FI_EOPNOTSUPP;
	if (message.flags & ~(write_flags | FI_REMOTE_CQ_DATA))
		return -FI_EBADFLAGS;
	command.opcode = IBRELK_OP_PUT;
	if (message.flags & FI_REMOTE_CQ_DATA) {
		command.flags |= IBRELK_CMD_IMMEDIATE;
		command.immediate = message.data;
	}
	operation.flags = FI_RMA | FI_WRITE;
	operation.counter = tx_.writes.counter;
	return transfer(message, command, std::move(operation));
}

ssize_t Endpoint::receive(const Message &message)
{
	if (!kernel_)
		return -FI_EOPBADSTATE;
	if (!can(FI_RECV, message))
		return -FI_EOPNOTSUPP;
	if (message.count > iov_limit)
		return -FI_EINVAL;
	if (message.flags & FI_PEEK)
		return peek(message);
	if (message.flags & FI_CLAIM)
		return receive_claimed(message);
	if (message.flags & ~recv_flags)
		return -FI_EBADFLAGS;

	Command command{};
	Operation operation;

	command.opcode = IBRELK_OP_RECV;
	command.peer = any_peer;
	if ((caps_ & FI_DIRECTED_RECV) && message.address != FI_ADDR_UNSPEC) {
		const auto from = peer(message.address);

		if (!from)
			return -from.error();
		command.peer = *from;
	}
	set_space(command, message);
	set_buffer(command, message);
	operation.kind = Operation::Kind::receive;
	operation.flags = FI_RECV | space_flag(message);
	operation.counter = rx_.messages.counter;
	operation.buffer = first_byte(message);
	operation.length = length_of(message.pieces, message.count);
	if (message.flags & FI_MULTI_RECV) {
		if (message.tagged)
			return -FI_EBADFLAGS;
		if (message.count != 1 || operation.length == 0)
			return -FI_EINVAL;

		const std::uint64_t shortest = std::clamp<std::uint64_t>(
			min_multi_recv_, multi_message_bytes_min, multi_message_bytes_max);

		command.opcode = IBRELK_OP_RECV_MULTI;
		operation.length = std::min<std::uint64_t>(operation.length, domain_.query().multi_max);
		command.length = operation.length;
		command.room = std::min<std::uint64_t>(min_multi_recv_, command.length);
		command.messages = static_cast<std::uint32_t>(
			std::clamp<std::uint64_t>(command.length / shortest, 1, multi_messages_max));
		operation.multi_receive = true;
	}
	return post(message, rx_, command, std::move(operation));
}

ssize_t Endpoint::atomic(const Atomic &atomic)
{
	const bool fetches = atomic.kind != AtomicKind::base;
	fi_atomic_attr limits{};
	Operation operation;

	if (!kernel_)
		return -FI_EOPBADSTATE;
	if (!(caps_ & (fetches ? FI_READ : FI_WRITE)))
		return -FI_EOPNOTSUPP;
	if (atomic.flags & ~write_flags)
		return -FI_EBADFLAGS;
	if (const int error = limits_of(atomic.kind, atomic.type, atomic.op, limits))
		return error;
	if (atomic.count > limits.count)
		return -FI_EMSGSIZE;

	const auto to = peer(atomic.address);

	if (!to)
		return -to.error();

	const Message message{.pieces = nullptr,
		.count = 0,
		.address = atomic.address,
		.context = atomic.context,
		.flags = atomic.flags,
		.injected = atomic.injected};
	// What goes there is read now, and may be put together here.
	std::array<std::byte, IBRELK_ATOMIC_BYTES> operand{};
	std::array<std::byte, IBRELK_ATOMIC_BYTES> compare{};
	const auto in_one_piece = [&](const Elements &elements, std::byte *room) -> const void * {
		if (elements.pieces_count <= 1)
			return elements.whole();
		elements.gather(room, limits.size);
		return room;
	};
	void *result = atomic.results.whole();

	if (atomic.results.pieces_count > 1) {
		const int error = guarded([&] {
			operation.fetched = std::make_unique<Fetched>(Fetched{.bytes = {},
				.pieces = {atomic.results.pieces,
					atomic.results.pieces + atomic.results.pieces_count},
				.element_bytes = limits.size});
			return 0;
		});

		if (error)
			return error;
		result = operation.fetched->bytes.data();
	}

	const Command command = ibrelk_command_atomic(*to, kernel_atomic(atomic.type, atomic.op),
		in_one_piece(atomic.operands, operand.data()), in_one_piece(atomic.compares, compare.data()),
		result, atomic.count * limits.size, atomic.remote_addr, atomic.remote_key, 0);

	operation.kind = Operation::Kind::send;
	operation.length = command.length;
	operation.flags = FI_ATOMIC | (fetches ? FI_READ : FI_WRITE);
	operation.counter = (fetches ? tx_.reads : tx_.writes).counter;
	// The kernel does not tell which kind it was that has failed.
	return fetches ? post(message, tx_, command, std::move(operation))
		       : start(message, command, std::move(operation));
}

// ---- messages that wait -----------------------------------------------------------------------------------

void Endpoint::set_claim(void *context, const Completion &peeked) noexcept
{
	const Claimed claimed{.claim = peeked.claim, .tag = peeked.tag, .length = peeked.length};

	std::memcpy(context, &claimed, sizeof(claimed));
}

ssize_t Endpoint::peek(const Message &message)
{
	const bool claims = message.flags & FI_CLAIM;
	const bool discards = message.flags & FI_DISCARD;

	if (message.flags & ~(FI_PEEK | FI_CLAIM | FI_DISCARD | recv_flags) || (claims && discards))
		return -FI_EBADFLAGS;
	if (claims && !message.context)
		return -FI_EINVAL;

	Command command{};
	Operation operation;

	command.opcode = claims || discards ? IBRELK_OP_CLAIM : IBRELK_OP_PROBE;
	command.peer = any_peer;
	if ((caps_ & FI_DIRECTED_RECV) && message.address != FI_ADDR_UNSPEC) {
		const auto from = peer(message.address);

		if (!from)
			return -from.error();
		command.peer = *from;
	}
	set_space(command, message);
	operation.kind = Operation::Kind::peek;
	operation.flags = FI_RECV | space_flag(message);
	operation.discards = discards;
	discard_pending();
	return post(message, rx_, command, std::move(operation));
}

// The context says which message; its source, tag and the like do not matter (Open MPI passes address 0).
ssize_t Endpoint::receive_claimed(const Message &message)
{
	if (message.flags & ~(FI_CLAIM | FI_DISCARD | recv_flags))
		return -FI_EBADFLAGS;
	if (!message.context)
		return -FI_EINVAL;

	Command command{};
	Operation operation;
	Claimed claimed;

	std::memcpy(&claimed, message.context, sizeof(claimed));
	command.tag = claimed.claim;
	operation.flags = FI_RECV | space_flag(message);
	if (message.flags & FI_DISCARD) {
		// The kernel has said at the peek what it was.
		command.opcode = IBRELK_OP_DISCARD;
		operation.kind = Operation::Kind::discard;
		operation.tag = claimed.tag;
		operation.length = claimed.length;
	} else {
		command.opcode = IBRELK_OP_RECV;
		command.flags = IBRELK_CMD_CLAIMED;
		set_buffer(command, message);
		operation.kind = Operation::Kind::receive;
		operation.counter = rx_.messages.counter;
		operation.buffer = first_byte(message);
		operation.length = length_of(message.pieces, message.count);
	}
	return post(message, rx_, command, std::move(operation));
}

void Endpoint::discard(std::uint64_t claim)
{
	try {
		const std::lock_guard guard(lock_);

		discards_.push_back(claim);
		discards_wait_ = true;
	} catch (const std::bad_alloc &) {
		// The message stays until the endpoint is closed.
		return;
	}
	discard_pending();
}

void Endpoint::discard_pending()
{
	if (!discards_wait_)
		return;

	const std::lock_guard guard(lock_);

	while (!discards_.empty()) {
		Command command = ibrelk_command_discard(discards_.back(), 0);

		command.flags = IBRELK_CMD_NO_SUCCESS;
		if (submit(command) == -FI_EAGAIN)
			return;
		discards_.pop_back();
	}
	discards_wait_ = false;
}

void Endpoint::send_failed(Peer peer, int status, bool injected)
{
	const bool logged = fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_EP_DATA);

	// That a process has come to its end, launchers see: it may be the end of the job.
	if (status == -ECANCELED || (!logged && (!injected || status == -ECONNRESET)))
		return;
	{
		const std::lock_guard guard(lock_);
		const std::pair said(peer, injected);

		if (std::find(failed_.begin(), failed_.end(), said) != failed_.end())
			return;
		try {
			failed_.push_back(said);
		} catch (const std::bad_alloc &) {
			// Then it is said once more.
		}
	}

	const auto address = kernel_->peer_query(peer);
	const auto text = address ? text_of(*address) : decltype(text_of(*address)){"a peer"};
	const char *why = ibrelk_error_text(IBRELK_CALL_COMPLETION, status);

	if (!injected)
		FI_WARN(&provider, FI_LOG_EP_DATA, "an operation with %s has failed: %s\n", text.data(), why);
	else if (logged)
		FI_WARN(&provider, FI_LOG_EP_DATA, "what was injected to %s is lost: %s\n", text.data(), why);
	else
		std::fprintf(stderr, "ibrelk: what was injected to %s is lost: %s\n", text.data(), why);
}

ssize_t Endpoint::cancel(fid_t any, void *context)
{
	auto *ep = object_of<Endpoint, fid_ep>(any);

	if (!ep->kernel_)
		return -FI_EOPBADSTATE;
	return ep->rx_.queue->cancel(*ep, context);
}

} // namespace ibrelk::ofi
