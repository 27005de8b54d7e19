import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { isRecord } from "../../src/lib/record.ts";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, live, openBrowser, openPage, slotManifest } from "./browser.ts";
import { watchTasks } from "./page-tasks.ts";
import { scriptedStream } from "./scripted-stream.ts";

const everyPage = [
  "/",
  "/ui/slots/old",
  "/ui/models",
  "/ui/requests",
  "/ui/machine",
  "/ui/providers",
  "/ui/settings",
  "/ui/settings/tokens",
] as const;

/** Has the page go to an address of its own without loading anew, and says what its content is. */
async function show(page: Page, path: string, expected = /\S/): Promise<string> {
  await page.evaluate(
    `history.pushState(null, "", ${JSON.stringify(path)}); dispatchEvent(new PopStateEvent("popstate"))`,
  );
  await until(`${path} has loaded, and says ${String(expected)}`, async () => {
    const text = (await page.locator("main").textContent()) ?? "";
    return expected.test(text) && !text.includes("Loading …");
  });
  assert.equal(await page.getByRole("navigation", { name: "Pages" }).count(), 1, path);
  return (await page.locator("main").textContent()) ?? "";
}

describe("the pages, when the server is older, newer or not reachable,", () => {
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

  it("show the answers of an older server, and say what it lacks", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, `${berth.url}/ui/nowhere`);
    const { page } = opened;
    await page.route("**/api/**", (route) => {
      const { pathname } = new URL(route.request().url());
      if (pathname === "/api/events") return route.continue({ url: stream.url });
      if (pathname === "/api/slots/old") return route.fulfill({ json: { name: "old", state: "ready", model: "m" } });
      if (pathname === "/api/models") return route.fulfill({ json: { object: "list", data: [{ id: "m" }] } });
      if (pathname === "/api/hardware") return route.fulfill({ json: {} });
      return route.fulfill({
        status: 404,
        json: { error: { code: "system.not_found", message: "there is nothing here" } },
      });
    });
    await page.reload();
    await until("it follows", () => stream.followers() > 0);
    stream.send("snapshot", { slots: [{ name: "old", state: "ready", model: "m" }] });
    await show(page, "/", /old.*Ready.*m/);
    for (const path of everyPage) {
      const text = await show(page, path);
      assert.ok(text.length > 10, path);
    }
    await show(page, "/ui/models", /The server may be of another version than this page: reload the page/);
    await show(page, "/ui/machine", /The server may be of another version than this page: reload the page/);
    await show(page, "/ui/requests", /there is nothing here/);
  });

  it("show the answers of a newer server: unknown states, conditions, events and fields", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, `${berth.url}/ui/nowhere`);
    const { page } = opened;
    const coder: unknown = await berth.get("/api/slots/coder");
    assert.ok(isRecord(coder) && Array.isArray(coder["conditions"]));
    const condition = {
      type: "Enchanted",
      status: "Maybe",
      reason: "Spell",
      message: "a spell holds it",
      lastTransitionTime: "",
    };
    const late = {
      ...coder,
      name: "old",
      state: "hibernating",
      moon: { phase: 3 },
      conditions: [...coder["conditions"], condition],
    };
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    await page.route("**/api/slots/old", (route) => route.fulfill({ json: late }));
    await page.reload();
    await until("it follows", () => stream.followers() > 0);
    stream.send("snapshot", { slots: [late], pulls: [], groups: [], conditions: [], moons: [] });
    stream.send("eclipse", { name: "old" });
    await show(page, "/", /old.*hibernating/i);
    await page.evaluate(
      'history.pushState(null, "", "/ui/slots/old/details"); dispatchEvent(new PopStateEvent("popstate"))',
    );
    await page.getByRole("table", { name: "Conditions" }).getByText("a spell holds it").waitFor();
  });

  it("show no statement about slots before the server has sent its first snapshot", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, `${berth.url}/ui/nowhere`);
    const { page } = opened;
    await page.addInitScript(
      "window.said = new Set(); new MutationObserver(() => window.said.add(document.body?.textContent ?? '')).observe(document, { subtree: true, childList: true, characterData: true })",
    );
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    await page.goto(berth.url);
    await until("it follows", () => stream.followers() > 0);
    // An event that is seen: the page has made of the open stream what it does.
    stream.send("config", { problems: [{ message: "a file is wrong" }] });
    await page.getByRole("alert").getByText("a file is wrong").waitFor();
    await page.getByText("connecting …").waitFor();
    stream.send("snapshot", { slots: [{ name: "old", state: "ready", model: "m" }] });
    await page.getByRole("listitem", { name: "old" }).waitFor();
    await live(page);
    const said: readonly string[] = await page.evaluate("[...window.said]");
    assert.ok(said.some((text) => text.includes("Loading …")));
    assert.ok(said.every((text) => !text.includes("No slot is declared")));
    stream.send("snapshot", { slots: [] });
    await page.getByText(/^No slot is declared/).waitFor();
  });

  it("say what to do while the server is down, and where a proxy answers in its place", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    await page.getByRole("listitem", { name: "coder" }).waitFor();
    await page.route("**/api/**", (route) => route.abort());
    await page.reload();
    await page
      .getByText(/not connected; trying again\. Berth does not answer\. See on its machine whether it runs/)
      .waitFor();
    await page.getByText("The slots are shown once Berth answers.").waitFor();
    for (const path of everyPage.slice(1)) await show(page, path, /Berth does not answer\. See on its machine/);
    await page.unrouteAll({ behavior: "wait" });
    await page.route("**/api/**", (route) =>
      route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" }),
    );
    await show(page, "/ui/machine", /the server answered 502\. Reload the page|Berth does not answer/);
    await page.unrouteAll({ behavior: "wait" });
    await show(page, "/");
    await live(page);
    await page.getByRole("listitem", { name: "coder" }).waitFor();
    // The chat page as well.
    await page.route("**/v1/**", (route) => route.abort());
    await page.goto(`${berth.url}/chat/`);
    await page
      .getByRole("alert")
      .getByText(/Berth does not answer\. See on its machine/)
      .waitFor();
    await page.getByRole("textbox", { name: "Message" }).waitFor();
  });

  it("read again by themselves what the server could not answer", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    let [reads, isFull] = [0, true];
    await page.route("**/api/hardware", (route) => {
      reads += 1;
      const json = { error: { code: "system.overloaded", message: "the server is full" } };
      return isFull ? route.fulfill({ status: 503, json }) : route.continue();
    });
    await page.goto(`${berth.url}/ui/machine`);
    await live(page);
    await page.getByRole("alert").getByText("the server is full. Try again.").waitFor();
    // At first, and once the page is live.
    await until("it is read twice", () => reads >= 2);
    isFull = false;
    await page.getByText(/\d+ threads/).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  it("leave the slots where they were drawn first, whatever arrives later", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    const arrivals = [
      { path: "/api/install/state", seen: page.getByText("There is no model yet") },
      { path: "/api/status", seen: page.locator(".version").getByText(/\d/) },
      { path: "/api/hardware", seen: page.getByRole("region", { name: "Memory", exact: true }).getByText("Host") },
    ].map((arrival) => ({ ...arrival, ...Promise.withResolvers<undefined>() }));
    await page.route("**/api/**", async (route) => {
      const { pathname } = new URL(route.request().url());
      await arrivals.find(({ path }) => path === pathname)?.promise;
      await route.continue();
    });
    await page.addInitScript(`{
      const tops = (globalThis.tops = new Set());
      const look = () => {
        const list = document.querySelector("[aria-label=Slots]");
        if (list !== null) tops.add(list.getBoundingClientRect().top);
        requestAnimationFrame(look);
      };
      look();
    }`);
    await page.goto(berth.url);
    for (const { resolve, seen } of arrivals) {
      resolve(undefined);
      await seen.first().waitFor();
    }
    await page.getByRole("listitem", { name: "coder" }).waitFor();
    const tops: number[] = await page.evaluate("[...tops]");
    assert.equal(tops.length, 1, tops.join(", "));
  });

  it("are used over a slow network", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/nowhere`);
    const { page } = opened;
    const session = await page.context().newCDPSession(page);
    const slow = { offline: false, latency: 800, downloadThroughput: 50_000, uploadThroughput: 20_000 };
    await session.send("Network.emulateNetworkConditions", slow);
    await page.goto(berth.url);
    await page.getByRole("listitem", { name: "coder" }).waitFor();
    for (const path of ["/ui/slots/coder", ...everyPage.slice(2)]) await show(page, path);
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.goto(`${berth.url}/chat/`);
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await page.getByRole("textbox", { name: "Message" }).fill("hello");
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .getByRole("log", { name: "Messages" })
      .getByText(/^\d+ tokens?\b/)
      .waitFor();
  });
});

/** What the page holds once its garbage is collected. */
async function heldBy(page: Page): Promise<{ readonly nodes: number; readonly heapBytes: number }> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const nodes: number = await page.evaluate("document.querySelectorAll('*').length");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return { nodes, heapBytes: usedSize };
}

describe("the dashboard under load", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let coder: Record<string, unknown>;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest() });
    await berth.state("coder", "ready", "idle");
    coder = await until("its memory is measured", async () => {
      const slot = await berth.slot("coder");
      return slot["memory"] !== null && slot;
    });
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const named = (index: number, change: object = {}): object => ({
    ...coder,
    name: `slot-${String(index).padStart(4, "0")}`,
    ...change,
  });

  it("shows 1000 slots, and holds no more after many events than after few", async (t) => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, `${berth.url}/ui/nowhere`);
    const { page } = opened;
    await page.addInitScript(
      "window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask', buffered: true })",
    );
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    await page.goto(berth.url);
    await until("it follows", () => stream.followers() > 0);
    const table = page.getByRole("table", { name: "Slots" });
    const tasks = await watchTasks(browser, page);
    const began = performance.now();
    stream.send("snapshot", {
      slots: Array.from({ length: 1000 }, (_, index) => named(index)),
      pulls: [],
      conditions: [],
    });
    await table.getByRole("link", { name: "slot-0099", exact: true }).waitFor();
    const drawnMs = performance.now() - began;
    const { totalMs } = await tasks.end();
    const drawnAt = performance.now();
    await page.getByRole("searchbox").fill("0999");
    await table.getByRole("link", { name: "slot-0999", exact: true }).waitFor();
    const usedMs = performance.now() - drawnAt;
    await page.getByText("1 of 1000").waitFor();
    await page.getByText("and 988 slots with less").waitFor();
    await page.getByRole("searchbox").fill("");
    await table.getByRole("link", { name: "slot-0099", exact: true }).waitFor();
    const longTasks: readonly number[] = await page.evaluate("window.long");
    t.diagnostic(
      `1000 slots: drawn after ${drawnMs.toFixed(0)} ms, with ${totalMs.toFixed(0)} ms of the processor, searched after ${usedMs.toFixed(0)} ms more, longest task ${Math.max(0, ...longTasks).toFixed(0)} ms`,
    );
    const rows = table.getByRole("row");
    assert.equal(await rows.count(), 101);
    const change = async (count: number, round: string): Promise<void> => {
      for (let index = 0; index < count; index += 1) {
        stream.send("slot", named(index % 1000, { in_flight: index % 7, model: `m-${round}-${index}` }));
        if (index % 500 === 499) await delay(1);
      }
      await page.getByRole("row", { name: new RegExp(`m-${round}-${count - 1000} `) }).waitFor();
    };
    await change(2000, "few");
    const few = await heldBy(page);
    await change(20_000, "many");
    const many = await heldBy(page);
    t.diagnostic(
      `after 2000 events ${few.nodes} elements and ${(few.heapBytes / 1e6).toFixed(1)} MB, after 22 000 ${many.nodes} and ${(many.heapBytes / 1e6).toFixed(1)} MB`,
    );
    const later: (typeof few)[] = [];
    const longMs = 1000 * Number(process.env["BERTH_TEST_EVENTS_SECONDS"] ?? 0);
    const startedMs = performance.now();
    while (performance.now() - startedMs < longMs) {
      await change(20_000, `round${later.length}`);
      const held = await heldBy(page);
      later.push(held);
      if (later.length % 10 === 0)
        t.diagnostic(
          `after ${((performance.now() - startedMs) / 60_000).toFixed(1)} min and ${20_000 * later.length} more events ${held.nodes} elements and ${(held.heapBytes / 1e6).toFixed(1)} MB`,
        );
    }
    if (later.length > 0) {
      const heap = later.map(({ heapBytes }) => heapBytes / 1e6);
      t.diagnostic(
        `${20_000 * later.length} events in ${((performance.now() - startedMs) / 60_000).toFixed(1)} min: ${Math.min(...heap).toFixed(1)} to ${Math.max(...heap).toFixed(1)} MB, ${heap[0]?.toFixed(1)} at first, ${heap.at(-1)?.toFixed(1)} at last`,
      );
    }
    assert.equal(await rows.count(), 101);
    for (const held of [many, ...later]) {
      assert.ok(held.nodes < few.nodes + 100, `${few.nodes} → ${held.nodes} elements`);
      assert.ok(held.heapBytes < few.heapBytes + 10e6, `${few.heapBytes} → ${held.heapBytes} bytes`);
    }
  });
});
