# What the tables of `make bench` have in common: the rows, a table's heading, and ratios with their goals.
# To be read before the file that prints.

BEGIN { FS = "," }

# value["MODE/METRIC/SIZE"], and where the wire does something value["MODE/METRIC/SIZE@LOSS/DELAY"]. A value of 0 is
# none at all, other than of ACKs, of what was lost, and of what was overlapped or stolen.
FNR > 1 {
	rows++
	missing += $2 !~ /acks_per_|lost_msgs|overlap_.*(pct|stolen_us)/ && $6 == 0
	value[key($1 "/" $2 "/" $3, $4 "/" $5)] = $6
	seen[$1] = 1
	if (!(($4 "/" $5) in wire_seen)) {
		wire_seen[$4 "/" $5] = 1
		wire[++wires] = $4 "/" $5
	}
}

function key(name, wire) { return name (wire == "0/0" ? "" : "@" wire) }

function heading(first, texts,    j, n, cells) {
	printf "%-18s", first
	n = split(texts, cells, ",")
	for (j = 1; j <= n; j++)
		printf " %9s", cells[j]
	print ""
}

# verdict(TEXT, VALUE, GOAL, MEASURED): the goal is the least that the value should be, or the most if it is negative.
function verdict(text, number, goal, measured) {
	text = sprintf("%s (goal %s%.4g)", text, goal < 0 ? "at most " : "", goal < 0 ? -goal : goal)
	if (!measured)
		printf "%-90s %7s  missed: not measured\n", text, "-"
	else
		printf "%-90s %7.3f  %s\n", text, number, (goal < 0 ? number <= -goal : number >= goal) ? "reached" : "missed"
}

# ratio(TEXT, A, B, GOAL): of two values, if the run was to measure both.
function ratio(text, a, b, goal) {
	if (a in value && b in value)
		verdict(text, value[b] > 0 ? value[a] / value[b] : 0, goal, value[a] > 0 && value[b] > 0)
}
