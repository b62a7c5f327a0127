# SPDX-License-Identifier: BSD-2-Clause
"""Queue pairs by pyverbs, which is libibverbs for Python. No code of the product is between a test and the device.
The calls of pyverbs, which raise PyverbsError if libibverbs returns an error:

    Context(name)             ibv_open_device()
    PD(), CQEX()              ibv_alloc_pd(), ibv_create_cq_ex()
    MR()                      memory that is 0 and aligned to pages, and ibv_reg_mr()
    QP(attr=)                 ibv_create_qp(), and ibv_modify_qp() to INIT
    to_rts()                  ibv_modify_qp() to RTR, then to RTS
    post_send(), post_recv()  ibv_post_send(), ibv_post_recv()
    start_poll(), end_poll()  the same with ibv_, for a completion whose properties are those of the CQEX
    context.close()           the end of all these objects: queue pairs first, the device last

Objects are made once and used many times, because Python takes ten times as long to make one as to post or poll. So
polling avoids the WC objects of CQ.poll()."""
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError  # noqa: F401
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

from vmlab import expect, gid_of

try:
    import pyverbs.libibverbs_enums as enums
except ImportError:
    import pyverbs.enums as enums  # rdma-core before 50

WRITABLE = enums.ibv_access_flags.IBV_ACCESS_LOCAL_WRITE | enums.ibv_access_flags.IBV_ACCESS_REMOTE_WRITE
ROCE_V2 = enums.ibv_gid_type.IBV_GID_TYPE_ROCE_V2
SUCCESS = enums.ibv_wc_status.IBV_WC_SUCCESS
POLL_ATTR = PollCqAttr()
WITH_BYTE_LEN = enums.ibv_create_cq_wc_flags.IBV_WC_EX_WITH_BYTE_LEN


def status_name(status):
    """The name of a completion's status, for example IBV_WC_RETRY_EXC_ERR."""
    return enums.ibv_wc_status(status).name


class Side:
    """A queue pair of a device, which holds this many messages, and memory to send from (out) and to receive into
    (into)."""

    def __init__(self, device, address, size_bytes, messages):
        self.address = address
        self.context = Context(name=device)
        pd = PD(self.context)
        self.out, self.into = MR(pd, size_bytes, 0), MR(pd, size_bytes, WRITABLE)
        self.cq = CQEX(self.context, CqInitAttrEx(cqe=3 * messages + 100, wc_flags=WITH_BYTE_LEN))
        attr = QPAttr()
        attr.qp_access_flags = WRITABLE
        self.qp = QP(pd, QPInitAttr(qp_type=enums.ibv_qp_type.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=QPCap(
            max_send_wr=2 * messages + 64, max_recv_wr=messages + 1)), attr)

    def connect(self, peer_address, peer_qpn, psn, peer_psn, mtu, timeout, retry_cnt=6, min_rnr_timer=12):
        """Brings the queue pair from INIT to RTS. mtu is an ibv_mtu; ibv_modify_qp(3) explains the last three."""
        own = [gid.gid_index for gid in self.context.query_gid_table(64)
               if (gid.gid_type, gid.gid_str()) == (ROCE_V2, gid_of(self.address))]
        expect(own, f"{self.context.name} has no GID of {self.address}")
        attr = QPAttr(path_mtu=mtu)
        attr.ah_attr = AHAttr(is_global=1, gr=GlobalRoute(GID(gid_of(peer_address)), sgid_index=own[0], hop_limit=64))
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = peer_qpn, peer_psn, psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = timeout, retry_cnt, 6, min_rnr_timer
        self.qp.to_rts(attr)

    def receive_request(self, at=0, length=0):
        """A request to receive. One without a length has no memory, so it can receive WRITEs only."""
        request = RecvWR(num_sge=1, sg=[SGE(self.into.buf + at, length, self.into.lkey)])
        request.num_sge = int(length > 0)  # pyverbs does not make a request without memory
        return request

    def send_request(self, opcode, at, length, target=None):
        """A request to send what is at this offset; a WRITE goes to the same offset of target's memory."""
        request = SendWR(opcode=opcode, num_sge=1, sg=[SGE(self.out.buf + at, length, self.out.lkey)])
        if target:
            request.set_wr_rdma(target.into.rkey, target.into.buf + at)
        return request

    def poll(self):
        """Returns (number of the request, status, bytes) of each completion that there is."""
        found = []
        # ibv_next_poll() is not used, because rxe's did not leave the end of a batch to ibv_end_poll() in rdma-core 44
        while not self.cq.start_poll(POLL_ATTR):
            found.append((self.cq.wr_id, self.cq.status, self.cq.read_byte_len()))
            self.cq.end_poll()
        return found

    def to_err(self):
        self.qp.modify(QPAttr(qp_state=enums.ibv_qp_state.IBV_QPS_ERR), enums.ibv_qp_attr_mask.IBV_QP_STATE)

    def close(self):
        """Destroys all that was made on the device."""
        self.context.close()
