#!/bin/bash
# Shows for each fuzzer that it can fail: breaks a copy of the module in one place, and looks whether the fuzzer finds
# out in time, starting from nothing but the corpus in the tree. Ends with how many did.
#
# usage: mutants.sh [--apply] [NAME ...]       --apply: only look whether the changes still change something
set -uo pipefail

. "$(dirname "$0")/../mutants-lib.sh"
work=$root/build/fuzz-mutants
seconds=${IBRELK_FUZZ_MUTANT_S:-120}
export ASAN_OPTIONS=quarantine_size_mb=16

# try NAME FUZZER EXPECTED
try()
{
	local started found
	rm -rf "$work/corpus"
	mkdir -p "$work/corpus"
	if ! "$root/tests/fuzz/build.sh" "$work/build" -DIBRELK_FUZZ_KERNEL="$work/kernel" >/dev/null; then
		echo "$1: does not build, see build/fuzz-mutants/build/log"
		return 1
	fi
	started=$SECONDS
	"$work/build/fuzz-$2" -max_total_time="$seconds" -max_len=1024 -timeout=20 \
		-artifact_prefix="$work/crash-$1-" "$work/corpus" "$root/tests/fuzz/corpus/$2" >"$work/out" 2>&1
	found=$(grep -aE '^broken rule|WARN: |runtime error: |^SUMMARY|^ALARM' "$work/out" | head -n 1)
	if [ -z "$found" ] || ! grep -qE "$3" <<<"$found"; then
		echo "$1: expected $3, but: ${found:-nothing fails}"
		return 1
	fi
	echo "$1: ${found#"$work/"}, after $((SECONDS - started)) s"
}

mutants "$work" try "$@" 3<<'TABLE'
# name | fuzzer | expected | file | change, a substitution of perl
wire-length | wire | overflow | reliability/wire.c | s/ \|\| header_len > len \|\|/ ||/
wire-frame | wire | verdict | reliability/wire.c | s/if \(offset > length \|\| payload_len > length - offset\)/if (payload_len > length - offset)/
wire-type | wire | runtime error\|overflow | reliability/wire.c | s/frame->type >= ARRAY_SIZE\(frame_rules\) \|\| //
ack-bound | engine | not: \|rule\|runtime error | reliability/ack.c | s/rel_seq_after\(ack, sender->next\) \|\| !rel_seq_before\(last, sender->next\)/0/
ack-future | engine | rule\|not: | reliability/ack.c | s/acked.word\[1\] &= sender->flight.word\[1\];//
cookie-twice | pair | rule | reliability/loss.c | s/(rel_bits_clear\(&sender->flight, number - sender->floor\);)/if (cause != REL_LOST_PROBE) $1/
cookie-kept | engine | rule | reliability/conn.c | s/\twhile \(sender->in_flight\) \{/\twhile (sender->in_flight > 1) {/
credit-ignored | engine | rule | reliability/receive.c | s/conn->config.native \? (receiver->end \+ REL_AHEAD_MAX) : conn->credit.granted/$1/
probe-unbounded | engine | rule | reliability/credit.c | s/next, end \+ REL_AHEAD_MAX/next, end + 2 * REL_AHEAD_MAX/
credit-signed | engine | rule | reliability/credit.c | s/limit - rel_credit_next\(conn\) > CREDIT_MAX/rel_seq_diff(limit, rel_credit_next(conn)) > CREDIT_MAX/
floor-delta | engine | rule | reliability/receive.c | s/delta > REL_SPAN_MAX \|\|/delta > 2 * REL_SPAN_MAX ||/
timer-lost | pair | rule | reliability/loss.c | s/if \(sender->in_flight\)\n\t\trel_timer_arm\(conn, REL_TIMER_RTO, now [+] conn->rtt.rto_ns\);/(void)now;/
probe-ack | pair | rule | reliability/receive.c | s/(rel_credit_handle_probe[^\n]*\n)\t\tconn->receiver.ack_now = true;/$1/
match-order | match | oldest | match.c | s/if \(found && found->order < wild->order\)/if (found && found->order <= wild->order + 1)/
match-stays | match | stays\|number | match.c | s/if \(found && !found->stays\)/if (found)/
match-same | match | oldest | match.c | s/list_add_tail\(&links->same, &head->same\)/list_add(&links->same, &head->same)/
match-head | match | find\|oldest\|use-after | match.c | s/\t\tif \(next != links\)\n\t\t\thlist_add_behind\(&next->bucket, &links->bucket\);/(void)next;/
command-reserved | command | right | command.c | s/ \|\| command->reserved\)/)/
command-multi | command | right | command.c | s/command->length > IBR_MULTI_MAX/command->length > IBR_MULTI_MAX + 1/
command-claimed | command | right | command.c | s/\(command->peer \|\| command->ignore \|\| /(command->ignore || /
command-notices | command | right | command.c | s/command->ignore == IBRELK_TAG_WRITTEN - 1/command->ignore/
command-length | command | right | command.c | s/IBRELK_IOVEC_MAX : IBR_MESSAGE_MAX/IBRELK_IOVEC_MAX : IBR_MESSAGE_MAX + 1/
command-pieces | command | right | command.c | s/\? IBRELK_IOVEC_MAX :/? IBRELK_IOVEC_MAX + 1 :/
command-short | command | made up\|whole\|returned | command.c | s/got = bytes \/ sizeof\(chunk\[0\]\);/got = want;/
command-count | command | size\|overflow | command.c | s/ \|\| count > IBR_BATCH_MAX//
TABLE
