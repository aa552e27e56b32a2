"""One end of a steady stream of datagrams: `send ADDRESS RATE`, or `receive FILE`, until it is terminated."""

import signal
import socket
import struct
import sys
import time

PORT = 5005
# When it was received, its number, when it was sent; nanoseconds of the machine's one clock.
ROW = struct.Struct("<QQQ")
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))


def send(address, rate):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    start, number = time.monotonic_ns(), 0
    while not ends:
        due = start + number * 1_000_000_000 // rate
        now = time.monotonic_ns()
        if now < due:
            time.sleep((due - now) / 1e9)
            continue
        out.sendto(struct.pack("<QQ", number, now), (address, PORT))
        number += 1


def receive(path):
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    into.bind(("", PORT))
    into.settimeout(0.1)
    with open(path, "wb") as file:
        while not ends:
            try:
                datagram = into.recv(64)
            except TimeoutError:
                continue
            file.write(ROW.pack(time.monotonic_ns(), *struct.unpack("<QQ", datagram)))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]))
    else:
        receive(sys.argv[2])
