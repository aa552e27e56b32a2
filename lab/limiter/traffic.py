"""Traffic of hosts: `flood ADDRESS RATE` and `serve` run until terminated; `request ADDRESS RATE SECONDS`."""

import json
import select
import signal
import socket
import sys
import time

PORT = 5007
# Requests time out after this.
TIMEOUT_S = 1.0
terminated = []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(1))


def flood(address, rate):
    """Sends each datagram to another port, so that each is a new flow; prints datagrams per second."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    start, number = time.monotonic(), 0
    while not terminated:
        due = int((time.monotonic() - start) * rate)
        for number in range(number, due):
            try:
                sock.sendto(b"data", (address, 10_000 + number % 50_000))
            except OSError:
                # The port is closed, which the system may report.
                pass
        number = due
        time.sleep(0.001)
    print(number / (time.monotonic() - start))


def serve():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", PORT))
    server.settimeout(0.1)
    while not terminated:
        try:
            data, sender = server.recvfrom(64)
            server.sendto(data, sender)
        except TimeoutError:
            continue


def request(address, rate, seconds):
    """Sends requests, each from another port; prints the seconds until each reply, null for none."""
    poll, outstanding, times_s = select.epoll(), {}, []
    start, number = time.monotonic(), 0
    while True:
        now = time.monotonic()
        wanted = int(min(now - start, seconds) * rate)
        for _ in range(number, wanted):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.connect((address, PORT))
            sock.send(b"request")
            poll.register(sock, select.EPOLLIN)
            outstanding[sock.fileno()] = (sock, time.monotonic())
        number = wanted
        for fd, _ in poll.poll(0.001):
            sock, sent_at = outstanding.pop(fd)
            times_s.append(time.monotonic() - sent_at)
            sock.close()
        for fd in [fd for fd, (_, sent_at) in outstanding.items() if now - sent_at > TIMEOUT_S]:
            outstanding.pop(fd)[0].close()
            times_s.append(None)
        if now - start > seconds and not outstanding:
            break
    print(json.dumps(times_s))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "flood":
        flood(arguments[0], int(arguments[1]))
    elif command == "serve":
        serve()
    else:
        request(arguments[0], int(arguments[1]), float(arguments[2]))
