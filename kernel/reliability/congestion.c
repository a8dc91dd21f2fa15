// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many packets may be in flight. On a lossless fabric that is a constant: the configured
 * window.
 */
#include "engine.h"

void rel_congestion_init(struct rel_conn *conn)
{
	struct rel_congestion *congestion = &conn->congestion;
	u16 window_pkts = conn->config.window_pkts;

	if (window_pkts < 1)
		window_pkts = 1;
	if (window_pkts > REL_SPAN_MAX / 2)
		window_pkts = REL_SPAN_MAX / 2;
	congestion->window_pkts = window_pkts;
	congestion->window_half = (window_pkts + 1) / 2;
}
