// SPDX-License-Identifier: GPL-2.0-only
//
// See model.hpp.

#include "model.hpp"

#include <algorithm>

namespace sim
{

namespace
{

bool native(u32 mode)
{
	return mode <= IBRELK_MODE_UD_NATIVE;
}

bool same_job(const Life &from, const Peer &to)
{
	const u64 slots = sim_config.nodes * sim_config.endpoints;

	return from.wrong_job == (to.slot + sim_config.wrong_job >= slots);
}

bool same_job(const Send &send)
{
	return same_job(*send.from, send.to);
}

// Would the receive take the message, if both met?
bool fits(const Receive &receive, const Send &send)
{
	if (receive.untagged != send.untagged || ((receive.tag ^ send.tag) & ~receive.ignore))
		return false;
	if (receive.any)
		return true;
	return receive.from.slot == send.from->slot &&
		(!receive.from.generation || receive.from.generation == send.from->addr.generation);
}

// Nobody waits for a send of whose success nobody hears, nor, unless all has to arrive, for one that was
// copied when it completed.
bool is_unwatched(const Send &send)
{
	if (send.taken)
		return false;
	if (send.status == pending)
		return send.quiet;
	return !send.status && send.level < IBRELK_LEVEL_DELIVERED && !model_gentle();
}

// What such a send was matched with is pending as long as it is under way.
bool may_be_taken(const Receive &receive)
{
	return std::any_of(apps.sends.begin(), apps.sends.end(), [&](const auto &entry) {
		const Send &send = *entry.second;
		return is_unwatched(send) && send.to.slot == receive.at->slot && fits(receive, send);
	});
}

void check_match(const Receive &receive, const Send &send)
{
	// Older messages of the stream that fit went to older receives.
	for (const auto &[id, other] : apps.sends)
		if (other->from == send.from && other->to.handle == send.to.handle &&
			other->order < send.order && other->taken && other->taken->at == receive.at &&
			fits(receive, *other) && other->taken->order > receive.order)
			sim_fail("order",
				"receive %llu took message %llu although it was to take %llu, which %llu "
				"took",
				receive.id, send.id, other->id, other->taken->id);
	// Within one receive they are in their order.
	if (receive.whole)
		for (const auto &part : receive.whole->parts)
			if (part->took && part->took->from == send.from &&
				part->took->to.handle == send.to.handle && part->took->order < send.order &&
				part->offset > receive.offset)
				sim_fail("order", "receive %llu has message %llu before the older %llu",
					receive.id, send.id, part->took->id);
	// Older receives that fit were taken, or cancelled before.
	for (const auto &[id, other] : apps.receives) {
		if (other->at != receive.at || other->order >= receive.order || !fits(*other, send) ||
			other->took || other->claimed || other->opcode == IBRELK_OP_CLAIM ||
			other->opcode == IBRELK_OP_PROBE)
			continue;
		// One of many messages may wait for no more than some that it has.
		if (other->opcode == IBRELK_OP_RECV_MULTI && other->status == pending && !model_gentle())
			continue;
		if ((other->status == pending && !may_be_taken(*other)) ||
			(other->status == -ECANCELED && other->cancelled_at > receive.completed_at &&
				other->at->open))
			sim_fail("order",
				"message %llu from %u (%u, tag %llx) went to receive %llu although the older "
				"%llu "
				"(from %d, tag %llx ignoring %llx, status %d) fits",
				send.id, send.from->slot, send.from->addr.generation, send.tag, receive.id,
				other->id, other->any ? -1 : static_cast<int>(other->from.slot), other->tag,
				other->ignore, other->status);
	}
}

// Is what was sent there from the beginning on for who is there now?
bool lives_on(u32 slot)
{
	const auto of_slot = [&](const auto &life) {
		return life->slot == slot;
	};
	const auto &lives = apps.lives;

	return std::count_if(lives.begin(), lives.end(), of_slot) == 1 &&
		(*std::find_if(lives.begin(), lives.end(), of_slot))->open;
}

// Else the message may be there, and be given up with the flow, since nothing can come in the place of those
// before.
bool older_arrived(const Send &send)
{
	return std::all_of(apps.sends.begin(), apps.sends.end(), [&](const auto &entry) {
		const Send &other = *entry.second;
		return other.from != send.from || other.to.handle != send.to.handle ||
			other.order >= send.order || other.taken;
	}) && std::all_of(apps.puts.begin(), apps.puts.end(), [&](const auto &entry) {
		const Put &put = *entry.second;
		return put.from != send.from || put.to.handle != send.to.handle || !put.status || put.wrong;
	});
}

// What native modes lose before something that arrived is counted.
void check_native()
{
	for (const auto &life : apps.lives) {
		std::map<u32, u64> missing;
		if (!native(life->mode))
			continue;
		for (const auto &[id, send] : apps.sends) {
			if (send->from != life.get() || send->taken || send->to.loop)
				continue;
			for (const auto &[other_id, later] : apps.sends)
				if (later->from == life.get() && later->to.handle == send->to.handle &&
					later->order > send->order && later->taken) {
					missing[send->to.slot]++;
					break;
				}
		}
		for (const auto &[slot, count] : missing) {
			u8 local[16], remote[16];
			sim_gid(static_cast<u32>(slot / sim_config.endpoints), false, local);
			sim_gid(life->node, false, remote);
			if (sim_lost_messages(local, remote, life->mode) < count)
				sim_fail("lost", "%llu messages are missing, and %llu counted", count,
					sim_lost_messages(local, remote, life->mode));
		}
	}
}

} // namespace

bool model_gentle()
{
	const auto &c = sim_config;
	const u64 worst = c.faults_ms + c.partitions * c.partition_ms + c.flaps * c.flap_ms +
		c.pauses * c.pause_ms + c.jumps * c.jump_ms +
		(c.loss_data + c.loss_control + c.loss_one_way > 0 ? 1000 : 0) + c.cm_delay_us / 200 +
		(c.cm_loss ? 3000 : 0) + // until an address is asked for again
		(c.rebuild_errors ? c.faults_ms + 200 : 0) +
		(c.moves ? 5000 : 0); // until the silence is noticed, on both sides

	return !c.rush && !c.restarts && !c.closes && !c.alloc && !c.mtu_changes &&
		worst + 4000 < c.connect_timeout_ms && worst + 4000 < c.peer_timeout_ms;
}

bool model_arrives(const Send &send)
{
	if (native(send.from->mode) || !same_job(send))
		return false;
	if (model_gentle())
		return send.status == 0 || send.status == pending;
	// Whatever else has happened: who is told that it was delivered may rely on it, while the receiver
	// lives.
	return send.status == 0 && send.level >= IBRELK_LEVEL_DELIVERED && !sim_config.rush &&
		lives_on(send.to.slot) && older_arrived(send);
}

bool model_may_refuse(const Life &life, int error)
{
	switch (error) {
	case -ENOMEM: return sim_config.alloc || sim_config.memlock_kib < 60000 || sim_config.pin;
	case -ENODEV:
	case -EADDRNOTAVAIL:
	case -ENETUNREACH: return sim_config.restarts;
	default: (void)life; return false;
	}
}

void model_put(const Put &put)
{
	const bool may_fail = !model_gentle() || native(put.from->mode);

	if (!same_job(*put.from, put.to)) {
		if (put.status != -EACCES && !(put.status && may_fail))
			sim_fail("status", "put %llu to another job completes with %d", put.id, put.status);
		return;
	}
	if (put.wrong) {
		if (!put.status || (put.status != put.wrong && !may_fail))
			sim_fail("status", "put %llu is to fail with %d, and does with %d", put.id, put.wrong,
				put.status);
		return;
	}
	switch (put.status) {
	case 0: break;
	case -EACCES: // the region has ended, or was one of a former life
	case -ECONNRESET:
	case -ETIMEDOUT:
	case -ENODEV:
	case -ENOMEM:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ECONNABORTED:
	case -ESTALE:
	case -EBUSY:
	case -EPROTO:
	case -EOPNOTSUPP:
		if (model_gentle())
			sim_fail("status", "put %llu fails with %d although nothing ends its flow", put.id,
				put.status);
		break;
	case -EIO:
		if (!native(put.from->mode))
			sim_fail("status", "put %llu fails with %d in a reliable mode", put.id, put.status);
		break;
	default: sim_fail("status", "put %llu fails with %d", put.id, put.status);
	}
}

void model_sent(Send &send)
{
	if (!same_job(send)) {
		if (!send.status || (model_gentle() && send.status != -EACCES))
			sim_fail(
				"status", "send %llu to another job completes with %d", send.id, send.status);
		return;
	}
	switch (send.status) {
	case 0: break;
	case -ECONNRESET:
	case -ETIMEDOUT:
	case -ENODEV:
	case -ENOMEM:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ECONNABORTED:
	case -ESTALE:
	case -EBUSY:
	case -EPROTO:
	case -EOPNOTSUPP:
		if (model_gentle())
			sim_fail("status", "send %llu fails with %d although nothing ends its flow", send.id,
				send.status);
		break;
	case -EIO:
		if (!native(send.from->mode))
			sim_fail(
				"status", "send %llu fails with %d in a reliable mode", send.id, send.status);
		break;
	default: sim_fail("status", "send %llu fails with %d", send.id, send.status);
	}
	// Where a bounce buffer serves, a worker completes the receive, maybe later.
	if (!send.status && send.level == IBRELK_LEVEL_MATCHED && !sim_memory_busy() &&
		sim_config.ring > 64) {
		apps.reap_all();
		if (!send.taken && model_gentle())
			sim_fail("level", "send %llu is matched, and no receive has it", send.id);
	}
}

void model_described(const Receive &receive, const Send &send, const ibrelk_completion &completion)
{
	ibrelk_addr addr{};

	if (receive.at->slot != send.to.slot ||
		(send.to.generation && send.to.generation != receive.at->addr.generation))
		sim_fail("address", "message %llu went to the wrong endpoint", send.id);
	if (send.from->wrong_job != receive.at->wrong_job)
		sim_fail("address", "message %llu went to another job", send.id);
	if (!fits(receive, send))
		sim_fail("match", "receive %llu took message %llu, which does not fit", receive.id, send.id);
	if (completion.tag != send.tag || completion.length != send.length ||
		!(completion.flags & IBRELK_CQE_UNTAGGED) == send.untagged ||
		!(completion.flags & IBRELK_CQE_IMMEDIATE) == send.immediate)
		sim_fail("envelope", "message %llu arrives with another envelope", send.id);
	if (receive.at->open && sim_peer_query(receive.at->endpoint, completion.peer, &addr) == 0 &&
		(addr.endpoint != send.from->addr.endpoint ||
			(addr.generation && addr.generation != send.from->addr.generation)))
		sim_fail("address", "message %llu seems to be from another endpoint", send.id);
	if (!receive.any && completion.peer != receive.from.handle)
		sim_fail("match", "receive %llu is for another source", receive.id);
}

void model_nothing(const Receive &probe)
{
	for (const auto &[id, send] : apps.sends) {
		if (send->seen != probe.at || send->taken || send->claimed || !fits(probe, *send))
			continue;
		const auto &posted = probe.at->posted;
		if (std::none_of(posted.begin(), posted.end(),
			    [&](const Receive *receive) { return fits(*receive, *send); }))
			sim_fail("claim", "probe %llu finds nothing, and message %llu waits", probe.id, id);
	}
}

void model_received(Receive &receive, Send &send, const ibrelk_completion &completion, const u8 *data)
{
	model_described(receive, send, completion);
	if (send.arrivals++)
		sim_fail("twice", "message %llu arrives twice", send.id);
	send.taken = &receive;
	receive.took = &send;
	switch (completion.status) {
	case 0:
	case -EMSGSIZE: {
		const u64 length = std::min(send.length, receive.length);
		if ((completion.status == -EMSGSIZE) != (send.length > receive.length))
			sim_fail("status", "receive %llu of %llu bytes took %llu with status %d", receive.id,
				receive.length, send.length, completion.status);
		const u64 same = content_check(data, send.id, length);
		if (same < length)
			sim_fail("bytes", "message %llu of %llu bytes differs from byte %llu on", send.id,
				send.length, same);
		sim_counts.delivered++;
		sim_counts.bytes += length;
		break;
	}
	case -ECONNRESET:
	case -ETIMEDOUT:
	case -ENODEV:
	case -ENOMEM:
	case -EFAULT:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ECONNABORTED:
	case -EBUSY:
	case -EPROTO:
	case -EOPNOTSUPP:
		if (model_gentle())
			sim_fail("status", "receive %llu fails with %d although nothing ends its flow",
				receive.id, completion.status);
		break;
	default: sim_fail("status", "receive %llu fails with %d", receive.id, completion.status);
	}
}

void model_check()
{
	for (const auto &[id, send] : apps.sends) {
		if (send->taken)
			check_match(*send->taken, *send);
		else if (model_arrives(*send))
			sim_fail("progress", "message %llu does not arrive", send->id);
	}
	if (model_gentle())
		check_native();
}

void model_check_closed()
{
	// Who is in a hurry waits for no completion.
	for (const auto &[id, send] : apps.sends)
		if (!send->completions && !send->quiet && !sim_config.rush)
			sim_fail("completion", "send %llu never completes", send->id);
	for (const auto &[id, receive] : apps.receives) {
		if (!receive->completions && !sim_config.rush)
			sim_fail("completion", "receive %llu never completes", receive->id);
		if (receive->kept && apps.sum(*receive) != receive->sum)
			sim_fail("bytes", "the buffer of receive %llu was written after its completion",
				receive->id);
	}
	for (const auto &[id, put] : apps.puts) {
		if (!put->completions && !sim_config.rush)
			sim_fail("completion", "put %llu never completes", put->id);
		put_check(*put);
	}
	for (const auto &[id, cancel] : apps.cancels)
		if (!cancel->completions && !sim_config.rush)
			sim_fail("completion", "a cancellation never completes");
	for (const auto &life : apps.lives)
		if (life->mm.count)
			sim_fail("leak", "an address space has %d references left", life->mm.count);
}

} // namespace sim
