# shellcheck shell=bash
# What tests/fuzz/mutants.sh and tests/sim/mutants.sh share: a table of places where the module is broken, one after
# the other. A line has five columns, with " | " between them: a name, two that are the script's own, a file in kernel/,
# and the change, a substitution of perl. A bar within a column is escaped; the last one is taken as it is.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# mutants WORK TRY [--apply] [NAME ...] 3<TABLE: for each mutant, or those named, makes a kernel/ in WORK that is broken
# there, and calls TRY NAME COLUMN COLUMN, which says what comes of it, and whether that is as expected. With --apply
# only looks whether each change still changes its file. Ends with how many were as expected.
mutants()
{
	local work=$1 try=$2 apply='' line name first second file change good=0 bad=0
	shift 2
	if [ "${1:-}" = --apply ]; then
		apply=1
		shift
	fi
	mkdir -p "$work"
	while IFS= read -r line <&3; do
		[[ $line == \#* ]] && continue
		IFS=$'\x01' read -r name first second file change <<<"$(sed 's/ | /\x01/; s/ | /\x01/; s/ | /\x01/; s/ | /\x01/' <<<"$line")"
		[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
		if ! mutant_make "$work" "$file" "$change"; then
			echo "$name: nothing to change in $file"
			bad=$((bad + 1))
		elif [ -n "$apply" ] || { mutant_install "$work" && "$try" "$name" "${first//\\|/|}" "${second//\\|/|}"; }; then
			good=$((good + 1))
		else
			bad=$((bad + 1))
		fi
	done
	echo "$good passed, $bad failed"
	[ "$bad" -eq 0 ] && [ "$good" -gt 0 ]
}

# mutant_make WORK FILE CHANGE: leaves a kernel/ with the change in WORK/kernel.new. Return: there is one.
mutant_make()
{
	rm -rf "$1/kernel.new"
	cp -r "$root/kernel" "$1/kernel.new"
	perl -0pi -e "$3" "$1/kernel.new/$2" && ! cmp -s "$1/kernel.new/$2" "$root/kernel/$2"
}

# mutant_install WORK: only what differs is touched, and so built again.
mutant_install()
{
	local source
	(cd "$1/kernel.new" && find . -type f) | while read -r source; do
		cmp -s "$1/kernel.new/$source" "$1/kernel/$source" ||
			install -D "$1/kernel.new/$source" "$1/kernel/$source"
	done
}
