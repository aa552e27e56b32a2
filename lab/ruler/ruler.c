/* An independent measurement of an OpenFlow 1.0 controller, to compare `sluice bench` with. It shares no code with it.
 *
 * ruler HOST PORT SWITCHES WINDOW SECONDS
 *
 * Emulates SWITCHES switches with HOSTS hosts each; each switch has WINDOW outstanding packet-ins. After a second of warm-up it counts
 * for SECONDS the packet-ins that a FLOW_MOD or PACKET_OUT with their buffer id answers, each once, and prints the answers per second
 * and the median time from the send call to the end of the read that returned the answer, in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 1000, PORTS = 4, RING = 1 << 16, FRAME = 64, REQUEST = 18 + FRAME, BUFFER = 1 << 20, SAMPLES_MAX = 1 << 25 };
enum { HELLO = 0, ECHO_REQUEST = 2, ECHO_REPLY = 3, FEATURES_REQUEST = 5, FEATURES_REPLY = 6, GET_CONFIG_REQUEST = 7, GET_CONFIG_REPLY = 8,
       PACKET_IN = 10, PACKET_OUT = 13, FLOW_MOD = 14, BARRIER_REQUEST = 18, BARRIER_REPLY = 19 };

struct peer {
    int fd, is_ready;
    uint32_t next, outstanding;
    uint64_t sent_at[RING]; /* 0 if not outstanding */
    uint8_t in[BUFFER];
    size_t in_len;
};

static struct peer *peers;
static uint32_t *samples;
static size_t samples_len;
static uint64_t answered;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void put16(uint8_t *at, uint16_t value) { value = htons(value); memcpy(at, &value, 2); }
static void put32(uint8_t *at, uint32_t value) { value = htonl(value); memcpy(at, &value, 4); }
static uint16_t get16(const uint8_t *at) { uint16_t value; memcpy(&value, at, 2); return ntohs(value); }
static uint32_t get32(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return ntohl(value); }

static void send_all(struct peer *peer, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        ssize_t n = send(peer->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0) fail("send");
        bytes += n;
        len -= n;
    }
}

static void reply(struct peer *peer, uint8_t type, const uint8_t *request, const uint8_t *body, size_t len) {
    uint8_t out[2048] = {1, type};
    put16(out + 2, 8 + len);
    memcpy(out + 4, request + 4, 4);
    memcpy(out + 8, body, len);
    send_all(peer, out, 8 + len);
}

static void features(struct peer *peer, const uint8_t *request) {
    uint8_t body[24 + 48 * PORTS] = {0};
    put32(body + 4, peer - peers + 1);
    put32(body + 8, 256);
    body[12] = 1;
    put32(body + 20, 1);
    for (int port = 0; port < PORTS; port++) {
        uint8_t *at = body + 24 + 48 * port;
        put16(at, port + 1);
        at[2] = 2, at[6] = peer - peers, at[7] = port + 1;
        snprintf((char *)at + 8, 16, "port%d", port + 1);
    }
    reply(peer, FEATURES_REPLY, request, body, sizeof body);
}

static void mac(uint8_t *at, const struct peer *peer, uint32_t host) {
    at[0] = 2, at[1] = 1 + (peer - peers) / 256, at[2] = (peer - peers) % 256, at[3] = 0;
    put16(at + 4, host);
}

/* Sends as many packet-ins as the window has room for. */
static void refill(struct peer *peer, uint32_t window) {
    static uint8_t out[REQUEST * 1024];
    size_t n = 0;
    for (; peer->outstanding + n < window && n < 1024; n++) {
        uint8_t *at = out + REQUEST * n;
        uint32_t id = peer->next + n, src = id % HOSTS, dst = (src + 1) % HOSTS;
        memset(at, 0, REQUEST);
        at[0] = 1, at[1] = PACKET_IN;
        put16(at + 2, REQUEST);
        put32(at + 8, id & 0x7fffffff);
        put16(at + 12, FRAME);
        put16(at + 14, 1 + src % PORTS);
        mac(at + 18, peer, dst);
        mac(at + 24, peer, src);
        put16(at + 30, 0x0800);
        at[32] = 0x45, put16(at + 34, FRAME - 14), at[40] = 64, at[41] = 17;
        put32(at + 44, 0x0a000000 + src), put32(at + 48, 0x0a000000 + dst);
    }
    if (n == 0) return;
    uint64_t now = now_ns();
    for (size_t i = 0; i < n; i++) peer->sent_at[(peer->next + i) % RING] = now;
    send_all(peer, out, REQUEST * n);
    peer->next += n;
    peer->outstanding += n;
}

