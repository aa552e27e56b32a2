"""Changes what is declared at random until the controller does not answer, or checks that what it acknowledged is there.

    acknowledged.py change FILE SEED
    acknowledged.py check FILE

`change` prints the number of each change that was acknowledged. FILE has what is declared, as JSON. After `change` it has two states: with all changes that were acknowledged, and the same with the one that was not answered.
`check` requires that the controller has one of them, waits until the switches have it, and leaves it in FILE.
"""

import http.client
import json
import random
import sys
import time

SWITCH = "s1"
MACS = [f"02:00:00:00:00:{n:02x}" for n in range(1, 5)]


def ask(connection, method, path, body=None):
    headers = {"content-type": "application/json"} if body is not None else {}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    return answer.status, json.loads(text) if text.startswith(("{", "[")) else text


def flow(number):
    return f"table=1,priority={number},in_port={number % 50 + 1},actions=drop"


def entry(name, number):
    return {"name": name, "switch": SWITCH, "flow": flow(number)}


def random_change(rng, state, number, port):
    """A request, and the state after it."""
    flows, after = state["flows"], json.loads(json.dumps(state))
    name = f"e{number}"
    kind = rng.choice(["set", "set", "remove", "several", "atomic", "all", "names", "quarantine", "release", "drain"])
    if kind == "remove" and flows:
        gone = rng.choice(sorted(flows))
        del after["flows"][gone]
        return ("DELETE", f"/v1/static/flows/{gone}", None), after
    if kind in ("several", "atomic"):
        new = {f"{name}-{n}": 1000 + 3 * number + n for n in range(3)}
        gone = rng.sample(sorted(flows), min(len(flows), 2))
        after["flows"] = {k: v for k, v in flows.items() if k not in gone} | {k: flow(n) for k, n in new.items()}
        body = {"set": [entry(k, n) for k, n in new.items()], "remove": [{"flow": k} for k in gone]}
        return ("POST", "/v1/static" + ("?atomic=true" if kind == "atomic" else ""), body), after
    if kind == "all":
        kept = {k: v for k, v in flows.items() if rng.random() < 0.8}
        after["flows"] = kept
        listed = [{"name": k, "switch": SWITCH, "flow": v} for k, v in kept.items()]
        return ("PUT", "/v1/declared", {"names": state["names"], "flows": listed}), after
    if kind == "names":
        after["names"] = {"switches": {"0000000000000001": f"n{number}"}, "hosts": {MACS[0]: f"h{number}"}}
        return ("PUT", "/v1/names", after["names"]), after
    free = [mac for mac in MACS if mac not in state["quarantines"]]
    if kind == "quarantine" and free:
        after["quarantines"] = sorted(state["quarantines"] + [free[0]])
        return ("POST", f"/v1/hosts/{free[0]}/quarantine", {"reason": "test"}), after
    if kind == "release" and state["quarantines"]:
        mac = state["quarantines"][0]
        after["quarantines"] = state["quarantines"][1:]
        return ("DELETE", f"/v1/hosts/{mac}/quarantine", None), after
    if kind == "drain":
        after["drains"] = 1 - state["drains"]
        return ("PUT" if after["drains"] else "DELETE", f"/v1/switches/0000000000000001/ports/{port}/drain", None), after
    after["flows"][name] = flow(number)
    return ("PUT", f"/v1/static/flows/{name}", {"switch": SWITCH, "flow": flow(number)}), after


def link_port(connection):
    """The port of the first switch to which the link is connected, once it was found."""
    while True:
        _, links = ask(connection, "GET", "/v1/links")
        ports = [link["from"]["port"] for link in links["links"] if link["from"]["dpid"] == "0000000000000001"]
        if ports:
            return ports[0]
        time.sleep(0.05)


def change(path, seed):
    rng = random.Random(seed)
    state = json.load(open(path))
    connection = http.client.HTTPConnection("127.0.0.1", 8653, timeout=30)
    after, made = state, 0
    try:
        port = link_port(connection)
        for number in range(seed * 10_000, seed * 10_000 + 10_000):
            (method, route, body), after = random_change(rng, state, number % 20_000 + 1, port)
            status, answer = ask(connection, method, route, body)
            if status != 200:
                sys.exit(f"{method} {route} {body}: {status} {answer}")
            state, made = after, made + 1
            print(made, flush=True)
    except (OSError, http.client.HTTPException):
        pass
    json.dump({"acknowledged": state, "unanswered": after}, open(path, "w"))


def declared(connection):
    _, document = ask(connection, "GET", "/v1/declared")
    _, quarantines = ask(connection, "GET", "/v1/quarantines")
    _, drains = ask(connection, "GET", "/v1/drains")
    names = document.get("names") or {}
    return {
        "flows": {it["name"]: it["flow"] for it in document.get("flows", [])},
        "names": {key: names.get(key, {}) for key in ("switches", "hosts")},
        "quarantines": sorted(it["mac"] for it in quarantines["quarantines"]),
        "drains": len(drains["drains"]),
    }


def check(path):
    states = json.load(open(path))
    connection = http.client.HTTPConnection("127.0.0.1", 8653, timeout=30)
    found = declared(connection)
    if found not in (states["acknowledged"], states["unanswered"]):
        sys.exit(f"found:\n{found}\nacknowledged:\n{states['acknowledged']}\nunanswered:\n{states['unanswered']}")
    until = time.monotonic() + 60
    while True:
        status, listed = ask(connection, "GET", "/v1/switches/0000000000000001/flows?owner=static")
        names = sorted(it["static_entry"] or "?" for it in listed["flows"]) if status == 200 else []
        if status == 200 and names == sorted(found["flows"]):
            break
        if time.monotonic() > until:
            sys.exit(f"the switch has {names}, declared is {sorted(found['flows'])}: {listed}")
        time.sleep(0.1)
    json.dump(found, open(path, "w"))
    print(len(found["flows"]))


if __name__ == "__main__":
    if sys.argv[1] == "change":
        change(sys.argv[2], int(sys.argv[3]))
    else:
        check(sys.argv[2])
