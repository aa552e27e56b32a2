// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Answers PACKET_IN messages inside the kernel.
//
// `decide` runs for each socket buffer that a switch sends, before the worker that serves the switch sees it. If nothing before it waits for
// the worker, and it consists of packet-ins between hosts that the worker has published, it is answered; everything else goes to the
// worker, untouched and in order. ../src/lib.rs has the protocol between both.
//
// The kernel takes the length that a buffer has after `decide` for the number of bytes that were received, so that the answers, which are longer,
// are written in a second step: `decide` writes output ports and transaction ids into fields of the packet-ins that are not needed any more, and
// sends the buffer through a pair of sockets, the relay. At its other end, `answer` replaces it by the answers, and sends these to the switch.

#include "answers.h"
#include "messages.h"

static long (*const bpf_skb_store_bytes)(struct __sk_buff *, u32 at, const void *from, u32 len, u64 flags) =
    (void *)BPF_FUNC_skb_store_bytes;
static long (*const bpf_skb_change_tail)(struct __sk_buff *, u32 len, u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*const bpf_skb_pull_data)(struct __sk_buff *, u32 len) = (void *)BPF_FUNC_skb_pull_data;
static u64 (*const bpf_get_socket_cookie)(void *skb) = (void *)BPF_FUNC_get_socket_cookie;
static long (*const bpf_sk_redirect_map)(struct __sk_buff *, void *map, u32 key, u64 flags) = (void *)BPF_FUNC_sk_redirect_map;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)BPF_FUNC_skc_to_tcp_sock;
static long (*const bpf_ringbuf_output)(void *ring, void *data, u64 len, u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static u64 (*const bpf_ringbuf_query)(void *ring, u64 flags) = (void *)BPF_FUNC_ringbuf_query;
static long (*const bpf_loop)(u32 count, void *callback, void *context, u64 flags) = (void *)BPF_FUNC_loop;

// A buffer that is decided about.
struct burst {
    struct __sk_buff *skb;
    struct decisions *decisions;
    u64 first_bucket;
    u64 slot;
    u32 version;
    u32 tick;
    u32 timeout;
    u32 is_path;
    u32 worker;
    u64 hold_time;
    u32 len;
    // Bytes of answers for which there is room.
    u32 out_max;
};

// A buffer that is answered.
struct relayed {
    struct __sk_buff *skb;
    const struct answer_template *template;
    struct output *output;
    u32 len;
};

inline_always struct host *find_in(u64 index, u64 key)
{
    u32 at = (u32)index;
    struct bucket *bucket = bpf_map_lookup_elem(&hosts, &at);
    if (!bucket)
        return 0;
#pragma unroll
    for (int i = 0; i < HOSTS_PER_BUCKET; i++) {
        if (bucket->hosts[i].key == key)
            return &bucket->hosts[i];
    }
    return 0;
}

// A host is in the bucket of its hash, or in the other one of the same pair.
inline_always struct host *find(const struct burst *burst, u64 mac)
{
    u64 key = burst->slot << 48 | mac;
    u64 index = burst->first_bucket + ((key * hash_factor) >> (64 - hash_bits));
    struct host *host = find_in(index, key);
    return host ? host : find_in(index ^ 1, key);
}

inline_always int is_expired(const struct burst *burst, const struct host *host)
{
    return (u16)(burst->tick - host->seen) > burst->timeout;
}

// The output port for a frame, or 0 if the worker has to decide.
inline_always u32 route(const struct burst *burst, const u8 *eth, u32 in_port)
{
    struct host *src = find(burst, get_mac(eth + 6));
    if (!src || src->port != in_port || is_expired(burst, src))
        return 0;
    struct host *dst = find(burst, get_mac(eth));
    if (!dst || dst->port == in_port || is_expired(burst, dst))
        return 0;
    // An unmodified entry stays clean in the caches.
    if (src->seen != burst->tick)
        src->seen = burst->tick;
    return dst->port;
}

// Whether there is nothing to learn from a packet of a host but that the host is there. sluice_sdk::HostEntry decides the same.
inline_always int is_ordinary(u32 entry, u16 type, const u8 *net)
{
    if (type == 0x0800) {
        int is_udp = net[9] == 17, is_dhcp = get32(net + 20) == (67 << 16 | 68);
        return entry & HAS_IPV4 && net[0] == 0x45 && !(is_udp && is_dhcp);
    }
    return type == 0x86dd && entry & HAS_IPV6 && net[6] != 58;
}

// The output port for a packet of a path, or 0 if the worker has to decide. `net` is what follows the Ethernet header.
inline_always u32 route_path(const struct burst *burst, const u8 *eth, const u8 *net, u32 in_port)
{
    u64 src_mac = get_mac(eth + 6), dst_mac = get_mac(eth);
    struct host *src = find(burst, src_mac);
    if (!src || (src->port & PORT_MASK) != in_port || !is_ordinary(src->port, get16(eth + 12), net))
        return 0;
    struct host *dst = find(burst, dst_mac);
    if (!dst || (dst->port & PORT_MASK) == in_port)
        return 0;
    burst->decisions->src = src_mac;
    burst->decisions->dst = dst_mac;
    return dst->port & PORT_MASK;
}

// Decides about the next packet-in. Returns 0, or 1 if the burst ends here.
inline_always long decide_packet_in(struct burst *burst, struct layout layout)
{
    u8 head[56] __attribute__((aligned(8)));
    struct decisions *decisions = burst->decisions;
    u32 at = decisions->at, count = decisions->count;
    if (at >= burst->len) {
        decisions->is_complete = at == burst->len;
        return 1;
    }
    if (bpf_skb_load_bytes(burst->skb, at, head, layout.head_bytes))
        return 1;
    if (head[0] != burst->version || head[1] != PACKET_IN)
        return 1;
    u32 message_len = get16(head + 2), frame_len = message_len - layout.frame;
    if (message_len < layout.frame || at + message_len > burst->len)
        return 1;
    if (frame_len < FRAME_BYTES_MIN || frame_len > FRAME_BYTES_MAX)
        return 1;
    u32 buffer_id = get32(head + 8), total_len = get16(head + 12), in_port;
    if (layout.version == V1_0) {
        in_port = get16(head + 14);
        if (in_port >= PORT_MAX_V1_0)
            return 1;
    } else {
        // A match of the ingress port and of nothing else.
        if (get32(head + 24) != 0x0001000c || get32(head + 28) != 0x80000004)
            return 1;
        in_port = get32(head + 32);
    }
    const u8 *eth = head + layout.frame;
    if (is_tagged(eth))
        return 1;
    if (buffer_id == NO_BUFFER && frame_len + FCS_BYTES < total_len)
        return 1;
    u32 out_port;
    if (burst->is_path) {
        u8 net[NET_BYTES] __attribute__((aligned(8)));
        // One packet-in at a time, so that it is reported and answered, or neither. Shorter frames go to the worker.
        if (count > 0 || frame_len < PACKET_BYTES)
            return 1;
        if (bpf_skb_load_bytes(burst->skb, at + layout.frame + FRAME_BYTES_MIN, net, sizeof(net)))
            return 1;
        out_port = route_path(burst, eth, net, in_port);
        decisions->out_len += layout.flow_bytes;
    } else {
        out_port = route(burst, eth, in_port);
    }
    if (!out_port || count >= MESSAGES_MAX)
        return 1;
    decisions->out_ports[count] = out_port;
    decisions->count = count + 1;
    decisions->out_len += layout.flow_bytes;
    if (buffer_id == NO_BUFFER)
        decisions->out_len += layout.out_bytes + frame_len;
    decisions->at = at + message_len;
    return 0;
}

static long decide_v1_0(u64 number, struct burst *burst)
{
    return decide_packet_in(burst, LAYOUT_V1_0);
}

static long decide_v1_3(u64 number, struct burst *burst)
{
    return decide_packet_in(burst, LAYOUT_V1_3);
}

// Where `decide` writes for `answer`, in the layouts of PACKET_IN: version, type and length stay, and so do buffer id, ingress port and frame.
//
//                   1.0                   1.3
// transaction id    4: the same           4: the same
// output port       12: total_len         20: cookie, second half
// slot              16: reason, padding   16: cookie, first half

// Writes the decision into the next packet-in. Returns 0, or 1 after the last one or an error.
static long write_decision(u64 number, struct burst *burst)
{
    struct decisions *decisions = burst->decisions;
    u32 at = decisions->at, count = decisions->count;
    if (at >= burst->len) {
        decisions->is_complete = at == burst->len;
        return 1;
    }
    u8 head[24] __attribute__((aligned(8)));
    // The least packet-in has 32 bytes.
    if (count >= MESSAGES_MAX || bpf_skb_load_bytes(burst->skb, at, head, sizeof(head)))
        return 1;
    u32 out_port = decisions->out_ports[count];
    put32(head + 4, decisions->xid);
    u32 len = 18;
    put16(head + 16, (u16)burst->slot);
    if (burst->version == V1_0) {
        put16(head + 12, (u16)out_port);
    } else {
        put32(head + 20, out_port);
        len = 24;
    }
    if (bpf_skb_store_bytes(burst->skb, at, head, len == 18 ? 18 : 24, 0))
        return 1;
    decisions->xid += (get32(head + 8) == NO_BUFFER ? 2 : 1) + (burst->is_path ? 1 : 0);
    decisions->count = count + 1;
    decisions->at = at + get16(head + 2);
    return 0;
}

// The place of a pair of hosts, which is that of both directions.
inline_always u32 hold_of(const struct burst *burst, u64 src, u64 dst)
{
    u64 low = src < dst ? src : dst, high = src < dst ? dst : src;
    u64 hash = low * hash_factor;
    hash = ((hash ^ hash >> 32) + high) * hash_factor;
    hash = (hash ^ hash >> 32) * hash_factor;
    return burst->worker << hold_bits | (u32)(hash >> (64 - hold_bits));
}

// Reports the answer to a packet-in of a path to the worker. Returns 0 if the worker has to answer: flow entries of this pair of hosts may be in
// flight, or there is no room for the report.
inline_always int report(const struct burst *burst)
{
    const struct decisions *decisions = burst->decisions;
    u64 src = decisions->src, dst = decisions->dst, now = bpf_ktime_get_ns();
    u32 worker = burst->worker, place = hold_of(burst, src, dst);
    void *ring = bpf_map_lookup_elem(&reports, &worker);
    u64 *held_until = bpf_map_lookup_elem(&holds, &place);
    if (!ring || !held_until)
        return 0;
    if (burst->hold_time) {
        u64 before = *held_until;
        if (before > now)
            return 0;
        if (__sync_val_compare_and_swap(held_until, before, now + burst->hold_time) != before)
            return 0;
    }
    struct report report = {.src = burst->slot << 48 | src, .dst = dst, .at = now};
    // A worker that sleeps has to take reports before there is no room for further ones.
    u64 flags = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) < REPORT_BYTES_QUIET ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP;
    return !bpf_ringbuf_output(ring, &report, sizeof(report), flags);
}

