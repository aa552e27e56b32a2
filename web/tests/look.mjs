// Every view in both themes and in three widths: accessible, without errors, without requests to others. With SLUICE_SCREENSHOTS=docs/images, the
// pictures of the docs; with SLUICE_SCREENSHOTS_ALL=DIR as well, pictures of everything.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { base, check, checkFaults, open, order, run, until } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = process.env.SLUICE_SCREENSHOTS;
/** Views of which `docs/web.md` has pictures. */
const DOCUMENTED = ["map", "switch", "trace", "form", "charts"];
/** The map of a controller without switches. */
const EMPTY = { is_complete: true, switches: [], links: [], blocked_ports: [], benches: 0 };
const FIRST_LOAD_BYTES_MAX = 300_000;
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** What is wrong with views: all of it is reported at once. */
const unfit = [];

await run(async (browser) => {
  await firstLoad(browser);
  const { hosts } = await (await fetch(`${base}/v1/hosts`)).json();
  const { links } = await (await fetch(`${base}/v1/links`)).json();
  const [from, to] = [hosts[0], hosts[hosts.length - 1]];
  const link = links[0].from;
  const { installed, computed } = await (await fetch(`${base}/v1/paths?from=${from.mac}&to=${to.mac}`)).json();
  const path = (installed.path.length > 0 ? installed.path : computed.paths[0]).map((hop) => hop.dpid);
  await fetch(`${base}/v1/static/flows/no-telnet?wait=true`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ switch: "all", flow: "priority=200,tcp,tcp_dst=23,actions=drop" }),
  });
  await fetch(`${base}/v1/switches/${link.dpid}/ports/${link.port}/drain`, { method: "PUT" });
  const views = {
    map: "map",
    path: `map?path=${[from.mac, ...path, to.mac].join(",")}`,
    switches: "switches",
    switch: `switch/${from.at.dpid}`,
    links: "links",
    link: `link/${link.dpid}/${link.port}`,
    hosts: "hosts",
    host: `host/${from.mac}`,
    trace: `trace?from=${from.mac}&to=${to.mac}`,
    entries: "entries",
    entry: "entry/no-telnet",
    events: "events",
    charts: "charts",
  };
  if (pictures !== undefined) mkdirSync(pictures, { recursive: true });
  for (const theme of ["light", "dark"]) {
    for (const width of [400, 1000, 1600]) {
      // The browser reports the answer 404 of a link that is in service.
      const page = await open(browser, { viewport: { width, height: 900 }, colorScheme: theme, allow: [/404/], bypassCSP: true });
      for (const [name, address] of Object.entries(views)) {
        await page.view(address);
        await page.waitForFunction(() => !document.body.innerText.includes("Reading…"));
        // Loads and rates are known after the second reading.
        if (DOCUMENTED.includes(name) && width === 1000 && pictures !== undefined) await page.waitForTimeout(5000);
        if (name === "trace") await page.locator(".hops > li").first().waitFor();
        await look(page, `${name}-${width}-${theme}`);
      }
      await page.view("entries");
      await page.getByRole("button", { name: "Add an entry" }).first().click();
      await page.getByRole("button", { name: "Add a field" }).click();
      await look(page, `incomplete-${width}-${theme}`);
      await page.getByLabel("Name", { exact: true }).fill("no-http");
      await page.getByLabel("Field 1").selectOption("tcp_dst");
      await page.getByLabel("Value of TCP destination port").fill("80");
      await look(page, `form-${width}-${theme}`);
      await page.view("map");
      await page.getByRole("button", { name: "List" }).click();
      await look(page, `list-${width}-${theme}`);
      checkFaults(page, `${theme}, ${width} pixels`);
      await page.context().close();
    }
  }
  await waiting(browser);
  await empty(browser);
  await broken(browser);
  check(unfit.length === 0, `all views are accessible and fit the screen:\n${[...new Set(unfit)].join("\n")}`);
  await shared(browser);
  await copying(browser);
  await hidden(browser);
  await choice(browser);
  await printed(browser);
  await keyboard(browser);
  await hostile(browser);
});

