/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "lib/rdma/info.h"
#include "lib/rdma/qp.h"

#define MAX_FLOW_LABEL 0xfffff
#define MAX_SL         15

static int failed(const struct inc_rdma_qp *qp, int error, const char *step, struct inc_err *err)
{
	return inc_err_set(err, error, "%s: %s: %s%s", qp->what, step, strerror(error),
			   error == ETIMEDOUT || error == EHOSTUNREACH ? " (no ARP answer?)" : "");
}

int inc_rdma_qp_make(struct inc_rdma_qp *qp, struct inc_rdma_device *device,
		     const struct inc_rdma_qp_opts *opts, struct inc_err *err)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = opts->send_cq,
		.recv_cq = opts->recv_cq,
		.cap = {.max_send_wr = opts->caps.send_wr,
			.max_recv_wr = opts->caps.recv_wr,
			.max_send_sge = opts->caps.send_sge,
			.max_recv_sge = opts->caps.recv_sge,
			.max_inline_data = opts->caps.inline_bytes},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = opts->pkey_index,
		.port_num = opts->port,
		.qp_access_flags = opts->access,
	};
	int ret;

	*qp = (struct inc_rdma_qp){.port = opts->port, .caps = opts->caps};
	ret = inc_rdma_qp_caps_check(device->name, &device->limits, &opts->caps, err);
	if (ret)
		return ret;
	qp->device = inc_rdma_device_ref(device);
	snprintf(qp->what, sizeof(qp->what), "%s/%u", device->name, qp->port);
	qp->ibv = ibv_create_qp(device->pd, &init);
	if (!qp->ibv) {
		ret = failed(qp, errno, "queue pair", err);
		goto destroy;
	}
	ret = ibv_modify_qp(qp->ibv, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (ret) {
		ret = failed(qp, ret, "queue pair to INIT", err);
		goto destroy;
	}
	return 0;

destroy:
	inc_rdma_qp_destroy(qp);
	return ret;
}

/* Returns the name of the first member of a peer's parameters that is out of range. NULL: all are
 * valid. */
static const char *bad_field(const struct inc_rdma_peer *peer)
{
	return peer->qpn > INC_QPN_MASK              ? "qpn"
	       : peer->psn > INC_PSN_MASK            ? "psn"
	       : peer->sl > MAX_SL                   ? "sl"
	       : peer->flow_label > MAX_FLOW_LABEL   ? "flow_label"
	       : !inc_rdma_mtu_code(peer->mtu_bytes) ? "mtu_bytes"
						     : NULL;
}

int inc_rdma_qp_aim(struct inc_rdma_qp *qp, const struct inc_rdma_peer *peer,
		    struct inc_rdma_rtr *rtr, struct inc_err *err)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)inc_rdma_mtu_code(peer->mtu_bytes),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = qp->caps.dest_rd_atomic,
		.min_rnr_timer = peer->min_rnr_timer,
		.ah_attr = {.sl = peer->sl, .port_num = qp->port},
	};

	snprintf(qp->what, sizeof(qp->what), "%s/%u to %s", qp->device->name, qp->port, peer->name);
	if (bad_field(peer))
		return inc_err_set(err, EINVAL, "%s: no peer has such a %s", qp->what,
				   bad_field(peer));
	if (peer->link_layer == INC_RDMA_LINK_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh = (struct ibv_global_route){
			.sgid_index = peer->own_gid_index,
			.hop_limit = peer->hop_limit,
			.traffic_class = peer->traffic_class,
			.flow_label = peer->flow_label,
		};
		memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	} else {
		attr.ah_attr.dlid = peer->lid;
	}
	*rtr = (struct inc_rdma_rtr){qp->ibv, attr};
	return 0;
}

int inc_rdma_rtr_enter(struct inc_rdma_rtr *rtr)
{
	return -ibv_modify_qp(rtr->ibv, &rtr->attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
}

int inc_rdma_qp_entered(const struct inc_rdma_qp *qp, int error, struct inc_err *err)
{
	return error ? failed(qp, -error, "queue pair to RTR", err) : 0;
}

int inc_rdma_qp_to_rtr(struct inc_rdma_qp *qp, const struct inc_rdma_peer *peer,
		       struct inc_err *err)
{
	struct inc_rdma_rtr rtr;
	int ret = inc_rdma_qp_aim(qp, peer, &rtr, err);

	return ret ?: inc_rdma_qp_entered(qp, inc_rdma_rtr_enter(&rtr), err);
}

int inc_rdma_qp_to_rts(struct inc_rdma_qp *qp, const struct inc_rdma_rts *rts, struct inc_err *err)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = rts->timeout,
		.retry_cnt = rts->retry_cnt,
		.rnr_retry = rts->rnr_retry,
		.sq_psn = rts->psn,
		.max_rd_atomic = qp->caps.rd_atomic,
		.rate_limit = rts->rate_limit,
	};
	int ret = ibv_modify_qp(qp->ibv, &attr,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
					(rts->rate_limit ? IBV_QP_RATE_LIMIT : 0));

	return ret ? failed(qp, ret, "queue pair to RTS", err) : 0;
}

int inc_rdma_qp_to_err(struct inc_rdma_qp *qp, struct inc_err *err)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int ret = ibv_modify_qp(qp->ibv, &attr, IBV_QP_STATE);

	return ret ? failed(qp, ret, "queue pair to ERR", err) : 0;
}

void inc_rdma_qp_destroy(struct inc_rdma_qp *qp)
{
	if (qp->ibv)
		ibv_destroy_qp(qp->ibv);
	inc_rdma_device_put(qp->device);
	*qp = (struct inc_rdma_qp){0};
}
