#!/bin/sh
# The benchmark itself, run in the guest of `ibrelk-lab bench`: the modes of ibrelk, and as yardsticks perftest and
# libfabric over the same two devices and TCP over the same veth pair, all in one boot. Prints its results as they come, as lines "row: " and a row of the CSV
# file; a run that does not finish has value 0 in every row that it should have written.
#
# usage: guest.sh [--rows] [--full] [--lossy] [MODE ...]
#   MODE      a mode of ibrelk, the same with -noagg (messages do not share packets), -copied (none is written
#             by RDMA), -written (from 8 KiB on all are), -unkept (no memory stays pinned), -eager or -rts (no message up
#             to 32 KiB goes by rendezvous, or all do), perftest-{rc,uc,ud}, perftest-{rc,uc,ud}-list16,
#             perftest-rc-write, tcp, of libfabric ofi-rxd (over UD) and ofi-tcp, or without any message match, which is
#             matching, and region and region-unkept, which pin memory; all of them if none is given. And profile
#             (see profile.sh), and overlap, which is that of all modes that people use (see overlap.sh)
#   --full    the long sweeps: sizes, windows, more loss and delay
#   --lossy   only over wires that lose or delay
#   --rows    measure nothing, anywhere: all the rows there will be, as if no run had finished
set -u

measuring=1 full= lossless=1
while [ $# -gt 0 ]; do
	case $1 in
	--rows) measuring= ;;
	--full) full=1 ;;
	--lossy) lossless= ;;
	*) break ;;
	esac
	shift
