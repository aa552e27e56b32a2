// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The state of answers.bpf.c: types, limits, and the maps that the program shares with the workers.

#include "program.h"

#define MAP_OF_MAPS(name, value) typeof(value) *name[]

// The parts of the kernel's types that are used. The loader adjusts the offsets to the running kernel.
#define KERNEL_TYPE __attribute__((preserve_access_index))

struct sock {
    int sk_sndbuf;
    int sk_wmem_queued;
} KERNEL_TYPE;

struct inet_sock {
    struct sock sk;
} KERNEL_TYPE;

struct inet_connection_sock {
    struct inet_sock icsk_inet;
} KERNEL_TYPE;

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    u32 write_seq;
} KERNEL_TYPE;

#define INPUT_BYTES_MAX 16384
// Longer frames go to the worker.
#define FRAME_BYTES_MAX 2048
#define FRAME_BYTES_MIN 14
// Answers to one socket buffer. The kernel makes no buffer longer than 16 064 bytes.
#define OUTPUT_BYTES_MAX 15360
#define FLOW_MOD_BYTES_MAX 112
#define PACKET_OUT_BYTES_MAX 40
// Room behind the answers for one more.
#define OUTPUT_SLACK 4096
// Answers that the socket has not taken yet. With more, everything goes to the worker, whose back-pressure applies.
#define UNSENT_BYTES_MAX 16384
// Buffers with answers since the socket had taken all. The relay is charged for each until the socket has taken it.
#define UNSENT_BUFFERS_MAX 16
// Packet-ins in these buffers.
#define RELAYED_BYTES_MAX 65536
// What a buffer costs a socket, besides its bytes.
#define BUFFER_OVERHEAD 1536
// The least PACKET_IN has 32 bytes.
#define MESSAGES_MAX (INPUT_BYTES_MAX / 32)
#define SCRATCH_BUFFERS 4

// Bytes of a frame from which the program sees what kind of packet it has, if that matters, and those behind the Ethernet header.
#define PACKET_BYTES 38
#define NET_BYTES (PACKET_BYTES - FRAME_BYTES_MIN)
// Bytes of reports, with the 8 bytes that a ring buffer adds to each, that may wait without the worker being woken: 1024 reports.
#define REPORT_BYTES_QUIET 32768

#define PACKET_IN 10
#define NO_BUFFER 0xffffffff
#define FCS_BYTES 4
#define V1_0 1
#define V1_3 4
// From here on, port numbers of OpenFlow 1.0 are reserved.
#define PORT_MAX_V1_0 0xff00

#define UNKNOWN_BASE (~0ULL)

// State of a connection, which is shared with its worker. ../src/session.rs has the same layout.
struct session {
    // Written by the worker. Bytes passed to it after which nothing waits for it, or another number.
    u64 gate;
    // Bytes that the worker has written to the socket.
    u64 written;
    // First bucket of the worker's hosts.
    u64 hosts;
    // Index of the worker's clock.
    u64 clock;
    // Age at which hosts expire, in ticks.
    u64 timeout;
    // Written by the worker, and cleared by this program: the worker waits for an announcement instead of for the socket.
    u64 is_announcement_requested;
    // Time for which packet-ins between two hosts go to the worker after one was answered, in nanoseconds. For paths.
    u64 hold_time;
    u64 unused;
    // Written by this program, and by the worker while the gate is closed.
    u64 busy;
    // Bytes passed to the worker.
    u64 passed;
    // Bytes of answers.
    u64 answered_bytes;
    // Packet-ins answered.
    u64 packets;
    // Transaction id of the next answer.
    u64 xid;
    // Sequence number of the socket before anything was counted.
    u64 base;
    // A socket buffer was lost after it had been changed.
    u64 failed;
    // Bytes of the packet-ins answered.
    u64 received_bytes;
    // Buffers sent through the relay.
    u64 relayed;
    // Those of them that were sent when the socket had taken all answers, and bytes of the packet-ins answered then.
    u64 relayed_before;
    u64 received_before;
    // The buffer whose way through the relay is timed, by the number that it has in `relayed`, and when it was sent; 0 for none.
    u64 timed_number;
    u64 timed_at;
    // The worker through whose relay they were sent. All have arrived before it is another one.
    u64 relay;
    u64 unused_relayed[2];
    // Written by `answer`. Buffers that have arrived at the other end of the relay.
    u64 arrived;
    // Those of them that were timed or have waited behind one that was, and those of these that took too long.
    u64 timed;
    u64 late;
    u64 unused_arrived[5];
};

