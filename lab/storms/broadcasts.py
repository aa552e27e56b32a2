"""Sends or receives broadcasts until terminated: `send HOST RATE`, or `receive FILE`."""

import collections
import json
import signal
import socket
import struct
import sys
import time

PORT = 5006
BROADCAST = "10.0.0.255"
terminated = []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(1))


def send(host, rate):
    """Sends numbered broadcasts; prints their number."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    start, number = time.monotonic(), 0
    while not terminated:
        wait = start + number / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
            continue
        sender.sendto(struct.pack("<II", host, number), (BROADCAST, PORT))
        number += 1
    print(number)


def receive(path):
    """Writes how often each broadcast was received."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    receiver.bind(("", PORT))
    receiver.settimeout(0.1)
    received = collections.Counter()
    while not terminated:
        try:
            received[receiver.recv(64)] += 1
        except TimeoutError:
            continue
    with open(path, "w") as file:
        # Sending host, number, copies received.
        json.dump([[*struct.unpack("<II", datagram), copies] for datagram, copies in received.items()], file)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(int(sys.argv[2]), int(sys.argv[3]))
    else:
        receive(sys.argv[2])