done
[ $# -gt 0 ] || set -- rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable \
	rc-reliable-noagg uc-reliable-noagg ud-reliable-noagg uc-reliable-copied uc-reliable-written uc-reliable-unkept \
	uc-reliable-eager uc-reliable-rts ud-reliable-eager ud-reliable-rts perftest-rc-write \
	perftest-rc perftest-uc perftest-ud perftest-rc-list16 perftest-uc-list16 perftest-ud-list16 match region region-unkept ofi-rxd tcp ofi-tcp

overlap_sizes=4096,65536,1048576
region_sizes=4096,65536,1048576,4194304
loss=0 delay=0	# what the wire does now
suffix=		# of metrics: what is special about a run
far=		# what runs a command where v1 is
found=/dev/null	# rows of the last run
[ -z "$measuring" ] || found=/tmp/found

# row MODE METRIC SIZE UNIT: what the last run has found; 0 if it did not get that far.
row()
{
	value=$(awk -F, -v metric="$2" -v size="$3" '$2 == metric && $3 == size { value = $6 }
		END { print value == "" ? 0 : value }' $found)
	echo "row: $1,$2$suffix,$3,$loss,$delay,$value,$4"
}

# find METRIC SIZE VALUE: the last run has found it.
find() { echo ",$1,$2,,,$3," >>$found; }

forget() { [ -z "$measuring" ] || : >$found; }

# Instructions that were executed since boot, by both ends and everything else: in counted time one is one nanosecond,
# and none are executed while the processor is idle, of which the kernel keeps account to the nanosecond.
insns()
{
	awk '/^now at/ { now = $3 }
		/^ *\.(idle|iowait)_sleeptime/ { sub(/.*: */, ""); idle += $1 }
		END { printf "%.0f\n", now - idle }' /proc/timer_list
}

# wire LOSS DELAY [netem]: from here on, each direction loses so many percent of its packets, and delays them by so many
# ms. A wire that does neither has no netem, which costs some instructions per packet, unless it is asked for.
wire()
{
	loss=$1 delay=$2
	[ -n "$measuring" ] || return
	if [ "$loss $delay ${3:-}" = '0 0 ' ]; then
		tc qdisc del dev v0 root 2>/dev/null
		$far tc qdisc del dev v1 root 2>/dev/null
		return
	fi
	set -- root netem limit 100000 loss "$loss%" delay "${delay}ms"
	tc qdisc replace dev v0 "$@" && $far tc qdisc replace dev v1 "$@" ||
		echo "FAILED: netem loss $loss delay $delay"
}

# mark: has the profile written down, if there is one to be made.
mark() { [ ! -x /files/mark ] || /files/mark; }

# per_message MANY FEW COMMAND: runs the command with MANY, then with FEW messages. What the one executes beyond the
# other, divided by the messages that it has more, is the price of a message without any of starting and connecting.
# Sets $price; 0 if one of them fails. What they find is that of the first.
per_message()
{
	many=$1 few=$2
	shift 2
	price=0
	mark
	start=$(insns)
	"$@" -n "$many" || return
	spent_many=$(($(insns) - start))
	mark
	[ -z "$measuring" ] || mv $found $found.many
	start=$(insns)
	if "$@" -n "$few"; then
		spent_few=$(($(insns) - start))
		price=$(((spent_many - spent_few) / (many - few)))
		mark
	fi
	mv $found.many $found
}

# find_price SIZE PRICE: of a message, and of each byte of it, if there is one (else it is 0).
find_price()
{
	find insns_per_msg "$1" "$2"
	[ "$2" -ne 0 ] || return 0
	find insns_per_byte "$1" "$(awk "BEGIN { printf \"%.4f\", $2 / $1 }")"
}

# price_rows MODE SIZE: of short messages it is not the bytes that cost.
price_rows()
{
	row "$1" insns_per_msg "$2" 1
	[ "$2" -lt 65536 ] || row "$1" insns_per_byte "$2" 1
}

# perf ARGUMENTS
perf()
{
	forget
	timeout -s KILL 300 ibrelk-perf "$@" --self 10.9.0.1 10.9.0.2 --events --csv $found --timeout 20 --quiet --counters &&
		return
	echo "FAILED (loss $loss %, delay $delay ms): ibrelk-perf $*"
	return 1
}

# ours TEST MODE SIZES COUNT WARMUP WINDOW [FEW]: also counts instructions if FEW, another number of messages, is given.
ours()
{
	test=$1 mode=$2 sizes=$3 count=$4 few=${7:-}
	kind=$(echo "$mode" | cut -d- -f1,2)
	if [ -n "$measuring" ]; then
		if [ -n "$few" ]; then
			per_message "$count" "$few" \
				perf "$test" --mode "$kind" --size "$sizes" --warmup "$5" --window "$6" --batch 16
			find_price "$sizes" "$price"
		else
			perf "$test" --mode "$kind" --size "$sizes" --warmup "$5" --window "$6" --batch 16 -n "$count"
		fi
	fi
	for size in $(echo "$sizes" | tr , ' '); do
		lost=lost_msgs
		case $test in
		latency)
			for statistic in '' min_ p50_ p99_ p999_; do
				row "$mode" latency_${statistic}us "$size" us
			done
			lost=latency_lost_msgs
			;;
		rate)
			row "$mode" msg_rate_kps "$size" k/s
			row "$mode" acks_per_msg "$size" 1
			;;
		bandwidth)
			row "$mode" bandwidth_mbps "$size" MB/s
			row "$mode" acks_per_msg "$size" 1
			row "$mode" acks_per_frame "$size" 1
			;;
		bibandwidth)
			row "$mode" bibandwidth_mbps "$size" MB/s
			row "$mode" bibandwidth_acks_per_msg "$size" 1
			row "$mode" bibandwidth_acks_per_frame "$size" 1
			lost=bibandwidth_lost_msgs
			;;
		overlap)
			overlap_rows "$mode" "$size"
			lost=overlap_lost_msgs
			;;
		esac
		[ -z "$few" ] || price_rows "$mode" "$size"
		case $mode in *-native) row "$mode" $lost "$size" 1 ;; esac
	done
}

