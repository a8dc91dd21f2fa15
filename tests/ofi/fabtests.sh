#!/bin/bash
# libfabric's own tests (fabtests) over the provider, on one node of the lab with two more soft-RoCE devices and a wire
# between them. Debian has no package of them: build them from libfabric's source (autogen.sh, configure
# --with-libfabric=/usr, make). Prints a line for each, and what failed had to say. "not run": the test itself says so,
# as something that it needs is not offered.
#
# usage: fabtests.sh FOLDER [LOSS]	FOLDER: where fabtests were built, with an absolute path. LOSS: of the wire, in percent
#
# Memory: each process of fi_rdm_atomic registers 3 GiB.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:?where are they?} loss=${2:-0}

if [ "${3:-}" != node ]; then
	kernel=${KERNEL:-6.1}
	exec "$root/build/tests/lab/ibrelk-lab" run --kernel "$kernel" --nodes 1 --cpus 2 --memory 9000 --timeout 3600 \
		--share "$folder" --setup "tests/load-module.sh $root/build/module-$kernel/ibrelk.ko" \
		-- "$root/tests/ofi/fabtests.sh $folder $loss node"
fi

export FI_PROVIDER_PATH=$root/build/user/lib/ofi PATH=$folder/functional:$folder/benchmarks:$folder/unit:$PATH
passed=0 failed=0 skipped=0
"$root/tests/ofi/wire.sh" "$loss"

# judge NAME STATUS...: of all its processes. Those that were not to be run say so by FI_ENODATA or FI_ENOSYS.
judge()
{
	local name=$1 status result=
	shift
	for status; do
		case $status in
		0) status=pass ;;
		61 | 38) status="not run" ;;
		*) status=FAIL ;;
		esac
		# All the same, or it is a failure.
		[ "${result:-$status}" = "$status" ] && result=$status || result=FAIL
	done
	echo "$result: $name ($*)"
	case $result in
	pass) passed=$((passed + 1)) ;;
	FAIL)
		failed=$((failed + 1))
		tail -n 5 /tmp/server /tmp/client
		;;
	*) skipped=$((skipped + 1)) ;;
	esac
}

alone()
{
	local status=0
	timeout 200 "$@" -p ibrelk >/tmp/server 2>&1 </dev/null || status=$?
	: >/tmp/client
	judge "$*" $status
}

# once COMMAND: leaves the states of both ends in $status and $client.
once()
{
	local server
	client=0 status=0
	timeout 200 "$@" -p ibrelk -s 10.9.0.1 >/tmp/server 2>&1 </dev/null &
	server=$!
	# It serves when it has an endpoint, or a socket beside; what is not offered has neither, and the server is gone.
	until [ "$("$root/build/user/tools/ibrelk" show endpoints | wc -l)" -gt 1 ] ||
		[ -n "$(ss -Hltn src 10.9.0.1)" ] || ! kill -0 $server 2>/dev/null; do
		sleep 0.1
	done
	timeout 200 "$@" -p ibrelk -s 10.9.0.2 10.9.0.1 >/tmp/client 2>&1 </dev/null || client=$?
	# A server whose client has failed waits for ever.
	[ $client -eq 0 ] || kill $server 2>/dev/null || :
	wait $server || status=$?
}

# Of some tests the client connects a socket beside, when the server need not listen yet: those are tried again.
pair()
{
	local status client
	for _ in 1 2 3 4 5; do
		once "$@"
		grep -q 'connect: Connection refused' /tmp/client || break
	done
	judge "$*" "$status" "$client"
}

alone fi_getinfo_test -s 10.9.0.1 10.9.0.2
alone fi_av_test -g 10.9.0.2 -n 1 -s 10.9.0.1 -e rdm
alone fi_dom_test -n 2
alone fi_eq_test
alone fi_cq_test
alone fi_mr_test
alone fi_cntr_test

while read -r -a words; do
	[ ${#words[@]} -eq 0 ] || pair "${words[@]}"
done <<'TESTS'
fi_av_xfer -e rdm
fi_cq_data -e rdm
fi_poll -t queue
fi_poll -t counter
fi_rdm
fi_rdm -U
fi_rdm_rma_event
fi_rdm_rma_trigger
fi_shared_ctx
fi_shared_ctx --no-tx-shared-ctx
fi_shared_ctx --no-rx-shared-ctx
fi_rdm_tagged_peek
fi_scalable_ep
fi_rdm_shared_av
fi_multi_mr -e rdm -V
fi_multi_ep -e rdm -v
fi_recv_cancel -e rdm -V
fi_unexpected_msg -e rdm -I 10
fi_msg_inject -A inject -v
fi_msg_inject -N -A inject -v
fi_msg_inject -A inj_complete -v
fi_msg_inject -N -A inj_complete -v
fi_bw -e rdm -v -T 1
fi_bw -e rdm -v -T 1 -U
fi_rdm_multi_client -C 10 -I 5
fi_rdm_multi_client -C 10 -I 5 -U
fi_rma_bw -e rdm -o write -I 5
fi_rma_bw -e rdm -o write -I 5 -U
fi_rma_bw -e rdm -o read -I 5
fi_rma_bw -e rdm -o read -I 5 -U
fi_rma_bw -e rdm -o writedata -I 5
fi_rdm_atomic -I 5 -o all
fi_rdm_atomic -I 5 -o all -U
fi_rdm_cntr_pingpong -I 5
fi_multi_recv -e rdm -I 5
fi_rdm_pingpong -I 5
fi_rdm_pingpong -I 5 -U
fi_rdm_pingpong -I 5 -v
fi_rdm_pingpong -I 5 -v -U
fi_rdm_tagged_pingpong -I 5
fi_rdm_tagged_pingpong -I 5 -U
fi_rdm_tagged_pingpong -I 5 -v
fi_rdm_tagged_pingpong -I 5 -v -U
fi_rdm_tagged_bw -I 5
fi_rdm_tagged_bw -I 5 -U
fi_rdm_tagged_bw -I 5 -v
fi_rdm_tagged_bw -I 5 -v -U
TESTS

echo "$passed passed, $failed failed, $skipped not run"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
