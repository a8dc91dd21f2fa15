#!/bin/sh
# The benchmark itself, run in the guest of `ibrelk-lab bench`: every mode of ibrelk, and perftest over the same
# two devices in the same boot as the yardstick. A run that does not finish leaves a row with value 0.
#
# usage: guest.sh [MODE ...]      (all modes and perftest without an argument)
set -u

csv=/out/bench.csv
echo 'mode,metric,size,loss_pct,delay_ms,value,unit' >$csv
insmod /files/ibrelk.ko allow_native=1 loopback=0 || exit 1

row() { echo "$1,$2,$3,0,0,$4,$5" >>$csv; }

perf()
{
	ibrelk-perf "$@" --self 10.9.0.1 10.9.0.2 --events --csv $csv --timeout 20 --quiet || echo "FAILED: $*"
}

ours()
{
	perf latency --mode "$1" --size 8,1024,4096 --iterations 500 --warmup 50
	perf rate --mode "$1" --size 8 --iterations 4000 --warmup 200 --window 64 --batch 16
	perf bandwidth --mode "$1" --size 4096 --iterations 1500 --warmup 100 --window 64
	perf bandwidth --mode "$1" --size 65536 --iterations 200 --warmup 10 --window 16
}

# perftest TOOL arguments: runs both ends, prints the client's output.
perftest()
{
	tool=$1
	shift
	timeout 60 "$tool" -d rxe1 -F "$@" >/tmp/server.out 2>&1 &
	server=$!
	# The server listens on TCP port 18515 (4853 in hexadecimal) when it is ready.
	tries=0
	until grep -q ':4853 .* 0A ' /proc/net/tcp || [ $tries -ge 200 ]; do
		tries=$((tries + 1))
		usleep 10000
	done
	timeout 60 "$tool" -d rxe0 -F "$@" 10.9.0.2 2>&1
	wait $server
}

# The last line of figures that starts with the size; field $2 of it.
figure() { awk -v size="$1" -v field="$2" '$1 == size { value = $field } END { print value + 0 }'; }

yardstick()
{
	type=$1 name=perftest-$(echo "$1" | tr A-Z a-z)
	for size in 8 1024 4096; do
		perftest ib_send_lat -c "$type" -e -m 4096 -s $size -n 500 >/tmp/out
		row "$name" latency_us $size "$(figure $size 6 </tmp/out)" us
	done
	perftest ib_send_bw -c "$type" -e -m 4096 -s 8 -n 4000 >/tmp/out
	row "$name" msg_rate_kps 8 "$(awk '$1 == 8 { print $5 * 1000 }' /tmp/out)" k/s
	for size in 4096 65536; do
		[ "$type" = UD ] && [ $size -gt 4096 ] && continue
		perftest ib_send_bw -c "$type" -e -m 4096 -s $size -n 500 >/tmp/out
		row "$name" bandwidth_mbps $size "$(awk -v s=$size '$1 == s { print $4 * 1.048576 }' /tmp/out)" MB/s
	done
}

for mode in ${*:-rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable}; do
	ours "$mode"
done
[ $# -gt 0 ] || for type in RC UC UD; do yardstick $type; done
cat $csv
ibrelk show paths
