# SPDX-License-Identifier: GPL-2.0-only
#
# Reads a kernel console, finds the KTAP that KUnit printed there, prints it
# readable and counts the test cases. A parameterised test counts once for each
# parameter.
#
# Variables:  modules   how many KTAP documents there must be at least
#             headless  1 for kernels whose modules print no outer header (6.1)
#
# The last line is "N passed, N failed, N skipped". Exit status 1 if anything
# failed or if the document is not whole: a missing or unfulfilled plan, results
# out of order, a test that never ended, or no test at all.

function problem(text)
{
	print "error: " text
	problems++
}

# Starts the list of results at a depth: 0 suites, 1 cases, 2 parameters.
function open(depth)
{
	is_open[depth] = 1
	plan[depth] = -1
	seen[depth] = 0
	failed_below[depth] = 0
	name[depth] = ""
	if (depth == 0) {
		documents++
		name[0] = "document " documents
	}
}

# Ends it, checking that it kept what it promised. Parameters have no plan.
function close_depth(depth)
{
	if (is_open[depth + 1]) {
		problem(name[depth + 1] ": ended in the middle")
		is_open[depth + 1] = is_open[depth + 2] = 0
	} else if (plan[depth] == -2) {
		# Already reported.
	} else if (plan[depth] < 0) {
		if (depth < 2 && !(depth == 0 && headless))
			problem(name[depth] ": has no plan")
	} else if (plan[depth] != seen[depth]) {
		problem(name[depth] ": planned " plan[depth] " results, gave " seen[depth])
	}
	is_open[depth] = 0
}

function show(verdict, depth, text,   i)
{
	printf "%s%-4s  %s\n", substr("    ", 1, 2 * depth), verdict, text
	if (verdict == "FAIL")
		for (i = 1; i <= lines; i++)
			print "        | " line[i]
}

function result(depth, good, number, text,   skip, parent, below)
{
	if (!is_open[depth]) {
		if (depth > 0) {
			problem("a result without a test plan: " text)
			open(depth)
			plan[depth] = -2
		} else {
			open(0)
		}
	} else if (depth == 0 && headless && number == 1) {
		open(0)
	}
	seen[depth]++
	if (number != seen[depth])
		problem(text ": is number " number " where " seen[depth] " was due")

	skip = match(text, / # SKIP/)
	parent = is_open[depth + 1]
	below = parent ? failed_below[depth + 1] : 0
	if (parent)
		close_depth(depth + 1)

	# What contains results is not counted itself, unless it adds a failure.
	if (!good && !below) {
		failed++
		below = 1
		show("FAIL", depth, text)
	} else if (!parent && skip) {
		skipped++
		show("skip", depth, text)
	} else if (!parent && good && depth > 0) {
		passed++
		show("ok", depth, text)
	}
	failed_below[depth] += !!below
	lines = 0
}

BEGIN {
	documents = passed = failed = skipped = problems = lines = 0
	plan[0] = -1
}

{
	# Only the kernel's own lines, without time stamp and caller.
	if (!match($0, /^\[ *[0-9]+\.[0-9]+\](\[ *[TC][0-9]+\])? /))
		next
	text = substr($0, RLENGTH + 1)
	sub(/\r$/, "", text)
	match(text, /^ */)
	depth = RLENGTH / 4
	body = substr(text, RLENGTH + 1)
}

depth != int(depth) || depth > 2 { depth = -1 }

depth >= 0 && body ~ /^KTAP version [0-9]+$/ {
	if (is_open[depth])
		close_depth(depth)
	open(depth)
	lines = 0
	next
}

depth > 0 && body ~ /^# Subtest: / {
	if (!is_open[depth] || name[depth] != "")
		open(depth)
	name[depth] = substr(body, 12)
	print substr("    ", 1, 2 * (depth - 1)) name[depth]
	lines = 0
	next
}

depth >= 0 && is_open[depth] && plan[depth] == -1 && body ~ /^1\.\.[0-9]+$/ {
	plan[depth] = substr(body, 4) + 0
	# The kernel's own empty document, for the suites that are built in.
	if (depth == 0 && plan[0] == 0) {
		is_open[0] = 0
		documents--
	}
	next
}

depth >= 0 && body ~ /^(not )?ok [0-9]+ / {
	good = body ~ /^ok/
	sub(/^(not )?ok /, "", body)
	number = body + 0
	sub(/^[0-9]+ (- )?/, "", body)
	result(depth, good, number, body)
	next
}

# Of a backtrace, only the frames that the unwinder is sure of.
documents || is_open[1] {
	if (lines < 100 && text !~ /^ *\[<[0-9a-f]+>\] \? /)
		line[++lines] = text
}

END {
	if (is_open[0] || is_open[1])
		close_depth(0)
	if (!headless && documents < modules)
		problem("only " documents " of " modules " modules ran tests")
	if (passed + failed + skipped == 0)
		problem("no tests ran")
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit failed > 0 || problems > 0
}
