import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, live, openBrowser, openPage, slotManifest } from "./browser.ts";

/** Each page's address, heading, and the name of its tab. */
const pages = [
  ["/", "Overview", "Overview · Berth"],
  ["/ui", "Overview", "Overview · Berth"],
  ["/ui/slots", "Overview", "Overview · Berth"],
  ["/ui/slots/coder", "coder", "coder · Berth"],
  ["/ui/slots/coder/manifest", "coder", "coder · Berth"],
  ["/ui/slots/coder/log", "coder", "coder · Berth"],
  ["/ui/slots/coder/events", "coder", "coder · Berth"],
  ["/ui/slots/coder/details", "coder", "coder · Berth"],
  ["/ui/models", "Models", "Models · Berth"],
  ["/ui/requests", "Requests", "Requests · Berth"],
  ["/ui/playground", "Playground", "Playground · Berth"],
  ["/ui/playground/rerank", "Playground", "rerank · Playground · Berth"],
  ["/ui/playground/images", "Playground", "images · Playground · Berth"],
  ["/ui/playground/speech", "Playground", "speech · Playground · Berth"],
  ["/ui/playground/transcription", "Playground", "transcription · Playground · Berth"],
  ["/ui/playground/raw", "Playground", "raw · Playground · Berth"],
  ["/ui/machine", "Machine", "Machine · Berth"],
  ["/ui/providers", "Providers", "Providers · Berth"],
  ["/ui/settings", "Settings", "Settings · Berth"],
  ["/ui/settings/tokens", "Settings", "tokens · Settings · Berth"],
  ["/ui/settings/clients", "Settings", "clients · Settings · Berth"],
  ["/ui/settings/about", "Settings", "about · Settings · Berth"],
  ["/ui/nowhere", "No such page", "No such page · Berth"],
] as const;

describe("an address of the dashboard", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest() });
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("leads to its page, also after a reload, and its tab is called by the page", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    for (const [path, heading, title] of pages) {
      for (const load of [() => page.goto(`${berth.url}${path}`), () => page.reload()]) {
        const answer = await load();
        assert.equal(answer?.status(), 200, path);
        await page.getByRole("heading", { name: heading, level: 1, exact: true }).waitFor();
        await until(`${path} has loaded`, async () => (await page.getByText("Loading …").count()) === 0);
        assert.equal(new URL(page.url()).pathname, path);
        await until(`${path} is called ${title}`, async () => (await page.title()) === title);
        assert.equal(await page.getByRole("alert").count(), 0, path);
      }
    }
  });

  it("that cannot be read, or names no slot, says so on a page", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/%E0%A4%A`);
    const { page } = opened;
    await page.getByRole("heading", { name: "No such page", level: 1 }).waitFor();
    await page.getByText("Nothing is at the address /ui/slots/%E0%A4%A.").waitFor();
    for (const name of ["a".repeat(64), "a".repeat(400), "b"]) {
      await page.goto(`${berth.url}/ui/slots/${name}`);
      await page.getByRole("heading", { name, level: 1, exact: true }).waitFor();
      await page.getByRole("alert").getByText(/\w{3}/).waitFor();
      await page.getByRole("main").getByRole("link", { name: "Overview" }).waitFor();
    }
  });

  it("begins for a reader of the screen with its heading, where a link or Back leads to it", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const isAt = async (heading: string): Promise<unknown> =>
      await until(`the focus is at ${heading}`, async () =>
        Boolean(
          await page.evaluate(
            `document.activeElement.tagName === "H1" && document.activeElement.textContent === ${JSON.stringify(heading)}`,
          ),
        ),
      );
    await page.getByRole("listitem", { name: "coder" }).getByRole("link", { name: "coder", exact: true }).click();
    await isAt("coder");
    await page.getByRole("link", { name: "Settings" }).click();
    await isAt("Settings");
    await page.goBack();
    await isAt("coder");
  });

  it("is drawn where Back leads to it before it is read anew, and is where it was left", async () => {
    await using opened = await openPage(browser, berth.url, { viewport: { width: 900, height: 300 } });
    const { page } = opened;
    const link = page.getByRole("listitem", { name: "coder" }).getByRole("link", { name: "coder", exact: true });
    await page.getByRole("region", { name: "Memory", exact: true }).getByText("Host").first().waitFor();
    await link.scrollIntoViewIfNeeded();
    const left: number = await page.evaluate("scrollY");
    assert.ok(left > 0);
    // Never answered.
    await page.route("**/api/**", () => undefined);
    await link.click();
    await page.getByRole("heading", { name: "coder", level: 1 }).waitFor();
    await page.goBack();
    await link.waitFor();
    await until("it is where it was left", async () => (await page.evaluate("scrollY")) === left);
  });

  it("reads out that a slot has changed its state, once", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/coder`);
    const { page } = opened;
    await live(page);
    const changes = page.getByRole("status", { name: "Changes" });
    await changes.waitFor({ state: "attached" });
    assert.equal(await changes.textContent(), "");
    await page.getByRole("button", { name: "Unload coder" }).click();
    await changes.getByText("coder: Unloaded by hand.").waitFor();
    await page.getByRole("button", { name: "Load coder" }).click();
    await changes.getByText("coder: Ready.").waitFor();
    await page.getByRole("link", { name: "Log", exact: true }).click();
    assert.equal(await page.getByRole("log").getAttribute("aria-live"), "off");
  });
});
