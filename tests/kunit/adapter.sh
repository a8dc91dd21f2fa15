#!/bin/sh
# Messages over soft-RoCE, by all that an adapter does for the module (queue pairs, memory regions, RDMA writes), in the
# User Mode Linux debug kernel: verified traffic in each reliable mode over a wire that loses, repeats and reorders; the
# attacks on the user interface without the short way that messages to the own node have; and every kind of user memory
# as source and target of RDMA writes, from one adapter to the other. Each counts as one test.
#
#   adapter.sh [OPTION...]		options of tests/uml/run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
export IBRELK_UML="${IBRELK_UML:-$("$root/tests/uml/build.sh")}"
module=$("$here/module.sh")
tools=$root/build/user/tools
# What this kernel cannot do, for which tests may be skipped: the lab's kernels can. And what this module allows.
lacks="the kernel has no (transparent )?huge pages|there is no other NUMA node|the kernel has no memory cgroups"
lacks="$lacks|the kernel has no userfaultfd|User Mode Linux maps too few pages|native modes are allowed"
passed=0 failed=0

# test NAME ZERO_COPY_MIN COMMAND [OPTION...]: fails if the command says "not ok", does not say "ok", or leaves something
# out for a reason that is none.
test()
{
	name=$1 log=$(dirname "$module")/$1.log min=$2 command=$3
	shift 3
	status=0
	"$root/tests/uml/run.sh" --kernel "$IBRELK_UML" --rxe --time 1800 "$@" \
		--module "$module allow_native=1 loopback=0 auto_uc_rate=1 zero_copy_min=$min" sh -c "$command" >"$log" 2>&1 || status=$?
	if [ $status -eq 0 ] && grep -q '^ok' "$log" && ! grep -q '^not ok' "$log" &&
		! grep -a '# SKIP' "$log" | grep -aqvE "# SKIP ($lacks)\$"; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "not ok: $name, status $status"
	grep -a '# SKIP' "$log" | grep -avE "# SKIP ($lacks)\$" || :
	grep '^not ok' -B 12 "$log" || tail -n 50 "$log"
}

for mode in uc-reliable ud-reliable rc-reliable auto; do
	# From 4 KiB on windows are written, where they can be: there must be some if queue pairs are connected.
	test "$mode" 4096 "
		tc qdisc add dev v0 root netem loss 1% duplicate 2% reorder 10% 50% delay 100us &&
			tc qdisc add dev v1 root netem loss 1% duplicate 2% reorder 10% 50% delay 100us || exit 1
		$tools/ibrelk-perf bandwidth --self 10.9.0.1 10.9.0.2 --mode $mode --verify --mixed --window 16 --timeout 900 \
			--size 8,5000,40000,300000,3000000 --iterations 40 --counters || exit 1
		written=\$($tools/ibrelk show paths --counters | grep -o 'tx_written=[0-9]*' | cut -d= -f2 | sort -n | tail -n 1)
		echo \"\${written:-0} fragments were written\"
		case $mode in
		uc-reliable | rc-reliable | auto) [ \${written:-0} -gt 0 ] || { echo 'not ok: nothing was written by RDMA'; exit 1; } ;;
		esac
		echo ok" "$@"
done
abi=$root/build/tests/selftests/abi
test interface 131072 "$abi '!memory__' '!remote__'" "$@"
# The host's files, of which the guest may write those in one folder, are the file system that it has.
disk=$(dirname "$module")/disk
mkdir -p "$disk"
test memory 4096 "$abi --between 10.9.0.1 10.9.0.2 --disk $disk memory__ remote__" --out "$disk" "$@"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
