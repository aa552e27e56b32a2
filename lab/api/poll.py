"""Polls everything that can be read from the API, with a number of clients at a time.

    poll.py PORT CLIENTS SWITCHES

SWITCHES are datapath ids, decimal, separated by commas. Standard input has the commands, one per line: `go NAME` starts to poll the requests of this
name (see `REQUESTS`), `stop` lets each client finish its request and prints the number of answers by kind of request and status as JSON.
"""
import asyncio
import collections
import itertools
import json
import sys

HOST_A, HOST_B = "10.0.0.1", "10.0.0.24"
LISTS = [
    "/v1/controller", "/v1/switches", "/v1/switches/{id}", "/v1/links", "/v1/hosts", "/v1/hosts?ip=10.0.0.1", "/v1/names", "/v1/declared",
    "/v1/static/flows", "/v1/static/groups", "/v1/static/meters", "/v1/static/flows/e1", "/v1/events/history", "/v1/limits",
    "/v1/applications", "/v1/applications/forwarding/state", "/v1/drains", "/v1/quarantines", "/v1/tokens", "/v1/openapi.json", "/metrics",
    "/stats/switches", "/v1.0/topology/switches", "/v1.0/topology/links", "/v1.0/topology/hosts",
]
# Answered by the switch.
OF_SWITCHES = [
    "/v1/switches/{id}/flows", "/v1/switches/{id}/ports", "/v1/ports/busiest",
    *(f"/v1/switches/{{id}}/{what}" for what in (
        "description", "tables", "port-stats", "port-descriptions", "queues", "groups", "group-stats", "meters", "meter-stats")),
    *(f"/stats/{what}/{{dpid}}" for what in (
        "desc", "flow", "aggregateflow", "table", "port", "portdesc", "queue", "group", "groupdesc", "meter", "meterconfig", "role")),
]
# Read the flow tables of several switches.
TRACES = [f"/v1/paths?from={HOST_A}&to={HOST_B}", f"POST /v1/trace {json.dumps({'from': HOST_A, 'to': HOST_B})}"]
REQUESTS = {"everything": LISTS + OF_SWITCHES + TRACES, "lists": LISTS, "live reads": OF_SWITCHES, "traces": TRACES}
answers = collections.defaultdict(collections.Counter)
running = asyncio.Event()
requests = []
busy = 0


async def request(port, method, path, body):
    """Sends a request on a connection of its own; returns the status, or what has become of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        if body:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}\r\n{body}".encode())
        answer = bytearray()
        while part := await reader.read(1 << 18):
            answer += part
    finally:
        writer.close()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    if not head:
        return "closed"
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), len(body))
    return head.split(b" ")[1].decode() if len(body) == length else "incomplete"


async def client(port, switches, number):
    global busy
    for turn in itertools.count(number):
        await running.wait()
        template = requests[turn % len(requests)]
        method, path, body = template.split(" ", 2) if template.startswith("POST ") else ("GET", template, "")
        # Clients begin at different switches, and take another one with each round of the requests.
        dpid = switches[(number + turn // len(requests)) % len(switches)]
        path = path.replace("{id}", f"{dpid:016x}").replace("{dpid}", str(dpid))
        busy += 1
        try:
            answers[template.partition(" {")[0]][await request(port, method, path, body)] += 1
        except OSError:
            # More clients than connections: another one was preferred.
            answers[template.partition(" {")[0]]["closed"] += 1
        finally:
            busy -= 1


async def main(port, clients, switches):
    tasks = [asyncio.create_task(client(port, switches, number)) for number in range(clients)]
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        if line.startswith("go "):
            requests[:] = REQUESTS[line[3:]]
            answers.clear()
            running.set()
        else:
            running.clear()
            while busy:
                await asyncio.sleep(0.005)
            print(json.dumps(answers), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), [int(dpid) for dpid in sys.argv[3].split(",")]))
