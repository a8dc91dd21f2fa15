#!/usr/bin/awk -f
# The rows of `make bench-full`, as far as a table can show them: what loss and delay do. The rest is in the plots.

BEGIN {
	FS = ","
	split("perftest-rc rc-native rc-reliable uc-reliable ud-reliable", modes, " ")
	split("0/0 0.1/0 1/0 5/0 0/1 1/1 0/10", wires, " ")
}

FNR > 1 {
	rows++
	failed += $2 !~ /acks_per_msg|lost_msgs/ && $6 == 0
	value[$1 "/" $2 "/" $3 "/" $4 "/" $5] = $6
}

function table(title, metric,    i, j, key) {
	print title
	printf "%-15s", "loss %/delay ms"
	for (j = 1; j in wires; j++)
		printf " %9s", wires[j]
	print ""
	for (i = 1; i in modes; i++) {
		printf "%-15s", modes[i]
		for (j = 1; j in wires; j++) {
			key = modes[i] "/" metric "/" wires[j]
			printf " %9s", (value[key] > 0 ? sprintf("%.2f", value[key]) : "-")
		}
		print ""
	}
	print ""
}

END {
	table("one-way latency of 8 B, us", "latency_us/8")
	table("message rate of 8 B, k/s", "msg_rate_kps/8")
	table("bandwidth of 64 KiB, MB/s", "bandwidth_mbps/65536")
	printf "%d rows, %d of them 0 because nothing was measured\n", rows, failed
}
