import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const [out] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.SLUICE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const results = [];
for (const renderer of ["sigma", "cytoscape", "canvas"]) {
  for (const hosts of [false, true]) {
    const page = await browser.newPage({ viewport: { width: 1600, height: 900 } });
    await page.goto(`file://${out}/${renderer}.html`);
    const figures = await page.evaluate((hasHosts) => window.run(hasHosts), hosts);
    results.push({ renderer, hosts, compressed_bytes: gzipSync(readFileSync(`${out}/${renderer}.js`), { level: 9 }).length, ...figures });
    await page.close();
  }
}
console.log(JSON.stringify({ results }, null, 2));
await browser.close();
