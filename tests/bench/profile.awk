# Prints what profile.sh has found: MODE and instructions per message by the clock, and then from a second file MODE,
# function (and its module, in brackets) and instructions per message. Tabs are between them.

BEGIN { FS = "\t" }

FNR == NR { clock[$1 == "uc-reliable" ? "written" : "copied"] = $2; next }

{
	count[$2, $1] += $3
	count["sum", $1] += $3
	count[kind($2), $1] += $3
	if (!($2 in known)) {
		known[$2] = 1
		name[++names] = $2
	}
}

# What a function of the kernel is for is known by its name, well enough for the few that matter.
function kind(f) {
	if (f == "user space")
		return "user space "
	if (f ~ /crc/)
		return "checksums "
	if (f ~ /^(memcpy|__memcpy|copy_|_copy_|__copy|memset|__memset|clear_page|rep_)/ || f ~ /memcpy|copy_user|ibr_umem_copy/)
		return "copies "
	if (f ~ /\[ibrelk\]/)
		return "ibrelk "
	if (f ~ /\[(rdma_rxe|ib_|rdma_cm|iw_cm)/)
		return "soft-RoCE, verbs "
	if (f ~ /\[veth\]|skb|^(__)?(ip|ip6|udp|udp4|udp_tunnel|inet|dev|netif|net|eth|neigh|fib|nf|sock|sk|dst|xfrm|qdisc|sch|rt|napi|raw|validate_xmit|process_backlog|enqueue_to_backlog|enqueue|pskb|csum|do_csum)_/)
		return "IP, UDP, veth "
	if (f ~ /page|slab|kmem|kmalloc|kfree|kvfree|_gup|gup_|pin_|pte|pmd|pud|fault|rmqueue|zone|folio|memcg|mem_cgroup|alloc|dma_|free_/)
		return "memory "
	if (f ~ /lock|rcu|preempt|atomic|refcount|softirq|tasklet|local_bh/)
		return "locks, RCU, softirqs "
	return "other "
}

function cells(f,    m, i, line) {
	split("written copied", m, " ")
	for (i = 1; i <= 2; i++)
		line = line sprintf(" %11.0f %6.2f", count[f, m[i]], 100 * count[f, m[i]] / count["sum", m[i]])
	return line sprintf(" %11.0f", count[f, "copied"] - count[f, "written"])
}

function print_heading(first) {
	printf "%-44s %11s %6s %11s %6s %11s\n", first, "written", "%", "copied", "%", "saved"
}

END {
	print_heading("what")
	split("checksums ,copies ,soft-RoCE~ verbs ,IP~ UDP~ veth ,memory ,ibrelk ,locks~ RCU~ softirqs ,other ,user space ", kinds, ",")
	for (i = 1; i in kinds; i++) {
		gsub("~", ",", kinds[i])
		printf "%-44s%s\n", kinds[i], cells(kinds[i])
	}
	printf "%-44s%s\n", "sum", cells("sum")
	printf "%-44s %11.0f %6s %11.0f\n\n", "by the clock", clock["written"], "", clock["copied"]
	print_heading("function")
	# By what it takes in either mode.
	for (n = 0; n < functions; n++) {
		best = ""
		for (i = 1; i <= names; i++)
			if (!(i in printed) && (best == "" || weight(name[i]) > weight(name[best])))
				best = i
		if (best == "")
			break
		printed[best] = 1
		printf "%-44s%s\n", name[best], cells(name[best])
	}
}

function weight(f) { return count[f, "written"] + count[f, "copied"] }
