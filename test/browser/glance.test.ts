import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { watchTasks } from "./page-tasks.ts";
import { scriptedStream } from "./scripted-stream.ts";

describe("the dashboard at a glance", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({
      coder: slotManifest("--tokens", "40", "--token-ms", "20"),
      slow: slotManifest("--tokens", "2000", "--token-ms", "50"),
    });
    await berth.state("coder", "ready", "idle");
    await berth.state("slow", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("has the figures of the whole machine", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const figures = page.getByLabel("Figures at a glance");
    const figure = async (name: string): Promise<string> =>
      (await figures.locator("div").filter({ hasText: name }).locator("dd").textContent()) ?? "";
    const ask = async (model: string): Promise<Response> =>
      await fetch(`${berth.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "hi" }] }),
      });
    await figures.waitFor();
    await until("tokens and requests are counted", async () => {
      await (await ask("coder")).text();
      return /^[1-9]/.test(await figure("Tokens/s")) && /^[1-9]/.test(await figure("Requests/min"));
    });
    assert.equal(await figure("Errors"), "0.0 %");
    assert.match(await figure("Memory"), /^\d+\.\d [KMG]iB of \d+\.\d GiB$|^0 B of /);
    await until("errors are counted", async () => {
      await (await ask("nobody")).text();
      return /^[1-9]/.test(await figure("Errors"));
    });
    const answer = await ask("slow");
    await until("a request is in flight", async () => /^[1-9]/.test(await figure("In flight")));
    await answer.body?.cancel();
    await until("none is in flight", async () => (await figure("In flight")) === "0");
  });

  it("reads the counters again only once they are here, however slow the server is", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    let [open, most, asked] = [0, 0, 0];
    const held = Promise.withResolvers<undefined>();
    await page.route("**/api/metrics", async (route) => {
      [open, asked] = [open + 1, asked + 1];
      most = Math.max(most, open);
      if (asked === 1) await held.promise;
      open -= 1;
      await route.continue();
    });
    await page.clock.install();
    await page.goto(berth.url);
    await page.getByRole("row", { name: /^coder/ }).waitFor();
    await until("it is asked", () => asked === 1);
    await page.clock.runFor(10_000);
    held.resolve(undefined);
    await until("it is asked again", async () => {
      await page.clock.runFor(5000);
      return asked >= 3;
    });
    assert.equal(most, 1);
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  it("reads the groups again with each event of a group, and with no other event", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    let [read, providers] = [0, 0];
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    const group = { name: "gpu", declared: true, budget: [], members: [], lent_until: null, problems: [] };
    await page.route("**/api/groups", (route) => {
      read += 1;
      const problems = [{ reason: "R", message: `reading ${read}` }];
      return route.fulfill({ json: { object: "list", data: [{ ...group, problems }] } });
    });
    await page.route("**/api/upstreams", (route) => {
      providers += 1;
      return route.fulfill({ json: { object: "list", data: [] } });
    });
    await page.goto(`${berth.url}/ui/groups`);
    await until("it follows", () => stream.followers() > 0);
    stream.send("snapshot", { slots: [], groups: [], conditions: [] });
    await page.getByText("live", { exact: true }).waitFor();
    await until("it has loaded", async () => (await page.getByText(`reading ${read}`).count()) === 1);
    const before = read;
    stream.send("group", { ...group, lent_until: "2027-01-01T00:00:00.000Z" });
    // Another reading may follow at once.
    await until("it is read again", async () => {
      const text = (await page.locator("main").textContent()) ?? "";
      return Number(/reading (\d+)/.exec(text)?.[1]) > before;
    });
    await page.getByRole("link", { name: "Providers" }).click();
    await page.getByText(/^None is declared/).waitFor();
    const asked = providers;
    stream.send("config", { problems: [{ message: "a file is wrong" }] });
    await page.getByRole("alert").getByText("a file is wrong").waitFor();
    assert.equal(providers, asked);
  });

  it("is usable after a second of two processors: few requests, few bytes, and little work of the page", async (t) => {
    // The machine may be busy with something else once, hardly three times.
    const loads: Load[] = [];
    while (loads.length < 3 && !loads.some(isLight)) loads.push(await load(browser, berth.url));
    const told = loads.map(
      ({ requests, bytes, totalMs, longestMs }) =>
        `${requests} requests of ${(bytes / 1024).toFixed(0)} KiB and ${totalMs.toFixed(0)} ms of the processor, at most ${longestMs.toFixed(0)} ms in one piece`,
    );
    t.diagnostic(`usable after ${told.join("; ")}`);
    assert.ok(loads.some(isLight), told.join("; "));
  });
});

/** What the page Slots takes until a button of a slot can be pressed. */
interface Load {
  readonly requests: number;
  readonly bytes: number;
  readonly totalMs: number;
  readonly longestMs: number;
}

// Its page, script, style and icon, the events, and what the slots page reads beside them.
const isLight = ({ requests, bytes, totalMs }: Load): boolean =>
  requests <= 10 && bytes <= 120 * 1024 && totalMs <= 1000;

/** Loads it in a new page, which has nothing yet. */
async function load(browser: Browser, url: string): Promise<Load> {
  await using opened = await openPage(browser, "about:blank");
  const { page } = opened;
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  let [requests, bytes] = [0, 0];
  session.on("Network.requestWillBeSent", () => (requests += 1));
  session.on("Network.dataReceived", ({ encodedDataLength }) => (bytes += encodedDataLength));
  const tasks = await watchTasks(browser, page);
  await page.goto(url);
  await page.getByRole("button", { name: "Unload coder" }).waitFor();
  const needed = { requests, bytes };
  const { totalMs, longestMs } = await tasks.end();
  return { ...needed, totalMs, longestMs };
}
