// SPDX-License-Identifier: GPL-2.0-only
/*
 * The loop transport: for peers on the same node, and, with its fault hook, for tests. A path is its
 * own remote end: what it sends goes through a queue and comes back in softirq, so that the drive
 * never runs inside itself. All else, the engine included, is the same as on a wire.
 */
#include <linux/interrupt.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "../flow.h"
#include "../params.h"
#include "../path.h"
#include "loop.h"
#include "transport.h"

#define LOOP_SLOTS	128
#define LOOP_PACKET_MAX	4096
#define LOOP_BATCH	32

/* struct loop_slot - a slot and the room to assemble the packet in */
struct loop_slot {
	struct ibr_slot slot;
	u32 length;
	u8 packet[LOOP_PACKET_MAX] __aligned(8);
};

/*
 * struct loop - transport_data of a loop path
 * @head: slots ever posted; @tail: ever delivered. Written under path->lock
 */
struct loop {
	struct ibr_path *path;
	struct tasklet_struct tasklet;
	u32 head;
	u32 tail;
	struct loop_slot *held;	/* by the fault hook: follows the next packet */
	struct loop_slot slots[LOOP_SLOTS];
};

static enum ibr_loop_fault (*fault_hook)(struct ibr_path *path, void *packet, u32 length);

void ibr_loop_set_hook(enum ibr_loop_fault (*hook)(struct ibr_path *path, void *packet, u32 length))
{
	WRITE_ONCE(fault_hook, hook);
}

static struct ibr_slot *loop_slot(struct ibr_path *path)
{
	struct loop *loop = path->transport_data;

	/* Whoever finds none is driven again when some have been delivered. */
	if (!loop || loop->head - READ_ONCE(loop->tail) >= LOOP_SLOTS)
		return NULL;
	return &loop->slots[loop->head % LOOP_SLOTS].slot;
}

static void loop_post(struct ibr_path *path, struct ibr_slot *slot, u32 length)
{
	struct loop *loop = path->transport_data;
	struct loop_slot *to = container_of(slot, struct loop_slot, slot);
	int i;

	to->length = length;
	for (i = 0; i < slot->frags; i++) {
		memcpy(to->packet + to->length, slot->frag[i]->payload, slot->frag[i]->payload_len);
		to->length += slot->frag[i]->payload_len;
	}
	slot->frags = 0;
	/* Pairs with loop_deliver(): the packet is complete before it counts as posted. */
	smp_store_release(&loop->head, loop->head + 1);
}

static void loop_flush(struct ibr_path *path)
{
	struct loop *loop = path->transport_data;

	if (loop && loop->head != READ_ONCE(loop->tail))
		tasklet_schedule(&loop->tasklet);
}

static void loop_give(struct loop *loop, struct loop_slot *slot)
{
	enum ibr_loop_fault (*hook)(struct ibr_path *path, void *packet, u32 length) = READ_ONCE(fault_hook);
	enum ibr_loop_fault fault = hook ? hook(loop->path, slot->packet, slot->length) : IBR_LOOP_PASS;

	if (fault == IBR_LOOP_DROP)
		return;
	if (fault == IBR_LOOP_HOLD && !loop->held) {
		loop->held = kmemdup(slot, sizeof(*slot), GFP_ATOMIC);
		return;
	}
	ibr_path_receive(loop->path, slot->packet, slot->length, NULL, IBR_CREDIT_PKTS);
	if (fault == IBR_LOOP_DUPLICATE)
		ibr_path_receive(loop->path, slot->packet, slot->length, NULL, IBR_CREDIT_PKTS);
	if (loop->held) {
		ibr_path_receive(loop->path, loop->held->packet, loop->held->length, NULL,
				 IBR_CREDIT_PKTS);
		kfree(loop->held);
		loop->held = NULL;
	}
}

static void loop_deliver(struct tasklet_struct *tasklet)
{
	struct loop *loop = from_tasklet(loop, tasklet, tasklet);
	u32 budget = LOOP_BATCH;

	/* Pairs with loop_post(). */
	while (loop->tail != smp_load_acquire(&loop->head) && budget--) {
		loop_give(loop, &loop->slots[loop->tail % LOOP_SLOTS]);
		/* The slot may be written again only after it has been read. */
		smp_store_release(&loop->tail, loop->tail + 1);
	}
	/* Driving flushes, and that schedules the tasklet again if anything is left. */
	ibr_path_drive(loop->path);
}

/*
 * Half a megabyte. It is here that who wants the path pays for it: when it is connected a worker runs, for all who use
 * it, and there is an address for whoever wants one of his own.
 */
static int loop_prepare(struct ibr_path *path)
{
	struct loop *loop;
	u32 i;

	loop = kvzalloc(sizeof(*loop), GFP_KERNEL_ACCOUNT);
	if (!loop)
		return -ENOMEM;
	loop->path = path;
	tasklet_setup(&loop->tasklet, loop_deliver);
	for (i = 0; i < LOOP_SLOTS; i++) {
		loop->slots[i].slot.header = loop->slots[i].packet;
		loop->slots[i].slot.frags_max = IBR_SLOT_PAYLOADS;
	}
	path->loop = loop;
	return 0;
}

static void loop_release(struct ibr_path *path)
{
	kvfree(path->loop);
}

static int loop_connect(struct ibr_path *path)
{
	struct ibr_remote remote = {
		.token = path->token,
		.secret = get_random_u32(),
		.credits = IBR_CREDIT_PKTS,
		.packet_max = LOOP_PACKET_MAX,
	};
	struct loop *loop = path->loop;

	memcpy(remote.instance, ibr_instance, sizeof(remote.instance));
	loop->head = IBR_COUNTERS_START;
	loop->tail = IBR_COUNTERS_START;
	/* If not, another attempt has been asked for. */
	ibr_path_connected(path, &remote, NULL, loop);
	return 0;
}

static void loop_disconnect(struct ibr_path *path)
{
	struct loop *loop;
	void *data;

	ibr_path_detach(path, &data);
	loop = data;
	if (!loop)
		return;
	/* Nobody posts any more (detached); wait for the last delivery. */
	tasklet_kill(&loop->tasklet);
	kfree(loop->held);
	loop->held = NULL;
}

const struct ibr_transport ibr_transport_loop = {
	.name = "loop",
	.type = IB_QPT_UD,
	.slot = loop_slot,
	.post = loop_post,
	.flush = loop_flush,
	.prepare = loop_prepare,
	.release = loop_release,
	.connect = loop_connect,
	.disconnect = loop_disconnect,
};
