// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cq.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "cntr.hpp"
#include "ep.hpp"
#include "provider.hpp"

namespace ibrelk::ofi
{

namespace
{

// The size that an application asks for is a hint (Open MPI asks for 100); smaller rings only make the kernel
// hold more.
constexpr std::size_t ring_entries_min = 1024;

// Reads in a row that find nothing, before others may have the processor. PSM yields as rarely while it waits
// (PSM3_YIELD_SPIN_COUNT).
constexpr unsigned reads_before_yield = 250;

// Nearly all errors have the same number here and there.
int error_of(std::int32_t status) noexcept
{
	switch (status) {
	case 0: return 0;
	case -EMSGSIZE: return FI_ETRUNC;
	default: return -status;
	}
}

// Of what was started here, and is not remembered.
std::uint64_t flags_of(const Completion &completion) noexcept
{
	switch (completion.opcode) {
	case IBRELK_OP_PUT: return FI_RMA | FI_WRITE;
	case IBRELK_OP_GET: return FI_RMA | FI_READ;
	case IBRELK_OP_ATOMIC: return FI_ATOMIC | FI_WRITE;
	default: return FI_SEND | (completion.flags & IBRELK_CQE_UNTAGGED ? FI_MSG : FI_TAGGED);
	}
}

} // namespace

fi_ops CompletionQueue::fid_ops = {
	.size = sizeof(fi_ops),
	.close = CompletionQueue::close,
	.bind = unsupported,
	.control = CompletionQueue::control,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_cq CompletionQueue::cq_ops = {
	.size = sizeof(fi_ops_cq),
	.read = CompletionQueue::read,
	.readfrom = CompletionQueue::readfrom,
	.readerr = CompletionQueue::readerr,
	.sread = CompletionQueue::sread,
	.sreadfrom = CompletionQueue::sreadfrom,
	.signal = CompletionQueue::signal,
	.strerror = CompletionQueue::strerror,
};

// ---- life -------------------------------------------------------------------------------------------------

CompletionQueue::CompletionQueue(
	Domain &domain, Ring ring, const fi_cq_attr &attr, void *context, bool unread) :
	fid_cq{},
	domain_(domain.users()), has_error_buffer_(FI_VERSION_GE(domain.api_version(), FI_VERSION(1, 5))),
	format_(attr.format), wait_(attr.wait_obj), condition_(attr.wait_cond), unread_(unread),
	ring_(std::move(ring)), entries_(ring_.entries())
{
	fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &fid_ops};
	ops = &cq_ops;
}

bool CompletionQueue::open_descriptor() noexcept
{
	return wait_ != FI_WAIT_FD ||
		(descriptor_.open() && descriptor_.add(ring_.fd()) && descriptor_.add(queued_.fd()));
}

result<CompletionQueue *> CompletionQueue::make(
	Domain &domain, const fi_cq_attr &attr, void *context, bool unread)
{
	const std::size_t entries =
		std::clamp<std::size_t>(attr.size, ring_entries_min, domain.query().ring_entries_max);
	auto ring = Ring::create(domain.device(), static_cast<std::uint32_t>(entries));

	if (!ring)
		return failure(ring.error());

	auto *made = new CompletionQueue(domain, std::move(*ring), attr, context, unread);

	if (made->queued_.works() && made->signalled_.works() && made->open_descriptor())
		return made;
	delete made;
	return failure(FI_EMFILE);
}

int CompletionQueue::open(fid_domain *domain, fi_cq_attr *attr, fid_cq **cq, void *context)
{
	if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND ||
		attr->wait_obj == FI_WAIT_POLLFD)
		return -FI_ENOSYS;
	if (attr->format > FI_CQ_FORMAT_TAGGED || attr->wait_obj > FI_WAIT_POLLFD ||
		attr->wait_cond > FI_CQ_COND_THRESHOLD || (attr->flags & ~FI_AFFINITY))
		return -FI_EINVAL;
	return guarded([&] {
		const auto made = make(static_cast<Domain &>(*domain), *attr, context, false);

		if (!made)
			return -made.error();
		*cq = *made;
		return 0;
	});
}

result<CompletionQueue *> CompletionQueue::open_unread(Domain &domain)
{
	return make(domain, fi_cq_attr{}, nullptr, true);
}