static void answer(struct peer *peer, uint32_t id, uint64_t now) {
    uint64_t *sent_at = &peer->sent_at[id % RING];
    if (id == UINT32_MAX || *sent_at == 0) return;
    if (samples_len < SAMPLES_MAX) samples[samples_len++] = now - *sent_at;
    *sent_at = 0;
    peer->outstanding--;
    answered++;
}

static void receive(struct peer *peer) {
    ssize_t n = recv(peer->fd, peer->in + peer->in_len, BUFFER - peer->in_len, 0);
    if (n <= 0) fail("recv");
    uint64_t now = now_ns();
    peer->in_len += n;
    uint8_t *msg = peer->in, *end = peer->in + peer->in_len;
    while (end - msg >= 8 && end - msg >= get16(msg + 2)) {
        uint8_t config[4] = {0, 0, 0, 128}, bad_type[4] = {0, 1, 0, 1};
        switch (msg[1]) {
        case HELLO: break;
        case ECHO_REQUEST: reply(peer, ECHO_REPLY, msg, msg + 8, get16(msg + 2) - 8); break;
        case FEATURES_REQUEST: features(peer, msg); peer->is_ready = 1; break;
        case GET_CONFIG_REQUEST: reply(peer, GET_CONFIG_REPLY, msg, config, 4); break;
        case BARRIER_REQUEST: reply(peer, BARRIER_REPLY, msg, config, 0); break;
        case FLOW_MOD: answer(peer, get32(msg + 64), now); break;
        case PACKET_OUT: answer(peer, get32(msg + 8), now); break;
        case 16: reply(peer, 1, msg, bad_type, 4); break; /* statistics */
        }
        msg += get16(msg + 2);
    }
    peer->in_len = end - msg;
    memmove(peer->in, msg, peer->in_len);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: ruler HOST PORT SWITCHES WINDOW SECONDS\n");
        return 2;
    }
    int switches = atoi(argv[3]), window = atoi(argv[4]), one = 1;
    if (switches < 1 || window < 1 || window > RING / 2) {
        fprintf(stderr, "ruler: expected at least 1 switch, and 1 to %d outstanding requests\n", RING / 2);
        return 2;
    }
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    if (inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) fail("address");
    peers = calloc(switches, sizeof *peers);
    samples = calloc(SAMPLES_MAX, sizeof *samples);
    if (!peers || !samples) fail("calloc");
    int set = epoll_create1(0);
    for (int i = 0; i < switches; i++) {
        peers[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(peers[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(peers[i].fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
        if (connect(peers[i].fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &peers[i]};
        epoll_ctl(set, EPOLL_CTL_ADD, peers[i].fd, &event);
        uint8_t hello[8] = {1, HELLO, 0, 8};
        send_all(&peers[i], hello, 8);
    }
    uint64_t start = now_ns() + 1000000000ull, end = start + strtoull(argv[5], 0, 10) * 1000000000ull;
    int is_measuring = 0;
    for (uint64_t now = now_ns(); now < end; now = now_ns()) {
        if (!is_measuring && now >= start) {
            is_measuring = 1;
            answered = samples_len = 0;
            start = now;
        }
        struct epoll_event events[64];
        int n = epoll_wait(set, events, 64, 100);
        for (int i = 0; i < n; i++) {
            struct peer *peer = events[i].data.ptr;
            receive(peer);
            if (peer->is_ready) refill(peer, window);
        }
    }
    double seconds = (now_ns() - start) / 1e9;
    qsort(samples, samples_len, sizeof *samples, by_value);
    printf("%.1f %.3f\n", answered / seconds, samples_len ? samples[(samples_len - 1) / 2] / 1e3 : 0.0);
    return 0;
}
