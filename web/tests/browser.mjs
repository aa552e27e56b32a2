// What the browser tests share: Chromium, pages that report what must not happen, and orders to the Rust test that has the network.
import { chromium } from "playwright-core";
import { createInterface } from "node:readline";

/** Where the controller serves the page. */
export const base = process.env.SLUICE_PAGE ?? "http://127.0.0.1:8653";

/** Time for what waits for the network, on a busy machine. */
export const PATIENCE_MS = 60_000;

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the Rust test do something with the network; what it answers. */
export async function order(...words) {
  console.log(`@${words.join(" ")}`);
  const { value, done } = await lines.next();
  if (done) throw new Error(`no answer to ${words.join(" ")}`);
  return JSON.parse(value);
}

export function check(condition, what) {
  if (!condition) throw new Error(`failed: ${what}`);
  console.log(`ok: ${what}`);
}

/** Waits until `condition` holds; milliseconds that this has taken. */
export async function until(what, condition) {
  const began = performance.now();
  for (;;) {
    if (await condition()) {
      console.log(`ok: ${what}`);
      return performance.now() - began;
    }
    if (performance.now() - began > PATIENCE_MS) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export function launch() {
  return chromium.launch({ executablePath: process.env.SLUICE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
}

/** A page whose errors, and requests to other addresses, are recorded in `faults`. */
export async function open(browser, options = {}) {
  const { allow = [], ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1000, height: 800 }, ...rest });
  const page = await context.newPage();
  const faults = [];
  const report = (text) => {
    if (!allow.some((pattern) => pattern.test(text))) faults.push(text);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) report(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => report(`error: ${error.message}`));
  page.on("request", (request) => {
    const { url } = { url: request.url() };
    if (!url.startsWith(base) && !url.startsWith("data:")) report(`request to ${url}`);
  });
  page.on("dialog", (dialog) => void dialog.accept());
  page.faults = faults;
  page.view = async (address) => {
    await page.goto(`${base}/#/${address}`);
    await page.locator("main").waitFor();
  };
  return page;
}

export function checkFaults(page, what) {
  if (page.faults.length > 0) throw new Error(`${what}: ${page.faults.join("; ")}`);
  console.log(`ok: ${what}: no error, no request to others`);
}

/** Runs the scenario and ends the process: 1 if it has failed. */
export async function run(scenario) {
  const browser = await launch();
  try {
    await scenario(browser);
  } catch (error) {
    console.log(`FAILED ${error.stack}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
    process.stdin.destroy();
  }
}
