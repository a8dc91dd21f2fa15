// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What all objects of the provider need: from a fid of libfabric to the object that it is the first part of,
// an answer for what the provider does not do, and an end for exceptions where C begins.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

namespace ibrelk::ofi
{

/// Objects have a member of the same name.
using Fid = ::fid;

/// Stands in every table of functions where the provider has none; libfabric calls them without looking.
template<class R, class... Arguments>
R unsupported(Arguments...)
{
	return static_cast<R>(-FI_ENOSYS);
}

/// The same for what there would be with another capability.
template<class R, class... Arguments>
R not_capable(Arguments...)
{
	return static_cast<R>(-FI_EOPNOTSUPP);
}

/// The object of class T, which derives from Base (fid_cq, fid_ep, ...), of the fid that Base begins with.
template<class T, class Base>
T *object_of(Fid *any) noexcept
{
	static_assert(offsetof(Base, fid) == 0);
	return static_cast<T *>(reinterpret_cast<Base *>(any));
}

/// Runs what makes an object: memory may be lacking, and no exception may reach the caller, who is C.
template<class F>
int guarded(F &&make) noexcept
{
	try {
		return make();
	} catch (const std::bad_alloc &) {
		return -FI_ENOMEM;
	}
}

/// Does something when it goes out of scope, unless it was dismissed.
template<class F>
class Undo
{
public:
	explicit Undo(F undo) noexcept : undo_(std::move(undo))
	{
	}
	Undo(const Undo &) = delete;
	Undo &operator=(const Undo &) = delete;
	~Undo()
	{
		if (!dismissed_)
			undo_();
	}
	void dismiss() noexcept
	{
		dismissed_ = true;
	}

private:
	F undo_;
	bool dismissed_ = false;
};

/// Who uses an object; while anybody does it cannot be closed.
class Users
{
public:
	void add() noexcept
	{
		count_.fetch_add(1, std::memory_order_relaxed);
	}
	void drop() noexcept
	{
		count_.fetch_sub(1, std::memory_order_acq_rel);
	}
	[[nodiscard]] bool any() const noexcept
	{
		return count_.load(std::memory_order_acquire) != 0;
	}

private:
	std::atomic<std::uint32_t> count_{0};
};

/// Keeps an object in use as long as this lives. Empty at first.
class Use
{
public:
	Use() noexcept = default;
	explicit Use(Users &users) noexcept : users_(&users)
	{
		users.add();
	}
	Use(const Use &) = delete;
	Use &operator=(const Use &) = delete;
	Use(Use &&other) noexcept : users_(other.users_)
	{
		other.users_ = nullptr;
	}
	Use &operator=(Use &&other) noexcept
	{
		Users *users = other.users_;

		other.users_ = nullptr;
		reset();
		users_ = users;
		return *this;
	}
	~Use()
	{
		reset();
	}
	/// Whether these are the users that it is one of.
	[[nodiscard]] bool of(const Users &users) const noexcept
	{
		return users_ == &users;
	}

private:
	void reset() noexcept
	{
		if (users_)
			users_->drop();
		users_ = nullptr;
	}

	Users *users_ = nullptr;
};

/// What is open of a kind, in the order in which it was opened: fi_getinfo() names what there is already. A
/// list costs nothing where there are one or two.
template<class T>
class Opened
{
public:
	/// Throws std::bad_alloc.
	static void add(T *object)
	{
		const std::lock_guard lock(mutex_);

		all().push_back(object);
	}
	static void remove(T *object) noexcept
	{
		const std::lock_guard lock(mutex_);

		all().erase(std::find(all().begin(), all().end(), object));
	}
	/// The first for which it holds, which is not to close it; none: NULL.
	template<class F>
	static T *first(F fits)
	{
		const std::lock_guard lock(mutex_);
		const auto found = std::find_if(all().begin(), all().end(), fits);

		return found == all().end() ? nullptr : *found;
	}

private:
	// Never destroyed: some close what they have opened when the program has all but ended.
	static std::vector<T *> &all()
	{
		static auto &all = *new std::vector<T *>;

		return all;
	}

	static inline std::mutex mutex_;
};

} // namespace ibrelk::ofi