// Counts a buffer that is sent through the relay of a worker, and those of other connections that are ahead of it there: otherwise one switch that
// sends much would have the worker answer all others.
inline_always void count_relayed(struct session *session, struct clock *clock)
{
    session->relay = session->clock;
    // First: one that arrives meanwhile makes the result too small, not too great.
    u64 own = session->relayed - 1 - session->arrived;
    u64 before = __sync_fetch_and_add(&clock->relayed, 1), arrived = clock->arrived;
    // Some that were sent by other processors meanwhile may have arrived.
    if (before > arrived + own)
        __sync_fetch_and_add(&clock->ahead, before - arrived - own);
}

// Decides about a buffer, and writes the decisions into it. Returns 0 if the worker has to answer.
inline_always int decide_burst(struct burst *burst, struct session *session)
{
    struct decisions *decisions = burst->decisions;
    if (burst->version == V1_0)
        bpf_loop(MESSAGES_MAX + 1, decide_v1_0, burst, 0);
    else
        bpf_loop(MESSAGES_MAX + 1, decide_v1_3, burst, 0);
    u32 out_len = decisions->out_len, packets = decisions->count;
    if (!decisions->is_complete || out_len == 0 || out_len > burst->out_max)
        return 0;
    // The relay keeps a buffer in one piece if it is linear.
    if (bpf_skb_pull_data(burst->skb, burst->len))
        return 0;
    if (burst->is_path && !report(burst))
        return 0;
    decisions->at = 0;
    decisions->count = 0;
    decisions->is_complete = 0;
    bpf_loop(MESSAGES_MAX + 1, write_decision, burst, 0);
    if (!decisions->is_complete)
        session->failed = 1;
    session->relayed++;
    if (late_ns && !session->timed_at) {
        session->timed_number = session->relayed;
        __sync_lock_test_and_set(&session->timed_at, bpf_ktime_get_ns());
    }
    session->answered_bytes += out_len;
    session->packets += packets;
    session->received_bytes += burst->len;
    session->xid = decisions->xid;
    return 1;
}

