# Draws the rows of `make scale`. Called by run.sh with csv, out and kind (png or svg) set.
if (kind eq 'png') { set terminal pngcairo size 1500,840 font 'sans,10' } else { set terminal svg size 1500,840 font 'sans,10' }
set output out
set datafile separator ','
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set xtics rotate by -45 nomirror font 'sans,8'
set rmargin 9
set grid ytics
set key top left
# Rows of a kind; figures about a whole scenario are in each of its rows, so that the first will do.
rows(kinds) = sprintf("< grep -E '^(%s)' %s", kinds, csv)
once(kinds) = sprintf("< grep -E '^(%s)' %s | awk -F, '!seen[$1]++'", kinds, csv)
set multiplot layout 2,3
set yrange [0:*]
set title 'goodput, of the ideal (goal of an incast: 0.90)'
plot once('stream|incast|exchange') using 11:xtic(1) linecolor rgb '#4477aa' notitle, 0.9 linecolor rgb '#aa3377' notitle
set title 'incast: time of a sender, of the ideal (goal of P99: 3)'
set yrange [0:3]
plot rows('incast') using ($8/$7):xtic(1) title 'P50' linecolor rgb '#66ccee', '' using ($9/$7) title 'P99' linecolor rgb '#228833', \
	'' using ($10/$7) title 'P99.9' linecolor rgb '#cc6677'
set title 'exchange: time of a message [us]'
set logscale y 10
set yrange [1:5000]
plot rows('exchange') using ($7/1000):xtic(sprintf('%s %s', strcol(1), strcol(5))) title 'ideal' linecolor rgb '#bbbbbb', \
	'' using ($8/1000) title 'P50' linecolor rgb '#66ccee', '' using ($9/1000) title 'P99' linecolor rgb '#228833', \
	'' using ($10/1000) title 'P99.9' linecolor rgb '#cc6677'
unset logscale y
set yrange [0:*]
set title 'ACKs per message'
plot once('stream|incast|exchange') using 12:xtic(1) linecolor rgb '#ccbb44' notitle
set yrange [0:3600]
set title 'engine, bytes for a peer (goal of an idle one: 1024)'
plot once('stream|incast|exchange') using 19:xtic(1) title 'all idle' linecolor rgb '#228833', \
	'' using 20 title 'at the peak, on average' linecolor rgb '#cc6677', 1024 title '' linecolor rgb '#aa3377'
unset multiplot
