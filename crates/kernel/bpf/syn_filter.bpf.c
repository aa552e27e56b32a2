// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Drops SYNs of source addresses that open connections too fast.
//
// It runs for each segment that a listener, or a connection that was accepted from it, receives, before TCP does anything with it. So a SYN that is
// dropped takes no memory and causes no answer.

#include "program.h"

static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) =
    (void *)BPF_FUNC_map_update_elem;
static long (*const bpf_skb_load_bytes_relative)(const void *skb, u32 at, void *to, u32 len, u32 start) =
    (void *)BPF_FUNC_skb_load_bytes_relative;

#define KEEP (-1)
#define DROP 0

#define FLAGS_AT 13
#define FLAG_SYN 0x02
#define FLAG_ACK 0x10

// An IPv4 address as an IPv6 address, or the first half of an IPv6 address: a host can usually choose any address of its prefix. Of a link-local
// address all of it, since all hosts of a link share the prefix (RFC 4291, section 2.5.6).
struct source {
    u8 address[16];
};

// For each source, the time until which its connections suffice at the rate that it may have on average.
struct {
    MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, struct source);
    MAP_TYPE(value, u64);
} sources SEC(".maps");

struct {
    MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
    MAP_UINT(map_flags, BPF_F_MMAPABLE);
    MAP_UINT(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, u64);
} dropped SEC(".maps");

// Time between two connections of a source on average.
const volatile u64 interval_ns = 1;
// How far a source may be ahead of that.
const volatile u64 ahead_ns = 0;

inline_always int read_source(struct __sk_buff *skb, struct source *source)
{
    u8 version;
    if (bpf_skb_load_bytes_relative(skb, 0, &version, 1, BPF_HDR_START_NET))
        return 0;
    if (version >> 4 == 4) {
        source->address[10] = 0xff;
        source->address[11] = 0xff;
        return !bpf_skb_load_bytes_relative(skb, 12, source->address + 12, 4, BPF_HDR_START_NET);
    }
    u8 prefix[2];
    if (bpf_skb_load_bytes_relative(skb, 8, prefix, 2, BPF_HDR_START_NET))
        return 0;
    if (prefix[0] == 0xfe && (prefix[1] & 0xc0) == 0x80)
        return !bpf_skb_load_bytes_relative(skb, 8, source->address, 16, BPF_HDR_START_NET);
    return !bpf_skb_load_bytes_relative(skb, 8, source->address, 8, BPF_HDR_START_NET);
}

SEC("socket")
int filter_syn(struct __sk_buff *skb)
{
    u8 flags;
    if (bpf_skb_load_bytes(skb, FLAGS_AT, &flags, 1) || (flags & (FLAG_SYN | FLAG_ACK)) != FLAG_SYN)
        return KEEP;
    struct source source = {};
    if (!read_source(skb, &source))
        return KEEP;
    u64 now = bpf_ktime_get_ns();
    u64 *enough_until = bpf_map_lookup_elem(&sources, &source);
    if (!enough_until) {
        u64 first = now + interval_ns;
        bpf_map_update_elem(&sources, &source, &first, BPF_ANY);
        return KEEP;
    }
    u64 before = *enough_until;
    u64 start = before > now ? before : now;
    if (start - now > ahead_ns) {
        u32 zero = 0;
        u64 *count = bpf_map_lookup_elem(&dropped, &zero);
        if (count)
            __sync_fetch_and_add(count, 1);
        return DROP;
    }
    // If another processor does the same at this time, only one of the two connections is counted.
    *enough_until = start + interval_ns;
    return KEEP;
}

char licence_name[] SEC("license") = "GPL";