async function look(page, name) {
  const width = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  if (width[0] > width[1]) unfit.push(`${name} is ${width[0]} pixels wide, and the screen ${width[1]}`);
  await page.addScriptTag({ content: axe });
  const { violations } = await page.evaluate((values) => window.axe.run(document, { runOnly: { type: "tag", values } }), RULES);
  unfit.push(...violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map((node) => node.target.join(" ")).slice(0, 3)}`));
  if (pictures === undefined) return;
  const [view, size, theme] = name.split("-");
  if (DOCUMENTED.includes(view) && size === "1000" && theme === "light") await page.screenshot({ path: `${pictures}/web-${view}.png` });
  if (process.env.SLUICE_SCREENSHOTS_ALL) await page.screenshot({ path: `${process.env.SLUICE_SCREENSHOTS_ALL}/${name}.png` });
}

/** Views whose documents have not come yet. */
async function waiting(browser) {
  const page = await open(browser, { bypassCSP: true });
  await page.route(/\/v1\//, () => {});
  for (const name of ["map", "switches", "switch/1", "links", "link/1/1", "hosts", "host/00:00:00:00:00:01", "trace", "entries", "entry/no-telnet", "events", "charts"]) {
    await page.view(name);
    await look(page, `waiting-${name.replace(/\W.*/, "")}`);
  }
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().close();
}

/** A controller without switches: how to connect some. */
async function empty(browser) {
  for (const width of [400, 1000]) {
    const page = await open(browser, { viewport: { width, height: 900 }, bypassCSP: true });
    await page.route("**/v1/topology*", (route) => route.fulfill({ json: EMPTY }));
    await page.view("map");
    await page.getByRole("heading", { name: "A hardware switch" }).waitFor();
    for (const command of ["sluice emu --topo", "sudo mn --controller=remote,ip=127.0.0.1,port=6653", "ovs-vsctl set-controller BRIDGE tcp:127.0.0.1:6653"]) {
      check(await page.getByRole("button", { name: `Copy: ${command}` }).isVisible(), `the command ${command} can be copied`);
    }
    // A narrow screen has no room for the version in any view.
    if (width === 1000) await page.getByText(/^Version \d/).waitFor();
    await look(page, `empty-${width}-light`);
    checkFaults(page, `a map without switches, ${width} pixels`);
    await page.context().close();
  }
}

/** An answer of the controller, after `change` has changed it. */
function changed(change) {
  return async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    change(body);
    await route.fulfill({ response, json: body });
  };
}

/** A store that cannot be opened or written is an alarm. */
async function broken(browser) {
  for (const [operation, text] of [["open", "The store cannot be opened"], ["write", "The last change could not be stored"]]) {
    const page = await open(browser, { bypassCSP: true });
    await page.route("**/v1/controller", changed((body) => { body.store_error = { operation, message: "/var/lib/sluice/static.redb: Permission denied (os error 13)" }; }));
    await page.view("map");
    await page.getByRole("link", { name: text }).click();
    await page.getByRole("alert").filter({ hasText: "Run sluice doctor" }).waitFor();
    await look(page, `broken-${operation}-1000`);
    checkFaults(page, `the alarm that the store has an error: ${operation}`);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.context().close();
  }
}

/** A description that all switches have is not their name: not on the map, in lists, at peers of ports, or in events. */
async function shared(browser) {
  const page = await open(browser);
  const name = "emulated switch";
  const ids = [];
  await page.route("**/v1/topology*", changed((body) => {
    body.switches.forEach((it) => { it.name = name; });
    ids.splice(0, ids.length, ...body.switches.map((it) => it.dpid.replace(/^0+/, "")));
  }));
  await page.route("**/v1/switches", changed((body) => body.switches.forEach((it) => { it.name = name; })));
  await page.route("**/v1/switches/*/ports", changed((body) => body.ports.forEach((it) => { if (it.peer) it.peer.switch = name; })));
  await page.route("**/v1/events/history*", changed((body) => body.events.forEach((it) => {
    if (it.kind !== "switch-connected") return;
    it.text = `switch connected: ${name} address=${it.address}`;
    it.at.switch = name;
  })));
  await page.view("map");
  await page.getByRole("button", { name: "List" }).click();
  const labels = page.getByRole("region", { name: "Switches" }).locator("tbody tr td:first-child");
  const areIds = async () => ids.length > 0 && (await labels.allInnerTexts()).join() === ids.join();
  await until("switches with the same description are shown by their datapath ids", areIds);
  await page.view("switches");
  await until("in the list of switches, too", areIds);
  await page.view(`switch/${ids[0]}`);
  const ports = page.getByRole("region", { name: "Ports" });
  await until("and the switch at the other end of a link", async () => (await ports.count()) === 1 && new RegExp(`\\b(${ids.join("|")}):\\d`).test(await ports.innerText()));
  check(!(await ports.innerText()).includes(name), "and not by the description");
  await page.view("events");
  await until("the time line has that switches have connected", () => page.getByText("switch-connected").first().isVisible());
  check(!(await page.locator(".timeline").innerText()).includes(name), "without the description");
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().close();
}

/** A command is copied without the Clipboard API, which browsers do not have on a page that another machine has served over plain HTTP. */
async function copying(browser) {
  const page = await open(browser);
  await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  await page.route("**/v1/topology*", (route) => route.fulfill({ json: EMPTY }));
  await page.view("map");
  const command = page.getByRole("button", { name: /^(Copy|Copied): sluice emu/ });
  await command.waitFor();
  // Time stands still, so that "Copied" is there however late it is looked for.
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000);
  await command.click();
  await page.getByRole("button", { name: "Copied: sluice emu" }).waitFor();
  await page.clock.resume();
  await page.getByRole("button", { name: "Copy: sluice emu" }).waitFor();
  console.log("ok: a command is said to be copied for a moment");
  check(await page.evaluate(() => getSelection().isCollapsed), "a command that was copied is not selected");
  await page.evaluate(() => { document.execCommand = () => false; });
  await page.getByRole("button", { name: "Copy: ovs-vsctl" }).click();
  await page.getByText("The browser does not permit the page to copy").waitFor();
  check((await page.evaluate(() => getSelection().toString())).startsWith("ovs-vsctl"), "a command that could not be copied is selected");
  check((await page.getByRole("button", { name: "Copied: ovs-vsctl" }).count()) === 0, "and is not said to be copied");
  checkFaults(page, "copied commands");
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().close();
}

/** Nothing is read while the window is hidden. */
async function hidden(browser) {
  const page = await open(browser);
  let requests = 0;
  page.on("request", (request) => { requests += request.url().includes("/v1/") ? 1 : 0; });
  const setHidden = (isHidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await page.view("switches");
  await page.getByText("Live", { exact: true }).waitFor();
  await setHidden(true);
  // What began before may request more.
  let before = -1;
  await until("it requests nothing for a second", async () => {
    if (requests === before) return true;
    before = requests;
    await page.waitForTimeout(1000);
    return false;
  });
  await page.waitForTimeout(5000);
  check(requests === before, "a hidden window requests nothing");
  await setHidden(false);
  await until("it requests again when it is shown", () => requests > before);
  checkFaults(page, "a window that was hidden");
  await page.context().close();
}

async function firstLoad(browser) {
  const page = await open(browser);
  let bytes = 0;
  page.on("response", async (response) => {
    if (response.url().includes("/v1/")) return;
    const { responseBodySize, responseHeadersSize } = await response.request().sizes();
    bytes += responseBodySize + responseHeadersSize;
  });
  const began = performance.now();
  await page.view("map");
  await page.locator("canvas").waitFor();
  console.log(`the map was there after ${Math.round(performance.now() - began)} ms`);
  await page.waitForLoadState("load");
  await until("the files of the page were received", () => bytes > 10_000);
  check(bytes < FIRST_LOAD_BYTES_MAX, `the first load has ${bytes} bytes`);
  const headers = (await fetch(base)).headers;
  for (const [name, part] of [["content-security-policy", "frame-ancestors 'none'"], ["x-content-type-options", "nosniff"], ["referrer-policy", "no-referrer"], ["cache-control", "no-cache"]]) {
    check(headers.get(name)?.includes(part), `${name} has ${part}`);
  }
  check(!/unsafe/.test(headers.get("content-security-policy")), "no inline script is permitted");
  checkFaults(page, "first load");
}

/** The choice of a theme goes before that of the system, and stays. */
async function choice(browser) {
  const page = await open(browser, { colorScheme: "light" });
  await page.view("switches");
  await page.getByLabel("Theme").selectOption("dark");
  await page.reload();
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "dark", "the chosen theme stays");
  await page.getByLabel("Theme").selectOption("system");
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "light", "and that of the system can be chosen again");
}

async function printed(browser) {
  const page = await open(browser);
  await page.view("switches");
  await page.emulateMedia({ media: "print" });
  check(!(await page.locator("nav").isVisible()), "navigation is not printed");
  const pdf = await page.pdf({ format: "A4" });
  check(pdf.length > 1000, "the page prints");
}

/** From the start to a flow entry in a switch, without a mouse. */
async function keyboard(browser) {
  const page = await open(browser);
  await page.view("map");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.keyboard.press("Tab");
  check((await page.evaluate(() => document.activeElement.className)) === "skip", "the first key skips the navigation");
  const tabTo = async (what, found) => {
    for (let presses = 0; presses < 60; presses += 1) {
      if (await page.evaluate(found)) return console.log(`ok: the keyboard reaches ${what}`);
      await page.keyboard.press("Tab");
    }
    throw new Error(`the keyboard does not reach ${what}`);
  };
  await tabTo("the map", () => document.activeElement.tagName === "CANVAS");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check(outline !== "none", "the focus is visible");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("+");
  await page.keyboard.press("0");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Switch / }).waitFor();
  check((await page.evaluate(() => document.activeElement.id)) === "content", "the focus is in the new view");
  await tabTo("the button that adds an entry", () => document.activeElement.textContent === "Add an entry");
  await page.keyboard.press("Enter");
  await tabTo("the name", () => document.activeElement.id === "entry-name");
  await page.keyboard.type("by-keyboard");
  await page.keyboard.press("Enter");
  await page.getByText("by-keyboard is installed").waitFor();
  checkFaults(page, "keyboard");
}

/** Texts of switches are texts. */
async function hostile(browser) {
  await order("describe");
  const page = await open(browser);
  const script = '<img src=x onerror="window.wasRun = true">';
  const long = "x".repeat(10_000);
  const bidi = "a\u202ecba\u2066";
  const rename = changed((body) => [script, bidi, long].forEach((name, at) => {
    if (body.switches[at]) body.switches[at].name = name;
  }));
  await page.route("**/v1/switches", rename);
  await page.route("**/v1/topology*", rename);
  await page.view("switches");
  await page.getByText('<img src=x onerror="window.wasRun = true">').first().waitFor();
  check(!(await page.locator("main").innerText()).includes("\u202e"), "no character changes the direction of the text");
  const rows = await page.locator("tbody tr").evaluateAll((all) => all.map((row) => row.getBoundingClientRect().height));
  check(Math.max(...rows) < 200, "a long name does not fill the page");
  await page.view("map");
  await page.locator("canvas").waitFor();
  await page.getByRole("button", { name: "List" }).click();
  await page.getByText('<img src=x onerror="window.wasRun = true">').first().waitFor();
  // What the switch itself says, through the whole controller.
  await page.unroute("**/v1/switches");
  await page.view("switch/0000000000000001");
  await page.getByText("<script>").first().waitFor();
  check((await page.evaluate(() => window.wasRun)) === undefined, "nothing of it is run");
  check((await page.locator("main img, main script").count()) === 0, "and nothing of it is an element");
  checkFaults(page, "hostile names");
}