// Bytes of answers for which the socket has room: none unless it has taken nearly all before. Without room, answers would wait in a queue of which
// what is passed to the worker would be a part, and which has no limit.
inline_always u32 answer_room(struct __sk_buff *skb, struct session *session)
{
    struct bpf_sock *sk = skb->sk;
    if (!sk)
        return 0;
    struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
    if (!tcp)
        return 0;
    u32 counted = (u32)(session->written + session->answered_bytes);
    u32 write_seq = tcp->write_seq;
    if (session->base == UNKNOWN_BASE)
        session->base = write_seq - counted;
    u32 unsent = (u32)session->base + counted - write_seq;
    if (unsent == 0) {
        session->relayed_before = session->relayed;
        session->received_before = session->received_bytes;
    }
    u64 buffers = session->relayed - session->relayed_before;
    u64 received = session->received_bytes - session->received_before;
    if (unsent > UNSENT_BYTES_MAX || buffers >= UNSENT_BUFFERS_MAX || received > RELAYED_BYTES_MAX)
        return 0;
    // The kernel charges a socket less than twice the bytes, and something for each buffer.
    const struct sock *socket = &tcp->inet_conn.icsk_inet.sk;
    u32 charged = 2 * unsent + BUFFER_OVERHEAD * ((u32)buffers + 1);
    int room = socket->sk_sndbuf - socket->sk_wmem_queued - (int)charged;
    if (room <= 0)
        return 0;
    u32 bytes = (u32)room / 2;
    return bytes < OUTPUT_BYTES_MAX ? bytes : OUTPUT_BYTES_MAX;
}