# overlap_rows MODE SIZE: what is known about overlap, on either side.
overlap_rows()
{
	for side in send recv; do
		for unit in us %; do
			names='transfer_us compute_us total_us stolen_us'
			[ $unit = us ] || names='pct first_pct'
			for name in $names; do row "$1" "overlap_${side}_$name" "$2" "$unit"; done
		done
	done
}

# perftest TOOL ARGUMENTS: both ends; leaves the client's output in /tmp/out, and how many packets the server has sent
# in $answers. Fails if the client says no figures.
perftest()
{
	tool=$1
	shift
	forget
	answers=$(cat /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts)
	timeout 60 "$tool" -d rxe1 -F "$@" >/tmp/server.out 2>&1 &
	server=$!
	# The server listens on TCP port 18515 (4853 in hexadecimal) when it is ready.
	tries=0
	until grep -q ':4853 .* 0A ' /proc/net/tcp || [ $tries -ge 200 ] || ! kill -0 $server 2>/dev/null; do
		tries=$((tries + 1))
		usleep 10000
	done
	timeout 60 "$tool" -d rxe0 -F "$@" 10.9.0.2 >/tmp/out 2>&1
	wait $server
	answers=$(($(cat /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts) - answers))
	# A client that was ended has not said its last line.
	grep -Eq '^ *[0-9]+ +[0-9]+ +[0-9.]+ ' /tmp/out && return
	echo "FAILED (loss $loss %, delay $delay ms): $tool $*"
	tail -n 2 /tmp/out
	return 1
}

# perftest_stream ARGUMENTS: the same of ib_send_bw (or $stream), and what it finds.
perftest_stream()
{
	perftest "${stream:-ib_send_bw}" "$@" || return
	awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ / {
		printf ",bandwidth_mbps,%d,,,%.6g,\n", $1, $4 * 1.048576
		printf ",bibandwidth_mbps,%d,,,%.6g,\n", $1, $4 * 1.048576
		printf ",msg_rate_kps,%d,,,%.6g,\n", $1, $5 * 1000
		printf ",acks_per_msg,%d,,,%.6g,\n", $1, '$answers' / $2
	}' /tmp/out >$found
}

# theirs TEST MODE SIZE COUNT [FEW]
theirs()
{
	test=$1 mode=$2 size=$3 count=$4 few=${5:-}
	type=$(echo "$mode" | cut -d- -f2 | tr '[:lower:]' '[:upper:]')
	stream=ib_send_bw
	set -- -c "$type" -e -m 4096 -s "$size"
	# Writing has no events.
	case $mode in *-write) stream=ib_write_bw && set -- -c "$type" -m 4096 -s "$size" ;; esac
	case $mode in *-list16) set -- "$@" -l 16 --recv_post_list 16 ;; esac
	forget
	# A datagram fits a packet; perftest splits nothing.
	if [ -n "$measuring" ] && ! { [ "$type" = UD ] && [ "$size" -gt 4096 ]; }; then
		case $test in
		latency)
			perftest ib_send_lat "$@" -n "$count" &&
				awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ / { split("min - p50 - - p99 p999", names, " ")
					printf ",latency_us,%d,,,%.6g,\n", $1, $6
					for (i = 1; i <= 7; i++)
						printf ",latency_%s_us,%d,,,%.6g,\n", names[i], $1, $(i + 2)
				}' /tmp/out >$found
			;;
		bibandwidth) perftest_stream "$@" -b -n "$count" ;;
		*)
			if [ -n "$few" ]; then
				per_message "$count" "$few" perftest_stream "$@"
				find_price "$size" "$price"
			else
				perftest_stream "$@" -n "$count"
			fi
			;;
		esac
	fi
	case $test in
	latency)
		for statistic in '' min_ p50_ p99_ p999_; do
			row "$mode" latency_${statistic}us "$size" us
		done
		;;
	rate) row "$mode" msg_rate_kps "$size" k/s ;;
	bandwidth) row "$mode" bandwidth_mbps "$size" MB/s ;;
	bibandwidth) row "$mode" bibandwidth_mbps "$size" MB/s ;;
	esac
	case $test in rate | bandwidth) row "$mode" acks_per_msg "$size" 1 ;; esac
	[ -z "$few" ] || price_rows "$mode" "$size"
}

