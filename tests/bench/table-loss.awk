# What loss and delay do, as tables, and the ratios that matter; of `make bench` and of `make bench-full`. Needs rows.awk.

BEGIN {
	split("uc-reliable ud-reliable rc-reliable rc-native perftest-rc perftest-rc-write tcp", modes, " ")
	split("uc-reliable ud-reliable", ours, " ")
	name["uc-reliable"] = "UC-reliable"
	name["ud-reliable"] = "UD-reliable"
	ack_delay_us = 200
}

# A row for each mode, a column for each wire that has rows of this metric.
function table(title, metric,    i, j, columns, texts, cell, any) {
	print title
	for (j = 1; j <= wires; j++)
		for (i = 1; i in modes; i++)
			if (key(modes[i] "/" metric, wire[j]) in value) {
				columns[++any] = wire[j]
				texts = texts (any > 1 ? "," : "") wire[j]
				break
			}
	heading("loss %/delay ms", texts)
	for (i = 1; i in modes; i++) {
		if (!(modes[i] in seen))
			continue
		printf "%-18s", modes[i]
		for (j = 1; j in columns; j++) {
			cell = key(modes[i] "/" metric, columns[j])
			printf " %9s", (cell in value && value[cell] > 0) ? sprintf("%.2f", value[cell]) : "-"
		}
		print ""
	}
	print ""
}

# speed(MODE, SIZE, LOSS, DELAY): the name of a row.
function speed(mode, size, loss, delay) { return key(mode "/bandwidth_mbps/" size, loss "/" delay) }

# lossless(SIZE, TEXT OF IT, LOSS, DELAY, GOAL): what is left of the bandwidth. netem is on the wire in either case, as it
# is in one with delay.
function lossless(size, text, loss, delay, goal,    i, whole) {
	for (i = 1; i in ours; i++) {
		whole = key(ours[i] "/bandwidth_mbps" (delay ? "" : "_netem") "/" size, "0/" delay)
		ratio("bandwidth " text ", delay " delay " ms, " name[ours[i]] " at " loss " % / without loss",
			speed(ours[i], size, loss, delay), whole, goal)
	}
}

# Of the round trips of 8 B over a wire that loses 1 % each way, the worst 2 % had to be repaired; P99 is the typical
# one of them, unless chance has spared so many that it is none: no repair takes less than a round trip. How much longer it
# took, against the goal. The median of all stands for the smoothed round trip.
function tail(mode, delay,    p50, p99, bound, text) {
	p50 = key(mode "/latency_p50_us/8", "1/" delay)
	p99 = key(mode "/latency_p99_us/8", "1/" delay)
	if (!(p50 in value && p99 in value))
		return
	bound = 2.2 * 2 * value[p50] + ack_delay_us
	text = "repair of a lost tail, delay " delay " ms, " name[mode] " / (2.2 SRTT + ACK delay)"
	if (value[p99] > 0 && value[p99] < 2 * value[p50])
		printf "%s: P99 is of none that lost something\n", text
	else
		verdict(text, 2 * (value[p99] - value[p50]) / bound, -1, value[p50] > 0 && value[p99] > 0)
}

# rate(LOSS, DELAY, GOAL): what is left of the rate of messages of 8 bytes.
function rate(loss, delay, goal,    i) {
	for (i = 1; i in ours; i++)
		ratio("rate of 8 B, delay " delay " ms, " name[ours[i]] " at " loss " % / without loss",
			key(ours[i] "/msg_rate_kps/8", loss "/" delay),
			key(ours[i] "/msg_rate_kps" (delay ? "" : "_netem") "/8", "0/" delay), goal)
}

END {
	table("bandwidth of 64 KiB, MB/s", "bandwidth_mbps/65536")
	table("bandwidth of 1 MiB, MB/s", "bandwidth_mbps/1048576")
	table("bandwidth of 4 KiB, MB/s", "bandwidth_mbps/4096")
	table("rate of 8 B, k/s", "msg_rate_kps/8")
	table("one-way latency of 8 B, median, us", "latency_p50_us/8")
	table("one-way latency of 8 B, P99, us", "latency_p99_us/8")
	table("one-way latency of 4 KiB, median, us", "latency_p50_us/4096")
	table("one-way latency of 4 KiB, P99, us", "latency_p99_us/4096")
	table("one-way latency of 64 KiB, median, us", "latency_p50_us/65536")
	table("one-way latency of 64 KiB, P99, us", "latency_p99_us/65536")
	ratio("bandwidth 1 MiB, UC-reliable at 1 % / without loss", speed("uc-reliable", 1048576, 1, 0),
		speed("uc-reliable", 1048576, 0, 0), 0.93)
	ratio("bandwidth 1 MiB, 1 % loss, UC-reliable / RC-native", speed("uc-reliable", 1048576, 1, 0),
		speed("rc-native", 1048576, 1, 0), 1)
	ratio("bandwidth 1 MiB, 1 % loss, UC-reliable / perftest RC, writing", speed("uc-reliable", 1048576, 1, 0),
		speed("perftest-rc-write", 1048576, 1, 0), 1)
	for (delay = 0; delay <= 1; delay++) {
		lossless(65536, "64 KiB", 1, delay, 0.95)
		lossless(65536, "64 KiB", 5, delay, 0.85)
		lossless(4096, "4 KiB", 1, delay, 0.95)
		lossless(4096, "4 KiB", 5, delay, 0.85)
		for (i = 1; i in ours; i++) {
			text = "bandwidth 64 KiB, delay " delay " ms, 5 % loss, " name[ours[i]]
			ratio(text " / RC-native", speed(ours[i], 65536, 5, delay), speed("rc-native", 65536, 5, delay), 10)
			ratio(text " / perftest RC", speed(ours[i], 65536, 5, delay), speed("perftest-rc", 65536, 5, delay), 10)
		}
		rate(1, delay, 0.95)
		rate(5, delay, 0.85)
		for (i = 1; i in ours; i++)
			tail(ours[i], delay)
	}
	printf "\n%d rows, %d of them 0 because nothing was measured\n", rows, missing
}
