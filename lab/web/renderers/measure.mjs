// Measures the renderers once: node measure.mjs FOLDER-OF-BUNDLES
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const [out] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.SLUICE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const results = [];
for (const [renderer, bundle] of [["sigma", "sigma"], ["cytoscape", "cytoscape"], ["cytoscape-webgl", "cytoscape"], ["canvas", "canvas"]]) {
  // Cytoscape.js with WebGL does not draw 10 000 hosts within minutes, without a graphics processor.
  for (const hosts of renderer === "cytoscape-webgl" ? [false] : [false, true]) {
    const page = await browser.newPage({ viewport: { width: 1600, height: 900 } });
    await page.goto(`file://${out}/${bundle}.html`);
    const figures = await page.evaluate(([hasHosts, hasWebGl]) => window.run(hasHosts, hasWebGl), [hosts, renderer === "cytoscape-webgl"]);
    results.push({ renderer, hosts, compressed_bytes: gzipSync(readFileSync(`${out}/${bundle}.js`), { level: 9 }).length, ...figures });
    console.error(`${renderer}${hosts ? " with hosts" : ""} measured`);
    await page.close();
  }
}
console.log(JSON.stringify({ results }, null, 2));
await browser.close();
