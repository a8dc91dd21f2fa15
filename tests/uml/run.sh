#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs a command in the User Mode Linux debug kernel.
#
#   run.sh [OPTION...] [--] COMMAND [ARGUMENT...]
#
#   --series S      6.12 (default), 6.1 or 7.x: which kernel build.sh provides
#   --kernel DIR    a directory printed by build.sh, instead
#   --module "FILE [PARAMETER...]"
#                   load this module before the command and unload it after;
#                   may be given several times, loaded in this order
#   --rxe           one node with a veth pair: rxe0 on v0 (10.9.0.1/24), rxe1
#                   on v1 (10.9.0.2/24), RoCE path MTU 4096
#   --out DIR       a host directory that the guest may write, at the same path
#   --time SECONDS  limit for all that happens in the guest (default 120)
#   --memory SIZE   default 1G
#   --cpus N        only a 7.x kernel can have more than one
#   --append "..."  more kernel parameters
#   --no-leaks      do not look for leaked memory (saves 6 s when modules are
#                   loaded)
#   --console FILE  keep what the kernel printed
#   --verbose       print it, too
#
# The guest sees the host's files read-only, at their own paths, with an empty
# /tmp and /run, but for this checkout, the current directory, the modules, and
# files and directories that are arguments by their full path. The command runs
# as root in the current directory; what it prints is printed when it has ended.
#
# The exit status is the command's, or 120 if the kernel reported a bug (or
# leaked memory, or a module did not load or unload), 121 if it died or never
# started, 124 if the time was up. Only this script's messages and the kernel's
# reports go to standard error.

set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)

say() { echo "run.sh: $*" >&2; }
usage() { sed -n '6,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { say "$*"; exit 121; }

series=6.12
kernel=
modules=
show="$root
$PWD"
rxe=no
out=
limit=120
memory=1G
cpus=1
append=
leaks=yes
console=
verbose=no

# One word for the shell, whatever is in it.
quote()
{
	printf "'"
	printf %s "$1" | sed "s/'/'\\\\''/g"
	printf "' "
}

absolute()
{
	[ -e "$1" ] || fail "there is no $1"
	realpath "$1"
}

add_module()
{
	file=$(absolute "${1%% *}")
	parameters=
	case $1 in
	*' '*) parameters=${1#* } ;;
	esac
	show="$show
$file"
	modules="$modules	load $(quote "$file")$parameters || return 1
"
}

while [ $# -gt 0 ]; do
	case $1 in
	--rxe) rxe=yes ;;
	--no-leaks) leaks=no ;;
	--verbose) verbose=yes ;;
	--) shift; break ;;
	--series | --kernel | --module | --out | --time | --memory | --cpus | --append | --console)
		[ $# -ge 2 ] || usage
		case $1 in
		--series) series=$2 ;;
		--kernel) kernel=$2 ;;
		--module) add_module "$2" ;;
		--out) out=$(absolute "$2") ;;
		--time) limit=$2 ;;
		--memory) memory=$2 ;;
		--cpus) cpus=$2 ;;
		--append) append=$2 ;;
		--console) console=$2 ;;
		esac
		shift
		;;
	-*) usage ;;
	*) break ;;
	esac
	shift
