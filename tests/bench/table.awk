#!/usr/bin/awk -f
# The benchmark's rows as a table, and the ratios that it is run for.

BEGIN {
	FS = ","
	split("perftest-rc perftest-uc perftest-ud rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable", modes, " ")
	split("latency_us/8 latency_us/1024 latency_us/4096 msg_rate_kps/8 bandwidth_mbps/4096 bandwidth_mbps/65536 acks_per_msg/65536", columns, " ")
}

FNR > 1 { value[$1 "/" $2 "/" $3] = $6 }

function ratio(text, a, b) {
	if (value[b] > 0)
		printf "%-62s %6.2f\n", text, value[a] / value[b]
}

END {
	printf "%-12s %9s %9s %9s %9s %9s %9s %9s\n", "", "latency", "latency", "latency", "rate", "bandwidth", "bandwidth", "ACKs/msg"
	printf "%-12s %9s %9s %9s %9s %9s %9s %9s\n", "mode", "8 B, us", "1 KiB, us", "4 KiB, us", "8 B, k/s", "4K, MB/s", "64K, MB/s", "64 KiB"
	for (i = 1; i in modes; i++) {
		printf "%-12s", modes[i]
		for (j = 1; j in columns; j++) {
			key = modes[i] "/" columns[j]
			printf " %9s", key in value ? sprintf("%.2f", value[key]) : "-"
		}
		print ""
	}
	print ""
	ratio("message rate, UC-native / perftest UC (goal 1.00)", "uc-native/msg_rate_kps/8", "perftest-uc/msg_rate_kps/8")
	ratio("bandwidth 4 KiB, UC-native / perftest UC (goal 0.95)", "uc-native/bandwidth_mbps/4096", "perftest-uc/bandwidth_mbps/4096")
	ratio("bandwidth 64 KiB, UC-native / perftest UC (goal 0.95)", "uc-native/bandwidth_mbps/65536", "perftest-uc/bandwidth_mbps/65536")
	ratio("bandwidth 64 KiB, UC-reliable / UC-native (goal 0.97)", "uc-reliable/bandwidth_mbps/65536", "uc-native/bandwidth_mbps/65536")
	ratio("message rate, UC-reliable / UC-native (goal 0.93)", "uc-reliable/msg_rate_kps/8", "uc-native/msg_rate_kps/8")
	ratio("latency 8 B, UC-reliable / UC-native (goal at most 1.05)", "uc-reliable/latency_us/8", "uc-native/latency_us/8")
	ratio("message rate, UC-reliable / RC-native (goal 1.10)", "uc-reliable/msg_rate_kps/8", "rc-native/msg_rate_kps/8")
	ratio("latency 8 B, UC-reliable / perftest RC (goal at most 0.80)", "uc-reliable/latency_us/8", "perftest-rc/latency_us/8")
}
