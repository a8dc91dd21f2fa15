# The rows of `make bench` over a wire that does nothing as tables, and the ratios that it is run for. Needs rows.awk.

BEGIN {
	split("perftest-rc perftest-uc perftest-ud perftest-rc-list16 perftest-uc-list16 perftest-ud-list16 " \
		"rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable " \
		"rc-reliable-noagg uc-reliable-noagg ud-reliable-noagg perftest-rc-write " \
		"uc-reliable-copied uc-reliable-written uc-reliable-unkept region region-unkept " \
		"uc-reliable-eager uc-reliable-rts ud-reliable-eager ud-reliable-rts",
		modes, " ")
}

# Whether a row was measured. Nothing but ACKs can be 0 and yet be measured; and they only with a speed.
function measured(mode, name,    speed) {
	speed = mode "/" name
	if (!sub(/acks_per_msg\/8$/, "msg_rate_kps/8", speed))
		sub(/acks_per_msg/, "bandwidth_mbps", speed)
	return speed in value && value[speed] > 0
}

# One table: two lines of headings, and a column for each METRIC/SIZE. Modes that were to have none of them are not in it.
function table(above, below, columns, format,    i, j, n, names, cell, line, any) {
	heading("", above)
	heading("mode", below)
	n = split(columns, names, ",")
	for (i = 1; i in modes; i++) {
		line = sprintf("%-18s", modes[i])
		any = 0
		for (j = 1; j <= n; j++) {
			cell = "-"
			if (measured(modes[i], names[j]))
				cell = sprintf(names[j] ~ /^acks/ ? "%.2f" : format, value[modes[i] "/" names[j]])
			line = line sprintf(" %9s", cell)
			any += (modes[i] "/" names[j]) in value
		}
		if (any)
			print line
	}
	print ""
}

# long_table(TITLE, METRIC): in MB/s, of long messages.
function long_table(title, metric,    j, above, columns) {
	for (j = 1; j <= 5; j++)
		above = above (j > 1 ? "," : "") title
	columns = "8192,65536,262144,1048576,4194304"
	gsub(/[0-9]+/, metric "/&", columns)
	table(above, "8K MB/s,64K MB/s,256K MB/s,1M MB/s,4M MB/s", columns, "%.2f")
}

# Overlap: a line for each mode, size and side.
function overlap_table(    i, j, k, l, all, sizes, sides, names, mode, start, n, there, header) {
	n = split("uc-reliable ud-reliable ofi-rxd ofi-tcp", all, " ")
	split("4096 65536 1048576", sizes, " ")
	split("send recv", sides, " ")
	split("transfer_us compute_us total_us pct first_pct stolen_us", names, " ")
	for (i = 1; i <= n; i++) {
		mode = all[i]
		for (j = 1; j <= 3 && mode in seen; j++)
			for (k = 1; k <= 2; k++) {
				start = mode "/overlap_" sides[k] "_"
				if (!((start "transfer_us/" sizes[j]) in value))
					continue
				if (!header++)
					printf "%-18s %9s %5s %9s %9s %9s %9s %9s %9s\n", "overlap", "bytes", "side",
						"transfer", "compute", "total us", "overlap %", "first %", "stolen us"
				printf "%-18s %9d %5s", mode, sizes[j], sides[k]
				there = value[start "transfer_us/" sizes[j]] > 0
				for (l = 1; l <= 6; l++)
					printf " %9s", there ? sprintf("%.1f", value[start names[l] "/" sizes[j]]) : "-"
				print ""
			}
	}
	if (header)
		print ""
}

# first(TEXT, MODE, GOAL): the least share of operations, of any size and side, that the first poll found complete.
function first(text, mode, goal,    name, least, complete) {
	least = 101
	complete = 1
	for (name in value) {
		if (index(name, mode "/overlap_") != 1 || name !~ /first_pct/)
			continue
		if (value[name] < least)
			least = value[name]
		sub(/first_pct/, "transfer_us", name)
		complete = complete && value[name] > 0
	}
	if (least <= 100)
		verdict(text, least, goal, complete)
}

