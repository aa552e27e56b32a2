#!/usr/bin/env python3
"""Prints a software bill of materials of the release binary: CycloneDX 1.5 as JSON.

    scripts/sbom.py VERSION TARGET

Has the crates that are linked into the binary for TARGET, by `cargo metadata` and Cargo.lock, and the npm packages that
web/package-lock.json lists for the pages, if there is such a file. Packages that only build or test are not in it. The
output depends on the checkout and on SOURCE_DATE_EPOCH only.
"""

import base64
import datetime
import json
import os
import subprocess
import sys
import tomllib
import uuid

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BINARY = "sluice-cli"


def linked_crates(target):
    """The packages linked into the binary, and for each the ids of those that it uses."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    macros = {
        id for id, package in packages.items() if any("proc-macro" in it["kind"] for it in package["targets"])
    }
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    # Edges that are not for tests or build scripts, and not to macros, which run in the compiler.
    uses = {
        id: sorted(
            dep["pkg"]
            for dep in node["deps"]
            if dep["pkg"] not in macros and any(kind["kind"] is None for kind in dep["dep_kinds"])
        )
        for id, node in nodes.items()
    }
    root = next(id for id, package in packages.items() if package["name"] == BINARY)
    found, waiting = {root}, [root]
    while waiting:
        new = [id for id in uses[waiting.pop()] if id not in found]
        found.update(new)
        waiting.extend(new)
    return root, {id: packages[id] for id in found}, {id: uses[id] for id in found}


def checksums():
    """SHA-256 of the archive of each crate of the registry, from Cargo.lock."""
    with open(os.path.join(ROOT, "Cargo.lock"), "rb") as file:
        lock = tomllib.load(file)
    return {(it["name"], it["version"]): it["checksum"] for it in lock["package"] if "checksum" in it}


def crate_component(package, checksum):
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    component = {"type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"]}
    if package.get("description"):
        component["description"] = " ".join(package["description"].split())
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("license"):
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    # Crates of the workspace are in no registry.
    if package["source"]:
        component["purl"] = purl
    if package.get("repository"):
        component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return component


def npm_components():
    """The packages of web/package-lock.json that are not for development."""
    path = os.path.join(ROOT, "web", "package-lock.json")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        packages = json.load(file)["packages"]
    components = []
    for place, package in packages.items():
        if not place or package.get("dev") or package.get("link"):
            continue
        name = package.get("name") or place.rsplit("node_modules/", 1)[-1]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        component = {"type": "library", "bom-ref": purl, "name": name, "version": package["version"], "purl": purl}
        if package.get("license"):
            component["licenses"] = [{"expression": package["license"]}]
        algorithm, _, digest = package.get("integrity", "").partition("-")
        if algorithm == "sha512":
            content = base64.b64decode(digest).hex()
            component["hashes"] = [{"alg": "SHA-512", "content": content}]
        components.append(component)
    return components


def main():
    version, target = sys.argv[1:]
    root, packages, uses = linked_crates(target)
    hashes = checksums()
    components = {
        id: crate_component(package, hashes.get((package["name"], package["version"])))
        for id, package in packages.items()
    }
    main_component = {"type": "application", "bom-ref": "sluice", "name": "sluice", "version": version}
    main_component["licenses"] = [{"expression": packages[root]["license"]}]
    components[root]["bom-ref"] = "sluice"
    ref = {id: component["bom-ref"] for id, component in components.items()}
    npm = npm_components()
    dependencies = [
        {"ref": ref[id], "dependsOn": sorted({ref[used] for used in uses[id]})} for id in uses if id != root
    ]
    used_by_root = sorted({ref[used] for used in uses[root]} | {it["bom-ref"] for it in npm})
    dependencies.append({"ref": "sluice", "dependsOn": used_by_root})
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"sluice {version} {target}").urn,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": main_component,
            "properties": [{"name": "sluice:target", "value": target}],
        },
        "components": sorted(
            [it for id, it in components.items() if id != root] + npm, key=lambda it: it["bom-ref"]
        ),
        "dependencies": sorted(dependencies, key=lambda it: it["ref"]),
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
