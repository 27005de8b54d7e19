import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Request } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, live, openBrowser, openPage, slotManifest } from "./browser.ts";
import { watchTasks } from "./page-tasks.ts";
import { scriptedStream } from "./scripted-stream.ts";

/** The pages, and the parts of pages that read something beside the page itself. */
const restingPages = [
  "/",
  "/ui/slots/coder",
  "/ui/slots/coder/manifest",
  "/ui/slots/coder/details",
  "/ui/models",
  "/ui/requests",
  "/ui/playground",
  "/ui/machine",
  "/ui/providers",
  "/ui/settings",
  "/ui/settings/tokens",
] as const;

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
    // The overview of every day: the first steps of a new installation read the catalogue beside it.
    assert.equal((await fetch(`${berth.url}/api/install/complete`, { method: "POST" })).ok, true);
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
    await until("tokens are counted", async () => {
      await (await ask("coder")).text();
      return (
        /^[\d.]*[1-9]/.test(await figure("Tokens/s")) &&
        /^[\d.]+ m?s 95 % within [\d.]+ m?s$/.test(await figure("First token in 15 min"))
      );
    });
    await page.getByText(`2 of 2 slots ready · ${new URL(berth.url).host}`).waitFor();
    assert.match(await figure("Errors in 15 min"), /^0 of [1-9]\d* requests$/);
    await page
      .getByRole("region", { name: "Memory of Host" })
      .getByText(/^\d+\.\d [KMG]iB of \d+\.\d GiB free$/)
      .waitFor();
    await until("errors are counted", async () => {
      await (await ask("nobody")).text();
      return /^[1-9]/.test(await figure("Errors in 15 min"));
    });
    const failed = figures.getByRole("link", { name: /^\d+ failed requests?$/ });
    assert.equal(await failed.getAttribute("href"), "ui/requests?outcome=failed");
    const answer = await ask("slow");
    await until("a request is in flight", async () => /^[1-9]/.test(await figure("In flight now")));
    await answer.body?.cancel();
    await until("none is in flight", async () => (await figure("In flight now")).trim() === "0");
  });

  it("asks for nothing while nothing happens, on any page, and reads again what an event names", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    const asked: string[] = [];
    let open = 0;
    page.on("request", (request) => {
      const { pathname } = new URL(request.url());
      if (!/^\/(?:api|v1)\//.test(pathname) || pathname === "/api/events") return;
      asked.push(pathname);
      open += 1;
    });
    const end = (request: Request): void => {
      if (asked.includes(new URL(request.url()).pathname)) open -= 1;
    };
    page.on("requestfinished", end);
    page.on("requestfailed", end);
    const coder = await berth.slot("coder");
    stream.send("snapshot", { slots: [coder], pulls: [], groups: [], conditions: [] });
    await page.clock.install();
    const show = async (path: string): Promise<void> => {
      await page.goto(`${berth.url}${path}`);
      await live(page);
      let before = -1;
      await until(`${path} has loaded`, async () => {
        await page.clock.runFor(100);
        const wasQuiet = open === 0 && asked.length === before;
        before = asked.length;
        return wasQuiet && (await page.getByText("Loading …").count()) === 0;
      });
    };
    for (const path of restingPages) {
      await show(path);
      const before = asked.length;
      // Less than the silence after which a stream counts as lost.
      await page.clock.runFor(30_000);
      assert.deepEqual(asked.slice(before), [], path);
    }
    for (const [path, event, data, reads] of [
      ["/ui/models", "model", { ref: "tiny", state: "available" }, "/api/models"],
      ["/ui/requests", "traffic", { ended_at: new Date().toISOString(), steps: 1, series: [] }, "/api/requests"],
    ] as const) {
      await show(path);
      const before = asked.length;
      stream.send(event, data);
      await until(`${reads} is read`, () => asked.slice(before).includes(reads));
    }
    // A request changes the state of a slot, and nothing that its page reads beside it.
    await show("/ui/slots/coder/details");
    const before = asked.length;
    for (const state of ["serving", "idle"]) {
      stream.send("slot", { ...coder, state, in_flight: 1 });
      await page
        .getByText(state === "serving" ? "Answering 1" : "idle", { exact: true })
        .first()
        .waitFor();
    }
    await page.clock.runFor(1000);
    assert.deepEqual(asked.slice(before), []);
  });

  it("begins with the steps of events where the past cannot be read, and comes to rest without an event", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, "about:blank", { deviceScaleFactor: 2, colorScheme: "light" });
    const { page } = opened;
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    await page.route("**/api/traffic?*", (route) => route.fulfill({ status: 429, json: {} }));
    await page.clock.install();
    const failure = { reason: "CrashLoop", message: "it ended", time: new Date().toISOString() };
    stream.send("snapshot", { slots: [{ ...(await berth.slot("coder")), last_error: failure }], conditions: [] });
    await page.goto(berth.url);
    await live(page);
    const rate = page.getByLabel("Figures at a glance").locator("div").filter({ hasText: "Tokens/s" }).locator("dd");
    const step = (slot: string, tokens: number): unknown => ({
      slot,
      ...Object.fromEntries(["requests", "errors", "tokens_in", "in_flight", "waiting"].map((each) => [each, [0]])),
      tokens_out: [tokens],
      first_token_ms: [null],
    });
    const series = [step("coder", 150), step("upstream acme", 60), step("silent", 0)];
    stream.send("traffic", { step_seconds: 5, ended_at: new Date().toISOString(), steps: 1, series });
    await until("the step is shown", async () => {
      await page.clock.runFor(100);
      return (await rate.textContent())?.trim() === "14";
    });
    const chart = page.getByRole("img", { name: /^Tokens\/s of the last fifteen minutes/ });
    const legend = page.locator(".chart + .legend li");
    assert.deepEqual(await legend.allTextContents(), ["Latest", " coder30", " provider acme12"]);
    const swatch = await legend.last().locator(".swatch").boundingBox();
    assert.deepEqual([swatch?.width, swatch?.height], [10, 10]);
    const canvas = chart.locator("canvas");
    const [drawn, box] = [await canvas.boundingBox(), await chart.boundingBox()];
    assert.equal(drawn?.height, box?.height, "as large as its box on a fine screen");
    const pixels = async (): Promise<unknown> => await page.evaluate("document.querySelector('canvas').toDataURL()");
    const light = await pixels();
    await page.emulateMedia({ colorScheme: "dark" });
    await until("it has the colours of the dark", async () => (await pixels()) !== light);
    await chart.hover();
    await until("it has the values under the pointer", async () =>
      /^\d+:\d\d:\d\d(?: [AP]M)?, coder0, provider acme0$/.test(
        (await legend.allTextContents()).map((each) => each.trim()).join(", "),
      ),
    );
    await page.clock.runFor(30_000);
    await until("it is over", async () => (await rate.textContent())?.trim() === "0");
    await page.getByText(/^coder failed (?:\d+ s|\d+ min) ago$/).waitFor();
    // Before the stream counts as lost.
    stream.send("traffic", { step_seconds: 5, ended_at: new Date().toISOString(), steps: 1, series: [] });
    await page.getByRole("link", { name: "coder", exact: true }).first().click();
    const up = page.getByLabel("Figures").locator("div").filter({ hasText: "Up" }).locator("dd");
    const before = await up.textContent();
    await page.clock.runFor(30_000);
    await until("it is up for longer", async () => (await up.textContent()) !== before);
  });

  it("shows each change of a group as its event says, and reads providers with no other event", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    let [read, providers] = [0, 0];
    page.on("request", (request) => void (read += Number(request.url().endsWith("/api/groups"))));
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    const group = { name: "gpu", declared: true, budget: [], members: [], lent_until: null, problems: [] };
    await page.route("**/api/upstreams", (route) => {
      providers += 1;
      return route.fulfill({ json: { object: "list", data: [] } });
    });
    const gpu = { id: "0000:01:00.0", name: "Card", vendor: "nvidia", memory_bytes: 2 ** 30, memory_free_bytes: null };
    await page.route("**/api/hardware", async (route) => {
      const response = await route.fetch();
      const machine: object = await response.json();
      const now = { read_at: new Date().toISOString(), cpu_percent: null, memory: {}, gpus: [] };
      await route.fulfill({ json: { ...machine, gpus: [{ ...gpu, driver: null, backends: [] }], now } });
    });
    await page.goto(`${berth.url}/ui/machine`);
    await until("it follows", () => stream.followers() > 0);
    stream.send("snapshot", { slots: [], groups: [group], conditions: [] });
    const processor = page.getByRole("listitem", { name: "Processor" });
    await processor.getByText("measured over 5 s …").waitFor();
    for (const percent of [20, 60])
      stream.send("machine", {
        read_at: new Date().toISOString(),
        cpu_percent: percent,
        memory: { used_bytes: 1, free_bytes: 2 },
        gpus: [
          { id: gpu.id, total_bytes: 2 ** 30, used_bytes: 2 ** 29, utilization_percent: 9, temperature_celsius: 50 },
        ],
      });
    await processor.getByText("60 %").waitFor();
    // Of 100 %, at the height of 24.
    assert.equal(await processor.locator("polyline").getAttribute("points"), "0.0,18.6 100.0,9.8");
    const card = page.getByRole("listitem", { name: "Card" });
    await card.getByText("50 °C").waitFor();
    assert.equal(await card.locator("polyline").count(), 3);
    await page.getByText(/^until \d+:\d+/).waitFor();
    stream.send("group", {
      ...group,
      lent_until: "2027-01-01T00:00:00.000Z",
      problems: [{ reason: "R", message: "M" }],
    });
    await page.getByText(/^Lent until/).waitFor();
    await page.getByRole("alert").getByText("M", { exact: true }).waitFor();
    stream.send("group", { name: "gpu", removed: true });
    await page.getByText("No slot names a group").waitFor();
    assert.equal(read, 0);
    await page.getByRole("link", { name: "Providers" }).click();
    await page.getByRole("heading", { name: "Add the first one" }).waitFor();
    const asked = providers;
    stream.send("traffic", { ended_at: new Date().toISOString(), steps: 1, series: [] });
    stream.send("condition", { kind: "Model", name: "tiny", conditions: [] });
    stream.send("config", { problems: [{ message: "a file is wrong" }] });
    await page.getByRole("alert").getByText("a file is wrong").waitFor();
    assert.equal(providers, asked);
    stream.send("condition", { kind: "Upstream", name: "far", conditions: [] });
    await until("the providers are read", () => providers > asked);
    assert.equal(providers, asked + 1);
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

/** The cost of the page Overview until a button of a slot can be pressed. */
interface Load {
  readonly requests: number;
  readonly bytes: number;
  readonly totalMs: number;
  readonly longestMs: number;
}

// Its page, two scripts, style and charts, the events, and what the page reads beside them.
const isLight = ({ requests, bytes, totalMs }: Load): boolean =>
  requests <= 10 && bytes <= 120 * 1024 && totalMs <= 1000;

/** Loads it in a new page, which has nothing yet. */
async function load(browser: Browser, url: string): Promise<Load> {
  await using opened = await openPage(browser, "about:blank");
  const { page } = opened;
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  let [requests, bytes] = [0, 0];
  // The page is drawn without its font, which a browser keeps for both pages; its icon is no request.
  const fonts = new Set<string>();
  session.on("Network.requestWillBeSent", ({ requestId, type, request }) => {
    if (type === "Font") fonts.add(requestId);
    else if (!request.url.startsWith("data:")) requests += 1;
  });
  session.on("Network.dataReceived", ({ requestId, encodedDataLength }) => {
    if (!fonts.has(requestId)) bytes += encodedDataLength;
  });
  const tasks = await watchTasks(browser, page);
  await page.goto(url);
  await page.getByRole("button", { name: "Unload coder" }).waitFor();
  const needed = { requests, bytes };
  const { totalMs, longestMs } = await tasks.end();
  return { ...needed, totalMs, longestMs };
}
