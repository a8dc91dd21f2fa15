# The rows of `make bench-mpi-counted` as tables, and the ratios that it is run for. Needs rows.awk.

BEGIN { networks = split("uc-reliable ud-reliable auto ofi-rxd ucx-ud ofi-tcp openmpi-tcp", network, " ") }

# table(FIRST, HEADINGS, COLUMNS, WIRE): a line for each network of which there is something.
function table(first, headings, columns, wire,    i, j, n, names, line, any, cell) {
	heading(first, headings)
	n = split(columns, names, ",")
	for (i = 1; i <= networks; i++) {
		line = sprintf("%-18s", network[i])
		any = 0
		for (j = 1; j <= n; j++) {
			cell = "-"
			if (key(network[i] "/" names[j], wire) in value) {
				cell = sprintf("%.2f", value[key(network[i] "/" names[j], wire)])
				any = 1
			}
			line = line sprintf(" %9s", cell)
		}
		if (any)
			print line
	}
	print ""
}

# least(OURS, OTHER, COLUMNS, TEXT, WIRE, GOAL): how far ahead we are where we are that least; of times less is more.
function least(ours, other, columns, text, wire, goal,    j, n, names, a, b, lead, min, all) {
	n = split(columns, names, ",")
	all = 1
	for (j = 1; j <= n; j++) {
		a = value[key(ours "/" names[j], wire)]
		b = value[key(other "/" names[j], wire)]
		if (!(a > 0 && b > 0)) {
			all = 0
			continue
		}
		lead = names[j] ~ /_us\// ? b / a : a / b
		if (min == "" || lead < min)
			min = lead
	}
	if ((ours in seen) && (other in seen))
		verdict(ours " ahead of " other ", " text ", the least", min, goal, all)
}

# of(METRIC, FIRST, LAST): its columns, from the first to the last of the sizes.
function of(metric, first, last,    i, n, bytes, columns) {
	n = split(metric ~ /^(put|get)/ ? "8 4096 65536" : "8 1024 4096 8192 65536 1048576", bytes, " ")
	for (i = 1; i <= n; i++)
		if (bytes[i] >= first && bytes[i] <= last)
			columns = columns (columns == "" ? "" : ",") metric "/" bytes[i]
	return columns
}

# tables(LOSSY, WIRE): those of a wire.
function tables(lossy, wire) {
	table("latency, us" lossy, sizes, of("latency_us", 8, 1048576), wire)
	table("messages, k/s" lossy, sizes, of("msg_rate_kps", 8, 1048576), wire)
	table("MB/s" lossy, sizes, of("bandwidth_mbps", 8, 1048576), wire)
	table("one-sided, us" lossy, "put 8 B,4 KiB,64 KiB,get 8 B,4 KiB,64 KiB,acc. 8 B,fetch 8 B",
		of("put_us", 8, 65536) "," of("get_us", 8, 65536) ",accumulate_us/8,fetch_and_op_us/8", wire)
}

END {
	sizes = "8 B,1 KiB,4 KiB,8 KiB,64 KiB,1 MiB"
	tables("", "0/0")
	tables(", 1 %", "1/0")
	table("without MPI, us", sizes, of("perf_latency_us", 8, 1048576), "0/0")
	for (i = 1; i <= 3; i++) {
		ours = network[i]
		for (j = 4; j <= 5; j++) {
			least(ours, network[j], of("latency_us", 8, 8192), "latency up to 8 KiB", "0/0", 1)
			least(ours, network[j], of("latency_us", 65536, 1048576), "latency from 64 KiB on", "0/0", 1)
			least(ours, network[j], of("bandwidth_mbps", 8, 1048576), "bandwidth", "0/0", 1)
			least(ours, network[j], of("put_us", 8, 65536) "," of("get_us", 8, 65536), "put and get", "0/0", 1)
			least(ours, network[j], "accumulate_us/8,fetch_and_op_us/8", "accumulate and fetch", "0/0", 1)
			least(ours, network[j], of("latency_us", 8, 1048576), "latency, 1 % loss", "1/0", 5)
			least(ours, network[j], of("bandwidth_mbps", 8, 1048576), "bandwidth, 1 % loss", "1/0", 5)
			least(ours, network[j], of("put_us", 8, 65536) "," of("get_us", 8, 65536), "put and get, 1 % loss", "1/0", 5)
			least(ours, network[j], "accumulate_us/8,fetch_and_op_us/8", "accumulate and fetch, 1 % loss", "1/0", 5)
		}
		least(ours, "ofi-tcp", of("latency_us", 8, 65536), "latency up to 64 KiB", "0/0", 1)
		# There is no row of auto without MPI.
		if (ours == "auto")
			continue
		n = split(of("latency_us", 8, 1048576), names, ",")
		for (j = 1; j <= n; j++)
			ratio("MPI / ibrelk-perf, " ours ", " substr(names[j], 12) " bytes", ours "/" names[j],
				ours "/perf_" names[j], -1.15)
	}
}
