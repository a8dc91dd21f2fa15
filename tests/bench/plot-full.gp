# Draws the rows of `make bench-full`. Called by run.sh with csv, out and kind (png or svg) set.
if (kind eq 'png') { set terminal pngcairo size 1500,900 font 'sans,10' } else { set terminal svg size 1500,900 font 'sans,10' }
set output out
set datafile separator ','
set style data linespoints
set grid
set key top left font ',8'
modes = 'rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable perftest-rc perftest-uc perftest-ud'
reliables = 'rc-reliable uc-reliable ud-reliable rc-native perftest-rc'
# Rows of one metric, to be drawn over column x; the value is 0 where a run did not finish, and is left out.
rows(mode, metric, size, loss, delay) = sprintf("< printf '1,1,1,1,1,0,1\\n'; grep -E '^%s,%s,%s,%s,%s,' %s", mode, metric, size, loss, delay, csv)
windows(mode, metric, size) = sprintf("< printf '1,1\\n'; sed -nE 's/^%s,%s_w([0-9]+),%s,0,0,([^,]*),.*/\\1,\\2/p' %s", mode, metric, size, csv)
there(v) = v > 0 ? v : NaN
set multiplot layout 2,3

set logscale xy 2
set format x '%.0f'
set title 'one-way latency [us], by size'
set xlabel 'bytes'
plot for [m in modes] rows(m, 'latency_us', '[0-9]+', '0', '0') using 3:(there($6)) title m
set title 'bandwidth [MB/s], by size'
plot for [m in modes] rows(m, 'bandwidth_mbps', '[0-9]+', '0', '0') using 3:(there($6)) title m

unset logscale y
set yrange [0:*]
set title 'message rate [k/s] of 8 B, by window'
set xlabel 'window'
plot for [m in 'rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable'] \
	windows(m, 'msg_rate_kps', '8') using 1:(there($2)) title m

unset logscale x
set key top right
set xlabel 'loss [%]'
set title 'bandwidth [MB/s] of 64 KiB, by loss'
plot for [m in reliables] rows(m, 'bandwidth_mbps', '65536', '[0-9.]+', '0') using 4:(there($6)) title m
set title 'latency p99 [us] of 8 B, by loss'
set logscale y 10
set yrange [*:*]
plot for [m in reliables] rows(m, 'latency_p99_us', '8', '[0-9.]+', '0') using 4:(there($6)) title m
unset logscale y
set yrange [0:*]
set xlabel 'delay each way [ms]'
set title 'bandwidth [MB/s] of 64 KiB, by delay'
plot for [m in reliables] rows(m, 'bandwidth_mbps', '65536', '0', '[0-9.]+') using 5:(there($6)) title m
unset multiplot
