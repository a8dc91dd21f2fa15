// SPDX-License-Identifier: GPL-2.0-only
/*
 * When an automatic path gets a lane, and when it gives it back. How it is connected is in connect.c.
 */
#include <linux/module.h>

#include "connect.h"
#include "drive.h"
#include "lane.h"
#include "path.h"
#include "transport/verbs.h"

#define PERIODS		100			/* auto_uc_idle_ms are so many of those for which the rate must last */
#define HYSTERESIS		10	/* a lane is given back below this share of the rate that earned it */
#define RETRY_NS		((u64)NSEC_PER_SEC)	/* after the first failure; then twice as long each time, ... */
#define RETRIES_MAX		8	/* ... up to four minutes */
#define RATE_MAX		1000000u
#define IDLE_MIN_MS		10u
#define IDLE_MIN_ROUNDS		8u	/* what is on its way when the peer gives a lane back has to be sent again */
#define DEAF_NS			(500 * NSEC_PER_MSEC)	/* well before the path's own connection is suspected */

static unsigned int auto_uc_rate = 2000;
module_param(auto_uc_rate, uint, 0644);
MODULE_PARM_DESC(auto_uc_rate, "mode auto: fragments a second for which a path gets a UC queue pair; 0: never");

static unsigned int auto_uc_idle_ms = 10000;
module_param(auto_uc_idle_ms, uint, 0644);
MODULE_PARM_DESC(auto_uc_idle_ms, "mode auto: with little traffic for so long, it is given back, ms");

static unsigned int auto_uc_max = 256;
module_param(auto_uc_max, uint, 0644);
MODULE_PARM_DESC(auto_uc_max, "mode auto: most UC queue pairs on this node");

static atomic_t lane_count;	/* connections, and attempts at them */

bool ibr_lane_reserve(void)
{
	int count = atomic_inc_return(&lane_count);

	if (count > 0 && count <= READ_ONCE(auto_uc_max))
		return true;
	atomic_dec(&lane_count);
	return false;
}

void ibr_lane_release(void)
{
	atomic_dec(&lane_count);
}

/* Context: path->lock held. */
static u64 idle_ns(const struct ibr_path *path)
{
	u64 wanted = (u64)max(READ_ONCE(auto_uc_idle_ms), IDLE_MIN_MS) * NSEC_PER_MSEC;

	return max(wanted, (u64)IDLE_MIN_ROUNDS * path->rel.rtt.srtt_ns);
}

/* Context: path->lock held. */
static u64 period_ns(const struct ibr_path *path)
{
	return div_u64(idle_ns(path), PERIODS);
}

/* Context: path->lock held. */
static u64 frames_carried(const struct ibr_path *path)
{
	return path->counters.tx_segments + path->counters.rx_segments;
}

/* Count from now on, for so long. Context: path->lock held. */
static void lane_count_anew(struct ibr_path *path, u64 time_ns)
{
	struct ibr_lane *lane = &path->lane;

	lane->frames = frames_carried(path);
	lane->since = path->now;
	lane->look_at = path->now + time_ns;
}

/* A connection from an address to itself would be one queue pair, which needs another one. */
static bool lane_possible(const struct ibr_path *path)
{
	return path->transport == &ibr_transport_auto &&
	       memcmp(path->key.local_gid, path->key.remote_gid, sizeof(path->key.local_gid));
}

void ibr_lane_start(struct ibr_path *path)
{
	lockdep_assert_held(&path->lock);
	if (lane_possible(path))
		lane_count_anew(path, period_ns(path));
}

/* Context: path->lock held. */
static void lane_queue(struct ibr_path *path)
{
	if (!path->removed)
		queue_work(ibr_wq, &path->lane.work);
}

/* Take it out of use. Context: path->lock held. */
static void lane_detach(struct ibr_path *path)
{
	struct ibr_lane *lane = &path->lane;

	ibr_qp_put(lane->qp);
	lane->qp = NULL;
	lane->state = IBR_LANE_CLOSING;
	lane_count_anew(path, period_ns(path));
	lane_queue(path);
}

/* Context: path->lock held. */
static void lane_back_off(struct ibr_path *path)
{
	struct ibr_lane *lane = &path->lane;

	lane->retry_at = path->now + (RETRY_NS << lane->failures);
	if (lane->failures < RETRIES_MAX)
		lane->failures++;
}

