// Opens pages of a controller and keeps them open: node lab/web/pages.mjs URL COUNT
import { createRequire } from "node:module";
import { usePage } from "./page.mjs";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const [base, count] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.SLUICE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
// As people use it: most look at the map, some at a switch, at charts, at events.
const views = ["map", "map", "map", "map", "switches", "switch/0000000000000001", "links", "hosts", "events", "charts"];
for (let number = 0; number < Number(count); number += 1) {
  // A context of its own, as another person's browser.
  const context = await browser.newContext({ viewport: { width: 1000, height: 700 } });
  await usePage(context);
  const page = await context.newPage();
  await page.goto(`${base}/#/${views[number % views.length]}`);
  await page.locator(".connection.live").waitFor();
}
console.log("open");
// Until the standard input is closed.
process.stdin.on("end", () => void browser.close().then(() => process.exit()));
process.stdin.resume();