int CompletionQueue::close(Fid *any)
{
	auto *cq = object_of<CompletionQueue, fid_cq>(any);

	if (cq->users_.any())
		return -FI_EBUSY;
	// What is complete is not under way any more; no endpoint is left that would want to know of it.
	cq->waiting_ = 0;
	cq->collect(cq->entries_.size());
	delete cq;
	return 0;
}

void CompletionQueue::attach(Endpoint &endpoint)
{
	const std::lock_guard guard(lock_);

	endpoints_.push_back(&endpoint);
}

bool CompletionQueue::await_notices(Endpoint &endpoint)
{
	Operation *notices = operations_.take(
		{.endpoint = &endpoint, .flags = FI_RMA | FI_REMOTE_WRITE, .kind = Operation::Kind::notices});

	if (!notices)
		return false;

	const std::lock_guard guard(lock_);

	notices->next = std::exchange(unposted_, notices);
	post_notices();
	return true;
}

void CompletionQueue::detach(Endpoint &endpoint)
{
	const std::lock_guard guard(lock_);

	std::erase(endpoints_, &endpoint);
	operations_.orphan(endpoint);
	post_notices();
}

Endpoint *CompletionQueue::endpoint(std::uint32_t number) const
{
	const auto found = std::find_if(endpoints_.begin(), endpoints_.end(),
		[&](const Endpoint *candidate) { return candidate->number() == number; });

	return found == endpoints_.end() ? nullptr : *found;
}

int CompletionQueue::control(Fid *any, int command, void *argument)
{
	auto *cq = object_of<CompletionQueue, fid_cq>(any);

	switch (command) {
	case FI_GETWAIT:
		if (cq->wait_ != FI_WAIT_FD)
			return -FI_ENOSYS;
		*static_cast<int *>(argument) = cq->descriptor_.fd();
		return 0;
	case FI_GETWAITOBJ: *static_cast<fi_wait_obj *>(argument) = cq->wait_; return 0;
	default: return -FI_ENOSYS;
	}
}

// ---- from the ring to the queue ---------------------------------------------------------------------------

void CompletionQueue::push(const Entry &entry)
{
	if (unread_)
		return;
	entries_[(first_ + waiting_) % entries_.size()] = entry;
	waiting_++;
}

void CompletionQueue::pop()
{
	first_ = (first_ + 1) % entries_.size();
	waiting_--;
}

// What the kernel says of a message, in libfabric's words.
void CompletionQueue::describe(const Completion &completion, const Operation &operation, Entry &entry) const
{
	entry.context = operation.context;
	entry.flags = operation.flags;
	entry.status = completion.status;
	entry.error = error_of(completion.status);
	entry.length = completion.length;
	if (operation.kind == Operation::Kind::send)
		return;
	if (operation.kind == Operation::Kind::discard) {
		entry.tag = operation.tag;
		entry.length = operation.length;
		return;
	}
	entry.tag = completion.tag;
	if (completion.flags & IBRELK_CQE_IMMEDIATE) {
		entry.data = completion.immediate;
		entry.flags |= FI_REMOTE_CQ_DATA;
	}
	if (operation.kind == Operation::Kind::receive) {
		entry.buffer = operation.buffer + completion.offset;
		if (completion.status == -EMSGSIZE) {
			entry.length = operation.length;
			entry.missing = completion.length - operation.length;
		}
	}
	if (completion.peer != IBRELK_PEER_ANY)
		entry.source = operation.endpoint->source(completion.peer);
}

// The message of a successful peek is kept for whoever has this context (which must be a struct fi_context),
// or is to be thrown away.
void CompletionQueue::claimed(const Completion &completion, Operation &operation)
{
	if (operation.discards)
		operation.endpoint->discard(completion.claim);
	else
		Endpoint::set_claim(operation.context, completion);
}

// What finds no room is tried again with the next look at the ring.
void CompletionQueue::post_notices() noexcept
{
	Operation *next = std::exchange(unposted_, nullptr);

	while (Operation *notices = next) {
		next = notices->next;

		const ssize_t error = notices->endpoint
			? notices->endpoint->post_notices(notices->user_data())
			: -FI_ECANCELED;

		if (error == -FI_EAGAIN)
			notices->next = std::exchange(unposted_, notices);
		else if (error)
			operations_.give_back(*notices);
	}
}