# apart: TCP takes no way between two addresses of one node but the shortest. So v1 moves to a network namespace of its
# own, after all that needs the devices on it. No connection begins with what another has learned about the wire.
apart()
{
	[ -n "$measuring" ] || return
	wire 0 0
	rmmod ibrelk
	rdma link delete rxe0
	rdma link delete rxe1
	far='ip netns exec far'
	{
		ip netns add far && ip link set v1 netns far && $far ip link set lo up &&
			$far ip addr add 10.9.0.2/24 dev v1 && $far ip link set v1 up &&
			ethtool -K v0 tso off gso off gro off && $far ethtool -K v1 tso off gso off gro off &&
			echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save &&
			$far sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save'
	} || echo "FAILED: v1 in a network namespace of its own"
}

# tcp PORT SERVER ... -- CLIENT ...: a server on the far end that listens on the port (hexadecimal), and its client.
# Leaves the outputs in /tmp/server.out and /tmp/out. Fails if one of them does.
tcp()
{
	listens=":$1 .* 0A "
	shift
	server=
	while [ "$1" != -- ]; do
		server="$server $1"
		shift
	done
	shift
	forget
	# shellcheck disable=SC2086
	$far timeout -s KILL 240 $server >/tmp/server.out 2>&1 &
	server=$!
	tries=0
	until $far grep -q "$listens" /proc/net/tcp || [ $tries -ge 200 ] || ! kill -0 $server 2>/dev/null; do
		tries=$((tries + 1))
		usleep 10000
	done
	timeout -s KILL 200 "$@" >/tmp/out 2>&1
	status=$?
	wait $server && [ $status -eq 0 ] && return
	echo "FAILED (loss $loss %, delay $delay ms): $*"
	tail -n 3 /tmp/out
	return 1
}

# tcp_latency SIZE COUNT WARMUP
tcp_latency()
{
	if [ -n "$measuring" ] &&
		tcp 1D2E tcp_latency serve 10.9.0.2 -- tcp_latency ping 10.9.0.2 "$1" "$2" "$3"; then
		cp /tmp/out $found
	fi
	for statistic in '' min_ p50_ p99_ p999_; do
		row tcp latency_${statistic}us "$1" us
	done
}

# tcp_bandwidth SIZE BYTES: what arrives, by the clock of the server; of short ones, how many in a second, though nothing
# tells one from the next.
tcp_bandwidth()
{
	if [ -n "$measuring" ] &&
		tcp 1451 iperf3 -4 -s -1 -J -B 10.9.0.2 -- iperf3 -4 -c 10.9.0.2 -J -l "$1" -n "$2"; then
		awk -v size="$1" '/"sum_received"/ { there = 1 }
			there && /"bits_per_second"/ {
				sub(/.*: */, "")
				printf ",bandwidth_mbps,%d,,,%.6g,\n", size, $0 / 8e6
				printf ",msg_rate_kps,%d,,,%.6g,\n", size, $0 / 8e3 / size
				exit
			}' /tmp/server.out >$found
	fi
	case $1 in
	8) row tcp msg_rate_kps "$1" k/s ;;
	*) row tcp bandwidth_mbps "$1" MB/s ;;
	esac
}

# overlaps SIZES COUNT MODE ...: overlap by itself.
overlaps()
{
	sizes=$1 trials=$2
	shift 2
	for mode; do ours overlap "$mode" "$sizes" "$trials" 2 64; done
}