void ibr_lane_look(struct ibr_path *path)
{
	struct ibr_lane *lane = &path->lane;
	u64 rate = min(READ_ONCE(auto_uc_rate), RATE_MAX), time, enough;

	lockdep_assert_held(&path->lock);
	/* Nobody looks while there is no traffic; so much of that time does not matter. */
	time = min(path->now - lane->since, idle_ns(path));
	enough = div_u64(rate * div_u64(time, NSEC_PER_USEC), USEC_PER_SEC);
	if (lane->qp) {
		lane->failures = 0;
		if (rate && frames_carried(path) - lane->frames >= div_u64(enough, HYSTERESIS) + 1)
			lane_count_anew(path, idle_ns(path));
		else if (rel_in_flight(&path->rel))
			lane->look_at = path->now + period_ns(path);
		else
			lane_detach(path);
		return;
	}
	if (lane->state == IBR_LANE_NONE && rate && frames_carried(path) - lane->frames >= enough + 1 &&
	    path->now >= lane->retry_at && path->state == IBRELK_PATH_UP && !path->removed) {
		lane->state = IBR_LANE_ASKED;
		lane_queue(path);
	}
	lane_count_anew(path, period_ns(path));
}

/* Context: path->lock held. */
static bool lane_fits(const struct ibr_path *path, const struct ibr_remote *remote)
{
	return path->state == IBRELK_PATH_UP && path->established && !path->removed && !path->renew &&
	       remote->token == path->remote.token &&
	       !memcmp(remote->instance, path->remote.instance, sizeof(remote->instance));
}

bool ibr_lane_knows(struct ibr_path *path, const struct ibr_remote *remote)
{
	bool knows;

	spin_lock_bh(&path->lock);
	knows = lane_possible(path) && READ_ONCE(auto_uc_rate) && lane_fits(path, remote);
	spin_unlock_bh(&path->lock);
	return knows;
}

bool ibr_lane_up(struct ibr_path *path, const struct ibr_remote *remote, struct ibr_qp *qp)
{
	struct ibr_lane *lane = &path->lane;
	struct ibr_qp *old = NULL;
	bool fits;

	lockdep_assert_held(&path->connect_lock);
	spin_lock_bh(&path->lock);
	fits = lane_fits(path, remote) && remote->packet_max >= path->remote.packet_max;
	if (fits) {
		path->now = ktime_get_ns();
		old = lane->qp;
		lane->qp = qp;
		lane->state = IBR_LANE_UP;
		lane_count_anew(path, idle_ns(path));
		path->counters.lanes++;
		lane->heard_at = path->now;
		/* The peer has lost the one before, and what it carried. */
		if (old)
			rel_conn_requeue(&path->rel, path->now);
		ibr_path_drive_locked(path);
	}
	spin_unlock_bh(&path->lock);
	if (old)
		ibr_qp_put(old);
	return fits;
}

void ibr_lane_failed(struct ibr_path *path)
{
	struct ibr_lane *lane = &path->lane;

	spin_lock_bh(&path->lock);
	path->now = ktime_get_ns();
	if (lane->state == IBR_LANE_ASKED) {
		lane->state = IBR_LANE_NONE;
		lane_back_off(path);
	}
	spin_unlock_bh(&path->lock);
}

void ibr_lane_lose(struct ibr_path *path, struct ibr_qp *qp, bool broken)
{
	lockdep_assert_held(&path->lock);
	if (!qp || path->lane.qp != qp)
		return;
	path->now = ktime_get_ns();
	if (broken)
		lane_back_off(path);
	lane_detach(path);
	if (path->established)
		rel_conn_requeue(&path->rel, path->now);
}

void ibr_lane_heard(struct ibr_path *path, const struct ibr_qp *qp)
{
	struct ibr_lane *lane = &path->lane;

	lockdep_assert_held(&path->lock);
	if (qp == lane->qp)
		lane->heard_at = path->now;
	else if (path->now - lane->heard_at > DEAF_NS)
		ibr_lane_lose(path, lane->qp, true);
}

void ibr_lane_drop(struct ibr_path *path)
{
	lockdep_assert_held(&path->lock);
	if (path->lane.qp)
		lane_detach(path);
}

static void lane_work(struct work_struct *work)
{
	struct ibr_path *path = container_of(work, struct ibr_path, lane.work);
	struct ibr_lane *lane = &path->lane;
	enum ibr_lane_state state;

	mutex_lock(&path->connect_lock);
	spin_lock_bh(&path->lock);
	state = lane->state;
	if (state == IBR_LANE_CLOSING)
		lane->state = IBR_LANE_NONE;
	spin_unlock_bh(&path->lock);

	if (state == IBR_LANE_CLOSING)
		ibr_connect_stop_lane(path);
	else if (state == IBR_LANE_ASKED && ibr_connect_start_lane(path))
		ibr_lane_failed(path);
	mutex_unlock(&path->connect_lock);
}

void ibr_lane_init(struct ibr_path *path)
{
	path->lane.look_at = REL_TIME_NEVER;
	INIT_WORK(&path->lane.work, lane_work);
}