# compare(TEXT, MODE A, MODE B, METRIC/SIZE, GOAL)
function compare(text, a, b, metric, goal) { ratio(text, a "/" metric, b "/" metric, goal) }

# acks(TEXT, MODE, METRIC, SPEED, GOAL): 0 if there were none, which is only known if there was a speed.
function acks(text, mode, metric, speed, goal) {
	if ((mode "/" metric) in value)
		verdict(text, value[mode "/" metric], goal, value[mode "/" speed] > 0)
}

END {
	table("latency,latency,latency,lat. p99,rate,bandwidth,bandwidth,both ways,both ways",
		"8 B us,1 KiB us,4 KiB us,8 B us,8 B k/s,4K MB/s,64K MB/s,4K MB/s,64K MB/s",
		"latency_us/8,latency_us/1024,latency_us/4096,latency_p99_us/8,msg_rate_kps/8,bandwidth_mbps/4096," \
		"bandwidth_mbps/65536,bibandwidth_mbps/4096,bibandwidth_mbps/65536", "%.2f")
	table("insns/msg,insns/msg,insns/msg,ACKs/msg,ACKs/msg,ACKs/msg", "8 B,4 KiB,64 KiB,8 B,4 KiB,64 KiB",
		"insns_per_msg/8,insns_per_msg/4096,insns_per_msg/65536,acks_per_msg/8,acks_per_msg/4096,acks_per_msg/65536",
		"%.0f")
	long_table("bandwidth", "bandwidth_mbps")
	long_table("both ways", "bibandwidth_mbps")
	table("insns/byte,insns/byte,insns/byte", "64 KiB,1 MiB,4 MiB",
		"insns_per_byte/65536,insns_per_byte/1048576,insns_per_byte/4194304", "%.3f")
	table("pinning,pinning,pinning,pinning", "4 KiB ns,64 KiB ns,1 MiB ns,4 MiB ns",
		"region_ns/4096,region_ns/65536,region_ns/1048576,region_ns/4194304", "%.0f")
	table("latency,latency,latency,latency,latency,latency,latency,latency",
		"2 KiB us,4 KiB us,8 KiB us,8193 us,16 KiB us,32 KiB us,64 KiB us,1 MiB us", "latency_us/2048,latency_us/4096," \
		"latency_us/8192,latency_us/8193,latency_us/16384,latency_us/32768,latency_us/65536,latency_us/1048576", "%.2f")
	overlap_table()
	compare("message rate, UC-native / perftest UC", "uc-native", "perftest-uc", "msg_rate_kps/8", 1)
	compare("message rate, UC-native / perftest UC with lists of 16", "uc-native", "perftest-uc-list16", "msg_rate_kps/8", 1)
	compare("bandwidth 4 KiB, UC-native / perftest UC", "uc-native", "perftest-uc", "bandwidth_mbps/4096", 0.95)
	compare("bandwidth 4 KiB, UC-native / perftest UC with lists of 16", "uc-native", "perftest-uc-list16", "bandwidth_mbps/4096", 0.95)
	compare("bandwidth 64 KiB, UC-native / perftest UC", "uc-native", "perftest-uc", "bandwidth_mbps/65536", 0.95)
	compare("bandwidth 64 KiB, UC-native / perftest UC with lists of 16", "uc-native", "perftest-uc-list16", "bandwidth_mbps/65536", 0.95)
	compare("bandwidth 64 KiB, UC-reliable / UC-native", "uc-reliable", "uc-native", "bandwidth_mbps/65536", 0.98)
	compare("bandwidth 4 KiB, UC-reliable / UC-native", "uc-reliable", "uc-native", "bandwidth_mbps/4096", 0.98)
	compare("message rate, UC-reliable / UC-native", "uc-reliable", "uc-native", "msg_rate_kps/8", 0.95)
	compare("message rate, UC-reliable without aggregation / UC-native", "uc-reliable-noagg", "uc-native", "msg_rate_kps/8", 0.95)
	compare("latency 8 B, UC-reliable / UC-native", "uc-reliable", "uc-native", "latency_us/8", -1.05)
	compare("message rate, UC-reliable without aggregation / RC-native", "uc-reliable-noagg", "rc-native", "msg_rate_kps/8", 1.10)
	compare("message rate, UC-reliable / RC-native", "uc-reliable", "rc-native", "msg_rate_kps/8", 3)
	compare("message rate, UC-reliable / perftest RC", "uc-reliable", "perftest-rc", "msg_rate_kps/8", 3)
	compare("latency 8 B, UC-reliable / without aggregation", "uc-reliable", "uc-reliable-noagg", "latency_us/8", -1.01)
	compare("latency 8 B, UC-reliable / perftest RC", "uc-reliable", "perftest-rc", "latency_us/8", -0.80)
	compare("bandwidth 1 MiB, UC-reliable / UC-native", "uc-reliable", "uc-native", "bandwidth_mbps/1048576", 0.95)
	compare("bandwidth 1 MiB, UC-reliable / perftest RC, writing", "uc-reliable", "perftest-rc-write", "bandwidth_mbps/1048576", 0.95)
	compare("instructions of 1 MiB, UC-reliable / all copied", "uc-reliable", "uc-reliable-copied", "insns_per_msg/1048576", -0.769)
	compare("instructions of pinning 1 MiB, from the cache / anew", "region", "region-unkept", "region_ns/1048576", -1)
	compare("message rate, UC-reliable / nothing stays pinned", "uc-reliable", "uc-reliable-unkept", "msg_rate_kps/8", 1)
	compare("latency 1 MiB, UC-reliable / nothing stays pinned", "uc-reliable", "uc-reliable-unkept", "latency_us/1048576", -1)
	ratio("an exact receive and its message, behind 10,000 / alone", "match/match_recv_exact_ns/10000", "match/match_recv_exact_ns/0", -1.5)
	ratio("the same, if the 10,000 have one tag", "match/match_recv_exact_equal_ns/10000", "match/match_recv_exact_ns/0", -1.5)
	ratio("the oldest of 10,000 receives / one alone", "match/match_recv_exact_head_ns/10000", "match/match_recv_exact_ns/0", -1.5)
	ratio("the oldest of 10,000 unexpected messages / one alone", "match/match_message_exact_head_ns/10000", "match/match_message_exact_ns/0", -1.5)
	ratio("an unexpected message and its receive, behind 10,000 / alone", "match/match_message_exact_ns/10000", "match/match_message_exact_ns/0", -1.5)
	ratio("the same, if the 10,000 have one tag", "match/match_message_exact_equal_ns/10000", "match/match_message_exact_ns/0", -1.5)
	first("% complete at the first poll after twice its time, UC-reliable", "uc-reliable", 95)
	first("% complete at the first poll after twice its time, UD-reliable", "ud-reliable", 95)
	acks("ACKs per packet, 64 KiB one way, UC-reliable", "uc-reliable", "acks_per_frame/65536", "bandwidth_mbps/65536", -0.0625)
	acks("ACKs per packet, 64 KiB one way, UD-reliable", "ud-reliable", "acks_per_frame/65536", "bandwidth_mbps/65536", -0.0625)
	acks("ACKs per packet, 64 KiB both ways, UC-reliable", "uc-reliable", "bibandwidth_acks_per_frame/65536", "bibandwidth_mbps/65536", -0.0156)
	acks("ACKs per packet, 64 KiB both ways, UD-reliable", "ud-reliable", "bibandwidth_acks_per_frame/65536", "bibandwidth_mbps/65536", -0.0156)
}
