#!/bin/bash
# Shows for each checker of the simulator that it can fail: breaks a copy of the module in one place, and looks which
# check says so. Ends with how many did as expected.
#
# usage: mutants.sh [--apply] [NAME ...]       --apply: only look whether the changes still change something
set -uo pipefail

. "$(dirname "$0")/../mutants-lib.sh"
work=$root/build/mutants

# try NAME CHECK VALUES; VALUES may begin with "steps", "streams" or "behind", then what that program is to play.
try()
{
	local values=$3 found target=ibrelk-sim
	case $values in
	steps\ * | streams\ * | behind\ *) target=ibrelk-${values%% *} values=${values#* } ;;
	esac
	if ! { cmake -S "$root/tests/sim" -B "$work/build" -G Ninja -DIBRELK_SIM_KERNEL="$work/kernel" &&
		cmake --build "$work/build" --target "$target"; } >"$work/log" 2>&1; then
		echo "$1: does not build, see build/mutants/log"
		return 1
	fi
	if [ "$target" != ibrelk-sim ]; then
		# shellcheck disable=SC2086
		"$work/build/$target" $values >"$work/out" 2>&1
		found=$(sed -nE 's/^(.*: )?FAILED ([a-z]+)( at .*)?$/\2/p; s/^alloc [^:]*: ([^:]*): .*/\1/p' "$work/out" | head -n 1)
		if ! grep -qxE "$2" <<<"$found"; then
			echo "$1: expected $2, but: ${found:-nothing fails}"
			return 1
		fi
		echo "$1: $found, $(tail -n 1 "$work/out")"
		return
	fi
	[ "$values" = - ] && values=
	# shellcheck disable=SC2086
	"$work/build/ibrelk-sim" --seed 1 --runs 400 --no-shrink $values >"$work/out" 2>&1
	found=$(sed -n 's/^seed [0-9]* FAILED: //p' "$work/out" | head -n 1)
	if [ -z "$found" ] || ! grep -qE "$2" <<<"$found"; then
		echo "$1: expected $2, but: ${found:-nothing fails}"
		return 1
	fi
	echo "$1: $found, in run $(sed -n 's/^\([0-9]*\) runs.*/\1/p' "$work/out")"
}