done
[ $# -ge 1 ] || usage
command -v busybox >/dev/null || fail "busybox is missing (make deps installs it)"
[ -n "$kernel" ] || kernel=$("$here/build.sh" "$series") || exit 121
[ -x "$kernel/linux" ] || fail "no kernel in $kernel"

# UML would make its memory file where TMPDIR says, on disk; without, it is
# made in /dev/shm.
work=$(mktemp -d "${TMPDIR:-/tmp}/ibrelk-uml.XXXXXX")
work=$(realpath "$work")
unset TMPDIR TMP TEMP
uml=

# UML runs every process of the guest in one of the host's, all in the process
# group that timeout leads; so nothing is left when the group is gone.
end_uml()
{
	[ -z "$uml" ] || kill -KILL "-$uml" 2>/dev/null || :
}
cleanup()
{
	end_uml
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

case $work in
*[[:space:]]*) fail "no space is possible in the name of the temporary directory: $work" ;;
esac

case $1 in
*/*)
	program=$(absolute "$1")
	shift
	set -- "$program" "$@"
	;;
esac
for word; do
	case $word in
	/*) [ ! -e "$word" ] || show="$show
$word" ;;
	esac
done
cp "$here/init" "$work/init"
{
	echo "limit=$limit rxe=$rxe leaks=$leaks out=$(quote "$out")"
	echo "$show" | sort -u | while read -r path; do
		echo "show_again $(quote "$path")"
	done
	printf 'load_modules()\n{\n%s\t:\n}\n' "$modules"
	echo "run_script()"
	echo "{"
	# env, or the guest's busybox would take its own sh, grep, ping ...
	printf '\t(cd %s 2>/dev/null || cd /; /usr/bin/env -- ' "$(quote "$PWD")"
	for word; do
		quote "$word"
	done
	printf ')\n}\n'
} >"$work/job.sh"
: >"$work/console"
: >"$work/output"
echo "booting" >"$work/phase"

smp=
# With several CPUs, UML cannot have the guest's processes traced.
[ "$cpus" = 1 ] || smp="ncpus=$cpus seccomp=on"
# Console 0 takes the kernel's messages and console 1 the command's output. No
# panic= parameter: UML "reboots" by starting over, for ever. The parameters
# are words without quotes inside, so splitting them is right. What the kernel
# takes for a stall must be more than a busy machine can cause.
# The guest keeps the limit itself and says what it was at; timeout is for a
# guest that no longer can.
# shellcheck disable=SC2086
(
	ulimit -c 0
	exec 3>>"$work/console" 4>>"$work/output"
	exec setsid timeout -s KILL $((limit + 20)) "$kernel/linux" mem="$memory" $smp \
		con=null con0=null,fd:3 con1=null,fd:4 ssl=null \
		umid=ibrelk uml_dir="$work/uml" \
		root=/dev/root rootfstype=hostfs rootflags=/ ro \
		init="$work/init" ibrelk_work="$work" \
		ignore_loglevel log_buf_len=8M oops=panic \
		kasan_multi_shot watchdog_thresh=30 workqueue.watchdog_thresh=60 \
		rcupdate.rcu_cpu_stall_timeout=60 $append
) </dev/null >>"$work/console" 2>&1 &
uml=$!

# A shell that waits hears signals. The group is ended for what the leader leaves.
ended=0
wait "$uml" 2>/dev/null || ended=$?
end_uml
uml=
late=no
[ $ended -ne 137 ] || [ -s "$work/status" ] || late=yes

[ -z "$console" ] || cp "$work/console" "$console"
cat "$work/output"
[ $verbose = no ] || cat "$work/console" >&2

# The first lines of everything by which the kernel says that something is
# wrong: WARN and lockdep ("WARNING:"), BUG, KASAN, atomic sleep and slab
# ("BUG:", "BUG kmalloc-8"), lockdep's own troubles, RCU and hung-task stalls,
# references that are never given back, and UML's ways to die.
messages='WARNING: |BUG[: ]|kernel BUG at|UBSAN: |ODEBUG: |KASAN: '
messages="$messages|INFO: (task .* blocked|trying to register|possible |lockdep is turned off|rcu|NMI)"
messages="$messages|rcu: INFO: |rcu.*detected stall|turning off the locking correctness"
messages="$messages|DEBUG_LOCKS_WARN_ON|list_(add|del) corruption|refcount_t: "
messages="$messages|Slab cache still has objects|unregister_netdevice: waiting"
messages="$messages|Kernel panic|Oops|Kernel mode (fault|signal)|Segfault with no mm"
messages="$messages|sysfs: cannot create duplicate|kobject_add_internal failed"
messages="$messages|Voluntary context switch within RCU|scheduling while atomic"
messages="$messages|soft lockup|workqueue lockup|Unable to handle|ref_tracker: .*leaked"
# Only lines with the kernel's time stamp: a program may print "WARNING:".
stamp='^\[ *[0-9]+\.[0-9]+\](\[ *[TC][0-9]+\])? '
grep -nE "$stamp.*($messages)" "$work/console" >"$work/reports" || :

# What a line announces follows it. Reports overlap, so print from the first,
# without the stack words that the unwinder is not sure of.
show_reports()
{
	say "the kernel reported:"
	cut -d : -f 2- "$work/reports" | head -n 20 | sed 's/^/  /' >&2
	first=$(head -n 1 "$work/reports" | cut -d : -f 1)
	say "the console from line $first on:"
	tail -n "+$first" "$work/console" | grep -v '\[<[0-9a-f]*>\] ? ' |
		head -n 60 | sed 's/^/  /' >&2
}

# Without the boot, if it got that far.
show_tail()
{
	say "the last lines of the console:"
	begin=$(grep -n 'as init process' "$work/console" | cut -d : -f 1)
	tail -n "+${begin:-1}" "$work/console" | tail -n 100 | sed 's/^/  /' >&2
}

bad=
if [ -s "$work/reports" ]; then
	show_reports
	bad=120
fi
if [ -s "$work/problems" ]; then
	sed 's/^/run.sh: /; s/^run.sh: run.sh: /run.sh: /' "$work/problems" >&2
	[ ! -s "$work/leaks" ] || sed 's/^/  /' "$work/leaks" >&2
	[ -n "$bad" ] || show_tail
	bad=120
fi
if [ $late = yes ] || [ -s "$work/late" ]; then
	say "time limit of $limit s, while: $(cat "$work/phase")"
	[ $late = no ] || say "the guest no longer reacted and was killed"
	[ -n "$bad" ] || show_tail
	exit "${bad:-124}"
fi
if [ ! -s "$work/status" ]; then
	say "the kernel ended by itself, while: $(cat "$work/phase")"
	[ -n "$bad" ] || show_tail
	exit "${bad:-121}"
fi
exit "${bad:-$(cat "$work/status")}"
