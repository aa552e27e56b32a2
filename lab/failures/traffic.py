"""Echoes: `echo` returns datagrams; `request ADDRESS RATE FILE` sends them at a rate, and writes a row for each that comes back.

Both run until they are terminated. `flood KIND RATE SECONDS ARGUMENTS` sends raw frames out of `eth0`.
"""

import random
import signal
import socket
import struct
import sys
import threading
import time

PORT = 5005
# Time received, number, time sent; times in nanoseconds of the monotonic clock.
ROW = struct.Struct("<QQQ")
terminated = []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(1))


def datagram_socket():
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    opened.settimeout(0.1)
    return opened


def echo():
    server = datagram_socket()
    server.bind(("", PORT))
    while not terminated:
        try:
            data, peer = server.recvfrom(64)
            server.sendto(data, peer)
        except OSError:
            # Nothing has come, or the host is not reachable at the moment.
            continue


def request(address, rate, path):
    client = datagram_socket()
    client.bind(("", 0))
    threading.Thread(target=send, args=(client, address, rate), daemon=True).start()
    with open(path, "wb") as file:
        while not terminated:
            try:
                data = client.recv(64)
            except OSError:
                continue
            file.write(ROW.pack(time.monotonic_ns(), *struct.unpack("<QQ", data)))


def send(client, address, rate):
    start, number = time.monotonic_ns(), 0
    while not terminated:
        due = start + number * 1_000_000_000 // rate
        now = time.monotonic_ns()
        if now < due:
            time.sleep((due - now) / 1e9)
            continue
        try:
            client.sendto(struct.pack("<QQ", number, now), (address, PORT))
        except OSError:
            # No route at the moment; it counts as lost.
            pass
        number += 1


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def random_mac():
    return bytes([2, *(random.randrange(256) for _ in range(5))])


# Frames by kind; the arguments are addresses.
FRAMES = {
    # From random addresses to random addresses.
    "random": lambda: random_mac() + random_mac() + bytes.fromhex("88b6") + bytes(46),
    # From the address of another host, to everybody.
    "spoofed": lambda victim: b"\xff" * 6 + mac(victim) + bytes.fromhex("88b5") + bytes(46),
    # An ARP request with the sender's own hardware address and the IP address of another host.
    "claim": lambda own, ip: b"\xff" * 6 + mac(own) + bytes.fromhex("0806000108000604000" + "1") + mac(own)
    + socket.inet_aton(ip) + bytes(6) + socket.inet_aton("10.0.0.99") + bytes(18),
    # UDP to a multicast group.
    "multicast": lambda own, ip: bytes.fromhex("01005e010101") + mac(own) + bytes.fromhex("08004500002e00000000081100")
    + b"\0" + socket.inet_aton(ip) + socket.inet_aton("239.1.1.1") + bytes.fromhex("13881388001a0000") + bytes(18),
}


def flood(kind, rate, seconds, *arguments):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    opened.bind(("eth0", 0))
    start = time.monotonic()
    for number in range(rate * seconds):
        time.sleep(max(0, start + number / rate - time.monotonic()))
        opened.send(FRAMES[kind](*arguments))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["echo"]:
            echo()
        case ["request", address, rate, path]:
            request(address, int(rate), path)
        case ["flood", kind, rate, seconds, *arguments]:
            flood(kind, int(rate), int(seconds), *arguments)
