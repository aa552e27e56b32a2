#!/usr/bin/env python3
"""Stops one thread of a process until this program ends: stop_thread.py PID NAME. Prints "stopped" when the thread stands still."""

import ctypes
import os
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000

pid, name = sys.argv[1:]
tasks = f"/proc/{pid}/task"


def comm(task):
    with open(f"{tasks}/{task}/comm", encoding="utf-8") as file:
        return file.read().strip()


thread = next(int(task) for task in os.listdir(tasks) if comm(task) == name)
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
os.waitpid(thread, WALL)
print("stopped", flush=True)
# The thread goes on when its tracer ends.
sys.stdin.read()
