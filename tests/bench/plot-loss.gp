# Draws what loss and delay do, of `make bench` and `make bench-full`. Called by run.sh with csv, out, kind (png or svg)
# and zero (where no loss is on the logarithmic axis) set.
if (kind eq 'png') { set terminal pngcairo size 1200,760 font 'sans,10' } else { set terminal svg size 1200,760 font 'sans,10' }
set output out
set datafile separator ','
set style data linespoints
set grid
set linetype 5 linecolor rgb '#aa3377'
modes = 'uc-reliable ud-reliable rc-native perftest-rc tcp'
# The value is 0 where a run did not finish, and is left out.
rows(mode, metric, size, delay) = sprintf("< printf '1,1,1,-1,1,0,1\\n'; grep -E '^%s,%s,%s,[0-9.]+,%s,' %s | sort -t, -g -k4", mode, metric, size, delay, csv)
there(v) = v > 0 ? v : NaN
at(loss) = loss > 0 ? loss : loss == 0 ? zero : NaN
set logscale xy 10
set xrange [zero / 1.5:15]
set xtics ('none' zero, '0.01' 0.01, '0.1' 0.1, '1' 1, '5' 5, '10' 10)
set xlabel 'loss each way [%]'
set format y '%g'
set multiplot layout 2,3
do for [delay in '0 1'] {
	set yrange [0.05:1000]
	set key bottom left font ',8'
	set title 'goodput [MB/s] of 64 KiB, delay ' . delay . ' ms'
	plot for [m in modes] rows(m, 'bandwidth_mbps', '65536', delay) using (at($4)):(there($6)) title m
	set title 'goodput [MB/s] of 4 KiB, delay ' . delay . ' ms'
	plot for [m in modes] rows(m, 'bandwidth_mbps', '4096', delay) using (at($4)):(there($6)) title m
	set yrange [10:1000000]
	set key top left font ',8'
	set title 'latency P99 [us] of 8 B, delay ' . delay . ' ms'
	plot for [m in modes] rows(m, 'latency_p99_us', '8', delay) using (at($4)):(there($6)) title m
}
unset multiplot
