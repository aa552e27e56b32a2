// Tokens: none, one that may only read, one that has expired.
import { check, open, order, run, until } from "./browser.mjs";

await run(async (browser) => {
  const { read, operate, expired, other } = await order("tokens");
  // The browser reports each answer 401 and 403.
  const page = await open(browser, { allow: [/40[13]/] });
  await page.view("entries");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  check(await dialog.getByText("asks for a token").isVisible(), "the page asks for a token");
  check((await dialog.getByText("plain HTTP").count()) === 0, "and has no warning, since nothing leaves this machine");
  await dialog.getByLabel("Token").fill(expired);
  await dialog.getByRole("button", { name: "Use this token" }).click();
  await until("an expired token is named", () => dialog.getByText("has expired").isVisible());
  await dialog.getByLabel("Token").fill(read);
  await dialog.getByRole("button", { name: "Use this token" }).click();
  await until("a token that may read is accepted", () => page.getByText("Live", { exact: true }).isVisible());
  check((await page.locator(".role").innerText()) === "read", "its role is shown");

  await page.getByRole("button", { name: "Add an entry" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("not-permitted");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("Not permitted").waitFor();
  check((await page.getByLabel("Name", { exact: true }).inputValue()) === "not-permitted", "a refusal loses nothing that was typed");

  // The token is removed meanwhile: the page asks again, over the form.
  await order("remove-token");
  await dialog.waitFor({ timeout: 60_000 });
  await dialog.getByLabel("Token").fill(operate);
  await dialog.getByRole("button", { name: "Use this token" }).click();
  await until("another token is accepted", async () => (await page.locator(".role").innerText()) === "operate");
  check((await page.getByLabel("Name", { exact: true }).inputValue()) === "not-permitted", "and what was typed is still there");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await until("and can be saved with that token", () => page.getByRole("heading", { name: "Static entry not-permitted" }).isVisible());
  check((await page.evaluate(() => localStorage.length)) === 0, "the token is not kept after the window");
  const errors = page.faults;
  check(errors.length === 0, `no other error: ${errors.join("; ")}`);

  await exposed(browser, other);
});

/** The page at an address that is not that of the loopback device, over plain HTTP. */
async function exposed(browser, address) {
  const page = await open(browser);
  await page.goto(`${address}/#/map`);
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  const field = dialog.getByLabel("Token");
  const warning = dialog.locator(`#${await field.getAttribute("aria-describedby")}`);
  check((await warning.innerText()).includes("plain HTTP"), "the field is described by the warning that a token would be sent in clear text");
  const [above, below] = [await warning.boundingBox(), await field.boundingBox()];
  check(above.y + above.height <= below.y, "which is above it");
}
