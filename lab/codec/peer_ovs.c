/* Open vSwitch's own codec as a subject: DIR VERSION KIND DEED COUNT; prints nanoseconds each. */

#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "openvswitch/match.h"
#include "openvswitch/ofp-actions.h"
#include "openvswitch/ofp-errors.h"
#include "openvswitch/ofp-flow.h"
#include "openvswitch/ofp-monitor.h"
#include "openvswitch/ofp-msgs.h"
#include "openvswitch/ofp-packet.h"
#include "openvswitch/ofp-protocol.h"
#include "openvswitch/ofpbuf.h"

static void *bytes;
static size_t len;
static enum ofputil_protocol protocol;

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static void read_packet_in(void)
{
    struct ofputil_packet_in pin;
    struct ofpbuf continuation;
    uint32_t buffer_id;
    size_t total;
    check(!ofputil_decode_packet_in(bytes, true, NULL, NULL, &pin, &total, &buffer_id, &continuation), "packet_in");
}

static void read_flow_mod(void)
{
    struct ofputil_flow_mod fm;
    uint64_t room[1024 / 8];
    struct ofpbuf acts = OFPBUF_STUB_INITIALIZER(room);
    check(!ofputil_decode_flow_mod(&fm, bytes, protocol, NULL, NULL, &acts, OFPP_MAX, 255), "flow_mod");
    minimatch_destroy(&fm.match);
    ofpbuf_uninit(&acts);
}

static void read_flow_removed(void)
{
    struct ofputil_flow_removed fr;
    check(!ofputil_decode_flow_removed(&fr, bytes), "flow_removed");
}

static void read_flow_stats(void)
{
    struct ofpbuf msg = ofpbuf_const_initializer(bytes, len);
    uint64_t room[1024 / 8];
    struct ofpbuf acts = OFPBUF_STUB_INITIALIZER(room);
    struct ofputil_flow_stats fs;
    int flows = 0;
    while (!ofputil_decode_flow_stats_reply(&fs, &msg, false, &acts)) {
        flows++;
    }
    check(flows == 100, "flow_stats");
    ofpbuf_uninit(&acts);
}

static struct ofputil_flow_mod flow_mod;
static struct ofputil_packet_out packet_out;

static void written(struct ofpbuf *msg)
{
    check(msg->size == len, "the length of what was written");
    ofpbuf_delete(msg);
}

static void write_flow_mod(void)
{
    struct ofpbuf *msg = ofputil_encode_flow_mod(&flow_mod, protocol);
    ofpmsg_update_length(msg);
    written(msg);
}

static void write_packet_out(void)
{
    struct ofpbuf *msg = ofputil_encode_packet_out(&packet_out, protocol);
    ofpmsg_update_length(msg);
    written(msg);
}

/* What writing writes again. */
static void prepare(void)
{
    static uint64_t room[1024 / 8];
    static struct ofpbuf acts = OFPBUF_STUB_INITIALIZER(room);
    const struct ofp_header *oh = bytes;
    if (oh->type == 14) {
        check(!ofputil_decode_flow_mod(&flow_mod, oh, protocol, NULL, NULL, &acts, OFPP_MAX, 255), "flow_mod");
    } else if (oh->type == 13) {
        check(!ofputil_decode_packet_out(&packet_out, oh, NULL, &acts), "packet_out");
    }
}

static const struct {
    const char *kind, *deed;
    void (*once)(void);
} cases[] = {
    {"packet_in", "read", read_packet_in},       {"flow_mod", "read", read_flow_mod},
    {"flow_mod", "write", write_flow_mod},       {"packet_out", "write", write_packet_out},
    {"flow_removed", "read", read_flow_removed}, {"flow_stats", "read", read_flow_stats},
};

int main(int argc, char **argv)
{
    char path[4096];
    struct timespec start, end;
    check(argc == 6, "the command line");
    snprintf(path, sizeof path, "%s/%s_%s.bin", argv[1], argv[2], argv[3]);
    FILE *file = fopen(path, "rb");
    check(file != NULL, path);
    bytes = malloc(1 << 16);
    len = fread(bytes, 1, 1 << 16, file);
    protocol = ofputil_protocol_from_ofp_version(((struct ofp_header *) bytes)->version);
    prepare();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].kind, argv[3]) || strcmp(cases[i].deed, argv[4])) {
            continue;
        }
        long count = atol(argv[5]);
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (long n = 0; n < count; n++) {
            cases[i].once();
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.2f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / count);
        return 0;
    }
    return 2;
}
