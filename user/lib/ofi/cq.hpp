// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A completion queue: a ring of the kernel, and a queue of what was taken from it and not read yet. The
// latter is for counters, which must go on without anybody reading the queue; else it is empty between two
// calls.
//
// Reading makes no system call, but that who reads in vain all the time gives way now and then. The kernel
// makes progress by itself, so nothing here has to be called for it.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <ibrelk/ibrelk.hpp>

#include "domain.hpp"
#include "operation.hpp"
#include "support.hpp"
#include "wake.hpp"

namespace ibrelk::ofi
{

class Endpoint;

class CompletionQueue : public fid_cq
{
public:
	static int open(fid_domain *domain, fi_cq_attr *attr, fid_cq **cq, void *context);
	/// For endpoints that have a counter only: nobody reads it.
	static result<CompletionQueue *> open_unread(Domain &domain);
	static int close(Fid *any);

	[[nodiscard]] Ring &ring() noexcept
	{
		return ring_;
	}
	[[nodiscard]] OperationPool &operations() noexcept
	{
		return operations_;
	}
	Users &users() noexcept
	{
		return users_;
	}

	/// An endpoint whose completions come here.
	void attach(Endpoint &endpoint);
	/// It is closed: what is still to come of it is dropped.
	void detach(Endpoint &endpoint);

	/// Cancels a receive. 0, -FI_ENOENT (no receive has that context), -FI_EAGAIN, or another error.
	int cancel(Endpoint &endpoint, const void *context);
	/// Has others' writes with data to this endpoint, which is enabled, told here: false if there is no
	/// memory.
	bool await_notices(Endpoint &endpoint);
	/// An operation that the kernel has not accepted.
	void give_back(Operation &operation);
	/// Takes what is in the ring, as far as there is room for what is to be read.
	void progress();
	/// Takes all of it, so that counters count it, whether anybody reads the queue or not.
	void count();
	[[nodiscard]] bool has_something();
	[[nodiscard]] bool is_of(Domain &domain) const noexcept
	{
		return domain_.of(domain.users());
	}

private:
	struct Entry {
		void *context = nullptr;
		std::uint64_t flags = 0;
		std::size_t length = 0;
		void *buffer = nullptr;
		std::uint64_t data = 0;
		std::uint64_t tag = 0;
		std::size_t missing = 0; // bytes that did not fit
		int error = 0;           // of libfabric; 0: it has succeeded
		int status = 0;          // of the kernel
		fi_addr_t source = FI_ADDR_NOTAVAIL;
	};

	CompletionQueue(Domain &domain, Ring ring, const fi_cq_attr &attr, void *context, bool unread);
	[[nodiscard]] bool open_descriptor() noexcept;
	static result<CompletionQueue *> make(
		Domain &domain, const fi_cq_attr &attr, void *context, bool unread);

	// All of these with the lock held.
	[[nodiscard]] bool full() const noexcept
	{
		return waiting_ == entries_.size();
	}
	bool collect(std::size_t most);
	bool missed(std::uint64_t receive);
	void grow();
	void settle() noexcept;
	void handle(const Completion &completion);
	void handle_unreported(const Completion &completion);
	void handle_operation(const Completion &completion, Operation &operation);
	void describe(const Completion &completion, const Operation &operation, Entry &entry) const;
	void handle_notice(const Completion &completion, Operation &notices);
	void post_notices() noexcept;
	void claimed(const Completion &completion, Operation &operation);
	void push(const Entry &entry);
	void pop();
	void write(const Entry &entry, void *buffer, std::size_t index) const;
	[[nodiscard]] Endpoint *endpoint(std::uint32_t number) const;
	[[nodiscard]] Entry &front()
	{
		return entries_[first_];
	}

	ssize_t poll(void *buffer, std::size_t count, fi_addr_t *sources);
	ssize_t take(void *buffer, std::size_t count, fi_addr_t *sources);
	ssize_t wait_and_take(
		void *buffer, std::size_t count, fi_addr_t *sources, const void *condition, int timeout);

	static int control(Fid *any, int command, void *argument);
	static ssize_t read(fid_cq *cq, void *buffer, std::size_t count);
	static ssize_t readfrom(fid_cq *cq, void *buffer, std::size_t count, fi_addr_t *sources);
	static ssize_t readerr(fid_cq *cq, fi_cq_err_entry *entry, std::uint64_t flags);
	static ssize_t sread(fid_cq *cq, void *buffer, std::size_t count, const void *condition, int timeout);
	static ssize_t sreadfrom(fid_cq *cq, void *buffer, std::size_t count, fi_addr_t *sources,
		const void *condition, int timeout);
	static int signal(fid_cq *cq);
	static const char *strerror(
		fid_cq *cq, int provider_error, const void *data, char *text, std::size_t length);

	static fi_ops fid_ops;
	static fi_ops_cq cq_ops;

	Use domain_;
	Users users_;
	const bool has_error_buffer_; // err_data_size is there since version 1.5 of the interface
	const fi_cq_format format_;
	const fi_wait_obj wait_;
	const fi_cq_wait_cond condition_;
	const bool unread_; // by anybody: there are only counters
	OperationPool operations_;
	Wake queued_;                      // readable while entries wait that are not in the ring any more
	Wake signalled_{true};             // by fi_cq_signal(), so many times
	WaitSet descriptor_;               // FI_WAIT_FD: of the ring's and queued_
	std::atomic<unsigned> in_vain_{0}; // reads in a row

	std::mutex lock_; // protects what follows, and is held when an operation is given back
	Ring ring_;
	std::vector<Entry> entries_; // a circle
	std::size_t first_ = 0;
	std::size_t waiting_ = 0;
	bool told_ = false; // queued_ is set
	std::uint64_t cancels_ = 0;
	std::vector<Endpoint *> endpoints_;
	Operation *unposted_ = nullptr; // notices, for which there was no room, by their next
};

} // namespace ibrelk::ofi
