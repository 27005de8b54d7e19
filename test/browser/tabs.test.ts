import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { childOf } from "../support/child-of.ts";
import { until } from "../support/until.ts";
import { berthWith, live, openBrowser, slotManifest } from "./browser.ts";

/** A browser without windows shows all tabs at once: which of them is hidden is the test's to say. */
const turnable = `
  Object.defineProperty(document, "hidden", { get: () => window.isHidden === true });
  window.turn = (isHidden) => { window.isHidden = isHidden; document.dispatchEvent(new Event("visibilitychange")); };
`;

const turn = async (page: Page, to: "hidden" | "shown"): Promise<unknown> =>
  await page.evaluate(`window.turn(${to === "hidden"})`);

describe("the tabs of one browser", () => {
  let browser: Browser;
  let context: BrowserContext;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    context = await browser.newContext();
    context.setDefaultTimeout(60_000);
    await context.addInitScript(turnable);
    berth = await berthWith({ coder: slotManifest(), later: `load = "onDemand"\n${slotManifest()}` });
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const open = async (path: string): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`${berth.url}${path}`);
    return page;
  };
  const stateIn = (page: Page): Locator => page.locator(".page-head .state");
  const linesOf = async (page: Page): Promise<readonly string[]> =>
    (await page.getByRole("log").innerText()).split("\n").filter((line) => line !== "");

  it("leave connections for a click, though eight of them follow a slot and its log", async () => {
    const tabs: Page[] = [];
    for (let count = 0; count < 8; count += 1) {
      const before = tabs.at(-1);
      if (before !== undefined) await turn(before, "hidden");
      const page = await open("/ui/slots/later/log");
      await live(page);
      await page.getByRole("log").waitFor();
      tabs.push(page);
    }
    const [first, last] = [tabs[0], tabs.at(-1)];
    assert.ok(first !== undefined && last !== undefined);
    await last.getByRole("button", { name: "Load later" }).click();
    await stateIn(last).getByText("Ready", { exact: true }).waitFor();
    assert.notEqual(await stateIn(first).innerText(), "Ready");
    await turn(last, "hidden");
    await turn(first, "shown");
    await stateIn(first).getByText("Ready", { exact: true }).waitFor();
    await live(first);
    for (const each of tabs) await each.close();
  });

  it("leave a person at the lines of a log that are being read when its stream begins anew", async () => {
    const page = await context.newPage();
    const body = (first: number, last: number): string =>
      Array.from({ length: last - first + 1 }, (_, at) => `data: {"line":"line ${first + at}"}\n\n`).join("");
    const more = Promise.withResolvers<void>();
    let streams = 0;
    await page.route("**/api/slots/coder/logs?*", async (route) => {
      streams += 1;
      if (streams === 2) await more.promise;
      const text = [body(301, 600), body(1, 620), body(7001, 7010)][streams - 1];
      // The last stream stays open.
      if (text !== undefined) await route.fulfill({ contentType: "text/event-stream", body: text });
    });
    await page.goto(`${berth.url}/ui/slots/coder/log`);
    const isFrom = async (first: number, last: number): Promise<boolean> => {
      const lines = await linesOf(page);
      return lines[0] === `line ${first}` && lines.at(-1) === `line ${last}`;
    };
    await until("the log is there", () => isFrom(301, 600));
    const log = page.getByRole("log");
    const place = (): Promise<number> => log.evaluate((box: { scrollTop: number }) => box.scrollTop);
    await log.evaluate((box: { scrollTop: number }) => (box.scrollTop = 1000));
    more.resolve();
    await until("the lines that were missed follow", () => isFrom(301, 620));
    assert.equal(await place(), 1000);
    // A log that has begun anew takes the place of the earlier one.
    await until("the other log is there", () => isFrom(7001, 7010));
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.close();
  });

  it("go on with a log where they were, after they were hidden and after the server was killed", async () => {
    const page = await open("/ui/slots/coder/log");
    const log = page.getByRole("log");
    await until("the log has lines", async () => (await linesOf(page)).length > 0);
    await log.evaluate((box: { dataset: Record<string, string> }) => (box.dataset["kept"] = "yes"));
    const said = async (): Promise<readonly string[]> => {
      const text = await (await fetch(`${berth.url}/api/slots/coder/logs?tail=2000`)).text();
      return text.split("\n").filter((line) => line !== "");
    };
    const restart = async (): Promise<void> => {
      const starts = async (): Promise<number> => (await said()).filter((line) => line.includes(" listens on ")).length;
      const before = await starts();
      await fetch(`${berth.url}/api/slots/coder/restart`, { method: "POST" });
      await until("another engine has begun", async () => (await starts()) > before);
    };
    const hasAll = async (): Promise<boolean> => String(await linesOf(page)) === String(await said());
    await turn(page, "hidden");
    await restart();
    await turn(page, "shown");
    await until("what it missed is there, once", hasAll);
    process.kill(childOf(berth.child, "serve"), "SIGKILL");
    await until("the gateway is back", () =>
      fetch(berth.url).then(
        () => true,
        () => false,
      ),
    );
    await restart();
    await until("nobody has clicked, and it goes on", hasAll);
    await live(page);
    assert.equal(await log.getAttribute("data-kept"), "yes");
    assert.equal(await page.getByRole("button", { name: "Follow again" }).count(), 0);
    await page.close();
  });
});
