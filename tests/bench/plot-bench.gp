# Draws the rows of `make bench`. Called by run.sh with csv, out and kind (png or svg) set.
if (kind eq 'png') { set terminal pngcairo size 1600,840 font 'sans,10' } else { set terminal svg size 1600,840 font 'sans,10' }
set output out
set datafile separator ','
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set xtics rotate by -60 nomirror
set rmargin 4
set grid ytics
set yrange [0:*]
unset key
perftests = 'perftest-rc perftest-uc perftest-ud'
lists = 'perftest-rc-list16 perftest-uc-list16 perftest-ud-list16'
modes = 'rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable'
# A value of 0 says that there is none; other than of ACKs, nothing of interest is 0.
figure(metric, size, from) = sprintf("< for m in %s; do grep \"^$m,%s,%d,0,0,\" %s; done", from, metric, size, csv)
longs = 'uc-native uc-reliable uc-reliable-copied uc-reliable-written rc-native perftest-rc-write'
by_size(mode, metric) = sprintf("< printf '1,1,0,1,1,0,1\\n'; grep -E '^%s,%s,[0-9]+,0,0,' %s | sort -t, -n -k3", mode, metric, csv)
there(v) = v > 0 ? v : NaN
set multiplot layout 2,4
set title 'one-way latency, 8 B [us]'
plot figure('latency_us', 8, perftests . ' ' . modes) using 6:xtic(1) linecolor rgb '#4477aa'
set title 'message rate, 8 B [k/s]'
plot figure('msg_rate_kps', 8, perftests . ' ' . lists . ' ' . modes) using 6:xtic(1) linecolor rgb '#228833'
set title 'instructions per message of both ends, 8 B'
plot figure('insns_per_msg', 8, perftests . ' ' . lists . ' ' . modes) using 6:xtic(1) linecolor rgb '#aa3377'
set title 'bandwidth, 64 KiB [MB/s]'
plot figure('bandwidth_mbps', 65536, 'perftest-rc perftest-uc ' . modes) using 6:xtic(1) linecolor rgb '#cc6677'
set title 'bandwidth both ways, 64 KiB [MB/s]'
plot figure('bibandwidth_mbps', 65536, 'perftest-rc perftest-uc ' . modes) using 6:xtic(1) linecolor rgb '#ccbb44'
set title 'ACKs per message, 64 KiB'
plot figure('acks_per_msg', 65536, 'perftest-rc perftest-uc ' . modes) using 6:xtic(1) linecolor rgb '#66ccee'
set style data linespoints
set logscale x 2
set xrange [4096:8388608]
set xtics norotate ('8K' 8192, '64K' 65536, '256K' 262144, '1M' 1048576, '4M' 4194304)
set key bottom right font ',8'
set title 'bandwidth of long messages [MB/s]'
plot for [m in longs] by_size(m, 'bandwidth_mbps') using 3:(there($6)) title m
set title 'the same both ways [MB/s]'
plot for [m in longs] by_size(m, 'bibandwidth_mbps') using 3:(there($6)) title m
unset multiplot
