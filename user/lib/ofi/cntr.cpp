// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cntr.hpp"

#include <algorithm>

#include "cq.hpp"

namespace ibrelk::ofi
{

fi_ops Counter::fid_ops = {
	.size = sizeof(fi_ops),
	.close = Counter::close,
	.bind = unsupported,
	.control = Counter::control,
	.ops_open = unsupported,
	.tostr = unsupported,
	.ops_set = unsupported,
};

fi_ops_cntr Counter::cntr_ops = {
	.size = sizeof(fi_ops_cntr),
	.read = Counter::read,
	.readerr = Counter::readerr,
	.add = Counter::add,
	.set = Counter::set,
	.wait = Counter::wait,
	.adderr = Counter::adderr,
	.seterr = Counter::seterr,
};

Counter::Counter(Domain &domain, const fi_cntr_attr &attr, void *context) :
	fid_cntr{}, domain_(domain.users()), wait_(attr.wait_obj)
{
	fid = {.fclass = FI_CLASS_CNTR, .context = context, .ops = &fid_ops};
	ops = &cntr_ops;
}

int Counter::open(fid_domain *domain, fi_cntr_attr *attr, fid_cntr **cntr, void *context)
{
	const fi_cntr_attr usual{};
	const fi_cntr_attr &wanted = attr ? *attr : usual;

	if (wanted.events != FI_CNTR_EVENTS_COMP)
		return -FI_ENOSYS;
	if (wanted.flags)
		return -FI_EINVAL;
	if (wanted.wait_obj != FI_WAIT_NONE && wanted.wait_obj != FI_WAIT_UNSPEC &&
		wanted.wait_obj != FI_WAIT_YIELD && wanted.wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	return guarded([&] {
		auto *made = new Counter(static_cast<Domain &>(*domain), wanted, context);

		if (!made->wake_.works() || !made->open_descriptor()) {
			delete made;
			return -FI_EMFILE;
		}
		*cntr = made;
		return 0;
	});
}

int Counter::close(Fid *any)
{
	auto *counter = object_of<Counter, fid_cntr>(any);

	if (counter->users_.any())
		return -FI_EBUSY;
	delete counter;
	return 0;
}

int Counter::control(Fid *any, int command, void *argument)
{
	const auto *counter = object_of<Counter, fid_cntr>(any);

	switch (command) {
	case FI_GETWAIT:
		if (counter->wait_ != FI_WAIT_FD)
			return -FI_ENOSYS;
		*static_cast<int *>(argument) = counter->descriptor_.fd();
		return 0;
	case FI_GETWAITOBJ: *static_cast<fi_wait_obj *>(argument) = counter->wait_; return 0;
	default: return -FI_ENOSYS;
	}
}

bool Counter::open_descriptor() noexcept
{
	if (wait_ != FI_WAIT_FD)
		return true;
	news_.emplace();
	return news_->works() && descriptor_.open() && descriptor_.add(news_->fd());
}

bool Counter::counts(const CompletionQueue &queue) const
{
	return std::find(queues_.begin(), queues_.end(), &queue) != queues_.end();
}

void Counter::attach(CompletionQueue &queue)
{
	const std::lock_guard guard(lock_);

	if (!counts(queue) && !descriptor_.add(queue.ring().fd()))
		throw std::bad_alloc();
	queues_.push_back(&queue);
	// Who waits already must look at this one too.
	if (waiters_.load() > 0)
		wake_.set();
}

void Counter::detach(CompletionQueue &queue)
{
	const std::lock_guard guard(lock_);
	const auto found = std::find(queues_.begin(), queues_.end(), &queue);

	if (found == queues_.end())
		return;
	queues_.erase(found);
	if (!counts(queue))
		descriptor_.remove(queue.ring().fd());
}

void Counter::changed() noexcept
{
	changes_.fetch_add(1);
	if (waiters_.load() > 0)
		wake_.set();
	if (news_ && watched_.exchange(false))
		news_->set();
}

void Counter::count(bool failed) noexcept
{
	(failed ? failures_ : successes_).fetch_add(1);
	changed();
}

void Counter::progress()
{
	const std::lock_guard guard(lock_);

	for (CompletionQueue *queue : queues_)
		queue->count();
}

// News stay to be seen by whoever sleeps already, until somebody is about to sleep who has heard of them.
// What changes after that sets them again.
bool Counter::has_changed()
{
	const auto tell = [this] {
		const std::lock_guard guard(lock_);
		const std::uint64_t changes = changes_.load();
		const bool changed = changes != told_changes_;

		told_changes_ = changes;
		return changed;
	};

	progress();
	if (tell())
		return true;
	if (news_)
		news_->clear();
	watched_.store(true);
	progress();
	return tell();
}

int Counter::wait_for(std::uint64_t threshold, int timeout)
{
	const Deadline deadline(timeout);
	const std::uint64_t failures_before = failures_.load();
	int outcome = 0;

	// Of several, none takes the news from another: it stays set, and they look by themselves from now
	// on.
	if (waiters_.fetch_add(1) > 0)
		wake_.set();

	const Undo left([this] { waiters_.fetch_sub(1); });

	for (;;) {
		std::vector<pollfd> descriptors;
		const bool alone = waiters_.load() == 1;

		if (alone)
			wake_.clear();
		progress();
		if (successes_.load() >= threshold)
			break;
		if (failures_.load() != failures_before) {
			outcome = -FI_EAVAIL;
			break;
		}
		if (deadline.over()) {
			outcome = -FI_ETIMEDOUT;
			break;
		}
		if (alone)
			descriptors.push_back({wake_.fd(), POLLIN, 0});
		{
			const std::lock_guard guard(lock_);

			for (CompletionQueue *queue : queues_)
				descriptors.push_back({queue->ring().fd(), POLLIN, 0});
		}

		// A signal's handler may have counted something; else one waits on.
		(void)sleep_on(descriptors, alone ? deadline : Deadline(shared_wait_ms).earlier(deadline));
	}
	return outcome;
}

std::uint64_t Counter::read(fid_cntr *cntr)
{
	auto &counter = static_cast<Counter &>(*cntr);

	// Without memory for what it is told, it has not counted it yet.
	(void)guarded([&] {
		counter.progress();
		return 0;
	});
	return counter.successes_.load();
}

std::uint64_t Counter::readerr(fid_cntr *cntr)
{
	auto &counter = static_cast<Counter &>(*cntr);

	(void)guarded([&] {
		counter.progress();
		return 0;
	});
	return counter.failures_.load();
}

int Counter::add(fid_cntr *cntr, std::uint64_t value)
{
	auto &counter = static_cast<Counter &>(*cntr);

	counter.successes_.fetch_add(value);
	counter.changed();
	return 0;
}

int Counter::set(fid_cntr *cntr, std::uint64_t value)
{
	auto &counter = static_cast<Counter &>(*cntr);

	counter.successes_.store(value);
	counter.changed();
	return 0;
}

int Counter::adderr(fid_cntr *cntr, std::uint64_t value)
{
	auto &counter = static_cast<Counter &>(*cntr);

	counter.failures_.fetch_add(value);
	counter.changed();
	return 0;
}

int Counter::seterr(fid_cntr *cntr, std::uint64_t value)
{
	auto &counter = static_cast<Counter &>(*cntr);

	counter.failures_.store(value);
	counter.changed();
	return 0;
}

int Counter::wait(fid_cntr *cntr, std::uint64_t threshold, int timeout)
{
	auto &counter = static_cast<Counter &>(*cntr);

	return guarded([&] { return counter.wait_for(threshold, timeout); });
}

} // namespace ibrelk::ofi