# fi_overlaps MODE PROVIDER SIZES COUNT [DOMAIN SERVER_DOMAIN]: overlap over libfabric.
fi_overlaps()
{
	# No domain is no argument.
	# shellcheck disable=SC2086
	if [ -n "$measuring" ] &&
		tcp 1D2D fi_overlap serve "$2" 10.9.0.2 ${6:-} -- fi_overlap run "$2" 10.9.0.1 10.9.0.2 "$3" "$4" ${5:-}; then
		grep ',overlap_' /tmp/out >$found
	fi
	for size in $(echo "$3" | tr , ' '); do overlap_rows "$1" "$size"; done
}

# matching: what it costs while so many receives are posted, or messages wait. In user space, where it is the same code.
matching()
{
	if [ -n "$measuring" ]; then
		bench_match --benchmark_min_time=0.02 --benchmark_format=csv 2>/tmp/out |
			awk -F, '/^"/ {
				split($1, name, /["\/]/)
				size = name[3] ~ /10000/ ? 10000 : 0
				same = name[3] ~ /of_another_tag|equal/ ? "_equal" : ""
				print ",match_" name[2] same "_ns," size ",,," $4 ","
			}' >$found
		[ -s $found ] || { echo "FAILED: bench_match" && cat /tmp/out; }
	fi
	for what in recv_exact message_exact recv_any_source message_any_source; do
		for size in 0 10000; do row match match_${what}_ns $size ns; done
	done
	for what in recv_exact_equal recv_exact_head recv_exact_head_equal recv_behind_wildcards message_exact_equal \
		message_exact_head message_exact_head_equal message_any; do
		row match match_${what}_ns 10000 ns
	done
}

# registering MODE: what it costs to have memory pinned, and let go of, again and again.
registering()
{
	if [ -n "$measuring" ]; then
		forget
		bench_region 10.9.0.1 $region_sizes >$found || echo "FAILED: bench_region"
	fi
	for size in $(echo $region_sizes | tr , ' '); do row "$1" region_ns "$size" ns; done
}

# What is measured of TCP, over any wire. Its beginning (slow start) is in it, so there should be enough behind that;
# with much loss it is slow at once.
tcps()
{
	for bytes in 8 4096; do tcp_latency $bytes 500 50; done
	tcp_latency 65536 200 20
	case $loss in
	5 | 10) amount=16M ;;
	*) amount=64M ;;
	esac
	tcp_bandwidth 8 1M
	for bytes in 4096 65536; do tcp_bandwidth $bytes $amount; done
}

# profile: messages of 1 MiB, written and copied, and where the functions of kernel and modules are.
profile()
{
	[ -z "$measuring" ] || grep -i ' [tw] ' /proc/kallsyms | gzip >/out/symbols.gz
	for mode in uc-reliable uc-reliable-copied; do
		parameters $mode
		ours bandwidth $mode 1048576 32 4 8 8
	done
}

# parameters MODE: what is special about it.
parameters()
{
	[ -n "$measuring" ] || return
	share=Y write=131072 keep=64 eager=8192
	case $1 in
	*-noagg) share=N ;;
	*-copied) write=0 ;;
	*-written) write=1 eager=4096 ;;
	*-unkept) keep=0 ;;
	*-eager) eager=32768 ;;
	*-rts) eager=0 ;;
	esac
	[ "$(cat /sys/module/ibrelk/parameters/eager_max)" -eq $eager ] || { rmmod ibrelk && load eager_max=$eager; }
	echo $share >/sys/module/ibrelk/parameters/aggregate
	echo $write >/sys/module/ibrelk/parameters/zero_copy_min
	echo $keep >/sys/module/ibrelk/parameters/pin_cache_mib
}

# load PARAMETERS: the module.
load() { insmod /files/ibrelk.ko allow_native=1 loopback=0 "$@" || echo "FAILED: insmod"; }