// Of a write with data to this endpoint, which nobody here has posted anything for.
void CompletionQueue::handle_notice(const Completion &completion, Operation &notices)
{
	Entry entry;

	if (!notices.endpoint || completion.status != 0) {
		if (completion.flags & IBRELK_CQE_RELEASED)
			operations_.give_back(notices);
		return;
	}
	if (completion.flags & IBRELK_CQE_RELEASED) {
		notices.next = std::exchange(unposted_, &notices);
		return;
	}
	describe(completion, notices, entry);
	entry.length = completion.tag & (IBRELK_TAG_WRITTEN - 1);
	entry.tag = 0;
	push(entry);
}

void CompletionQueue::handle_operation(const Completion &completion, Operation &operation)
{
	if (operation.kind == Operation::Kind::notices) {
		handle_notice(completion, operation);
		return;
	}

	const bool released = completion.flags & IBRELK_CQE_RELEASED;
	const bool over = !operation.multi_receive || released;

	if (operation.endpoint) {
		const bool failed = completion.status != 0;
		Entry entry;

		if (operation.fetched && !failed)
			operation.fetched->scatter();
		if (completion.opcode == IBRELK_OP_CLAIM && !failed)
			claimed(completion, operation);
		describe(completion, operation, entry);
		if (released) {
			// Of no message: without other flags it only says that the buffer is given back.
			entry.flags = failed ? operation.flags | FI_MULTI_RECV : FI_MULTI_RECV;
			entry.length = 0;
			entry.buffer = nullptr;
		}
		if (operation.counter && (failed || !released))
			operation.counter->count(failed);
		if (failed && operation.kind == Operation::Kind::send)
			operation.endpoint->send_failed(completion.peer, completion.status, operation.silent);
		// The buffer of a multi-receive comes back in any case.
		if (failed ? !operation.silent : released || operation.reported)
			push(entry);
		operation.endpoint->discard_pending();
	}
	if (over)
		operations_.give_back(operation);
}

// A send, read or write that only its failure is told of, or nobody. One that is named has none: it is a
// former one's.
void CompletionQueue::handle_unreported(const Completion &completion)
{
	Endpoint *sender = endpoint(completion.endpoint);
	Entry entry;

	if (completion.status == 0 || !sender || sender->is_named())
		return;

	const bool injected = completion.user_data == Operation::injected;

	sender->send_failed(completion.peer, completion.status, injected);
	if (injected)
		return;
	entry.context = reinterpret_cast<void *>(completion.user_data & ~std::uint64_t{1});
	entry.flags = flags_of(completion);
	entry.status = completion.status;
	entry.error = error_of(completion.status);
	push(entry);
}

void CompletionQueue::handle(const Completion &completion)
{
	// Of a cancel, what it has cancelled is told.
	if (completion.opcode == IBRELK_OP_CANCEL || completion.user_data == 0)
		return;
	if (completion.user_data & 1)
		handle_unreported(completion);
	else
		handle_operation(completion, *Operation::of(completion.user_data));
}

// Moves completions until so many entries wait; returns whether any do.
bool CompletionQueue::collect(std::size_t most)
{
	most = std::min(most, entries_.size());
	while (waiting_ < most) {
		const auto run = ring_.peek();
		std::size_t done = 0;

		if (run.empty())
			break;
		while (done < run.size() && waiting_ < most)
			handle(run[done++]);
		ring_.advance(done);
	}
	return waiting_ > 0;
}

// Who sleeps on the ring would not see what was taken from it, and is left here, nor what is not posted.
void CompletionQueue::settle() noexcept
{
	// While what is here is not read, more of them wait in the kernel, and then at who writes.
	if (unposted_ && !full())
		post_notices();
	if (told_ == (waiting_ > 0))
		return;
	told_ = !told_;
	if (told_)
		queued_.set();
	else
		queued_.clear();
}

void CompletionQueue::progress()
{
	const std::lock_guard guard(lock_);

	collect(entries_.size());
	settle();
}

void CompletionQueue::grow()
{
	std::vector<Entry> larger(2 * entries_.size());

	for (std::size_t i = 0; i < waiting_; i++)
		larger[i] = entries_[(first_ + i) % entries_.size()];
	entries_.swap(larger);
	first_ = 0;
}

void CompletionQueue::count()
{
	const std::lock_guard guard(lock_);

	for (;;) {
		collect(entries_.size());
		if (!full() || ring_.peek().empty())
			break;
		grow();
	}
	settle();
}

bool CompletionQueue::has_something()
{
	const std::lock_guard guard(lock_);

	collect(1);
	settle();
	// Nobody must sleep whom nothing would wake: while there is no room for notices, he looks again.
	return waiting_ > 0 || unposted_;
}

