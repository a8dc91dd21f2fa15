/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a run is like. Every value is drawn from the seed (config.cpp) and can be set by hand, which is how failures
 * are shrunk. Probabilities are in parts per million.
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H


/* What carries the packets of an adapter: Ethernet, Ethernet by software (soft-RoCE), or InfiniBand */
enum { SIM_FABRIC_ETHERNET, SIM_FABRIC_SOFTWARE, SIM_FABRIC_IB };

/* X(name, what it is, value at which the simulator does nothing special) */
#define SIM_CONFIG(X)                                                                                         \
	/* what there is */                                                                                   \
	X(nodes, "nodes", 2)                                                                                  \
	X(endpoints, "endpoints of each node", 1)                                                             \
	X(modes, "modes used, as bits", 0x20)                                                                 \
	X(messages, "messages sent in all", 8)                                                                \
	X(size_max, "longest message, bytes", 64)                                                             \
	X(big, "messages above 64 KiB, ppm", 0)                                                               \
	X(loop, "messages within a node too", 0)                                                              \
	/* applications */                                                                                    \
	X(app_us, "mean time between steps of an application, us", 20)                                        \
	X(tags, "different tags", 1)                                                                          \
	X(untagged, "messages in the untagged space, ppm", 0)                                                 \
	X(wild_source, "receives from any source, ppm", 1000000)                                              \
	X(wild_tag, "receives that ignore bits of the tag, ppm", 0)                                           \
	X(short_buffer, "receives that are too short, ppm", 0)                                                \
	X(late, "receives are posted only after this time, us", 0)                                            \
	X(batch, "most commands in one call", 1)                                                              \
	X(levels, "completion levels used, as bits", 1)                                                       \
	X(cancels, "receives that are cancelled, ppm", 0)                                                     \
	X(multis, "receives that take many messages, ppm", 0)                                                 \
	X(claims, "commands that probe or claim, ppm", 0)                                                     \
	X(pieces, "buffers in several pieces, ppm", 0)                                                        \
	X(closes, "endpoints closed and made anew on the way", 0)                                             \
	X(ring, "completions in a ring", 1024)                                                                \
	X(ring_lazy, "steps without a look at the ring, ppm", 0)                                              \
	X(sends_max, "sends outstanding on an endpoint", 4096)                                                \
	X(recvs_max, "receives posted on an endpoint", 65536)                                                 \
	X(unexpected_kib, "unexpected memory of an endpoint", 1024)                                           \
	X(memlock_kib, "what a process may pin", 65536)                                                       \
	X(pin_cache_mib, "module parameter", 64)                                                              \
	X(unmap, "memory given back to the system when nothing needs it any more, ppm", 0)                    \
	X(quiet, "sends without a completion when they succeed, ppm", 0)                                      \
	X(wrong_job, "endpoints with another job key", 0)                                                     \
	/* the module */                                                                                      \
	X(window_pkts, "module parameter", 64)                                                                \
	X(congestion, "module parameter: 0 auto, 1 fixed, 2 delay", 1)                                        \
	X(target_us, "module parameter", 0)                                                                   \
	X(rto_min_us, "module parameter", 4000)                                                               \
	X(eager_max, "module parameter", 8192)                                                                \
	X(credit_wait_us, "module parameter", 5000)                                                           \
	X(aggregate, "module parameter", 0)                                                                   \
	X(coalesce_us, "module parameter; all bits set: by the fabric", 0)                                    \
	X(ud_recv_depth, "module parameter", 1024)                                                            \
	X(auto_uc_rate, "module parameter", 2000)                                                             \
	X(auto_uc_idle_ms, "module parameter", 10000)                                                         \
	X(auto_uc_max, "module parameter", 256)                                                               \
	X(peer_timeout_ms, "module parameter", 30000)                                                         \
	X(connect_timeout_ms, "module parameter", 10000)                                                      \
	X(zero_copy_min, "module parameter", 131072)                                                          \
	X(regions, "module parameter", 128)                                                                   \
	X(linger_ms, "module parameter", 30000)                                                               \
	X(puts, "of what is submitted, puts, ppm", 0)                                                         \
	X(tells, "of the puts, those of which the other end is told, ppm", 0)                                 \
	/* the wire */                                                                                        \
	X(fabric, "0 Ethernet, 1 Ethernet by software, 2 InfiniBand", 0)                                      \
	X(mtu, "bytes of a packet", 4096)                                                                     \
	X(delay_ns, "one way", 2000)                                                                          \
	X(jitter_ns, "added to it, at most", 0)                                                               \
	X(bandwidth_mbps, "of each port; 0: unlimited", 0)                                                    \
	X(wr_max, "most work requests in a queue of an adapter", 16384)                                       \
	X(send_sges, "places that its work requests may take from", 30)                                       \
	X(post_ns, "what an adapter needs to send a packet, at most", 200)                                    \
	X(queue_kib, "buffer of the switch before each port", 1024)                                           \
	X(loss, "packets lost, ppm", 0)                                                                       \
	X(loss_data, "... of those with frames, in addition", 0)                                              \
	X(loss_control, "... of those without frames, in addition", 0)                                        \
	X(loss_one_way, "... of those that node 0 sends, in addition", 0)                                     \
	X(burst, "bursts of loss begin, ppm of packets", 0)                                                   \
	X(burst_pkts, "mean length of a burst", 8)                                                            \
	X(cm_loss, "messages of the connection manager lost, ppm", 0)                                         \
	X(cm_delay_us, "... delayed, at most", 50)                                                            \
	X(duplicate, "packets that arrive twice, ppm", 0)                                                     \
	X(reorder, "packets that others overtake, ppm", 0)                                                    \
	X(reorder_us, "... delayed by at most", 100)                                                          \
	X(corrupt, "packets with damaged headers, ppm", 0)                                                    \
	X(replay, "old packets that come again, ppm", 0)                                                      \
	/* what happens to nodes */                                                                           \
	X(partitions, "times that some nodes cannot reach some others", 0)                                    \
	X(partition_ms, "... for at most", 500)                                                               \
	X(flaps, "times that a link goes down", 0)                                                            \
	X(flap_ms, "... for at most", 20)                                                                     \
	X(wedges, "queue pairs that go deaf", 0)                                                              \
	X(moves, "times that no address handle leads to a node any more", 0)                                  \
	X(qp_errors, "queue pairs that fail", 0)                                                              \
	X(rebuild_errors, "steps of bringing a datagram queue pair back that an adapter refuses, ppm", 0)     \
	X(final_errors, "adapters cannot take a queue pair that has failed back", 0)                          \
	X(cq_errors, "completion queues of datagrams that fail", 0)                                           \
	X(fresh_cq_errors, "... of those that are about to take the place of others, ppm", 0)                 \
	X(destroy_errors, "queue pairs of datagrams that an adapter does not take away for another one, ppm", 0) \
	X(stuck_errors, "queue pairs that an adapter refuses to flush, and does not by itself, ppm", 0)       \
	X(arm_errors, "completion queues that an adapter does not arm, ppm", 0)                                \
	X(reg_errors, "regions of memory that an adapter does not register, ppm", 0)                          \
	X(map_errors, "payloads that cannot be mapped for an adapter, ppm", 0)                                \
	X(post_errors, "lists of work requests that an adapter refuses, ppm", 0)                              \
	X(late_events, "events of completion queues that come late, ppm", 0)                                  \
	X(late_events_us, "... by at most", 1000)                                                             \
	X(dma_sync, "adapters work on copies of memory, which are moved when they are mapped and unmapped", 0) \
	X(mtu_changes, "times that the MTU of a node changes", 0)                                               \
	X(restarts, "nodes that start anew", 0)                                                               \
	X(twins, "times that another device of a node shows its address", 0)                                  \
	X(pauses, "nodes that stand still", 0)                                                                \
	X(pause_ms, "... for at most", 200)                                                                   \
	X(stops, "processes that stand still", 0)                                                             \
	X(stop_ms, "... for at most", 200)                                                                    \
	X(jumps, "times that the clock jumps ahead", 0)                                                       \
	X(jump_ms, "... by at most", 1000)                                                                    \
	X(alloc, "allocations that fail, ppm", 0)                                                             \
	X(pin, "windows of user memory that cannot be pinned, ppm", 0)                                        \
	X(slow_memory, "work on user memory that takes long, ppm", 0)                                         \
	X(slow_memory_ms, "... at most", 50)                                                                  \
	X(rush, "processes and module go when the faults end, whatever is under way", 0)                      \
	/* the scheduler */                                                                                   \
	X(preempt, "chances to be interrupted that are taken, ppm", 0)                                        \
	X(softirq_us, "until a softirq runs, at most", 2)                                                     \
	X(work_us, "until work runs, at most", 20)                                                            \
	X(interrupt, "chances of an adapter to go on during a softirq that are taken, ppm", 0)                 \
	X(reuse, "caches give out again what was freed last", 0)                                              \
	/* counters */                                                                                         \
	X(wrap, "how far below their wrap counters begin; 0: they begin with 0", 0)                           \
	X(faults_ms, "time during which there are faults", 50)

struct sim_config {
#define X(name, what, usual) unsigned long long name;
	SIM_CONFIG(X)
#undef X
};

#endif /* SIM_CONFIG_H */