// Another run on this processor may have been interrupted, so that there are several buffers.
inline_always struct decisions *take_decisions(void)
{
    for (u32 i = 0; i < SCRATCH_BUFFERS; i++) {
        u32 index = i;
        struct decisions *decisions = bpf_map_lookup_elem(&decision_buffers, &index);
        if (decisions && !__sync_lock_test_and_set(&decisions->is_used, 1))
            return decisions;
    }
    return 0;
}

inline_always struct output *take_output(void)
{
    for (u32 i = 0; i < SCRATCH_BUFFERS; i++) {
        u32 index = i;
        struct output *output = bpf_map_lookup_elem(&output_buffers, &index);
        if (output && !__sync_lock_test_and_set(&output->is_used, 1))
            return output;
    }
    return 0;
}

inline_always int can_answer(struct __sk_buff *skb, struct session *session, u32 slot)
{
    u32 clock_index = (u32)session->clock;
    struct clock *clock = bpf_map_lookup_elem(&clocks, &clock_index);
    struct answer_template *template = bpf_map_lookup_elem(&templates, &slot);
    if (!clock || !template || skb->len == 0 || skb->len > input_bytes_max)
        return 0;
    u32 out_max = answer_room(skb, session);
    if (!out_max)
        return 0;
    struct decisions *decisions = take_decisions();
    if (!decisions)
        return 0;
    decisions->at = 0;
    decisions->count = 0;
    decisions->out_len = 0;
    decisions->xid = (u32)session->xid;
    decisions->is_complete = 0;
    struct burst burst = {
        .skb = skb,
        .decisions = decisions,
        .first_bucket = session->hosts,
        .slot = slot,
        .version = template->version,
        .tick = (u16)clock->tick,
        .timeout = (u32)session->timeout,
        .is_path = template->is_path,
        .worker = clock_index,
        .hold_time = session->hold_time,
        .len = skb->len,
        .out_max = out_max,
    };
    int answered = decide_burst(&burst, session);
    if (answered && late_ns)
        count_relayed(session, clock);
    __sync_lock_test_and_set(&decisions->is_used, 0);
    return answered;
}