void CompletionQueue::give_back(Operation &operation)
{
	const std::lock_guard guard(lock_);

	operations_.give_back(operation);
}

// Has the last cancel come too late? Then the command has failed, and is in the ring by now. If the receive
// has, that is left for whoever waits for it to read and to count.
bool CompletionQueue::missed(std::uint64_t receive)
{
	bool too_late = false;

	for (auto run = ring_.peek(); !run.empty() && !too_late; run = ring_.peek()) {
		const Completion &next = run.front();

		if (next.user_data == receive && next.status == -ECANCELED)
			break;
		if (full())
			grow();
		too_late = next.opcode == IBRELK_OP_CANCEL && next.user_data == cancels_;
		handle(next);
		ring_.advance(1);
	}
	settle();
	return too_late;
}

int CompletionQueue::cancel(Endpoint &endpoint, const void *context)
{
	// Operations are given back with the lock held: none becomes another one meanwhile.
	const std::lock_guard guard(lock_);

	// What is complete cannot be cancelled. Room in the ring is all that the command can lack, too.
	collect(entries_.size());
	settle();

	const Operation *operation = nullptr;

	// Of several with this context, a message that is still coming may have taken some. Who would wait
	// for those to be cancelled must be told.
	while ((operation = operations_.find_receive(endpoint, context, operation))) {
		const std::uint64_t receive = operation->user_data();
		Command command = ibrelk_command_cancel(receive, ++cancels_);

		command.flags = IBRELK_CMD_NO_SUCCESS;
		if (const ssize_t result = endpoint.submit(command))
			return static_cast<int>(result);

		const int too_late = guarded([&] { return missed(receive) ? 1 : 0; });

		if (too_late <= 0)
			return too_late;
	}
	return -FI_ENOENT;
}

// ---- reading ----------------------------------------------------------------------------------------------

void CompletionQueue::write(const Entry &entry, void *buffer, std::size_t index) const
{
	switch (format_) {
	case FI_CQ_FORMAT_TAGGED:
		static_cast<fi_cq_tagged_entry *>(buffer)[index] = {.op_context = entry.context,
			.flags = entry.flags,
			.len = entry.length,
			.buf = entry.buffer,
			.data = entry.data,
			.tag = entry.tag};
		break;
	case FI_CQ_FORMAT_DATA:
		static_cast<fi_cq_data_entry *>(buffer)[index] = {.op_context = entry.context,
			.flags = entry.flags,
			.len = entry.length,
			.buf = entry.buffer,
			.data = entry.data};
		break;
	case FI_CQ_FORMAT_MSG:
		static_cast<fi_cq_msg_entry *>(buffer)[index] = {
			.op_context = entry.context, .flags = entry.flags, .len = entry.length};
		break;
	default: static_cast<fi_cq_entry *>(buffer)[index] = {.op_context = entry.context}; break;
	}
}

ssize_t CompletionQueue::take(void *buffer, std::size_t count, fi_addr_t *sources)
{
	const std::lock_guard guard(lock_);
	std::size_t taken = 0;

	if (!collect(std::max<std::size_t>(count, 1))) {
		settle();
		return -FI_EAGAIN;
	}
	if (front().error) {
		settle();
		return -FI_EAVAIL;
	}
	while (taken < count && waiting_ > 0 && !front().error) {
		write(front(), buffer, taken);
		if (sources)
			sources[taken] = front().source;
		pop();
		taken++;
	}
	settle();
	return static_cast<ssize_t>(taken);
}

// Open MPI's MPI_Send() reads until what it has sent is complete, and does nothing else: without this, who is
// to receive it, or the kernel's threads, would wait for their turn on this processor for milliseconds.
ssize_t CompletionQueue::poll(void *buffer, std::size_t count, fi_addr_t *sources)
{
	const ssize_t taken = take(buffer, count, sources);

	if (taken != -FI_EAGAIN) {
		in_vain_.store(0, std::memory_order_relaxed);
		return taken;
	}
	// Threads that read at once may miscount, which harms nothing.
	const unsigned reads = in_vain_.load(std::memory_order_relaxed) + 1;

	in_vain_.store(reads % reads_before_yield, std::memory_order_relaxed);
	if (reads == reads_before_yield)
		std::this_thread::yield();
	return taken;
}

