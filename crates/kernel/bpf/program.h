// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// What all programs need: types, declarations of maps for the loader, and functions of the kernel.

#include <linux/bpf.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define SEC(name) __attribute__((section(name), used))
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name
#define inline_always static __attribute__((always_inline)) inline

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const bpf_skb_load_bytes)(const void *skb, u32 at, void *to, u32 len) = (void *)BPF_FUNC_skb_load_bytes;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
