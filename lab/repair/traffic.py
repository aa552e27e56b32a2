"""Sends or receives a steady stream of datagrams until terminated: `send ADDRESS RATE`, or `receive FILE`."""

import signal
import socket
import struct
import sys
import time

PORT = 5005
# Time received, number, time sent; times in nanoseconds of the monotonic clock.
ROW = struct.Struct("<QQQ")
terminated = []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(1))


def send(address, rate):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    start, number = time.monotonic_ns(), 0
    while not terminated:
        due = start + number * 1_000_000_000 // rate
        now = time.monotonic_ns()
        if now < due:
            time.sleep((due - now) / 1e9)
            continue
        sender.sendto(struct.pack("<QQ", number, now), (address, PORT))
        number += 1


def receive(path):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    receiver.bind(("", PORT))
    receiver.settimeout(0.1)
    with open(path, "wb") as file:
        while not terminated:
            try:
                datagram = receiver.recv(64)
            except TimeoutError:
                continue
            file.write(ROW.pack(time.monotonic_ns(), *struct.unpack("<QQ", datagram)))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]))
    else:
        receive(sys.argv[2])
