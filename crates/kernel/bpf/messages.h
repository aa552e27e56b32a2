// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Reads and writes parts of messages and frames. Behind answers.h.

inline_always u16 get16(const u8 *at)
{
    return (u16)(at[0] << 8 | at[1]);
}

inline_always u32 get32(const u8 *at)
{
    return (u32)get16(at) << 16 | get16(at + 2);
}

inline_always void put16(u8 *at, u16 value)
{
    *(u16 *)at = __builtin_bswap16(value);
}

inline_always void put32(u8 *at, u32 value)
{
    *(u32 *)at = __builtin_bswap32(value);
}

inline_always u64 get_mac(const u8 *at)
{
    return (u64)get16(at) << 32 | get32(at + 2);
}

inline_always void copy_mac(u8 *to, const u8 *from)
{
    *(u16 *)to = *(const u16 *)from;
    *(u16 *)(to + 2) = *(const u16 *)(from + 2);
    *(u16 *)(to + 4) = *(const u16 *)(from + 4);
}

inline_always int is_tagged(const u8 *eth)
{
    u16 type = get16(eth + 12);
    return type == 0x8100 || type == 0x88a8;
}

inline_always void copy_words(u8 *to, const u8 *from, u32 words)
{
#pragma unroll
    for (u32 i = 0; i < words; i++)
        *(u64 *)(to + 8 * i) = *(const u64 *)(from + 8 * i);
}

// Offsets of the messages of a version.
struct layout {
    u32 version;
    // PACKET_IN
    u32 head_bytes, frame;
    // FLOW_MOD
    u32 flow_bytes, flow_buffer_id, flow_in_port, flow_src, flow_dst, flow_out_port;
    // PACKET_OUT
    u32 out_bytes, out_in_port, out_out_port;
    u32 port_bytes;
};

#define LAYOUT_V1_0 \
    ((struct layout){V1_0, 32, 18, 80, 64, 12, 14, 20, 76, 24, 12, 20, 2})
#define LAYOUT_V1_3 \
    ((struct layout){V1_3, 56, 42, 112, 32, 56, 64, 74, 100, 40, 12, 28, 4})

inline_always void put_port(u8 *at, u32 port, struct layout layout)
{
    if (layout.port_bytes == 2)
        put16(at, (u16)port);
    else
        put32(at, port);
}

// Writes a flow entry for packets from `src` to `dst`.
inline_always void write_flow(
    u8 *flow, const struct answer_template *template, struct layout layout, u32 xid, u32 buffer_id,
    const u8 *src, const u8 *dst, u32 in_port, u32 out_port)
{
    copy_words(flow, template->flow_mod, layout.flow_bytes / 8);
    put32(flow + 4, xid);
    put32(flow + layout.flow_buffer_id, buffer_id);
    put_port(flow + layout.flow_in_port, in_port, layout);
    copy_mac(flow + layout.flow_src, src);
    copy_mac(flow + layout.flow_dst, dst);
    put_port(flow + layout.flow_out_port, out_port, layout);
}
