#!/usr/bin/awk -f
# The rows of `make bench` as tables, and the ratios that it is run for.

BEGIN {
	FS = ","
	split("perftest-rc perftest-uc perftest-ud perftest-rc-list16 perftest-uc-list16 perftest-ud-list16 " \
		"rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable " \
		"rc-reliable-noagg uc-reliable-noagg ud-reliable-noagg", modes, " ")
}

FNR > 1 { value[$1 "/" $2 "/" $3] = $6; seen[$1] = 1 }

function heading(first, texts,    j, n, cells) {
	printf "%-18s", first
	n = split(texts, cells, ",")
	for (j = 1; j <= n; j++)
		printf " %9s", cells[j]
	print ""
}

# Whether a row was measured. Nothing but ACKs can be 0 and yet be measured; and they only with a speed.
function measured(mode, name,    speed) {
	speed = mode "/" name
	if (!sub(/acks_per_msg\/8$/, "msg_rate_kps/8", speed))
		sub(/acks_per_msg/, "bandwidth_mbps", speed)
	return speed in value && value[speed] > 0
}

# One table: two lines of headings, and a column for each METRIC/SIZE.
function table(above, below, columns, format,    i, j, n, names, cell) {
	heading("", above)
	heading("mode", below)
	n = split(columns, names, ",")
	for (i = 1; i in modes; i++) {
		if (!(modes[i] in seen))
			continue
		printf "%-18s", modes[i]
		for (j = 1; j <= n; j++) {
			cell = "-"
			if (measured(modes[i], names[j]))
				cell = sprintf(names[j] ~ /^acks/ ? "%.2f" : format, value[modes[i] "/" names[j]])
			printf " %9s", cell
		}
		print ""
	}
	print ""
}

# ratio(TEXT, MODE A, MODE B, METRIC/SIZE, GOAL): the goal is the least that A / B should be, or the most if it is
# negative.
function ratio(text, a, b, metric, goal,    over, under, quotient, good) {
	if (!((a "/" metric) in value) || !((b "/" metric) in value))
		return
	over = value[a "/" metric]
	under = value[b "/" metric]
	text = sprintf("%s (goal %s%.2f)", text, goal < 0 ? "at most " : "", goal < 0 ? -goal : goal)
	if (!(over > 0 && under > 0)) {
		printf "%-74s %6s  missed: not measured\n", text, "-"
		return
	}
	quotient = over / under
	good = goal < 0 ? quotient <= -goal : quotient >= goal
	printf "%-74s %6.3f  %s\n", text, quotient, good ? "reached" : "missed"
}

END {
	table("latency,latency,latency,lat. p99,rate,bandwidth,bandwidth,both ways,both ways",
		"8 B us,1 KiB us,4 KiB us,8 B us,8 B k/s,4K MB/s,64K MB/s,4K MB/s,64K MB/s",
		"latency_us/8,latency_us/1024,latency_us/4096,latency_p99_us/8,msg_rate_kps/8,bandwidth_mbps/4096," \
		"bandwidth_mbps/65536,bibandwidth_mbps/4096,bibandwidth_mbps/65536", "%.2f")
	table("insns/msg,insns/msg,insns/msg,ACKs/msg,ACKs/msg,ACKs/msg", "8 B,4 KiB,64 KiB,8 B,4 KiB,64 KiB",
		"insns_per_msg/8,insns_per_msg/4096,insns_per_msg/65536,acks_per_msg/8,acks_per_msg/4096,acks_per_msg/65536",
		"%.0f")
	ratio("message rate, UC-native / perftest UC", "uc-native", "perftest-uc", "msg_rate_kps/8", 1)
	ratio("message rate, UC-native / perftest UC with lists of 16", "uc-native", "perftest-uc-list16", "msg_rate_kps/8", 1)
	ratio("bandwidth 4 KiB, UC-native / perftest UC", "uc-native", "perftest-uc", "bandwidth_mbps/4096", 0.95)
	ratio("bandwidth 4 KiB, UC-native / perftest UC with lists of 16", "uc-native", "perftest-uc-list16", "bandwidth_mbps/4096", 0.95)
	ratio("bandwidth 64 KiB, UC-native / perftest UC", "uc-native", "perftest-uc", "bandwidth_mbps/65536", 0.95)
	ratio("bandwidth 64 KiB, UC-native / perftest UC with lists of 16", "uc-native", "perftest-uc-list16", "bandwidth_mbps/65536", 0.95)
	ratio("bandwidth 64 KiB, UC-reliable / UC-native", "uc-reliable", "uc-native", "bandwidth_mbps/65536", 0.97)
	ratio("message rate, UC-reliable without aggregation / UC-native", "uc-reliable-noagg", "uc-native", "msg_rate_kps/8", 0.93)
	ratio("latency 8 B, UC-reliable / UC-native", "uc-reliable", "uc-native", "latency_us/8", -1.05)
	ratio("message rate, UC-reliable without aggregation / RC-native", "uc-reliable-noagg", "rc-native", "msg_rate_kps/8", 1.10)
	ratio("message rate, UC-reliable / RC-native", "uc-reliable", "rc-native", "msg_rate_kps/8", 3)
	ratio("message rate, UC-reliable / perftest RC", "uc-reliable", "perftest-rc", "msg_rate_kps/8", 3)
	ratio("latency 8 B, UC-reliable / without aggregation", "uc-reliable", "uc-reliable-noagg", "latency_us/8", -1.01)
	ratio("latency 8 B, UC-reliable / perftest RC", "uc-reliable", "perftest-rc", "latency_us/8", -0.80)
}
