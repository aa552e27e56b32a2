"""How fast does `sluice decode` read a large capture, and in how much memory?

Generates captures of 16 switches that send packet-ins and get flow entries, packet-outs and barriers, and decodes them in
several ways.
"""

import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

MB = 1_000_000
SWITCHES = 16
SEGMENT = 1448
HEADER_LEN = 8


def message(kind, xid, body=b""):
    return struct.pack("!BBHI", 4, kind, HEADER_LEN + len(body), xid) + body


def match(*fields):
    body = b"".join(fields)
    length = 4 + len(body)
    return struct.pack("!HH", 1, length) + body + bytes(-length % 8)


IN_PORT = bytes.fromhex("80000004") + struct.pack("!I", 1)
ETH_DST, ETH_SRC = (bytes.fromhex(header) + bytes([2, 0, 0, 0, 0, n]) for n, header in ((1, "80000606"), (2, "80000806")))
OUTPUT = struct.pack("!HHIH6x", 0, 16, 2, 0)
FRAME = bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + bytes(50)


def from_switch(xid):
    """A packet-in that is not buffered and one that is; every tenth time the reply to a barrier."""
    packet_in = struct.pack("!HBBQ", len(FRAME), 0, 0, 0) + match(IN_PORT) + bytes(2) + FRAME
    unbuffered = message(10, 0, struct.pack("!I", 0xFFFFFFFF) + packet_in)
    buffered = message(10, 0, struct.pack("!I", xid) + packet_in)
    return unbuffered + buffered + (message(21, xid) if xid % 10 == 0 else b"")


def from_controller(xid):
    """A flow entry, two packet-outs; every tenth time a barrier."""
    instructions = struct.pack("!HH4x", 4, 24) + OUTPUT
    fixed = struct.pack("!QQBBHHHIIIH2x", 1, 0, 0, 0, 60, 0, 100, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    flow = message(14, xid, fixed + match(IN_PORT, ETH_DST, ETH_SRC) + instructions)
    out = struct.pack("!IH6x", 1, len(OUTPUT)) + OUTPUT
    unbuffered = message(13, xid, struct.pack("!I", 0xFFFFFFFF) + out + FRAME)
    buffered = message(13, xid, struct.pack("!I", xid) + out)
    return flow + unbuffered + buffered + (message(20, xid) if xid % 10 == 0 else b"")


def handshake(dpid):
    features = struct.pack("!QIBB2xII", dpid, 256, 254, 0, 0x4F, 0)
    return message(0, 1) + message(6, 2, features), message(0, 1) + message(5, 2)


class Capture:
    """Writes a capture of the given number of bytes; of TCP segments, the part `loss` is left out."""

    def __init__(self, path, size, segment, loss=0.0):
        self.loss, self.random, self.micros = loss, random.Random(7), 0
        self.streams = [[1, 1] for _ in range(SWITCHES)]
        with open(path, "wb", buffering=1 << 20) as self.file:
            self.file.write(struct.pack("!IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for switch in range(SWITCHES):
                for side, payload in enumerate(handshake(switch + 1)):
                    self.segment(switch, side, payload)
            xid = 10
            # About one segment for each end at a time, repeated for each switch.
            rounds = 1 if segment == "message" else 6
            while self.file.tell() < size:
                for switch in range(SWITCHES):
                    for side, make in enumerate((from_switch, from_controller)):
                        bytes = b"".join(make(xid + n) for n in range(rounds))
                        while bytes:
                            length = struct.unpack_from("!H", bytes, 2)[0] if segment == "message" else SEGMENT
                            self.segment(switch, side, bytes[:length])
                            bytes = bytes[length:]
                xid += rounds
            self.size = self.file.tell()

    def segment(self, switch, side, payload):
        seq, ack = self.streams[switch][side], self.streams[switch][1 - side]
        self.streams[switch][side] = (seq + len(payload)) & 0xFFFFFFFF
        self.micros += 1
        if self.loss and self.random.random() < self.loss:
            return
        ends = [(0x0A010001 + switch, 40000 + switch), (0x0A000001, 6653)]
        (src, src_port), (dst, dst_port) = ends[side], ends[1 - side]
        ip = struct.pack("!BBHHHBBHII", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, src, dst)
        tcp = struct.pack("!HHIIBBHHH", src_port, dst_port, seq, ack, 0x50, 0x18, 65535, 0, 0)
        packet = FRAME[:14] + ip + tcp + payload
        seconds, micros = divmod(self.micros, 1_000_000)
        self.file.write(struct.pack("!IIII", 1_700_000_000 + seconds, micros, len(packet), len(packet)) + packet)


def decode(path, *arguments):
    """Decodes the capture once; returns seconds, peak memory and the last line of the output."""
    command = [*lab.PRIORITY, lab.SLUICE, "decode", *arguments, str(path)]
    with tempfile.TemporaryFile() as out:
        target = subprocess.DEVNULL if "--all" in arguments else out
        command = [word for word in command if word != "--all"]
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=target)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        out.seek(0)
        text = out.read().decode()
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status}")
    processor = usage.ru_utime + usage.ru_stime
    last = text.splitlines()[-1] if text else ""
    return {"seconds": seconds, "processor": processor, "peak_kib": usage.ru_maxrss, "last_line": last}


CHECK, SUMMARY, ERRORS, SWITCH = ("--check",), ("--summary",), ("--type", "error"), ("--dpid", "1", "--summary")
TEXT, JSON = ("--all",), ("--json", "--all")
size = int(os.environ.get("SIZE_MB", 2000)) * MB
runs = []
lab.table("capture", "MB", "decode", "MB/s", "MB per second of processor", "peak memory, MiB")
with tempfile.TemporaryDirectory(dir=os.environ.get("CAPTURE_DIR")) as folder:
    path = pathlib.Path(folder) / "large.pcap"
    cases = [
        ("full segments", "full", size, 0.0, [CHECK, SUMMARY, ERRORS, SWITCH]),
        ("a message per segment", "message", size, 0.0, [CHECK, ERRORS]),
        ("full segments, 1 % lost", "full", size, 0.01, [CHECK]),
        ("full segments", "full", size // 10, 0.0, [CHECK, SUMMARY, TEXT, JSON]),
    ]
    for name, segment, size, loss, ways in cases:
        capture = Capture(path, size, segment, loss)
        decode(path, "--type", "error")  # into the page cache
        for way in ways:
            results = [decode(path, *way) for _ in range(lab.rounds(3))]
            medians = {key: statistics.median(run[key] for run in results) for key in ("seconds", "processor", "peak_kib")}
            shown = " ".join(word for word in way if word != "--all") or "text"
            rates = [f"{capture.size / MB / medians[key]:,.0f}" for key in ("seconds", "processor")]
            lab.row(name, f"{capture.size / MB:,.0f}", f"`{shown}`" if shown != "text" else shown, *rates, f"{medians['peak_kib'] / 1024:.1f}")
            runs.append({"capture": name, "bytes": capture.size, "decode": shown, "medians": medians, "runs": results})
lab.store("decode/throughput", {"switches": SWITCHES, "segment": SEGMENT, "measurements": runs})
