// The controller is killed and started again while the page is open.
import { base, check, open, order, run, until } from "./browser.mjs";

await run(async (browser) => {
  const page = await open(browser);
  await page.view("map");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("button", { name: "List" }).click();
  const switches = page.getByRole("region", { name: "Switches" }).locator("tbody tr");
  await until("the switches are listed", async () => (await switches.count()) === 5);

  await order("kill");
  await until("the page says that the controller is not reached", () => page.getByText("The controller cannot be reached").isVisible());
  check((await switches.count()) === 5, "what was known stays");
  await order("start");
  await until("the page says that it is live again", () => page.getByText("Live", { exact: true }).isVisible());
  check(!(await page.getByText("The controller cannot be reached").isVisible()), "and not that it is not");
  await until("the switches come back", async () => (await switches.count()) === 5);

  // What is typed while the controller is away is not lost.
  await page.view("entries");
  await page.getByRole("button", { name: "Add an entry" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("typed");
  // The next controller serves another page.
  await page.route(`${base}/`, (route) => route.fulfill({ contentType: "text/html", body: '<script type="module" src="./assets/index-other.js"></script>' }));
  await order("kill");
  await until("it is not reached again", () => page.getByText("Not connected").isVisible());
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.locator("form .note.bad").waitFor();
  check((await page.getByLabel("Name", { exact: true }).inputValue()) === "typed", "what was typed is still there");
  await order("start");
  await until("it is live again", () => page.getByText("Live", { exact: true }).isVisible());
  await until("the page says that it is of an earlier version", () => page.getByText("belongs to an earlier version").isVisible());
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await until("and can be saved", () => page.getByRole("heading", { name: "Static entry typed" }).isVisible());

  await page.unrouteAll();
  await page.getByRole("button", { name: "Reload the page" }).click();
  await until("the page is loaded again", () => page.getByText("Live", { exact: true }).isVisible());
  check(!(await page.getByText("belongs to an earlier version").isVisible()), "and is the current one");
  await page.view("events");
  await until("events of the new run are shown", () => page.getByText("switch-connected").first().isVisible());
  const errors = page.faults.filter((text) => text.startsWith("error:"));
  check(errors.length === 0, `no exception: ${errors.join("; ")}`);
});
