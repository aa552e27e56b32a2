// Measures the page at a controller with a large network: node lab/web/measure.mjs URL RESULT.json
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const [base, result] = process.argv.slice(2);
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const PAN_S = 5;

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
      resolve({ frames_per_s: gaps.length / at, longest_frame_ms: gaps.at(-1) });
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

const rounds = [];
for (let round = 0; round < ROUNDS; round += 1) {
  const browser = await chromium.launch({ executablePath: process.env.SLUICE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 1600, height: 900 } });
  const page = await context.newPage();
  await page.goto(`${base}/#/map`);
  const first_drawing_ms = await page.evaluate(drawn);
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const memory = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((it) => it.name === "JSHeapUsedSize").value;
  };
  const without = { ...(await page.evaluate(pan, PAN_S)), heap_bytes: await memory() };
  await page.getByLabel("Hosts").check();
  await page.waitForTimeout(4000);
  const hosts = await page.evaluate(() => fetch("/v1/hosts?limit=1").then((answer) => answer.json()).then((it) => it.total));
  const withHosts = { ...(await page.evaluate(pan, PAN_S)), heap_bytes: await memory() };
  const network = await page.evaluate(() => fetch("/v1/controller").then((answer) => answer.json()));
  rounds.push({ first_drawing_ms, switches: network.switches, links: network.links / 2, hosts, without_hosts: without, with_hosts: withHosts });
  console.log(JSON.stringify(rounds.at(-1)));
  await browser.close();
}
writeFileSync(result, `${JSON.stringify({ rounds }, null, 2)}\n`);
