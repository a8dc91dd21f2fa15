# Draws `make bench-mpi`. Called with csv, out and kind (png or svg) set.
if (kind eq 'png') { set terminal pngcairo size 1200,760 font 'sans,10' } else { set terminal svg size 1200,760 font 'sans,10' }
set output out
set datafile separator ','
set style data linespoints
set grid
set logscale xy 10
set xrange [6:2000000]
set xtics ('8' 8, '1 Ki' 1024, '8 Ki' 8192, '64 Ki' 65536, '1 Mi' 1048576)
set format y '%g'
set xlabel 'bytes'
networks = 'uc-reliable ud-reliable auto ofi-tcp ofi-rxd ucx-ud openmpi-tcp'
# A network of which there is nothing draws nothing.
rows(network, metric, loss) = sprintf("< printf '1,1,1,1,1,-1,1\\n'; grep -E '^%s,%s,[0-9]+,%s,' %s | sort -t, -n -k3", network, metric, loss, csv)
there(v) = v > 0 ? v : NaN
set multiplot layout 2,2
do for [loss in '0 1'] {
	set key top left font ',8'
	set title 'Open MPI, latency one way [us], ' . loss . ' % of loss'
	plot for [n in networks] rows(n, 'latency_us', loss) using 3:(there($6)) title n
	set key bottom right font ',8'
	set title 'Open MPI, bandwidth [MB/s], ' . loss . ' % of loss'
	plot for [n in networks] rows(n, 'bandwidth_mbps', loss) using 3:(there($6)) title n
}
unset multiplot