// The messages that answer a packet-in. All other values are patched in.
struct answer_template {
    u8 version;
    // Flow entries for both directions, for ordinary packets of hosts. Each answer is reported.
    u8 is_path;
    u8 unused[6];
    u8 flow_mod[FLOW_MOD_BYTES_MAX];
    u8 packet_out[PACKET_OUT_BYTES_MAX];
};

struct host {
    // Slot of the session, and address; 0 for none.
    u64 key;
    // For paths, with the bits HAS_IPV4 and HAS_IPV6.
    u32 port;
    // Tick at which it was last seen.
    u32 seen;
};

#define HOSTS_PER_BUCKET 4

// Of a host at the end of paths: its port, and whether an address of a family is known, so that there is nothing to learn from packets of it.
#define PORT_MASK 0xfff
#define HAS_IPV4 0x8000
#define HAS_IPV6 0x4000

// A packet-in of a path that was answered.
struct report {
    // Slot of the session, and source.
    u64 src;
    u64 dst;
    // Time of the monotonic clock, in nanoseconds.
    u64 at;
};

struct bucket {
    struct host hosts[HOSTS_PER_BUCKET];
};

// What a worker's connections have in common.
struct clock {
    u64 tick;
    // Written by this program: the relay is gone.
    u64 failed;
    // If answers are timed: buffers sent through the relay, those of them that have arrived at its other end, and how many of other connections were ahead
    // of each, added up.
    u64 relayed;
    u64 arrived;
    u64 ahead;
    u64 unused[3];
};

// What changes from packet-in to packet-in is in maps, since the verifier follows values on the stack, and would try every number of
// packet-ins.

// Decisions about the packet-ins of one buffer.
struct decisions {
    u64 is_used;
    // Bytes decided about.
    u32 at;
    u32 count;
    // Bytes of the answers.
    u32 out_len;
    u32 xid;
    u32 is_complete;
    u32 unused;
    // Addresses of the last packet-in.
    u64 src, dst;
    u32 out_ports[MESSAGES_MAX];
};

// Answers while they are written.
struct output {
    u64 is_used;
    // Bytes read, and bytes written.
    u32 at;
    u32 len;
    u32 is_complete;
    u32 unused;
    u8 bytes[OUTPUT_BYTES_MAX + OUTPUT_SLACK];
};

struct {
    MAP_UINT(type, BPF_MAP_TYPE_SOCKMAP);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u32);
} sockets SEC(".maps");

// The ends of the relay of each worker: what is sent to the first ends arrives at the second.
struct {
    MAP_UINT(type, BPF_MAP_TYPE_SOCKMAP);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u32);
} relay_entries SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_SOCKMAP);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u32);
} relay_exits SEC(".maps");

// Slots of sessions that have passed something to their worker, by worker.
struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_OF_MAPS(values, struct {
        MAP_UINT(type, BPF_MAP_TYPE_RINGBUF);
        MAP_UINT(max_entries, 4096);
    });
} announcements SEC(".maps");

// Answered packet-ins of paths, by worker.
struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_OF_MAPS(values, struct {
        MAP_UINT(type, BPF_MAP_TYPE_RINGBUF);
        MAP_UINT(max_entries, 4096);
    });
} reports SEC(".maps");

// Until when packet-ins between two hosts go to the worker, by the hash of both addresses. Two pairs may share a place.
struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
    MAP_UINT(map_flags, BPF_F_MMAPABLE);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u64);
} holds SEC(".maps");

// Slots by socket cookie.
struct {
    MAP_UINT(type, BPF_MAP_TYPE_HASH);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u64);
    MAP_TYPE(value, u32);
} slots SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
    MAP_UINT(map_flags, BPF_F_MMAPABLE);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct session);
} sessions SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
    MAP_UINT(map_flags, BPF_F_MMAPABLE);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct answer_template);
} templates SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
    MAP_UINT(map_flags, BPF_F_MMAPABLE);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct bucket);
} hosts SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
    MAP_UINT(map_flags, BPF_F_MMAPABLE);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct clock);
} clocks SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    MAP_UINT(max_entries, SCRATCH_BUFFERS);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct decisions);
} decision_buffers SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    MAP_UINT(max_entries, SCRATCH_BUFFERS);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct output);
} output_buffers SEC(".maps");

// Secret odd factor of the hash function, and the number of bits of its result.
const volatile u64 hash_factor = 1;
const volatile u32 hash_bits = 1;
// Number of bits of the place of a pair of hosts in `holds`, for each worker.
const volatile u32 hold_bits = 1;
// Longer socket buffers go to the worker: much is waiting then, and the worker is faster.
const volatile u32 input_bytes_max = INPUT_BYTES_MAX;

// Time in the relay after which a buffer is late; 0 if buffers are neither timed nor counted.
const volatile u64 late_ns = 0;
