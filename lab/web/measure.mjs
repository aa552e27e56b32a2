// Measures the page with a large network, which it emulates: node lab/web/measure.mjs CONTROLLER API NETWORK RESULT.json
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { usePage } from "./page.mjs";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const [controller, api, network, result] = process.argv.slice(2);
const sluice = process.env.SLUICE_BIN ?? "target/release/sluice";
const ROUNDS = Number(process.env.ROUNDS ?? 3);
/** A folder for CPU profiles of Chromium, which its developer tools show. */
const profiles = process.env.PROFILES;
const PAN_S = 5;
/** Time for which the map is moved while all switches connect again. */
const RETURN_S = 20;
const KNOWN_S_MAX = 600;
const KNOWN = { switches: 1000, links: 8000, hosts: 10_000 };

const get = async (path) => (await fetch(`${api}${path}`)).json();

/** In practice, the network and the controller have cores of their own: the browser goes before them. */
function emulate() {
  const emulator = spawn("nice", ["-n", "10", sluice, "emu", "-c", controller, "--topo", network, "--plain", "--pings", "200"], { stdio: "ignore" });
  process.on("exit", () => emulator.kill("SIGKILL"));
  return emulator;
}

/** Waits until the controller knows the whole network. */
async function allKnown() {
  const began = performance.now();
  for (;;) {
    const now = await get("/v1/controller");
    if (Object.entries(KNOWN).every(([name, count]) => now[name] >= count)) return (performance.now() - began) / 1000;
    if (performance.now() - began > KNOWN_S_MAX * 1000) throw new Error(`after ${KNOWN_S_MAX} s the controller knows only ${JSON.stringify(now)}`);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Frames per second while the map is moved by a pointer. */
function pan(seconds) {
  return new Promise((resolve) => {
    const canvas = document.querySelector("canvas");
    canvas.setPointerCapture = () => undefined;
    const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: y, bubbles: true }));
    send("pointerdown", 700, 400);
    const began = performance.now();
    const times = [began];
    const frame = () => {
      const at = (performance.now() - began) / 1000;
      times.push(performance.now());
      if (at < seconds) {
        send("pointermove", 700 + 300 * Math.sin(at * 2), 400 + 200 * Math.cos(at * 2));
        requestAnimationFrame(frame);
        return;
      }
      send("pointerup", 700, 400);
      const gaps = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
      const ofEachSecond = Array.from({ length: Math.floor(at) }, (_, second) => times.filter((time) => Math.floor((time - began) / 1000) === second).length);
      resolve({ frames_per_s: gaps.length / at, slowest_second_frames: Math.min(...ofEachSecond), longest_frame_ms: gaps.at(-1) });
    };
    requestAnimationFrame(frame);
  });
}

/** When the map has been drawn: the first frame in which the picture has something in it. */
function drawn() {
  return new Promise((resolve) => {
    const look = () => {
      const canvas = document.querySelector("canvas");
      if (canvas !== null && canvas.width > 0) {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const colours = new Set();
        for (let at = 0; at < data.length && colours.size < 4; at += 4 * 97) colours.add(data[at] * 65536 + data[at + 1] * 256 + data[at + 2]);
        if (colours.size >= 4) return resolve(performance.now());
      }
      return setTimeout(look, 20);
    };
    look();
  });
}

let emulator = emulate();
const rounds = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const known_after_s = await allKnown();
  const browser = await chromium.launch({ executablePath: process.env.SLUICE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 1600, height: 900 } });
  await usePage(context);
  const page = await context.newPage();
  await page.goto(`${api}/#/map`);
  const first_drawing_ms = await page.evaluate(drawn);
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  await session.send("Profiler.enable");
  const memory = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((it) => it.name === "JSHeapUsedSize").value;
  };
  const measure = async (name, seconds) => {
    if (profiles !== undefined) await session.send("Profiler.start");
    const figures = await page.evaluate(pan, seconds);
    if (profiles !== undefined) writeFileSync(`${profiles}/${name}-${round}.cpuprofile`, JSON.stringify((await session.send("Profiler.stop")).profile));
    return { ...figures, heap_bytes: await memory() };
  };
  const without_hosts = await measure("without-hosts", PAN_S);
  await page.getByLabel("Hosts").check();
  await page.waitForTimeout(4000);
  const with_hosts = await measure("with-hosts", PAN_S);
  const { switches, links, hosts } = await get("/v1/controller");
  // All switches disconnect, and come back with their links and hosts.
  emulator.kill("SIGKILL");
  emulator = emulate();
  const { last_id: before } = await get("/v1/events/history?limit=0");
  const while_returning = await measure("returning", RETURN_S);
  const { last_id: after } = await get("/v1/events/history?limit=0");
  while_returning.events = Number(after.split("-")[1]) - Number(before.split("-")[1]);
  rounds.push({ known_after_s, switches, links: links / 2, hosts, first_drawing_ms, without_hosts, with_hosts, while_returning });
  console.log(JSON.stringify(rounds.at(-1)));
  await browser.close();
}
writeFileSync(result, `${JSON.stringify({ rounds }, null, 2)}\n`);
process.exit();
