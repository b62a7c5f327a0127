/* SPDX-License-Identifier: BSD-2-Clause */
/* A sample of each message of the protocol, with every field. Only the message figures has none. */
#ifndef CONNECT_TEST_MESSAGES_H
#define CONNECT_TEST_MESSAGES_H

#define SETTINGS_TEXT                                                                        \
	"{\"sl\":1,\"traffic_class\":104,\"pkey_index\":2,\"start_psn\":16777215,"           \
	"\"min_rnr_timer\":1,\"timeout\":14,\"retry_cnt\":7,\"rnr_retry\":0,\"max_sge\":16," \
	"\"max_rdma_wr\":128,\"max_rdma_wr_per_post\":32,\"max_rd_atomic\":16,"              \
	"\"buf_size\":16384,\"send_buf_cnt\":32,\"buf_ack_batch\":8,\"buf_signal_batch\":8," \
	"\"event_ack_batch\":128,\"record_latency_per_peer\":true}"
#define INFO_TEXT                                                                             \
	"\"hostname\":\"node17\",\"dev\":255,\"dev_name\":\"mlx5_0\",\"port\":254,\"mtu\":5," \
	"\"qp_num\":16777214,\"start_psn\":0,"
#define ETHERNET_TEXT   INFO_TEXT "\"gid\":\"::ffff:10.77.0.1\""
#define INFINIBAND_TEXT INFO_TEXT "\"lid\":49151"

#define CONNECT_TEXT(link)                                               \
	"{\"type\":\"connect\",\"version\":1," link ",\"target_dev\":0," \
	"\"target_devname\":\"rxe0\",\"target_port\":1,\"config\":" SETTINGS_TEXT "}"

static const struct {
	enum connect_message_id id;
	const char *text;
} connect_samples[] = {
	{CONNECT_MSG_QUERY, "{\"type\":\"query\",\"version\":1}"},
	{CONNECT_MSG_ASK_FIGURES, "{\"type\":\"stats\",\"version\":1}"},
	{CONNECT_MSG_DEVICES, "{\"type\":\"devices\",\"hostname\":\"node17\",\"devices\":["
			      "{\"dev\":0,\"dev_name\":\"mlx5_0\",\"ports\":["
			      "{\"port\":1,\"link_layer\":2,\"zones\":[\"rack7\",\"row3\"]},"
			      "{\"port\":2,\"link_layer\":1,\"zones\":[]}]},"
			      "{\"dev\":3,\"dev_name\":\"rxe0\",\"ports\":[]}]}"},
	{CONNECT_MSG_CONNECT, CONNECT_TEXT(ETHERNET_TEXT)},
	{CONNECT_MSG_CONNECT, CONNECT_TEXT(INFINIBAND_TEXT)},
	{CONNECT_MSG_CONNECTED, "{\"type\":\"connected\"," ETHERNET_TEXT "}"},
	{CONNECT_MSG_CONNECTED, "{\"type\":\"connected\"," INFINIBAND_TEXT "}"},
	{CONNECT_MSG_ERROR, "{\"type\":\"error\",\"errno\":\"ENODEV\",\"message\":\"no rxe7\"}"},
};
#define N_SAMPLES (sizeof(connect_samples) / sizeof(connect_samples[0]))

#endif
