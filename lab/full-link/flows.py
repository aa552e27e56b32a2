"""Opens new flows, each with one datagram: flows.py ADDRESS FLOWS_PER_SECOND SECONDS"""
import socket
import sys
import time

address, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
start, sent = time.monotonic(), 0
while time.monotonic() < start + seconds:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flow:
        flow.bind(("", 1024 + sent % 60_000))
        flow.sendto(b"x" * 20, (address, 1024 + sent * 7919 % 60_000))
    sent += 1
    time.sleep(max(0, start + sent / rate - time.monotonic()))