mutants "$work" try "$@" 3<<'TABLE'
# name | check expected | values, or -: as drawn | file | change, a substitution of perl
packet-twice | twice | duplicate=200000 modes=32 | reliability/receive.c | s/return REL_DUPLICATE;/return REL_NEW;/
packet-old | epoch | replay=300000 restarts=2 corrupt=0 modes=96 alloc=0 | reliability/wire.c | s/return WIRE_BAD_TOKEN;/;/; s/return WIRE_BAD_CHECKSUM;/;/
packet-damaged | damage | corrupt=100000 modes=96 replay=0 | reliability/wire.c | s/return WIRE_BAD_CHECKSUM;/;/
written-twice | twice | duplicate=300000 modes=32 size_max=70000 zero_copy_min=1 | drive.c | s/\tcase REL_DUPLICATE:\n\t\tpath->counters.rx_duplicates\+\+;\n\t\tbreak;\n\tdefault:\n\t\tpath->counters.drop_window/\tcase REL_DUPLICATE:\n\t\tpath->counters.rx_written++;\n\t\tbreak;\n\tdefault:\n\t\tpath->counters.drop_window/
credit-packets | credit | modes=96 | reliability/ack.c | s/cpu_to_le32\(credit->granted\)/cpu_to_le32(credit->granted + 1)/
delivered-lost | progress | levels=4 modes=32 restarts=0 closes=1 alloc=0 tags=1000 wild_source=0 wild_tag=0 size_max=200 messages=100 | message.c | s/ahead = sequence - flow->next;/ahead = sequence - flow->next; if (!ahead \&\& sequence % 32 == 5) { flow->next++; return 0; }/
message-order | order\|match | tags=1 modes=32 late=2000 | match.c | s/list_add_tail\(&links->same, &head->same\)/list_add(&links->same, &head->same)/
message-match | match\|order | tags=10 wild_source=0 | match.c | s/return !\(\(recv->tag \^ tag\) & ~recv->ignore\) &&/return true ||/
message-bytes | bytes | size_max=33000 mtu=1024 modes=32 eager_max=8192 | send.c | s/\(u8 \*\)send->data \+ send->offset;/(u8 *)send->data;/
message-envelope | envelope | - | recv.c | s/completion->tag = result->tag;/completion->tag = 0;/
message-matched | level | levels=8 late=5000 modes=32 size_max=200 | message.c | s/(\tif \(!recv\) \{\n\t\tflow->spent)/\tmessage_matched(flow, frame->flags, flow->next);\n$1/
message-lost | progress\|order | loss=100000 modes=32 restarts=0 closes=0 alloc=0 peer_timeout_ms=30000 connect_timeout_ms=10000 partition_ms=1 pause_ms=1 jump_ms=1 flap_ms=1 faults_ms=50 | message.c | s/ahead = sequence - flow->next;/ahead = sequence - flow->next; if (ahead == 3) { flow->next++; return 0; }/
native-lost | lost | loss=100000 modes=4 levels=2 size_max=64 eager_max=8192 | message.c | s/flow->path->counters.lost_messages\+\+;//
send-twice | completion | - | send.c | s/if \(send->completed\)\n\t\treturn;//
send-status | status\|progress | wedges=4 qp_errors=4 modes=32 loss=100000 restarts=0 closes=0 alloc=0 | path.c | s/same = path->established &&/same = false \&\&/
credit | credit | size_max=9000 | message.c | s/(flow->spent \+= ibr_message_cost\(length\);\n)\t\tflow->waiting_cost \+= ibr_message_cost\(length\);/$1/
credit-ends | credit\|progress | modes=32 restarts=0 closes=0 alloc=0 unexpected_kib=64 | flow.c | s/flow->advertised = flow->limit;\n\tflow->announce_told = announce;/flow->advertised = flow->limit + 1;\n\tflow->announce_told = announce;/
window | bound | window_pkts=8 delay_ns=20000 size_max=33000 modes=32 big=300000 | reliability/engine.h | s/return conn->sender.in_flight < conn->congestion.window_pkts;/return conn->sender.in_flight < conn->congestion.window_pkts + 1;/
count | count\|submit | loss=100000 modes=32 | drive.c | s/list_add_tail\(&frag->link, &path->repeat\);\n\t\tpath->queue\+\+;/list_add_tail(&frag->link, &path->repeat);/
timer | timer\|progress | loss=100000 modes=32 | drive.c | s/if \(at >= path->timer_at\)/if (at >= path->timer_at || path->memory)/
leak | leak | modes=32 | endpoint.c | s/\t\tkfree\(contact\);/\t\t;/
reference | reference\|memory | modes=32 | flow.c | s/ibr_path_put\(flow->path\);\n\tibr_endpoint_put\(flow->endpoint\);\n\tkfree_rcu/ibr_path_put(flow->path);\n\tibr_path_put(flow->path);\n\tibr_endpoint_put(flow->endpoint);\n\tkfree_rcu/
lock-missing | lock | - | drive.c | s/(void ibr_path_drive\(struct ibr_path \*path\)\n\{\n)\tspin_lock_bh\(&path->lock\);\n(.*?)\tspin_unlock_bh\(&path->lock\);/$1$2/s
lock-order | lock | levels=8 | message.c | s/(\tmessage_matched\(flow, message->wire_flags, message->sequence, 0\);\n\t\tmessage_deliver)/\tspin_lock_bh(&endpoint->lock); spin_lock_bh(&flow->path->lock); spin_unlock_bh(&flow->path->lock); spin_unlock_bh(&endpoint->lock);\n$1/
sleeping | lock | alloc=0 | message.c | s/message = kzalloc\(size, GFP_ATOMIC [|] __GFP_ACCOUNT [|] __GFP_NOWARN\);/message = kzalloc(size, GFP_KERNEL);/
freed-timer | timer\|memory\|Segmentation\|reference\|lock | qp_errors=3 restarts=2 modes=32 | path.c | s/hrtimer_cancel\(&path->timer\);//
wrap-early | order\|progress\|count\|match | wrap=20 reorder=300000 modes=32 restarts=0 closes=0 alloc=0 | message.c | s/\(s32\)\(message->sequence - sequence\) < 0/message->sequence < sequence/
wrap-announce | progress\|credit | wrap=300 messages=400 nodes=2 endpoints=1 eager_max=0 modes=32 restarts=0 closes=0 alloc=0 size_max=200 | flow.c | s/\(s32\)\(announce - flow->announce_limit\) > 0/announce > flow->announce_limit/
wrap-work | envelope\|bytes\|order\|match\|damage\|twice\|memory\|progress | wrap=50 wr_max=40 modes=32 | transport/verbs.c | s/send_depth = rounddown_pow_of_two/send_depth = /
answer-never-comes | progress | modes=64 messages=20 app_us=500 late=5000 levels=8 peer_timeout_ms=100 partitions=4 partition_ms=300 faults_ms=800 nodes=2 endpoints=1 restarts=0 | path.c | s/rel_ask\(&path->rel, path->now\)/(void)0/
closed-while-ready | Segmentation\|reference\|progress\|hang\|WARN\|order\|bytes\|memory | closes=3 levels=9 size_max=33000 mtu=256 bandwidth_mbps=10 endpoints=2 nodes=2 modes=32 batch=32 faults_ms=49 | send.c | s/if \(list_empty\(&flow->queue\) && flow->state == IBR_OUTFLOW_OPEN\) \{\n\t\tlist_del_init\(&flow->ready\);\n/{\n/
lane-kept | memory\|reference\|Segmentation\|progress\|order\|WARN | modes=128 auto_uc_rate=1 auto_uc_idle_ms=20 qp_errors=4 | lane.c | s/\tlane->qp = NULL;\n//
lane-running | memory\|Segmentation\|lock\|timer\|reference | modes=128 auto_uc_rate=1 auto_uc_idle_ms=10 work_us=10000 restarts=3 faults_ms=400 | path.c | s/\tcancel_work_sync\(&path->lane.work\);\n//
ring-in-use | memory\|Segmentation\|progress\|WARN | late=5000 loss=300000 modes=32 | reliability/conn.c | s/\tif \(conn->sender.in_flight\)\n\t\treturn false;\n//
kick-lost | wake | wr_max=8 interrupt=500000 post_ns=3000 softirq_us=20 modes=2 messages=300 size_max=70000 delay_ns=5000 | transport/verbs.c | s/ [|][|] test_bit\(IBR_QP_AGAIN, &qp->state\)//
blocked-for-good | wake | modes=96 messages=400 size_max=3000 big=0 nodes=2 endpoints=1 levels=15 app_us=100 batch=64 closes=8 eager_max=1500 delay_ns=20000000 faults_ms=200 restarts=0 | send.c | s/(waiting. \*\/\n)\tibr_outflow_wake\(flow\);/$1/
deaf-unnoticed | progress\|silence\|status | wedges=4 modes=32 restarts=0 closes=0 alloc=0 peer_timeout_ms=30000 | path.c | s/IBR_DEAF_MS \* NSEC_PER_MSEC\)\n\t\tpath_break\(path, -ETIMEDOUT\);/IBR_DEAF_MS * NSEC_PER_MSEC)\n\t\tpath->look_at = path->now;/
arm-ignored | progress\|silence\|wake\|status | arm_errors=100000 modes=96 loss=0 restarts=0 | transport/verbs.c | s/\tif \(unlikely\(ret < 0\) && .*?\n\t\tqp_fail\(qp, ret\);\n//
arm-once | progress\|silence\|wake\|status | arm_errors=100000 modes=64 loss=0 restarts=0 | transport/verbs.c | s/\tWRITE_ONCE\(qp->armed, true\);\n\tret = ib_req_notify_cq.*?;\n\treturn ret \?: /\treturn /
mtu-untold | progress | mtu_changes=30 modes=96 size_max=33000 faults_ms=100 rush=0 | device.c | s/\tif \(less\)\n\t\tibr_paths_break.*?;\n//
mtu-late | progress | mtu_changes=30 modes=96 size_max=33000 faults_ms=100 rush=0 flaps=0 cm_delay_us=30000 nodes=2 | connect.c | s/\(ud \? cm->breaks != .*? :/(ud ? false :/
mtu-overtaken | progress | --usual --seed 2688 modes=64 messages=66 size_max=9000 app_us=50000 cm_delay_us=200000 partitions=3 partition_ms=2500 mtu_changes=12 faults_ms=8000 | connect.c | s/link->heard_max && link->heard_max </false \&\& link->heard_max </
told-kept | progress\|silence\|status\|storm | mtu_changes=30 modes=96 size_max=33000 faults_ms=100 rush=0 flaps=0 cm_delay_us=30000 nodes=2 | connect.c | s/\tif \(!cm->active\) .*?\n\t\tcm->told = false;\n//
told-by-calls | progress\|silence\|status | mtu_changes=30 modes=96 size_max=33000 faults_ms=100 rush=0 flaps=0 cm_delay_us=30000 nodes=2 | connect.c | s/if \(!link->cm->told\)/if (!link->cm->told || link->passive)/
unpaid-count | count | unexpected_kib=64 late=5000 modes=32 size_max=3000 credit_wait_us=50 | send.c | s/\tflow->unpaid--;\n//
unpaid-bound | bound | unexpected_kib=64 late=5000 modes=32 size_max=3000 credit_wait_us=50 | send.c | s/if \(flow->unpaid < flow->unpaid_max [|][|] cost/if (flow->unpaid <= flow->unpaid_max || cost/
unpaid-step | bound | unexpected_kib=64 late=5000 modes=32 size_max=3000 credit_wait_us=50 | drive.c | s/: max\(flow->unpaid_max, IBR_UNPAID_STEP\)/: 2 * flow->unpaid_max + 1/
turns-none | turn | endpoints=3 mtu=256 size_max=9000 modes=32 | drive.c | s/\t\t\tpath->bulk_turns--;\n//
turns-long | turn | endpoints=3 size_max=100 modes=32 late=0 | drive.c | s/ && slot == path->packet.slot/ && path->packet.slot/
slot-taken | wake\|progress | endpoints=2 modes=48 messages=95 size_max=70000 app_us=3 mtu=512 delay_ns=1148 wr_max=16 softirq_us=10 work_us=100 restarts=0 | transport/verbs.c | s/waiting && qp_seek_slot\(qp\)/waiting \&\& (qp_reap(qp), qp->free_count)/
multi-order | bound\|order\|progress | multis=500000 late=5000 tags=1 modes=32 | recv.c | s/found = match_message_find\(&endpoint->match, &multi->match\);/found = NULL;/
multi-overlap | bytes | multis=700000 modes=32 | recv.c | s/\t\tmulti->used \+= min\(ALIGN\(length, PART_ALIGN\), left\);\n//
multi-room | bound | multis=700000 modes=32 size_max=200 | recv.c | s/ [|][|] multi->umem.length - multi->used < multi->room//
multi-early | completion\|memory | multis=700000 modes=32 big=300000 pin=500000 slow_memory=500000 | recv.c | s/\t\trefcount_inc\(&multi->refs\);\n//; s/\tif \(multi\)\n\t\tmulti_put\(multi\);\n//
multi-bounced | bytes | multis=700000 pin=800000 modes=32 size_max=200 | memory.c | s/window->bounce->data \+ start, length,/window->bounce->data, length,/
pieces-order | bytes\|envelope | pieces=1000000 modes=32 size_max=70000 | memory.c | s/offset -= cursor.piece->length;/offset = 0;/
pieces-page | bytes\|memory\|Segmentation | pieces=1000000 modes=32 size_max=70000 | memory.c | s/stretch->place \+ into/into/
pieces-leak | leak | pieces=1000000 modes=32 size_max=70000 | memory.c | s/\tkfree\(buffer->pieces\);\n\tbuffer->pieces = NULL;/\t;/
pins-stale | bytes | unmap=1000000 modes=32 size_max=33000 pin=0 | pins.c | s/\bspace_tell(_unmapped)?\(space, range->start.*?;/;/g
pins-kept | bound | pin_cache_mib=1 modes=32 size_max=70000 big=300000 pin=0 | pins.c | s/\tif \(space_shrink\(space, space->idle_max - pins->nr_pages\)\) \{.*?\n\t\}\n//s
pins-closed | leak\|reference\|memory\|work | modes=32 size_max=33000 pin=0 | pins.c | s/&& space->openers && /\&\& /; s/\t\tspace_trim\(space, 0\);\n\t\tif \(cancel/\t\tif (cancel/
pins-again | bound\|leak\|memory\|shim\|Segmentation | modes=32 size_max=33000 pin=0 | pins.c | s/if \(pins && pins->users\+\+ == 0\)/if (pins && pins->users == 0)/
multi-leak | leak | multis=500000 | recv.c | s/\t\tkmem_cache_free\(recv_cache, part\);\n/\t\t;\n/
write-name | bytes | modes=4 nodes=2 endpoints=1 messages=24 size_max=70000 big=300000 zero_copy_min=1 mtu=256 loss=30000 | rendezvous.c | s/(\twindow->state = window->mr \? IBR_WINDOW_CLOSING : IBR_WINDOW_FREE;\n)/$1\tif (window->name)\n\t\tpath->written[window->name & ~WIRE_CTS_KEY] = NULL;\n\twindow->name = 0;\n/; s/(static void window_close\(struct ibr_window \*window\)\n\{\n)/$1\tstruct ibr_path *path = window->transfer->flow->path;\n\n/
write-unit | bytes\|progress | modes=32 size_max=70000 zero_copy_min=1 | rendezvous.c | s/into \/ send->window\[0\].unit << WIRE_IMMEDIATE_UNIT;/(into \/ send->window[0].unit ^ 1) << WIRE_IMMEDIATE_UNIT;/
write-lost | progress | modes=32 size_max=70000 zero_copy_min=1 loss=50000 restarts=0 closes=0 alloc=0 | rendezvous.c | s/\tif \(send->finished\) \{\n\t\tibr_frag_put\(frag\);/\tif (true) {\n\t\tibr_frag_put(frag);/
put-anywhere | WARN | puts=300000 | region.c | s/\t\treturn -EFAULT;\n\tif \(!ibr_pins_share/\t\treturn 0;\n\tif (!ibr_pins_share/
put-any-key | status | puts=300000 | region.c | s/region->key != key \|\| //
get-not-read | bytes | puts=300000 | region.c | s/\telse if \(length\)\n\t\tibr_umem_copy_from/\telse if (false)\n\t\tibr_umem_copy_from/
notice-of-failure | completion | puts=300000 tells=1000000 | send.c | s/if \(send->notice && !status\)/if (send->notice)/
notice-halves | completion\|fence | puts=300000 tells=1000000 | send.c | s/atomic_set\(&put->parts, 2\)/atomic_set(\&put->parts, 1)/
get-copies | bound | puts=900000 unexpected_kib=64 nodes=2 endpoints=1 messages=600 batch=64 size_max=8000 delay_ns=3000000 | send.c | s/ <= endpoint->unexpected_max\) \{/ <= ~0ull) {/
get-never-told | progress\|completion | puts=300000 | message.c | s/\tif \(error \|\| !answers\)\n\t\tibr_transfer_refuse\(flow, message, error\);\n//
get-header-kept | credit | puts=300000 | send.c | s/\tibr_inflow_return_header\(flow\);\n\}\n\nvoid ibr_send_retire/}\n\nvoid ibr_send_retire/
put-refused | status | puts=300000 | message.c | s/message_matched\(flow, WIRE_MSG_SYNC, sequence, error\);/message_matched(flow, WIRE_MSG_SYNC, sequence, 0);/g
put-not-written | bytes | puts=300000 | region.c | s/\tif \(length && right == IBRELK_REGION_REMOTE_WRITE\)\n/\tif (false)\n/
atomic-twice | bytes | puts=300000 | message.c | s/(ibr_message_compute\(message, space, NULL\));/$1 ?: $1;/
atomic-order | bytes | puts=300000 | atomic.c | s/return is_signed\(type\) \? \(s64\)left < \(s64\)right : left < right;/return left < right;/
atomic-narrow | bytes | puts=300000 | atomic.c | s/\(u64\)\(s64\)\(s32\)value/value/
atomic-refused | status | puts=300000 | message.c | s/(\tif \(error \|\| !answers\)\n\t\tibr_transfer_refuse\(flow, message, )error/${1}0/
atomic-silent | progress | puts=300000 | message.c | s/\tif \(error \|\| !answers\)\n\t\tibr_transfer_refuse/\tif (error)\n\t\tibr_transfer_refuse/
atomic-told | bytes | puts=300000 | atomic.c | s/\t\t\tif \(before\)\n\t\t\t\tmemcpy\(before \+ offset, &old, size\);\n\t\t\}/\t\t\t;\n\t\t}/
ask-memory | leak\|memory | puts=300000 | message.c | s/struct_size\(message, data, message->room\)/struct_size(message, data, message->length)/
fence-receiver | fence | modes=32 size_max=70000 zero_copy_min=1 | rendezvous.c | s/if \(transfer->window\[i\].state != IBR_WINDOW_FREE\)\n\t\t\treturn;/if (false)\n\t\t\treturn;/; s/\tif \(window->state == IBR_WINDOW_FREE\)\n\t\ttransfer_progress/\tif (true)\n\t\ttransfer_progress/; s/if \(transfer->window\[i\].state != IBR_WINDOW_FREE\)\n\t\t\tdone/if (transfer->window[i].state == IBR_WINDOW_OPEN)\n\t\t\tdone/
fence-sender | fence | modes=32 size_max=70000 zero_copy_min=1 post_ns=50000 delay_ns=500 duplicate=300000 loss=100000 | memory.c | s/ [|][|] unlikely\(atomic_read\(&umem->readers\)\)//
region-kept | fence\|leak | modes=32 size_max=70000 zero_copy_min=1 | transport/mr.c | s/if \(mr->posted && ib_dereg_mr\(mr->ib\)\)/if (false)/
rc-unfenced | fence | modes=18 size_max=70000 zero_copy_min=1 big=300000 closes=8 levels=8 | rendezvous.c | s/if \(!path->transport->late_write_breaks [|][|]/if (true ||/
rc-fenced-for-good | fence\|left | steps fenced | path.c | s/\tibr_windows_fenced\(path, 0\);\n//g
rc-written-again | fence | modes=2 size_max=70000 zero_copy_min=1 big=300000 qp_errors=4 jitter_ns=3000000 | rendezvous.c | s/path->transport->late_write_breaks && offset < send->offset \? 0 : frame->flags/frame->flags/
rc-fence-of-connection | fence | steps fenced receiver-dies --seeds 100 | path.c | s/(\tpath->error = error;\n)(\tif \(!path->broken_since\))/$1\tibr_windows_fenced(path, 0);\n$2/
rc-fence-early | fence | steps fenced receiver-dies | rendezvous.c | s/window->state = IBR_WINDOW_FENCED;/window_close(window);/
rc-fence-unnamed | fence\|left | steps fenced copied | rendezvous.c | s/IBR_WINDOW_OPEN && window->name && fence/IBR_WINDOW_OPEN \&\& window->mr \&\& fence/; s/IBR_WINDOW_OPEN && transfer->window\[i\].name/IBR_WINDOW_OPEN \&\& transfer->window[i].mr/
claim-stays | twice\|claim\|order\|memory\|Segmentation | claims=500000 modes=32 late=3000 | recv.c | s/\tmatch_message_remove\(&endpoint->match, &message->match\);\n\tendpoint->claimed/\tendpoint->claimed/
claim-blind | claim | claims=700000 modes=32 | recv.c | s/found = match_message_find\(&endpoint->match, &wanted\);/found = command->opcode == IBRELK_OP_CLAIM ? NULL : match_message_find(&endpoint->match, &wanted);/
claim-free | bound | claims=500000 modes=32 | recv.c | s/\t\tibr_message_unhold\(endpoint, message\);\n\t\}\n\tspin_unlock_bh\(&endpoint->lock\);\n\treturn message;/\t}\n\tspin_unlock_bh(&endpoint->lock);\n\treturn message;/
discard-silent | progress | claims=500000 modes=32 levels=8 late=2000 restarts=0 closes=0 alloc=0 | message.c | s/\telse if \(received\)\n\t\tmessage_matched\(flow, message->wire_flags, message->sequence, 0\);\n//
discard-rts | progress | claims=500000 modes=32 size_max=33000 restarts=0 closes=0 alloc=0 | message.c | s/\tif \(received && message->rts\)\n\t\tibr_transfer_refuse\(flow, message, 0\);\n\telse if/\tif/
share-none | progress\|storm\|hang | modes=64 nodes=8 endpoints=1 ud_recv_depth=64 messages=400 | transport/verbs.c | s/return share < SHARE_MIN \? SHARE_MIN : /return share < 64 ? 0 : /
step-not-told | outcome | steps table lost sender-dies | rendezvous.c | s/(if \(known\)\n\t\t)transfer_end\(transfer, error, 0\);/$1list_del_init(&transfer->link);/
step-fin | outcome | steps table fin-lost receiver-dies | flow.c | s/flow->tells = tell && flow->answers;/flow->tells = false;/; s/tell && !flow->answers/tell/
step-read | fence | steps table still-read | memory.c | s/ [|][|] unlikely\(atomic_read\(&umem->readers\)\)//
step-name | left | steps table first-sent sender-dies uc-reliable | rendezvous.c | s/\tif \(window->name\)\n\t\twindow->transfer->flow->path->written\[.*?\] = NULL;\n//
step-pages | left | steps table sender-pins sender-dies | send.c | s/\tif \(send->finished\)\n\t\tsend_finish\(send\);\n\telse if/\tif/
alloc-deregister | outcome | steps alloc uc-reliable --stride 1 | transport/mr.c | s/\t\tqueue_delayed_work\(mr_queue, &mr->work, HZ\);\n//
share-first | fair | streams fair-ud-32 | transport/verbs.c | s/\tshare = qp->recv_depth \/ 2.*?;/\tstatic const struct ibr_path *first;\n\tfirst = first ?: path;\n\tshare = path == first ? qp->recv_depth : SHARE_MIN;/
share-first-late | fair | streams late-ud-8 | transport/verbs.c | s/\tshare = qp->recv_depth \/ 2.*?;/\tstatic u32 count;\n\tshare = path->share <= SHARE_MIN || (path->share == IBR_CREDIT_PKTS \&\& count++ >= 7) ? SHARE_MIN : 8;/
share-two | fair | streams least-ud-32 | transport/verbs.c | s/(SHARE_MIN\t+)1u/${1}2u/
credit-short | calm\|progress | modes=16 wr_max=16 faults_ms=1 big=500000 nodes=2 endpoints=1 loss_data=0 loss_control=0 | transport/verbs.c | s/qp->credits = clamp.*?;/qp->credits = IBR_CREDIT_PKTS;/
transfers-first | fair | streams transfers-ud | rendezvous.c | s/list_move_tail\(&send->bulk, &path->bulk\)/list_move(&send->bulk, &path->bulk)/
transfers-first-written | fair | streams transfers-uc | rendezvous.c | s/list_move_tail\(&send->bulk, &path->bulk\)/list_move(&send->bulk, &path->bulk)/
newcomer-none | newcomer | streams newcomer-ud | flow.c | s/unexpected_max - endpoint->unexpected_max \/ 4/unexpected_max/; s/\(endpoint->unexpected_max - endpoint->unexpected_granted\) \/ 4,\n/endpoint->unexpected_max - endpoint->unexpected_granted,\n/
share-kept | fair | streams fair-ud-32 | drive.c | s/\t\trel_credit_share\(&path->rel, share\);\n//
stopped-refused | calm | streams stopped-ud-64 | message.c | s/(recv = ibr_recv_take\(endpoint, flow->contact, space, tag, length\);\n\tif \(!recv\) \{\n\t\tmessage = )message_alloc/$1endpoint->match.messages >= 8 ? NULL : message_alloc/
stopped-refused-drawn | calm | stops=6 loss=0 loss_data=0 loss_control=0 loss_one_way=0 burst=0 cm_loss=0 duplicate=0 reorder=0 corrupt=0 replay=0 partitions=0 flaps=0 wedges=0 qp_errors=0 restarts=0 post_errors=0 mtu_changes=0 pauses=0 jumps=0 alloc=0 closes=0 rush=0 rebuild_errors=0 arm_errors=0 reg_errors=0 bandwidth_mbps=0 cm_delay_us=50 modes=96 size_max=64 | message.c | s/(recv = ibr_recv_take\(endpoint, flow->contact, space, tag, length\);\n\tif \(!recv\) \{\n\t\tmessage = )message_alloc/$1endpoint->match.messages >= 8 ? NULL : message_alloc/
stopped-silent | calm | streams stopped-uc-4096 | reliability/conn.c | s/return conn->sender.in_flight \|\| conn->credit.blocked \|\| conn->credit.asked;/return true;/
opening-queued | opening | streams opening-ud | flow.c | s/(\tlist_move_tail\(&flow->ready, &flow->path->opening\);\n)/\tstruct wire_frame more = { .type = WIRE_FRAME_FIN };\n\n\tibr_control_send(flow->path, &more);\n$1/
closing-aborts | closing | streams closing-uc | flow.c | s/path->queue >= IBR_CONTROL_CROWD/path->queue > IBR_CONTROL_MAX/
closing-buffered | streams | streams buffered-uc | flow.c | s/ &&\n\t\t    !\(sends_are_buffered\(&flow->sent\) && sends_are_buffered\(&flow->queue\)\)//
opening-reserve | starved | streams starved-ud | flow.c | s/frag = ibr_frag_alloc_bulk\(\)/frag = ibr_frag_alloc(0)/
opening-first | turns | streams turns-ud | drive.c | s/\tpath->opening_turns--;\n//
opening-most | openings | streams openings-ud | flow.c | s/share->openings >= IBR_OPENINGS_MAX - path->opening_count/path->opening_count >= IBR_OPENINGS_MAX/
opening-count | count | streams openings-ud | flow.c | s/(\tflow->state = IBR_OUTFLOW_CLOSED;\n)\tshare_opened\(flow\);\n/$1/
shares-none | shares | streams shares-ud | flow.c | s/\(share \? share->inflows : 0\) < IBR_INFLOWS_MAX - path->inflow_count/(share || true) \&\& path->inflow_count < IBR_INFLOWS_MAX/
peers-more | peers | streams peers | flow.c | s/full = endpoint->flow_count - endpoint->learned >= IBR_PEERS_MAX/full = false/
overlap-kept | overlap | streams overlap-ud | message.c | s/\t\tmemset\(message->data, 0, length\);\n//
signal-each | chains | streams chains-uc-64 | transport/verbs.c | s/define SIGNAL_EVERY\t\t8/define SIGNAL_EVERY\t\t1/
signal-more | chains | streams chains-ud-4096 | transport/verbs.c | s/define SIGNAL_EVERY\t\t8/define SIGNAL_EVERY\t\t4/
chain-none | chains | streams chains-ud-64 | transport/verbs.c | s/(\tqp_chain\(qp, send\);\nout:\n\tspin_unlock\(&qp->lock\);\n)(\}\n\n\/\* The work)/$1\tibr_qp_flush(qp);\n$2/
flood-blocks | beside | behind flood-uc | message.c | s/\tmessage = message_alloc\(flow, le16_to_cpu\(frame->payload_len\)\);/\tmessage = flow->headers_waiting > 900 ? NULL : message_alloc(flow, le16_to_cpu(frame->payload_len));/
flood-drains | drain | behind flood-ud | flow.c | s/return (flow->announced - flow->headers_waiting \+ flow->headers);/return min($1, IBR_COUNTERS_START + 1100);/
regions-uncounted | regions | streams regions | rendezvous.c | s/\t\tpath->counters.windows_copied\+\+;\n//g
regions-more | leak | streams regions | transport/mr.c | s/\t\tmrs_destroy_qp\(mrs\);\n\t\tret = mrs_make_qp/\t\tret = mrs_make_qp/
regions-untold | progress | streams regions-stuck-removed | device.c | s/\tibr_mrs_stop\(device->mrs\);\n//
regions-taken | streams | streams regions-stuck | transport/mr.c | s/(\tib_drain_sq\(mrs->qp\);\n\treturn) ret;/$1 0;/
datagrams-early | datagrams | streams datagrams-unready | transport/verbs.c | s/\tif \(moved\)\n/\tif (moved || ret)\n/
datagrams-number | streams | streams datagrams-told | connect.c | s/\(ud \? cm->breaks != .*? :/(ud ? false :/
datagrams-often | datagrams | streams datagrams-again | transport/verbs.c | s/qp->pause_ms = clamp\(.*?;/;/
datagrams-slow | streams | streams datagrams-again | transport/verbs.c | s/\t\tqp->pause_ms = 0;\n/\t\t;\n/
datagrams-spoilt | streams | streams datagrams-spoilt | transport/verbs.c | s/(\treturn qp_back_ud\(qp\);\n\nerr_cqs)/\tWRITE_ONCE(qp->spoilt, false);\n$1/
datagrams-key | streams | streams datagrams-moved | device.c | s/\tcase IB_EVENT_PKEY_CHANGE:\n//
datagrams-two | datagrams | streams datagrams-kept | transport/verbs.c | s/\tif \(ret\) \{\n\t\tib_destroy_qp\(ib_qp\);\n\t\tgoto err_cqs;\n\t\}\n//
regions-once | streams | streams regions | transport/mr.c | s/\t\tqueue_delayed_work\(mr_queue, &mrs->rebuild_work,\n.*?\);\n//
idle-ring | idle | streams idle-ud | path.c | s/\t\telse if \(rel_ring_drop\(&path->rel\)\)\n\t\t\tpath_free_ring\(path\);\n//
idle-grows | idle | streams idle-ud | path.c | s/kzalloc\(sizeof\(\*path\), GFP_KERNEL_ACCOUNT\)/kzalloc(sizeof(*path) + 64 * path_count, GFP_KERNEL_ACCOUNT)/
numbers-end | numbers | streams numbers | endpoint.c | s/XA_LIMIT\(FIRST_FREE_ID, U32_MAX - 1\)/XA_LIMIT(FIRST_FREE_ID, U32_MAX)/
key-none | adapter | modes=32 | transport/verbs.c | s/k < ARRAY_SIZE\(send->sge\)/k < 2/
talk-vain | talk | streams talk-uc | drive.c | s/\tif \(path->timer_at < soon && .*?\n.*?;\n//
talk-late | timer | streams talk-uc | drive.c | s/(REL_TIME_NEVER\)\n\t\tpath->timer_at = )REL_TIME_NEVER;/${1}REL_TIME_NEVER, at += 100000;/
coalesced-timer | wake | streams coalesced-ud-full | drive.c | s/\t\tdrive_arm_at\(path, path->held_until\);/\t\t;/
coalesced-timer-drawn | wake | modes=32 aggregate=1 coalesce_us=1000 size_max=64 levels=2 | drive.c | s/\t\tdrive_arm_at\(path, path->held_until\);/\t\t;/
coalesced-late | coalesced | streams coalesced-uc-full | drive.c | s/min\(wait_us, COALESCE_US_MAX\)/2 * min(wait_us, COALESCE_US_MAX)/
coalesced-full | coalesced | streams coalesced-ud-full | drive.c | s/ [|][|] path->held >= packets \* held_full\(path\)//
coalesced-batch | coalesced | streams coalesced-ud-batch | drive.c | s/path->held_messages > 1 \? 1 : HELD_PACKETS/HELD_PACKETS/
coalesced-frames | coalesced | streams coalesced-ud-full | drive.c | s/max_t\(u32, bytes, slot \/ WIRE_FRAMES_MAX\)/bytes/
coalesced-kept | coalesced\|wake | streams coalesced-uc-full | drive.c | s/\tpath->held = 0;\n//
coalesced-urge | coalesced | streams coalesced-ud-urged | flow.c | s/\t\tibr_path_urge\(path\);/\t\t;/
coalesced-level | coalesced | streams coalesced-ud-delivered | flow.c | s/send->level == IBRELK_LEVEL_BUFFERED && send->data/send->data/
coalesced-few | coalesced | streams coalesced-uc-few | flow.c | s/(STREAM_MESSAGES\t)4/${1}3/
coalesced-many | coalesced | streams coalesced-ud-urged | flow.c | s/(STREAM_MESSAGES\t)4/${1}5/
coalesced-alone | coalesced | streams coalesced-uc-alone | drive.c | s/!READ_ONCE\(ibr_aggregate\) [|][|] //
coalesced-early | coalesced | streams coalesced-ud-moments-full | drive.c | s/at = path->held_until \? .*? : 0;/at = 0;/
coalesced-most | coalesced | streams coalesced-ud-most | drive.c | s/min\(wait_us, COALESCE_US_MAX\)/wait_us/
coalesced-default | coalesced | streams coalesced-ud-software | drive.c | s/(COALESCE_SOFTWARE_US\t)20/${1}200/
coalesced-none | coalesced | streams coalesced-uc-software | drive.c | s/\? COALESCE_SOFTWARE_US : 0/? 0 : 0/
coalesced-adapter | coalesced | streams coalesced-uc-adapter | drive.c | s/\? COALESCE_SOFTWARE_US : 0/? 20 : 20/
coalesced-off | coalesced | streams coalesced-ud-off | drive.c | s/wait_us < 0/wait_us <= 0/
coalesced-passed | coalesced | streams coalesced-ud-late | drive.c | s/\tif \(patience && path->held_until && path->held_until <= path->now\)\n\t\tpatience = 0;\n//
coalesced-last | coalesced | streams coalesced-ud-last | flow.c | s/atomic_read\(&flow->endpoint->sends\) < flow->endpoint->sends_max/true/
coalesced-again | coalesced | streams coalesced-ud-paused | flow.c | s/flow->streak \/= 2/flow->streak = 0/
coalesced-kept-on | coalesced | streams coalesced-uc-few | flow.c | s/\t\tflow->streak \/= 2;/\t\t;/
coalesced-packets | coalesced | streams coalesced-ud-full | drive.c | s/(HELD_PACKETS\t)4/${1}3/
packed-payloads | coalesced | streams coalesced-ud-packed | transport/transport.h | s/(IBR_SLOT_PAYLOADS\t)3/${1}2/
packed-places | coalesced\|adapter\|post | streams coalesced-ud-narrow | drive.c | s/ && packet->apart < packet->slot->frags_max;/;/
packed-order | bytes | modes=32 aggregate=1 coalesce_us=1000 size_max=2000 levels=2 | drive.c | s/payload > \(apart \? 0 : IBR_FRAG_SMALL\)/payload > IBR_FRAG_SMALL/
packed-cut | coalesced | streams coalesced-uc-cut | send.c | s/if \(rest > path->payload_max && !send->offset\)/if (false)/
packed-grown | streams | streams grown | drive.c | s/return sizeof\(struct wire_header\) \+ sizeof\(struct wire_frame\) \+ path->payload_max;/return path->remote.packet_max;/
packed-held | coalesced | streams coalesced-ud-packed | drive.c | s/max_t\(u32, bytes, DIV_ROUND_UP\(held_full\(path\), IBR_SLOT_PAYLOADS\)\)/bytes/
congestion-fixed | congestion | streams congestion-ethernet | path.c | s/path->fabric == IBR_FABRIC_LOSSLESS \|\| path->native \? CONGESTION_FIXED : CONGESTION_DELAY/CONGESTION_FIXED/
congestion-lossless | congestion | streams congestion-infiniband | path.c | s/path->fabric == IBR_FABRIC_LOSSLESS \|\| path->native/path->native/
congestion-native | congestion | streams congestion-ethernet-native | path.c | s/path->fabric == IBR_FABRIC_LOSSLESS \|\| path->native/path->fabric == IBR_FABRIC_LOSSLESS/
congestion-target | congestion | streams congestion-software | path.c | s/path->fabric == IBR_FABRIC_SOFTWARE \? TARGET_SOFTWARE_US : //
credit-kept | credit | streams credit | message.c | s!if \(\!lost \|\| lost > flow->limit - flow->spent\)!if (true)!
wrap-spent | credit | streams credit-ud | message.c | s!u32 lost = spent - \(u32\)flow->spent;!u64 lost = (u64)spent - (u32)flow->spent;!
TABLE