# long MODE: of long messages. What others have measured of 64 KiB is not repeated.
long()
{
	case $1 in
	perftest-rc-write)
		theirs bandwidth "$1" 8192 2048
		theirs bandwidth "$1" 65536 512 112
		theirs bandwidth "$1" 262144 96
		theirs bandwidth "$1" 1048576 48 16
		theirs bandwidth "$1" 4194304 12 6
		theirs bibandwidth "$1" 8192 1024
		theirs bibandwidth "$1" 65536 192
		theirs bibandwidth "$1" 262144 48
		theirs bibandwidth "$1" 1048576 16
		theirs bibandwidth "$1" 4194304 6
		return
		;;
	*-copied | *-written)
		ours bandwidth "$1" 65536 200 10 16 40
		ours bibandwidth "$1" 65536 100 10 16
		;;
	esac
	ours bandwidth "$1" 8192 1000 100 32
	ours bibandwidth "$1" 8192 500 50 32
	# From 128 KiB on all are written anyway.
	case $1 in *-written) return ;; esac
	ours bandwidth "$1" 262144 64 8 16
	ours bandwidth "$1" 1048576 32 4 8 8
	ours bandwidth "$1" 4194304 8 2 4 4
	ours bibandwidth "$1" 262144 32 4 16
	ours bibandwidth "$1" 1048576 12 2 8
	ours bibandwidth "$1" 4194304 4 1 4
}

# What `make bench` measures. perftest gets more messages, since it has no warm-up; with lists, multiples of 16.
bench()
{
	case $1 in
	tcp | ofi-tcp) ;;
	match) matching ;;
	region*) registering "$1" ;;
	profile) profile ;;
	overlap) overlaps $overlap_sizes 40 uc-reliable ud-reliable rc-reliable auto ;;
	ofi-rxd) fi_overlaps "$1" 'verbs;ofi_rxd' $overlap_sizes 40 rxe0-dgram rxe1-dgram ;;
	*-eager | *-rts) ours latency "$1" 2048,4096,8192,16384,32768 300 30 64 ;;
	perftest-rc-write | *-copied | *-written) long "$1" ;;
	*-unkept)
		# With more than one under way from the same memory, one of them always has it pinned.
		ours rate "$1" 8 4000 200 64 1000
		ours latency "$1" 65536,1048576 40 4 64
		;;
	perftest-*)
		case $1 in
		*-list16) ;;
		*) for bytes in 8 1024 4096; do theirs latency "$1" $bytes 500; done ;;
		esac
		theirs rate "$1" 8 8000 2000
		theirs bandwidth "$1" 4096 4000 2000
		theirs bandwidth "$1" 65536 512 112
		theirs bibandwidth "$1" 4096 4000
		theirs bibandwidth "$1" 65536 512
		;;
	*-noagg)
		ours latency "$1" 8 500 50 64
		ours rate "$1" 8 4000 200 64 1000
		;;
	*)
		ours latency "$1" 8,1024,4096 500 50 64
		ours rate "$1" 8 4000 200 64 1000
		ours bandwidth "$1" 4096 1500 100 64 500
		ours bandwidth "$1" 65536 200 10 16 40
		ours bibandwidth "$1" 4096 1000 100 64
		ours bibandwidth "$1" 65536 200 10 16
		case $1 in rc-native | uc-native | uc-reliable) long "$1" ;; esac
		case $1 in
		uc-reliable)
			# Where the rendezvous begins, and one at a time.
			ours latency "$1" 8192,8193 300 30 64
			ours latency "$1" 1048576 40 4 64
			;;
		esac
		case $1 in uc-reliable | ud-reliable) ours overlap "$1" $overlap_sizes 40 2 64 ;; esac
		;;
	esac
}

