// A network of Open vSwitch: what the page shows when it changes, and what it changes.
import { base, check, checkFaults, open, order, run, until } from "./browser.mjs";

await run(async (browser) => {
  const page = await open(browser);

  await page.view("map");
  await page.getByRole("button", { name: "List" }).click();
  const links = page.getByRole("region", { name: "Links" }).locator("tbody tr");
  await until("all links are listed", async () => (await links.count()) === 12);
  await order("cut");
  const cut = await until("a link that was cut is not listed any more", async () => (await links.count()) === 10);
  console.log(`a cut link was not shown any more after ${(cut / 1000).toFixed(2)} s, with the time that ip needs`);
  await order("restore");
  await until("it is listed again", async () => (await links.count()) === 12);
  await page.view("events");
  await until("the time line has its loss", () => page.getByText("link-down").first().isVisible());
  checkFaults(page, "map and events");
  await page.context().close();

  await many(browser);

  await entries(browser);
  await editors(browser);
  await hosts(browser);
  await drains(browser);
  await ports(browser);
  await bench(browser);
});

/** More windows than there are streams of events: those of one browser, and those of others. */
async function many(browser) {
  // The browser reports the answer 503 to a request for a stream.
  const pages = [];
  const first = await open(browser, { allow: [/503/] });
  pages.push(first);
  for (let window = 0; window < 4; window += 1) pages.push(await first.context().newPage());
  for (let other = 0; other < 9; other += 1) pages.push(await open(browser, { allow: [/503/] }));
  const links = (page) => page.getByRole("region", { name: "Links" }).locator("tbody tr").count();
  for (const page of pages) {
    await page.goto(`${base}/#/map`);
    await page.getByRole("button", { name: "List" }).click();
  }
  const all = async (count) => (await Promise.all(pages.map(links))).every((found) => found === count);
  await until("fourteen windows list all links", () => all(12));
  await order("cut");
  await until("fourteen windows show that a link was cut", () => all(10));
  await order("restore");
  await until("and that it is back", () => all(12));
  const shown = await Promise.all(pages.map((page) => page.getByRole("alert").count()));
  check(shown.every((count) => count === 0), "none of them shows an error");
  checkFaults(first, "fourteen windows");
  for (const page of pages.slice(1)) await page.close();
}

async function entries(browser) {
  const page = await open(browser);
  await page.view("switch/0000000000000001");
  await page.getByRole("button", { name: "Add an entry" }).click();
  await page.getByLabel("Name", { exact: true }).fill("no-web");
  await page.getByRole("button", { name: "Add a field" }).click();
  await page.getByLabel("Field 1").selectOption("tcp_dst");
  await page.getByLabel("Value of TCP destination port").fill("eighty");
  check(await page.getByText("expected a value such as 80").isVisible(), "an invalid value is named");
  check(await page.getByRole("button", { name: "Add", exact: true }).isDisabled(), "and cannot be added");
  await page.getByLabel("Value of TCP destination port").fill("8080");
  check(await page.getByText("priority=200,tcp,tcp_dst=8080,actions=drop").isVisible(), "the protocol that the field needs is added");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("no-web is installed").waitFor();
  await until("ovs-ofctl shows the entry", async () => /tcp.*tp_dst=8080 actions=drop/.test(await order("flows")));
  await until("the flow table shows it with its owner", () => page.getByRole("link", { name: "static: no-web" }).isVisible());

  await page.getByRole("button", { name: "Add an entry" }).click();
  await page.getByLabel("Name", { exact: true }).fill("as-text");
  await page.getByRole("button", { name: "Text of ovs-ofctl" }).click();
  await page.getByLabel("Flow entry", { exact: true }).fill("priority=210,udp,udp_dst=nonsense,actions=drop");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("alert").waitFor();
  check((await page.getByLabel("Flow entry", { exact: true }).inputValue()).includes("nonsense"), "a refused text is still there");
  await page.getByLabel("Flow entry", { exact: true }).fill("priority=210,udp,udp_dst=5353,actions=drop");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("as-text is installed").waitFor();
  await until("ovs-ofctl shows the text", async () => /udp.*tp_dst=5353/.test(await order("flows")));
  await page.getByRole("button", { name: "Remove as-text" }).click();
  await until("it is removed again", async () => !/tp_dst=5353/.test(await order("flows")));
  await page.getByRole("button", { name: "JSON" }).click();
  check((await page.locator("pre").innerText()).includes('"static_entry": "no-web"'), "the table is shown as JSON");
  // The browser reports the answer 400 to the entry that was wrong.
  page.faults.splice(0, page.faults.length, ...page.faults.filter((text) => !text.includes("400")));
  checkFaults(page, "flow entries");
}