// Wakes the worker, which finds out that it has to read from the connection.
inline_always void announce(struct session *session, u32 worker, u64 slot)
{
    if (!__sync_lock_test_and_set(&session->is_announcement_requested, 0))
        return;
    void *ring = bpf_map_lookup_elem(&announcements, &worker);
    // Without room, the next buffer is announced, and the worker finds out by itself after a while.
    if (!ring || bpf_ringbuf_output(ring, &slot, sizeof(slot), 0))
        session->is_announcement_requested = 1;
}

SEC("sk_skb/stream_verdict/decide")
int decide(struct __sk_buff *skb)
{
    u64 cookie = bpf_get_socket_cookie(skb);
    u32 *slot = bpf_map_lookup_elem(&slots, &cookie);
    if (!slot)
        return SK_PASS;
    u32 index = *slot, len = skb->len;
    struct session *session = bpf_map_lookup_elem(&sessions, &index);
    if (!session)
        return SK_PASS;
    // Both are full barriers: either the worker sees that this runs, or this sees that the gate is closed.
    __sync_lock_test_and_set(&session->busy, 1);
    u64 gate = __sync_fetch_and_add(&session->gate, 0);
    u32 worker = (u32)session->clock;
    int answered = gate == session->passed && can_answer(skb, session, index);
    if (!answered)
        session->passed += len;
    __sync_lock_test_and_set(&session->busy, 0);
    if (!answered) {
        if (session->is_announcement_requested)
            announce(session, worker, index);
        return SK_PASS;
    }
    int verdict = bpf_sk_redirect_map(skb, &relay_entries, worker, 0);
    if (verdict != SK_PASS) {
        struct clock *clock = bpf_map_lookup_elem(&clocks, &worker);
        if (clock)
            clock->failed = 1;
        session->failed = 1;
    }
    return verdict;
}

// Writes the answer to the next packet-in. Returns 0, or 1 after the last one or an error.
inline_always long write_answer(struct relayed *relayed, struct layout layout)
{
    u8 head[56] __attribute__((aligned(8)));
    struct output *output = relayed->output;
    u32 at = output->at, out_len = output->len;
    if (at >= relayed->len) {
        output->is_complete = at == relayed->len;
        return 1;
    }
    if (out_len > OUTPUT_BYTES_MAX || bpf_skb_load_bytes(relayed->skb, at, head, layout.head_bytes))
        return 1;
    u32 message_len = get16(head + 2), frame_len = message_len - layout.frame, xid = get32(head + 4);
    u32 in_port, out_port;
    if (layout.version == V1_0) {
        in_port = get16(head + 14);
        out_port = get16(head + 12);
    } else {
        in_port = get32(head + 32);
        out_port = get32(head + 20);
    }
    const u8 *eth = head + layout.frame;
    u32 buffer_id = get32(head + 8);
    u8 *to = output->bytes + out_len;
    if (relayed->template->is_path) {
        write_flow(to, relayed->template, layout, xid, NO_BUFFER, eth, eth + 6, out_port, in_port);
        xid++;
        to += layout.flow_bytes;
        out_len += layout.flow_bytes;
    }
    write_flow(to, relayed->template, layout, xid, buffer_id, eth + 6, eth, in_port, out_port);
    out_len += layout.flow_bytes;
    if (buffer_id == NO_BUFFER) {
        u8 *out = to + layout.flow_bytes;
        copy_words(out, relayed->template->packet_out, layout.out_bytes / 8);
        put16(out + 2, (u16)(layout.out_bytes + frame_len));
        put32(out + 4, xid + 1);
        *(u32 *)(out + 8) = NO_BUFFER;
        put_port(out + layout.out_in_port, in_port, layout);
        put_port(out + layout.out_out_port, out_port, layout);
        if (frame_len < FRAME_BYTES_MIN || frame_len > FRAME_BYTES_MAX)
            return 1;
        if (bpf_skb_load_bytes(relayed->skb, at + layout.frame, out + layout.out_bytes, frame_len))
            return 1;
        out_len += layout.out_bytes + frame_len;
    }
    output->len = out_len;
    output->at = at + message_len;
    return 0;
}