# lossy_streams MODE: enough for what chance does to one run not to be what is seen: a time-out at its end, say, is little of it.
# With a delay few round trips are many messages. Natively each message is a packet, and without aggregation; else 16 are.
lossy_streams()
{
	case $1/$delay in
	*-native/* | *-noagg/*) ours rate "$1" 8 8000 200 64 ;;
	*/0) ours rate "$1" 8 24000 200 64 ;;
	*) ours rate "$1" 8 384000 200 64 ;;
	esac
	ours bandwidth "$1" 4096 6000 100 64
	# 64 outstanding, as perftest has 128: with a delay, fewer are in step, and which ones is chance.
	ours bandwidth "$1" 65536 800 64 64
}

# ... and over a wire that loses or delays, of the modes that repeat what is lost. Of one that does neither, what is
# missing above.
losses()
{
	case $1 in
	perftest-rc)
		[ "$loss $delay" = '0 0' ] || for bytes in 8 4096; do theirs latency "$1" $bytes 200; done
		theirs latency "$1" 65536 200
		[ "$loss $delay" = '0 0' ] && return
		theirs rate "$1" 8 2000
		theirs bandwidth "$1" 4096 4000
		theirs bandwidth "$1" 65536 512
		;;
	perftest-rc-write)
		case $loss/$delay in 0/* | */1) ;; *) theirs bandwidth "$1" 1048576 48 ;; esac
		;;
	rc-native | uc-reliable | ud-reliable)
		[ "$loss $delay" = '0 0' ] || ours latency "$1" 8,4096 500 50 64
		ours latency "$1" 65536 200 20 64
		# What loss is held against: the same, by way of a netem that loses nothing.
		if [ "$loss $delay" = '0 0' ]; then
			case $1 in rc-*) return ;; esac
			wire 0 0 netem
			suffix=_netem
		fi
		lossy_streams "$1"
		if [ "$loss $delay" = '0 0' ]; then
			suffix=
			wire 0 0
			return
		fi
		case $1/$delay in rc-native/0 | uc-reliable/0) ours bandwidth "$1" 1048576 32 4 8 ;; esac
		;;
	esac
}

# What `make bench-full` measures over a wire that does nothing: all sizes, and windows.
sizes()
{
	case $1 in
	tcp | ofi-tcp) ;;
	match) matching ;;
	region*) registering "$1" ;;
	overlap) overlaps 4194304,16777216,67108864 20 uc-reliable ud-reliable ;;
	ofi-rxd) fi_overlaps "$1" 'verbs;ofi_rxd' $overlap_sizes 40 rxe0-dgram rxe1-dgram ;;
	*-eager | *-rts) ours latency "$1" 1024,2048,4096,6144,8192,12288,16384,24576,32768 500 30 64 ;;
	perftest-*)
		case $1 in
		*-list16 | *-write) ;;
		*)
			for bytes in 1 8 64 512 4096 32768 65536 262144; do theirs latency "$1" $bytes 200; done
			theirs latency "$1" 1048576 50
			;;
		esac
		case $1 in *-write) ;; *) theirs rate "$1" 8 4000 ;; esac
		for bytes in 1 16 64 256 1024 4096; do theirs bandwidth "$1" $bytes 2000; done
		for bytes in 8192 16384 32768 65536 131072; do theirs bandwidth "$1" $bytes 320; done
		for bytes in 262144 524288 1048576; do theirs bandwidth "$1" $bytes 112; done
		for bytes in 2097152 4194304; do theirs bandwidth "$1" $bytes 32; done
		theirs bibandwidth "$1" 4096 2000
		for bytes in 8192 16384 32768 65536 131072; do theirs bibandwidth "$1" $bytes 320; done
		for bytes in 262144 524288 1048576; do theirs bibandwidth "$1" $bytes 64; done
		for bytes in 2097152 4194304; do theirs bibandwidth "$1" $bytes 16; done
		;;
	*-written)
		ours bandwidth "$1" 8192,16384,32768,65536 200 10 16
		ours bibandwidth "$1" 8192,16384,32768,65536 100 10 16
		;;
	*)
		ours latency "$1" 1,8,64,512,4096,32768,65536,262144 200 20 64
		ours latency "$1" 1048576 50 5 64
		ours rate "$1" 8 4000 200 64
		ours bandwidth "$1" 1,16,64,256,1024,4096 1000 100 64
		ours latency "$1" 6144,8192,8193,12288,16384 200 20 64
		ours bandwidth "$1" 8192,16384,32768,65536 200 10 16
		ours bandwidth "$1" 131072,262144 50 4 16
		ours bandwidth "$1" 524288,1048576 20 4 8
		ours bandwidth "$1" 2097152,4194304 8 2 4
		ours bibandwidth "$1" 4096,8192 500 50 64
		ours bibandwidth "$1" 16384,32768,65536 100 10 16
		ours bibandwidth "$1" 131072,262144 50 4 16
		ours bibandwidth "$1" 524288,1048576 20 4 8
		ours bibandwidth "$1" 2097152,4194304 8 2 4
		for window in 1 4 16 64 256; do
			suffix=_w$window
			ours rate "$1" 8 2000 200 $window
			ours bandwidth "$1" 65536 100 10 $window
		done
		suffix=
		ours overlap "$1" $overlap_sizes 40 2 64
		ours overlap "$1" 4194304 10 1 64
		ours overlap "$1" 16777216,67108864 5 1 64
		;;
	esac
}

