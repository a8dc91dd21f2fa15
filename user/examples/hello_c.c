/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Two nodes say hello: "hello_c" waits for a message and answers, "hello_c 10.1.0.2:77" sends one there. */
#include <stdio.h>
#include <stdlib.h>

#include <ibrelk/ibrelk.h>

static int need(enum ibrelk_call call, int code)
{
	if (code < 0) {
		fprintf(stderr, "hello_c: %s\n", ibrelk_error_text(call, code));
		exit(1);
	}
	return code;
}

static struct ibrelk_completion complete(struct ibrelk_ring *ring)
{
	struct ibrelk_wait_options wait = {.count = 1, .timeout_ns = IBRELK_NO_LIMIT};
	struct ibrelk_completion completion;

	need(IBRELK_CALL_WAIT, ibrelk_ring_wait_for(ring, &wait));
	ibrelk_ring_poll(ring, &completion, 1);
	need(IBRELK_CALL_COMPLETION, completion.status);
	return completion;
}

int main(int argc, char **argv)
{
	struct ibrelk_endpoint_options options = {.local.endpoint = argc < 2 ? 77 : 0};
	const uint64_t tag = 1;
	struct ibrelk_device *device;
	struct ibrelk_endpoint *endpoint;
	struct ibrelk_addr address;
	uint32_t peer;
	char text[64];

	need(IBRELK_CALL_OPEN, ibrelk_device_open(NULL, &device));
	need(IBRELK_CALL_RING_CREATE, ibrelk_ring_open(device, 16, &options.send_ring));
	need(IBRELK_CALL_ENDPOINT_CREATE, ibrelk_endpoint_open(device, &options, &endpoint));
	need(IBRELK_CALL_SUBMIT,
		ibrelk_endpoint_recv(endpoint, IBRELK_PEER_ANY, text, sizeof(text), tag, 0, 0));
	if (argc > 1) {
		need(IBRELK_CALL_ADDRESS, ibrelk_address_from_text(argv[1], &address));
		need(IBRELK_CALL_PEER, ibrelk_endpoint_peer_add(endpoint, &address, &peer));
		need(IBRELK_CALL_SUBMIT, ibrelk_endpoint_send(endpoint, peer, "hello", 6, tag, 0));
		complete(options.send_ring); /* of the send */
	}
	peer = complete(options.send_ring).peer; /* of the receive */
	printf("%s\n", text);
	if (argc < 2) {
		need(IBRELK_CALL_SUBMIT, ibrelk_endpoint_send(endpoint, peer, "hello", 6, tag, 0));
		complete(options.send_ring);
	}
	ibrelk_endpoint_close(endpoint);
	ibrelk_ring_close(options.send_ring);
	ibrelk_device_close(device);
	return 0;
}