static long write_answer_v1_0(u64 number, struct relayed *relayed)
{
    return write_answer(relayed, LAYOUT_V1_0);
}

static long write_answer_v1_3(u64 number, struct relayed *relayed)
{
    return write_answer(relayed, LAYOUT_V1_3);
}

// Replaces packet-ins by their answers. Returns whether that was possible.
inline_always int write_answers(struct relayed *relayed)
{
    struct output *output = relayed->output;
    output->at = 0;
    output->len = 0;
    output->is_complete = 0;
    if (relayed->template->version == V1_0)
        bpf_loop(MESSAGES_MAX + 1, write_answer_v1_0, relayed, 0);
    else
        bpf_loop(MESSAGES_MAX + 1, write_answer_v1_3, relayed, 0);
    u32 len = output->len;
    if (!output->is_complete || len == 0 || len > OUTPUT_BYTES_MAX)
        return 0;
    // What is not linear cannot grow.
    return !bpf_skb_pull_data(relayed->skb, relayed->len) && !bpf_skb_change_tail(relayed->skb, len, 0)
        && !bpf_skb_store_bytes(relayed->skb, 0, output->bytes, len, 0);
}

// Counts a buffer that has arrived, and whether it is late if it is timed. It has waited for a thread of the kernel on the processor that had
// received it, as the answer will once more.
inline_always void count_arrived(struct session *session)
{
    u64 timed_at = session->timed_at;
    if (late_ns && timed_at && session->arrived + 1 == session->timed_number) {
        // Those that were sent meanwhile have waited behind it.
        u64 count = 1 + session->relayed - session->timed_number;
        if (bpf_ktime_get_ns() - timed_at > late_ns)
            session->late += count;
        session->timed += count;
        __sync_lock_test_and_set(&session->timed_at, 0);
    }
    u32 relay = (u32)session->relay;
    struct clock *clock = bpf_map_lookup_elem(&clocks, &relay);
    if (late_ns && clock)
        __sync_fetch_and_add(&clock->arrived, 1);
    // Last, since the slot may belong to another connection from here on.
    __sync_fetch_and_add(&session->arrived, 1);
}

SEC("sk_skb/stream_verdict/answer")
int answer(struct __sk_buff *skb)
{
    u8 head[24] __attribute__((aligned(8)));
    if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)))
        return SK_DROP;
    u32 slot = get16(head + 16);
    struct answer_template *template = bpf_map_lookup_elem(&templates, &slot);
    struct session *session = bpf_map_lookup_elem(&sessions, &slot);
    if (!template || !session)
        return SK_DROP;
    struct output *output = take_output();
    int is_written = 0;
    if (output) {
        struct relayed relayed = {.skb = skb, .template = template, .output = output, .len = skb->len};
        is_written = write_answers(&relayed);
        __sync_lock_test_and_set(&output->is_used, 0);
    }
    if (!is_written) {
        // The worker closes the connection, since its stream has a gap.
        session->failed = 1;
        count_arrived(session);
        return SK_DROP;
    }
    int verdict = bpf_sk_redirect_map(skb, &sockets, slot, 0);
    count_arrived(session);
    return verdict;
}

// The helpers that read the kernel's own types are for programs with a licence of this name.
char licence_name[] SEC("license") = "GPL";
