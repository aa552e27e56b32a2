"""Opens idle sessions of OpenFlow 1.0 and answers echo and barrier requests: sessions.py PORT SESSIONS PORTS.

Prints a line when all are established, and ends when its standard input is closed."""
import os
import select
import socket
import struct
import sys

HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 2, 3, 5, 6
BARRIER_REQUEST, BARRIER_REPLY = 18, 19


def message(kind, xid, body=b""):
    return struct.pack("!BBHI", 1, kind, 8 + len(body), xid) + body


def features(datapath_id, n_ports):
    ports = (struct.pack("!H6s16s", n, b"\2\0\0\0\0" + bytes([n]), b"") for n in range(1, n_ports + 1))
    return struct.pack("!QIB11x", datapath_id, 0, 1) + b"".join(port.ljust(48, b"\0") for port in ports)


def answers(data, datapath_id, n_ports):
    """The answers to the messages of one read, and whether the handshake is complete. A message that is not complete is ignored,
    since those of a handshake and echo requests arrive whole."""
    out, complete = b"", False
    while len(data) >= 8:
        _, kind, length, xid = struct.unpack_from("!BBHI", data)
        body, data = data[8:length], data[max(length, 8):]
        if kind == ECHO_REQUEST:
            out += message(ECHO_REPLY, xid, body)
        elif kind == BARRIER_REQUEST:
            out += message(BARRIER_REPLY, xid)
        elif kind == FEATURES_REQUEST:
            out += message(FEATURES_REPLY, xid, features(datapath_id, n_ports))
            complete = True
    return out, complete


controller_port, n_sessions, n_ports = map(int, sys.argv[1:])
epoll = select.epoll()
epoll.register(sys.stdin, select.EPOLLIN)
sessions, established = {}, 0
while True:
    while len(sessions) < n_sessions and len(sessions) - established < 500:
        session = socket.create_connection(("127.0.0.1", controller_port))
        session.sendall(message(HELLO, 0))
        sessions[session.fileno()] = (session, len(sessions) + 1)
        epoll.register(session, select.EPOLLIN)
    for fd, _ in epoll.poll():
        if fd == sys.stdin.fileno():
            sys.exit()
        session, datapath_id = sessions[fd]
        data = session.recv(1 << 16)
        if not data:
            sys.exit("the controller closed a session")
        out, complete = answers(data, datapath_id, n_ports)
        if out:
            os.write(fd, out)
        if complete:
            established += 1
            if established == n_sessions:
                print("established", flush=True)
