"""Hosts that talk: `hog ADDRESS RATE`, `serve`, each until it is terminated, or `ask ADDRESS RATE SECONDS`."""

import json
import select
import signal
import socket
import sys
import time

PORT = 5007
# An answer that takes longer is none.
PATIENCE_S = 1.0
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))


def hog(address, rate):
    """Datagrams to ever other ports, each a conversation of its own; prints how many a second."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    start, number = time.monotonic(), 0
    while not ends:
        due = int((time.monotonic() - start) * rate)
        for number in range(number, due):
            try:
                out.sendto(b"more", (address, 10_000 + number % 50_000))
            except OSError:
                # Nobody listens there, which a system may say.
                pass
        number = due
        time.sleep(0.001)
    print(number / (time.monotonic() - start))


def serve():
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.bind(("", PORT))
    into.settimeout(0.1)
    while not ends:
        try:
            data, who = into.recvfrom(64)
            into.sendto(data, who)
        except TimeoutError:
            continue


def ask(address, rate, seconds):
    """One question after another, each from another port; prints how long each answer took, null for none."""
    poll, open_, took = select.epoll(), {}, []
    start, number = time.monotonic(), 0
    while True:
        now = time.monotonic()
        wanted = int(min(now - start, seconds) * rate)
        for _ in range(number, wanted):
            out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            out.connect((address, PORT))
            out.send(b"question")
            poll.register(out, select.EPOLLIN)
            open_[out.fileno()] = (out, time.monotonic())
        number = wanted
        for fd, _ in poll.poll(0.001):
            out, asked = open_.pop(fd)
            took.append(time.monotonic() - asked)
            out.close()
        for fd in [fd for fd, (_, asked) in open_.items() if now - asked > PATIENCE_S]:
            open_.pop(fd)[0].close()
            took.append(None)
        if now - start > seconds and not open_:
            break
    print(json.dumps(took))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "hog":
        hog(arguments[0], int(arguments[1]))
    elif what == "serve":
        serve()
    else:
        ask(arguments[0], int(arguments[1]), float(arguments[2]))
