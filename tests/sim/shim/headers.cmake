# SPDX-License-Identifier: GPL-2.0-only
# Every kernel header that kernel/ includes leads to shim/shim.h. Others must not be here: some of the system's own
# headers are called the same.
function(shim_headers folder)
	foreach(header anon_inodes atomic bitmap bvec capability compiler completion cred delay dma-mapping file fs genalloc highmem hrtimer hugetlb inetdevice
			init interrupt interval_tree irq_poll jhash jiffies kernel kref kthread ktime list llist log2 memcontrol mempool mm mmap_lock mmu_notifier module mutex
			netdevice pagemap percpu poll random rbtree rculist refcount rhashtable scatterlist sched sched/mm sched/signal sched/stat
			siphash slab spinlock string types uaccess uidgid user_namespace version vmalloc wait workqueue xarray io_uring/cmd)
		file(CONFIGURE OUTPUT ${folder}/linux/${header}.h CONTENT "#include \"shim.h\"\n")
	endforeach()
	foreach(header net/dst net/flow net/ip6_route net/ipv6 net/net_namespace net/route rdma/ib rdma/ib_addr rdma/ib_cache
			rdma/ib_cm rdma/ib_verbs rdma/rdma_cm)
		file(CONFIGURE OUTPUT ${folder}/${header}.h CONTENT "#include \"shim.h\"\n")
	endforeach()
endfunction()
