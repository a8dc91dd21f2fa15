// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// See run.hpp.
#include "run.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "pattern.hpp"

namespace perf
{

namespace
{

constexpr std::uint64_t not_posted = UINT64_MAX;
constexpr std::uint64_t ms = 1'000'000;

// What is under way when a run ends gets this long.
constexpr std::uint64_t finish_limit_ns = 5000 * ms;

// The two directions differ in contents.
constexpr std::uint64_t seed_to_server = 0x5365727665720000u;
constexpr std::uint64_t seed_to_client = 0x436c69656e740000u;

std::vector<std::uint32_t> all_slots(std::uint32_t count)
{
	std::vector<std::uint32_t> slots(count);

	// The last is taken first; so they are used in order.
	for (std::uint32_t i = 0; i < count; i++)
		slots[i] = count - 1 - i;
	return slots;
}

} // namespace

Run::Run(Side &side, Link &link, ibrelk::Peer peer, const Plan &plan, std::uint32_t run, Part part) :
	side_(side), plan_(plan), batch_(plan.batch), tx_free_(all_slots(part.sends ? plan.window : 0)),
	rx_free_(all_slots(part.receives ? plan.slots : 0)), link_(link), peer_(peer), tag_(tag_data + run),
	epoch_(side.next_epoch()), tx_seed_(plan.seed ^ (part.client ? seed_to_server : seed_to_client)),
	rx_seed_(plan.seed ^ (part.client ? seed_to_client : seed_to_server)),
	tx_bytes_(plan_bytes(plan, part.client)), rx_bytes_(plan_bytes(plan, !part.client)),
	tx_level_(plan_level(plan, part.client)), rx_answers_(part.answered), progress_ns_(now_ns()),
	tx_total_(part.sends ? plan.count : 0),
	tx_buffers_(part.sends ? plan.window : 0, tx_bytes_, !(plan.flags & plan_verify)),
	rx_total_(part.receives ? plan.count : 0),
	rx_buffers_(part.receives ? plan.slots : 0, rx_bytes_, !(plan.flags & plan_verify)),
	rx_order_(plan.slots, not_posted), seen_(rx_total_)
{
	// Everything that can be posted is posted before the other side is told to begin.
	while (!error_ && !refused_ && rx_posted_ < rx_total_ && !rx_free_.empty()) {
		push_receives();
		flush();
	}
}

std::uint64_t Run::size_of(std::uint64_t bytes, std::uint64_t seed, std::uint64_t number) const noexcept
{
	return plan_.flags & plan_mixed ? mixed_size(bytes, seed, number) : bytes;
}

std::uint64_t Run::slice_ns() const noexcept
{
	return std::min(plan_.timeout_ns, native() ? 2 * ms : 100 * ms);
}

void Run::push_receives() noexcept
{
	while (!batch_.full_of_receives() && !rx_free_.empty() && rx_posted_ < rx_total_) {
		const std::uint32_t slot = rx_free_.back();
		const auto buffer = rx_buffers_.slot(slot);
		const Cookie cookie{Cookie::Kind::data_recv, link_.index, epoch_, slot};

		rx_free_.pop_back();
		rx_order_[slot] = rx_posted_++;
		rx_outstanding_++;
		batch_.push(ibrelk_command_recv(peer_, buffer.data(), buffer.size(), tag_, 0, cookie.pack()));
	}
}

bool Run::may_send(bool quiet) const noexcept
{
	return !tx_free_.empty() && !batch_.full() && !(quiet && batch_.size());
}

void Run::push_send(std::uint64_t number, bool quiet) noexcept
{
	const std::uint32_t slot = tx_free_.back();
	const auto message = tx_buffers_.slot(slot).first(size_of(tx_bytes_, tx_seed_, number));
	const Cookie cookie{Cookie::Kind::data_send, link_.index, epoch_, slot};

	if (verifies())
		pattern_fill(message, tx_seed_, number);

	auto command = ibrelk_command_send(peer_, message.data(), message.size(), tag_, cookie.pack());

	command.level = static_cast<std::uint8_t>(tx_level_);
	command.flags = IBRELK_CMD_IMMEDIATE | (quiet ? IBRELK_CMD_NO_SUCCESS : 0);
	command.immediate = number;
	batch_.push(command);
	tx_next_ = number + 1;
	if (quiet) {
		tx_done_++;
	} else {
		tx_free_.pop_back();
		tx_outstanding_++;
	}
}

void Run::flush() noexcept
{
	refused_ = false;
	// Room may have come up while a part was accepted; only 0 says that there is none.
	while (batch_.size() && !refused_) {
		auto accepted =
			batch_.flush([this](auto commands) { return link_.endpoint.submit(commands); });

		if (!accepted) {
			fail(accepted.error());
			return;
		}
		refused_ = *accepted == 0 && !batch_.receives_first();
	}
}

bool Run::wait(std::uint32_t count, std::uint64_t timeout_ns)
{
	const bool any = side_.pump(count, timeout_ns, this) > 0;

	idle_ = !any;
	if (any)
		progress_ns_ = now_ns();
	return any;
}

void Run::look()
{
	side_.poll(this);
	// Whatever time has passed since the last one, nobody has waited.
	idle_ = false;
	progress_ns_ = now_ns();
}

void Run::on_data(const Cookie &cookie, const ibrelk::Completion &completion) noexcept
{
	if (cookie.kind == Cookie::Kind::data_send)
		handle_send(cookie, completion);
	else
		handle_receive(cookie.slot, completion);
}

void Run::handle_send(const Cookie &cookie, const ibrelk::Completion &completion) noexcept
{
	if (completion.status < 0) {
		report_.failed_sends++;
		if (!native())
			fail(-completion.status);
	}
	// A quiet send completes only when it fails, and had no slot to give back.
	if (tx_outstanding_ == 0)
		return;
	tx_outstanding_--;
	tx_done_++;
	tx_free_.push_back(cookie.slot);
}

void Run::handle_receive(std::uint32_t slot, const ibrelk::Completion &completion) noexcept
{
	if (slot >= rx_order_.size() || rx_order_[slot] == not_posted)
		return;
	if (completion.status == 0) {
		const std::uint64_t number = completion.immediate;
		const bool again = number < seen_.size() && seen_[number];
		const bool good = right(slot, completion);

		if (!good && !report_.mismatched)
			fmt::print(stderr,
				"ibrelk-perf: the first wrong message: number {}{}, in receive {}, tag {:#x} "
				"(wanted {:#x}), "
				"flags {:#x}, {} bytes (wanted {}), right up to byte {}\n",
				number, again ? " again" : "", rx_order_[slot], completion.tag, tag_,
				completion.flags, completion.length, size_of(rx_bytes_, rx_seed_, number),
				pattern_check(rx_buffers_.slot(slot).first(
						      std::min<std::size_t>(completion.length, rx_bytes_)),
					rx_seed_, number));

		report_.received++;
		report_.bytes += completion.length;
		report_.mismatched += !good;
		report_.verified += good && verifies();
		received(completion.immediate);
	} else if (completion.status == -EMSGSIZE) {
		report_.received++;
		report_.mismatched++;
	} else if (completion.status != -ECANCELED || !finishing_) {
		fail(-completion.status);
	}
	if (verifies())
		rx_buffers_.reset(slot, rx_bytes_);
	rx_order_[slot] = not_posted;
	rx_outstanding_--;
	rx_free_.push_back(slot);
}

// What is lost in a native mode leaves its receive to one that comes after it. An answer that was given up
// may come after the next one there, as what it answers had to wait for a rendezvous, or has itself.
bool Run::in_turn(std::uint64_t number, std::uint64_t order) const noexcept
{
	if (!native())
		return number == order;
	return rx_answers_ || number >= order;
}

bool Run::right(std::uint32_t slot, const ibrelk::Completion &completion) noexcept
{
	const std::uint64_t number = completion.immediate;

	if (!(completion.flags & IBRELK_CQE_IMMEDIATE) || number >= rx_total_ || completion.tag != tag_)
		return false;
	if (seen_[number] || !in_turn(number, rx_order_[slot]))
		return false;
	seen_[number] = true;
	if (completion.length != size_of(rx_bytes_, rx_seed_, number))
		return false;
	if (!verifies())
		return true;

	const auto message = rx_buffers_.slot(slot).first(completion.length);

	return pattern_check(message, rx_seed_, number) == message.size() &&
		rx_buffers_.guard_intact(slot, completion.length);
}

Report Run::report() const noexcept
{
	Report report = report_;

	report.status = -error_;
	return report;
}

std::string Run::progress_text() const
{
	std::string text;

	if (tx_total_)
		text += fmt::format("{} of {} messages sent", tx_done_, tx_total_);
	if (rx_total_)
		text += fmt::format(
			"{}{} of {} received", text.empty() ? "" : ", ", report_.received, rx_total_);
	return text;
}

void Run::finish()
{
	const std::uint64_t start_ns = now_ns();
	std::uint32_t slot = 0;

	finishing_ = true;
	batch_.clear();
	while ((rx_outstanding_ || tx_outstanding_) && now_ns() - start_ns < finish_limit_ns &&
		!side_.stopped()) {
		for (; slot < rx_order_.size() && !batch_.full(); slot++) {
			const Cookie target{Cookie::Kind::data_recv, link_.index, epoch_, slot};
			const Cookie own{Cookie::Kind::cancel, link_.index, epoch_, slot};

			if (rx_order_[slot] != not_posted)
				batch_.push(ibrelk_command_cancel(target.pack(), own.pack()));
		}
		flush();
		wait(1, 10 * ms);
	}
}

} // namespace perf
