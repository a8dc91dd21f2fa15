// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// An event queue. Only address vectors have something to tell; applications may write to it, too.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include <rdma/fi_eq.h>

#include "fabric.hpp"
#include "support.hpp"
#include "wake.hpp"

namespace ibrelk::ofi
{

class EventQueue : public fid_eq
{
public:
	static int open(fid_fabric *fabric, fi_eq_attr *attr, fid_eq **eq, void *context);

	/// Adds an event; returns its bytes, or -FI_EOVERRUN if too many wait, -FI_ENOMEM.
	ssize_t add(std::uint32_t event, const void *data, std::size_t bytes);
	/// Adds what fi_eq_readerr() gives; returns 0, or an error as above.
	int add_error(const fi_eq_err_entry &error);
	[[nodiscard]] bool has_something();

	Users &users() noexcept
	{
		return users_;
	}

private:
	struct Event {
		std::uint32_t kind;
		std::vector<std::byte> data;
		fi_eq_err_entry error; // if its .err is not 0, that is all
	};

	EventQueue(Fabric &fabric, const fi_eq_attr &attr, void *context);
	ssize_t take(std::uint32_t *event, void *buffer, std::size_t bytes, std::uint64_t flags);
	void pop(); // with the lock held

	static int close(Fid *any);
	static int control(Fid *any, int command, void *argument);
	static ssize_t read(
		fid_eq *eq, std::uint32_t *event, void *buffer, std::size_t bytes, std::uint64_t flags);
	static ssize_t sread(fid_eq *eq, std::uint32_t *event, void *buffer, std::size_t bytes, int timeout,
		std::uint64_t flags);
	static ssize_t readerr(fid_eq *eq, fi_eq_err_entry *entry, std::uint64_t flags);
	static ssize_t write(
		fid_eq *eq, std::uint32_t event, const void *buffer, std::size_t bytes, std::uint64_t flags);
	static const char *strerror(
		fid_eq *eq, int provider_error, const void *data, char *text, std::size_t length);

	static fi_ops fid_ops;
	static fi_ops_eq eq_ops;

	Use fabric_;
	Users users_;
	const fi_wait_obj wait_;
	const bool writable_;
	Wake wake_; // readable while there are events
	std::mutex lock_;
	std::deque<Event> events_; // under lock_
};

} // namespace ibrelk::ofi
