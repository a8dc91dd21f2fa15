// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A counter of what was done, and of what has failed. It counts when completions are taken from the rings,
// which it does itself when it is read.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "domain.hpp"
#include "support.hpp"
#include "wake.hpp"

namespace ibrelk::ofi
{

class CompletionQueue;

class Counter : public fid_cntr
{
public:
	static int open(fid_domain *domain, fi_cntr_attr *attr, fid_cntr **cntr, void *context);

	/// One more. Called with the lock of a completion queue held.
	void count(bool failed) noexcept;

	/// What it counts comes from there. As often detached as attached.
	void attach(CompletionQueue &queue);
	void detach(CompletionQueue &queue);

	/// Whether one has to look at it before one sleeps on its descriptor: it is not what it was the time
	/// before.
	[[nodiscard]] bool has_changed();

	Users &users() noexcept
	{
		return users_;
	}
	[[nodiscard]] bool is_of(Domain &domain) const noexcept
	{
		return domain_.of(domain.users());
	}

private:
	Counter(Domain &domain, const fi_cntr_attr &attr, void *context);
	void progress();
	[[nodiscard]] bool open_descriptor() noexcept;
	[[nodiscard]] bool counts(const CompletionQueue &queue) const;
	int wait_for(std::uint64_t threshold, int timeout);
	void changed() noexcept;

	static int close(Fid *any);
	static int control(Fid *any, int command, void *argument);
	static std::uint64_t read(fid_cntr *cntr);
	static std::uint64_t readerr(fid_cntr *cntr);
	static int add(fid_cntr *cntr, std::uint64_t value);
	static int set(fid_cntr *cntr, std::uint64_t value);
	static int adderr(fid_cntr *cntr, std::uint64_t value);
	static int seterr(fid_cntr *cntr, std::uint64_t value);
	static int wait(fid_cntr *cntr, std::uint64_t threshold, int timeout);

	static fi_ops fid_ops;
	static fi_ops_cntr cntr_ops;

	Use domain_;
	Users users_;
	const fi_wait_obj wait_;
	std::atomic<std::uint64_t> successes_{0};
	std::atomic<std::uint64_t> failures_{0};
	std::atomic<std::uint64_t> changes_{0}; // how often they have changed
	std::atomic<unsigned> waiters_{0};
	Wake wake_;                        // set when it has changed and somebody waits
	WaitSet descriptor_;               // FI_WAIT_FD: of news_ and the rings of queues_
	std::optional<Wake> news_;         // FI_WAIT_FD: set when it has changed and somebody watches
	std::atomic<bool> watched_{false}; // somebody may sleep on the descriptor
	std::mutex lock_;                  // protects what follows; taken before that of a queue
	std::vector<CompletionQueue *> queues_;
	std::uint64_t told_changes_ = 0; // of which has_changed() has told
};

} // namespace ibrelk::ofi