/** Two people change the same entry. */
async function editors(browser) {
  const allow = [/409/];
  const [first, second] = [await open(browser, { allow }), await open(browser, { allow })];
  for (const page of [first, second]) {
    await page.view("entry/no-web");
    await page.getByRole("button", { name: "Change" }).click();
    await page.getByLabel("Value of TCP destination port").waitFor();
  }
  await first.getByLabel("Value of TCP destination port").fill("8081");
  await first.getByRole("button", { name: "Save" }).click();
  await until("the first change is in the switch", async () => /tp_dst=8081/.test(await order("flows")));
  await until("the other is told while editing", () => second.getByText("Somebody has changed this entry").isVisible());
  await second.getByLabel("Value of TCP destination port").fill("8082");
  await second.getByRole("button", { name: "Save" }).click();
  const dialog = second.getByRole("alertdialog");
  await dialog.waitFor();
  const text = await dialog.innerText();
  check(text.includes("tcp_dst=8081") && text.includes("tcp_dst=8082"), "both versions are shown");
  check(/tp_dst=8081/.test(await order("flows")), "and nothing was changed");
  await dialog.getByRole("button", { name: "Go on editing mine" }).click();
  check((await second.getByLabel("Value of TCP destination port").inputValue()) === "8082", "what was typed is still there");
  await second.getByRole("button", { name: "Save" }).click();
  await until("the second change is made after the decision", async () => /tp_dst=8082/.test(await order("flows")));
  checkFaults(first, "the first editor");
  checkFaults(second, "the second editor");
}

async function hosts(browser) {
  const page = await open(browser);
  await page.view("hosts");
  await until("the hosts are listed", async () => (await page.locator("tbody tr").count()) >= 2);
  const macs = await page.locator("tbody tr td:first-child").allInnerTexts();
  await page.view(`host/${macs[0]}`);
  await until("the title of a host is its IPv4 address, and not a link-local one", () => page.getByRole("heading", { level: 1, name: /^Host \d+(\.\d+){3}$/ }).isVisible());
  await page.getByLabel("To", { exact: true }).fill(macs[1]);
  await page.getByRole("button", { name: "Find" }).click();
  await page.getByText("Shortest paths").waitFor();
  await page.getByRole("link", { name: "Show on the map" }).click();
  await page.getByRole("link", { name: "Hide path" }).waitFor();

  await page.view(`trace?from=${macs[0]}&to=${macs[1]}`);
  await until("the trace is drawn hop by hop", async () => (await page.locator(".hops > li").count()) >= 1);

  await page.view(`host/${macs[0]}`);
  await page.getByLabel("Reason").fill("scans the network");
  await page.getByRole("button", { name: "Put into quarantine" }).click();
  await page.getByRole("button", { name: "Release" }).waitFor();
  await until("every switch cuts the host off", async () => (await order("flows")).includes("priority=65532"));
  await page.view("map");
  await until("the map has the alarm", () => page.getByText("is in quarantine").isVisible());
  await page.view(`host/${macs[0]}`);
  await page.getByRole("button", { name: "Release" }).click();
  await page.getByRole("button", { name: "Put into quarantine" }).waitFor();
  checkFaults(page, "hosts");
}

async function drains(browser) {
  // The browser reports the answer 404: the link is in service.
  const page = await open(browser, { allow: [/404/] });
  const { links } = await (await fetch(`${base}/v1/links`)).json();
  const { dpid, port } = links[0].from;
  await page.view(`link/${dpid}/${port}`);
  await page.getByRole("button", { name: "Take out of service" }).click();
  await until("nothing uses the drained link", () => page.getByText("it may be unplugged").isVisible());
  await page.view("map");
  await until("the map has the alarm", () => page.getByText("is out of service").isVisible());
  await page.view(`link/${dpid}/${port}`);
  await page.getByRole("button", { name: "Put back into service" }).click();
  await page.getByRole("button", { name: "Take out of service" }).waitFor();
  checkFaults(page, "drained links");
}

/** A port is disabled, and enabled again. */
async function ports(browser) {
  const page = await open(browser);
  const { links } = await (await fetch(`${base}/v1/links`)).json();
  const { dpid, port } = links[0].from;
  await page.view(`switch/${dpid}`);
  const row = page.getByRole("region", { name: "Ports" }).locator("tbody tr").filter({ has: page.getByRole("button", { name: new RegExp(`^(Enable|Disable) port ${port}$`) }) });
  await until("the speed of a port is shown", async () => /bit\/s/.test(await row.locator("td").nth(4).innerText()));
  await page.getByRole("button", { name: `Disable port ${port}`, exact: true }).click();
  await until("the port is shown as disabled", async () => (await row.locator("td").nth(2).innerText()) === "disabled");
  await page.getByRole("button", { name: `Enable port ${port}`, exact: true }).click();
  await until("it is up again", async () => (await row.locator("td").nth(2).innerText()) === "up");
  checkFaults(page, "ports");
}

/** A bench reports while it runs. */
async function bench(browser) {
  const page = await open(browser);
  for (const running_s of [1, 2, 3]) {
    const report = { bench: "1", run: 1, interval_s: 1, target: "192.0.2.7:6653", load: "one outstanding request per switch", switches: 16, unit: "responses/s", running_s, rate_per_s: 2e5, latency_p50_s: 6e-5, latency_p99_s: 2e-4, is_measured: running_s > 1 };
    const answer = await fetch(`${base}/v1/bench`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(report) });
    check(answer.ok, `loop ${running_s} of a bench is taken`);
  }
  await page.view("map");
  await page.getByRole("link", { name: "A bench is running" }).click();
  await until("the charts show the bench", () => page.getByText("measures 192.0.2.7:6653").isVisible());
  check(await page.getByRole("img", { name: "Rate (responses/s). Now: rate 200 k/s." }).isVisible(), "with its rate");
  check(await page.locator(".bench").getByText("logarithmic axis").isVisible(), "and its latency on a logarithmic axis");
  await until("it is forgotten when it reports no more", async () => !(await page.getByText("measures 192.0.2.7:6653").isVisible()));
  checkFaults(page, "a bench");
}
