"""Asks for everything that the API has, with a number of clients at a time, until SIGTERM; prints the numbers of answers by status.

    poll.py PORT CLIENTS
"""
import asyncio
import collections
import json
import os
import signal
import sys

PATHS = ["/metrics", "/v1/controller", "/v1/switches", "/v1/links", "/v1/hosts", "/v1/openapi.json"]
answers = collections.Counter()


async def ask(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        head = await reader.read(16)
        while await reader.read(1 << 16):
            pass
        answers[head.split(b" ")[1].decode() if head else "closed"] += 1
    finally:
        writer.close()


async def client(port, number):
    while True:
        for step in range(len(PATHS)):
            try:
                await ask(port, PATHS[(number + step) % len(PATHS)])
            except OSError:
                # More clients than connections: another one was preferred.
                answers["closed"] += 1


async def main(port, clients):
    all_clients = [asyncio.create_task(client(port, number)) for number in range(clients)]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    for task in all_clients:
        task.cancel()
    print(json.dumps(answers))


# The clients shall not take the processor from the generator of packet-ins.
os.nice(10)
asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
