// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "operation.hpp"

#include <new>
#include <utility>

namespace ibrelk::ofi
{

// A child may have the endpoint's descriptor, too, so that it goes on when it is closed here: then the kernel
// may still write what it fetches to memory that the application does not know of, and would be somebody
// else's. That is left behind.
OperationPool::~OperationPool()
{
	for (const auto &chunk : chunks_) {
		for (Operation &operation : *chunk)
			(void)operation.fetched.release();
	}
}

bool OperationPool::grow() noexcept
{
	if (chunks_.size() >= chunks_max)
		return false;
	try {
		chunks_.push_back(std::make_unique<Chunk>());
	} catch (const std::bad_alloc &) {
		return false;
	}
	for (Operation &operation : *chunks_.back()) {
		operation.next = free_;
		free_ = &operation;
	}
	return true;
}

Operation *OperationPool::take(Operation &&wanted) noexcept
{
	const std::lock_guard guard(lock_);

	if (!free_ && !grow())
		return nullptr;

	Operation *operation = free_;

	free_ = operation->next;
	*operation = std::move(wanted);
	return operation;
}

void OperationPool::give_back(Operation &operation) noexcept
{
	const std::lock_guard guard(lock_);

	operation.kind = Operation::Kind::none;
	operation.endpoint = nullptr;
	operation.fetched.reset();
	operation.next = free_;
	free_ = &operation;
}

void OperationPool::orphan(const Endpoint &endpoint) noexcept
{
	const std::lock_guard guard(lock_);

	for (const auto &chunk : chunks_) {
		for (Operation &operation : *chunk) {
			if (operation.endpoint == &endpoint)
				operation.endpoint = nullptr;
		}
	}
}

Operation *OperationPool::find_receive(
	const Endpoint &endpoint, const void *context, const Operation *last) noexcept
{
	bool passed = !last;
	const std::lock_guard guard(lock_);

	for (const auto &chunk : chunks_) {
		for (Operation &operation : *chunk) {
			if (passed && operation.kind == Operation::Kind::receive &&
				operation.endpoint == &endpoint && operation.context == context)
				return &operation;
			passed = passed || &operation == last;
		}
	}
	return nullptr;
}

} // namespace ibrelk::ofi