# ... and over one that loses or delays. Without reliability perftest would wait for ever for what is lost.
troubles()
{
	case $1 in
	tcp | ofi-* | *-written | *-eager | *-rts) ;;
	perftest-rc-write) theirs bandwidth "$1" 1048576 112 ;;
	perftest-rc)
		for bytes in 8 4096 65536; do theirs latency "$1" $bytes 200; done
		theirs rate "$1" 8 2000
		theirs bandwidth "$1" 4096 2000
		theirs bandwidth "$1" 65536 512
		;;
	perftest-*) ;;
	*)
		ours latency "$1" 8,4096 200 20 64
		ours latency "$1" 65536 200 20 64
		lossy_streams "$1"
		ours bandwidth "$1" 1048576 20 4 8
		;;
	esac
}

if [ -n "$measuring" ]; then
	# Random numbers (soft-RoCE, netem, and now and then an interrupt) cost thousands of instructions until the
	# kernel has gathered what it calls entropy, as every node has soon after it was started. It gathers some
	# while somebody waits for it.
	timeout 60 head -c 1 /dev/random >/dev/null
	load
fi
if [ -n "$full" ]; then
	plain=sizes lossy=troubles
	wires='0.01/0 0.1/0 1/0 5/0 10/0 0/1 0.01/1 0.1/1 1/1 5/1 10/1 0/10'
else
	plain=bench lossy=losses
	wires='0/0 0.1/0 1/0 5/0 0/1 0.1/1 1/1 5/1'
fi
for mode; do
	[ -n "$lossless" ] || break
	parameters "$mode"
	$plain "$mode"
done
for wire in $wires; do
	wire "${wire%/*}" "${wire#*/}"
	for mode; do
		case $mode in
		match | region* | profile | overlap) continue ;;
		*-written | *-eager | *-rts) continue ;; # they load the module anew
		esac
		parameters "$mode"
		$lossy "$mode"
	done
done
[ -z "$measuring" ] || ibrelk show paths --counters
case " $* " in
*' tcp '* | *' ofi-tcp '*) apart ;;
esac
case " $* " in
*' tcp '*)
	for wire in 0/0 ${wires#0/0}; do
		wire "${wire%/*}" "${wire#*/}"
		tcps
	done
	;;
esac
case " $* " in
*' ofi-tcp '*)
	wire 0 0
	fi_overlaps ofi-tcp 'tcp;ofi_rxm' $overlap_sizes 40
	;;
esac
[ -z "$measuring" ] || echo "$(($(insns) / 1000000)) million instructions, starting included"
