#!/usr/bin/env python3
"""Opens a connection to each port every few milliseconds until a file exists: connect_until.py FILE PORT... Prints how many were refused."""

import os
import socket
import sys
import time

stop, *ports = sys.argv[1:]
opened = refused = 0
while not os.path.exists(stop):
    for port in ports:
        try:
            socket.create_connection(("127.0.0.1", int(port)), timeout=20).close()
            opened += 1
        except ConnectionRefusedError:
            refused += 1
    time.sleep(0.005)
print(f"{opened} opened, {refused} refused")