ssize_t CompletionQueue::wait_and_take(
	void *buffer, std::size_t count, fi_addr_t *sources, const void *condition, int timeout)
{
	const Deadline deadline(timeout);
	for (;;) {
		bool enough = false, some = false;

		{
			const std::lock_guard guard(lock_);
			// How many to wait for: as many as are wanted (the condition itself is the number)
			// and find room. What has come when time runs out is returned, as without a
			// condition.
			const std::size_t most = std::max<std::size_t>(std::min(count, entries_.size()), 1);
			const std::size_t wanted = condition_ == FI_CQ_COND_THRESHOLD
				? std::clamp<std::size_t>(
					  reinterpret_cast<std::uintptr_t>(condition), 1, most)
				: 1;

			// An error is reported at once.
			enough = collect(wanted) && (waiting_ >= wanted || front().error);
			// Else they are taken at once.
			if (!enough)
				settle();
			some = waiting_ > 0 || unposted_;
		}
		if (enough || deadline.over()) {
			const ssize_t taken = take(buffer, count, sources);

			// Another thread may have been faster.
			if (taken != -FI_EAGAIN || deadline.over())
				return taken;
			continue;
		}

		std::array<pollfd, 3> descriptors = {
			{{signalled_.fd(), POLLIN, 0}, {ring_.fd(), POLLIN, 0}, {queued_.fd(), POLLIN, 0}}};

		// While there are some but not enough, queued_ is no news, and others' progress is noticed
		// late. What is not posted is to be tried again.
		const bool slept = some ? sleep_on(std::span(descriptors).first(2),
						  Deadline(shared_wait_ms).earlier(deadline))
					: sleep_on(descriptors, deadline);

		// A signal may have told the caller to do something else.
		if (!slept)
			return take(buffer, count, sources);
		// Unless another thread was faster.
		if (descriptors[0].revents && signalled_.clear())
			return take(buffer, count, sources);
	}
}

ssize_t CompletionQueue::read(fid_cq *cq, void *buffer, std::size_t count)
{
	return static_cast<CompletionQueue &>(*cq).poll(buffer, count, nullptr);
}

ssize_t CompletionQueue::readfrom(fid_cq *cq, void *buffer, std::size_t count, fi_addr_t *sources)
{
	return static_cast<CompletionQueue &>(*cq).poll(buffer, count, sources);
}

ssize_t CompletionQueue::sread(
	fid_cq *cq, void *buffer, std::size_t count, const void *condition, int timeout)
{
	return static_cast<CompletionQueue &>(*cq).wait_and_take(buffer, count, nullptr, condition, timeout);
}

ssize_t CompletionQueue::sreadfrom(
	fid_cq *cq, void *buffer, std::size_t count, fi_addr_t *sources, const void *condition, int timeout)
{
	return static_cast<CompletionQueue &>(*cq).wait_and_take(buffer, count, sources, condition, timeout);
}

ssize_t CompletionQueue::readerr(fid_cq *any, fi_cq_err_entry *entry, std::uint64_t flags)
{
	auto &cq = static_cast<CompletionQueue &>(*any);
	const std::lock_guard guard(cq.lock_);

	if (flags & ~FI_PEEK)
		return -FI_EBADFLAGS;
	if (!cq.collect(1) || !cq.front().error) {
		cq.settle();
		return -FI_EAGAIN;
	}

	const Entry &failed = cq.front();

	entry->op_context = failed.context;
	entry->flags = failed.flags;
	entry->len = failed.length;
	entry->buf = failed.buffer;
	entry->data = failed.data;
	entry->tag = failed.tag;
	entry->olen = failed.missing;
	entry->err = failed.error;
	entry->prov_errno = -failed.status;
	// There is nothing more to say; the buffer for it is the caller's, if he has one.
	if (!cq.has_error_buffer_ || !entry->err_data_size)
		entry->err_data = nullptr;
	if (cq.has_error_buffer_)
		entry->err_data_size = 0;
	if (!(flags & FI_PEEK))
		cq.pop();
	cq.settle();
	return 1;
}

int CompletionQueue::signal(fid_cq *cq)
{
	static_cast<CompletionQueue &>(*cq).signalled_.set();
	return 0;
}

const char *CompletionQueue::strerror(
	fid_cq *, int provider_error, const void *, char *text, std::size_t length)
{
	const char *known = ibrelk_error_text(IBRELK_CALL_COMPLETION, provider_error);

	if (text && length > 0) {
		std::strncpy(text, known, length - 1);
		text[length - 1] = '\0';
	}
	return known;
}

} // namespace ibrelk::ofi
