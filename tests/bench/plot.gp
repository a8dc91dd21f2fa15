# Draws the benchmark's rows. Called by run.sh with csv, out and kind (png or svg) set.
if (kind eq 'png') { set terminal pngcairo size 1200,420 font 'sans,10' } else { set terminal svg size 1200,420 font 'sans,10' }
set output out
set datafile separator ','
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set xtics rotate by -35 nomirror
set grid ytics
set yrange [0:*]
unset key
modes = 'perftest-rc perftest-uc rc-native uc-native ud-native rc-reliable uc-reliable ud-reliable'
figure(metric, size) = sprintf("< for m in %s; do grep \"^$m,%s,%d,\" %s; done", modes, metric, size, csv)
set multiplot layout 1,3
set title 'one-way latency, 8 B [us]'
plot figure('latency_us', 8) using 6:xtic(1) linecolor rgb '#4477aa'
set title 'message rate, 8 B [k/s]'
plot figure('msg_rate_kps', 8) using 6:xtic(1) linecolor rgb '#228833'
set title 'bandwidth, 64 KiB [MB/s]'
plot figure('bandwidth_mbps', 65536) using 6:xtic(1) linecolor rgb '#cc6677'
unset multiplot
