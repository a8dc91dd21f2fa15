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

# both(LATENCIES, RATES, WIRE): the two tables of a wire.
function both(first, second, wire) {
	table(first, "8 B,1 KiB,4 KiB,8 KiB,64 KiB,1 MiB", latencies ",latency_us/1048576", wire)
	table(second, "8 B k/s,4K MB/s,8K MB/s,64K MB/s,1M MB/s", rates, wire)
}

END {
	short = "latency_us/8,latency_us/1024,latency_us/4096,latency_us/8192"
	latencies = short ",latency_us/65536"
	rates = "msg_rate_kps/8,bandwidth_mbps/4096,bandwidth_mbps/8192,bandwidth_mbps/65536,bandwidth_mbps/1048576"
	both("latency, us", "", "0/0")
	both("with 1 % loss, us", "with 1 % loss", "1/0")
	table("without MPI, us", "8 B,1 KiB,4 KiB,8 KiB,64 KiB,1 MiB",
		"perf_latency_us/8,perf_latency_us/1024,perf_latency_us/4096,perf_latency_us/8192," \
		"perf_latency_us/65536,perf_latency_us/1048576", "0/0")
	for (i = 1; i <= 2; i++) {
		ours = network[i]
		for (j = 4; j <= 5; j++) {
			least(ours, network[j], short, "latency up to 8 KiB", "0/0", 1)
			least(ours, network[j], "latency_us/65536,latency_us/1048576", "latency from 64 KiB on", "0/0", 1)
			least(ours, network[j], rates, "rate and bandwidth", "0/0", 1)
			least(ours, network[j], latencies ",latency_us/1048576", "latency, 1 % loss", "1/0", 5)
			least(ours, network[j], rates, "rate and bandwidth, 1 % loss", "1/0", 5)
		}
		least(ours, "ofi-tcp", latencies, "latency up to 64 KiB", "0/0", 1)
		n = split(latencies ",latency_us/1048576", names, ",")
		for (j = 1; j <= n; j++)
			ratio("MPI / ibrelk-perf, " ours ", " substr(names[j], 12) " bytes", ours "/" names[j],
				ours "/perf_" names[j], -1.15)
	}
}
