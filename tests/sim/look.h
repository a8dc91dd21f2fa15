/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How far a transfer has come, as only the module itself knows. For tests that do something at a given step of it.
 */
#ifndef SIM_LOOK_H
#define SIM_LOOK_H

#include "module.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * struct sim_look - what is under way from one node to another in a mode; all 0 if nothing is
 * @up: the sender's path has a peer
 * @sends: of the sender, that are not over
 * @announced: of these, those whose RTS was sent
 * @sender_pins: a worker makes memory of one of these resident
 * @asked_for: windows that the receiver has asked for and that are not all sent
 * @sent: bytes of a message that were sent, or given to an adapter
 * @waiting: RTS that wait for a receive
 * @transfers: that are under way at the receiver
 * @receiver_pins: a worker makes memory of one of these resident
 * @opening: windows that are being registered
 * @open: ... that were asked for
 * @fenced: ... of transfers that were given up, for which the sender's writes are awaited
 * @closing: ... that are complete, and being deregistered
 * @asked: bytes that were asked for
 * @want: ... and are going to be
 * @missing: fragments that have not come of the open windows
 * @arrived_least: bytes that have come of the transfer of which the fewest have
 * @arrived_most: ... and of that of which the most have
 * @touched: an open window has some of its fragments
 * @copied: windows of the receiver that could not be written to, so far
 * @written: fragments that were written, so far
 * @rendezvous: messages that the sender has announced, so far
 * @lives: how often the sender's path had a new peer
 * @timeouts: retransmission time-outs of the sender's engine in this life
 * @lost: packets that it took for lost
 * @queue: control frames and repeats that wait in the sender's path
 * @fixed: its window is fixed, and not by delay
 * @target_us: ... and if by delay, the one aimed at
 * @packet_max: bytes of its longest packet
 * @packets: with messages in them, of this life
 */
struct sim_look {
	bool up;
	u32 sends;
	u32 announced;
	bool sender_pins;
	u32 asked_for;
	u64 sent;
	u32 waiting;
	u32 transfers;
	bool receiver_pins;
	u32 opening, open, fenced, closing;
	u64 asked, want;
	u32 missing;
	u64 arrived_least, arrived_most;
	bool touched;
	u64 copied, written, rendezvous;
	u64 lives, timeouts, lost;
	u32 queue;
	bool fixed;
	u32 target_us;
	u32 packet_max;
	u32 packets;
};

void sim_look_at(u32 sender, u32 receiver, u32 mode, struct sim_look *look);
/* sim_look_idle() - nothing of any transfer is left: no handle but those of flows, no name, no region. Or it fails */
void sim_look_idle(void);
/* sim_give_up() - a node's path to another one comes to its end. Context: SIM_ADMIN, on behalf of it */
void sim_give_up(u32 node, u32 peer, u32 mode, int error);
/*
 * sim_forge_requests() - as if a node had been asked by a peer, so many times, for an endpoint that it does not have.
 * Context: SIM_ADMIN, on behalf of it
 */
void sim_forge_requests(u32 node, u32 peer, u32 mode, u32 count);
/*
 * sim_forge_inflows() - as if a node had so many more incoming flows from a peer: @own of the user of its first one,
 * @others of somebody else. To be taken back before anything is checked. Context: as above
 */
void sim_forge_inflows(u32 node, u32 peer, u32 mode, s32 own, s32 others);
/* sim_forge_openings() - the same of outgoing flows that are being opened, while its only user has one. Context: as above */
void sim_forge_openings(u32 node, u32 peer, u32 mode, s32 own, s32 others);
/* sim_forge_peers() - as if so many more addresses had been added to an endpoint. Context: as above */
void sim_forge_peers(struct ibr_endpoint *endpoint, s32 more);
/*
 * sim_forge_overlap() - as if the sender of a node's first incoming flow from a peer had sent a message of 8000 bytes in
 * two fragments of 4000, which are 0x55: the first ones, and those from 125 on. Context: as above
 */
void sim_forge_overlap(u32 node, u32 peer, u32 mode, u64 tag);

#ifdef __cplusplus
}
#endif

#endif /* SIM_LOOK_H */
