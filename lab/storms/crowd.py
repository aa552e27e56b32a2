"""A host that speaks to all: `shout RANK RATE`, or `listen FILE`, until it is terminated."""

import collections
import json
import signal
import socket
import struct
import sys
import time

PORT = 5006
ALL = "10.0.0.255"
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))


def shout(rank, rate):
    """Numbered broadcasts; prints how many there were."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    start, number = time.monotonic(), 0
    while not ends:
        wait = start + number / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
            continue
        out.sendto(struct.pack("<II", rank, number), (ALL, PORT))
        number += 1
    print(number)


def listen(path):
    """Writes how often each broadcast was heard."""
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    into.bind(("", PORT))
    into.settimeout(0.1)
    heard = collections.Counter()
    while not ends:
        try:
            heard[into.recv(64)] += 1
        except TimeoutError:
            continue
    with open(path, "w") as file:
        # Whose, its number, how many copies of it.
        json.dump([[*struct.unpack("<II", datagram), copies] for datagram, copies in heard.items()], file)


if __name__ == "__main__":
    if sys.argv[1] == "shout":
        shout(int(sys.argv[2]), int(sys.argv[3]))
    else:
        listen(sys.argv[2])
