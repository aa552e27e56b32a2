#!/usr/bin/env python3
"""Commands of scripts/check-dist.sh.

    check-dist.py connect PORT            a server answers at the port: switches get a HELLO, HTTP an answer
    check-dist.py status CODE URL         a request is answered with this status
    check-dist.py nameserver NAME IPV4    serves one name by DNS, on port 53 of the loopback interface
    check-dist.py sbom FILE VERSION       the bill of materials is of this version and names what is linked
"""

import json
import socket
import struct
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 10
A = 1


def connect(port: str) -> None:
    with socket.create_connection(("127.0.0.1", int(port)), TIMEOUT_S) as client:
        if int(port) not in (6653, 6633):
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        if not client.recv(8):
            sys.exit(f"the connection to port {port} was closed")


def status(code: str, url: str) -> None:
    try:
        # Not by a proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=TIMEOUT_S) as response:
            found = response.status
    except urllib.error.HTTPError as error:
        found = error.code
    if found != int(code):
        sys.exit(f"{url}: status {found} instead of {code}")


def nameserver(name: str, address: str) -> None:
    encoded = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        query, client = server.recvfrom(512)
        question = query[12 : query.index(b"\0", 12) + 5]
        kind = struct.unpack("!H", question[-4:-2])[0]
        is_known = question[:-4].lower() == encoded
        record = b""
        if is_known and kind == A:
            # A pointer to the name of the question, for one minute.
            record = struct.pack("!HHHIH", 0xC00C, A, 1, 60, 4) + socket.inet_aton(address)
        # A response that is authoritative, and NXDOMAIN for other names.
        flags = 0x8400 if is_known else 0x8403
        header = struct.pack("!HHHHHH", struct.unpack("!H", query[:2])[0], flags, 1, int(bool(record)), 0, 0)
        server.sendto(header + question + record, client)


def sbom(path: str, version: str) -> None:
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    found = document["metadata"]["component"]["version"].removesuffix("+dirty")
    names = {it["name"] for it in document["components"]}
    missing = {"sluice-engine", "rustls", "mimalloc"} - names
    if found != version or missing:
        sys.exit(f"{path}: version {found}, without {sorted(missing)}")


COMMANDS = {it.__name__: it for it in (connect, status, nameserver, sbom)}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
