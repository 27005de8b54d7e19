import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, describe, it } from "node:test";
import type { Browser, Locator } from "playwright-core";
import { berthWith, makeToken, openBrowser, openPage, slotManifest, type WatchedPage } from "./browser.ts";
import { scriptedStream, type ScriptedStream } from "./scripted-stream.ts";
import { until } from "../support/until.ts";
import type { RunningBerth } from "../support/berth.ts";

describe("the dashboard", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest(), later: `load = "onDemand"\n${slotManifest()}` });
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("lists slots with state and model, and loads and unloads one", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const card = (name: string): Locator => page.getByRole("listitem", { name, exact: true });
    await card("coder").getByText("Ready", { exact: true }).waitFor();
    await card("coder").getByText("its own command").waitFor();
    await page.getByRole("button", { name: "Load later" }).click();
    await card("later").getByText("Ready", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Unload later" }).click();
    await card("later").getByText("Unloaded by hand", { exact: true }).waitFor();
    // The message about an unloaded slot has a button that loads it again.
    await page.getByRole("status", { name: "What was done" }).getByRole("button", { name: "Undo" }).click();
    await card("later").getByText("Ready", { exact: true }).waitFor();
  });

  it("lists slots in a table where a person wants that, and remembers it", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const row = page.getByRole("table", { name: "Slots" }).getByRole("row", { name: /^coder Ready/ });
    await page.getByRole("button", { name: "Table" }).click();
    await row.waitFor();
    assert.equal(await page.getByRole("listitem", { name: "coder", exact: true }).count(), 0);
    assert.ok(
      await page.evaluate("document.querySelector('.wide').scrollWidth <= document.querySelector('.wide').clientWidth"),
    );
    await page.reload();
    await row.waitFor();
    await page.getByRole("button", { name: "Cards" }).click();
    await page.getByRole("listitem", { name: "coder", exact: true }).waitFor();
    assert.equal(await row.count(), 0);
  });

  /** A page that shows these slots: all are ready, and as `later` but for what is given. */
  const showing = async (
    path: string,
    ...slots: readonly object[]
  ): Promise<WatchedPage & Pick<ScriptedStream, "send">> => {
    await using stack = new AsyncDisposableStack();
    const stream = stack.use(await scriptedStream());
    const opened = stack.use(await openPage(browser, "about:blank"));
    await opened.page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    const later = await berth.slot("later");
    stream.send("snapshot", {
      slots: slots.map((slot) => ({ ...later, state: "ready", conditions: [], processes: [], ...slot })),
      pulls: [],
      groups: [],
      conditions: [],
    });
    await opened.page.goto(`${berth.url}${path}`);
    const owned = stack.move();
    return {
      ...opened,
      send: (event, data) => stream.send(event, data),
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  };
  const condition = (type: string, status: string, reason: string, message: string): object => ({
    type,
    status,
    reason,
    message,
    observedGeneration: 1,
    lastTransitionTime: new Date().toISOString(),
  });

  it("says of an offline slot what it waits for, on its card, in the table and on its page", async () => {
    const message = "group gpu has no room: coder holds 20.0 GiB";
    const conditions = [
      condition("Ready", "Unknown", "GroupFull", message),
      condition("Reconciling", "True", "GroupFull", message),
    ];
    await using opened = await showing("/", { state: "offline", conditions });
    const { page } = opened;
    const card = page.getByRole("listitem", { name: "later", exact: true });
    await card.getByText("Waiting for memory").waitFor();
    assert.equal(await card.getByText(message).count(), 1);
    await page.getByRole("button", { name: "Table" }).click();
    await page
      .getByRole("row", { name: /^later/ })
      .getByText(message)
      .waitFor();
    await page.getByRole("link", { name: "later", exact: true }).click();
    await page.locator(".banner").getByText(message).waitFor();
  });

  it("says first which slots failed, when and how often, also where they have recovered", async () => {
    const failure = (minutes: number, count: number, message: string): object => {
      const time = new Date(Date.now() - minutes * 60_000 - 1000).toISOString();
      return { recent_failures: { count, since: time, time, reason: "Exited", message } };
    };
    const stalled = condition("Stalled", "True", "InvalidSpec", "idle_secnds is not known");
    const mended = Array.from({ length: 5 }, (_, nth) => ({
      name: `mended-${nth}`,
      ...failure(60 * (nth + 1), 1, "exit code 7"),
    }));
    await using opened = await showing(
      "/",
      ...mended,
      { name: "broken", aliases: ["gpt-4"], state: "error", conditions: [stalled], ...failure(14, 3, "exit code 1") },
      {
        name: "looping",
        state: "starting",
        conditions: [condition("Reconciling", "True", "Starting", "it starts")],
        last_error: { reason: "Exited", message: "exit code 3", time: new Date().toISOString() },
        ...failure(20, 3, "exit code 3"),
      },
      { name: "fine" },
    );
    const { page } = opened;
    await page.getByText("6 of 8 slots ready, 2 failed").waitFor();
    await page
      .getByRole("banner")
      .getByRole("button", { name: /^2\s*problems$/ })
      .waitFor();
    const failures = page.getByRole("region", { name: "Failures" });
    const lines = failures.getByRole("listitem");
    await lines.first().waitFor();
    assert.match((await lines.first().textContent()) ?? "", /^broken.*failed 14 min ago, 3 times in 24 h.*idle_secnds/);
    assert.match(
      (await lines.nth(1).textContent()) ?? "",
      /^looping.*Loading.*failed 20 min ago, 3 times in 24 h, tries again.*exit code 3.*Show the log$/,
    );
    assert.match((await lines.nth(2).textContent()) ?? "", /^mended-0.*recovered.*failed 1 h ago.*exit code 7$/);
    assert.equal(await lines.filter({ hasText: "fine" }).count(), 0);
    assert.equal(await lines.count(), 5);
    await failures.getByText("2 more").click();
    assert.equal(await lines.count(), 7);
    const card = page.getByRole("listitem", { name: "broken", exact: true });
    await card.getByText("failed 14 min ago, 3 times in 24 h").waitFor();
    await card.getByText("alias gpt-4").waitFor();
    // The colour of a slot on charts says nothing of its state.
    const colours = await page.evaluate(`["broken", "fine"].map((name) => {
      const style = (part) => getComputedStyle(document.querySelector(\`li[aria-label=\${name}] \${part}\`));
      return [style(".edge").backgroundColor === style(".pill").color, style(".swatch").backgroundColor];
    })`);
    assert.deepEqual(colours, [
      [true, "rgb(59, 111, 224)"],
      [true, "rgb(217, 130, 43)"],
    ]);
    await page.getByRole("button", { name: "Table" }).click();
    const row = (name: RegExp): Locator => page.getByRole("table", { name: "Slots" }).getByRole("row", { name });
    await row(/^looping/)
      .getByRole("link", { name: "Show the log" })
      .waitFor();
    assert.equal(
      await row(/^mended-0/)
        .getByText(/failed/)
        .count(),
      0,
    );
    await row(/^looping/)
      .getByRole("link", { name: "looping", exact: true })
      .click();
    await page.locator(".banner").getByText("Read the log. “Load” tries again at once.").waitFor();
    await page.getByRole("link", { name: "Overview" }).first().click();
    await failures.getByRole("link", { name: "Edit the manifest" }).click();
    await page.locator(".banner").getByText("It failed 14 min ago, 3 times in 24 h.").waitFor();
  });

  it("keeps the search where its text still leaves slots out, however few they are", async () => {
    const slots = Array.from({ length: 10 }, (_, nth) => ({ name: `slot-${nth}`, state: "ready" }));
    await using opened = await showing("/", ...slots);
    const search = opened.page.getByRole("searchbox", { name: "Search" });
    await search.fill("slot-3");
    await opened.page.getByText("1 of 10").waitFor();
    opened.send("slot", { name: "slot-9", removed: true });
    await opened.page.getByText("1 of 9").waitFor();
    await search.fill("");
    await opened.page.getByRole("listitem", { name: "slot-8", exact: true }).waitFor();
  });

  it("leads from a slot whose model is missing to the page that finds it, and says that a missing file cannot be pulled", async () => {
    const stalled = (reason: string): object => ({
      state: "error",
      model: "own/er:Q4",
      conditions: [condition("Stalled", "True", reason, "fetch it by `berth model pull`")],
    });
    await using opened = await showing(
      "/ui/slots/gone",
      { name: "gone", ...stalled("ModelFileMissing") },
      { name: "lost", ...stalled("ModelNotFound") },
    );
    const { page } = opened;
    await page
      .locator(".banner")
      .getByText(/^Nothing can be pulled: its file was on this machine/)
      .waitFor();
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Overview" }).click();
    const card = page.getByRole("listitem", { name: "lost", exact: true });
    assert.equal(await card.locator("code").textContent(), "berth model pull");
    // There is nothing to load.
    assert.equal(await page.getByRole("button", { name: /^Load/ }).count(), 0);
    await card.getByRole("link", { name: "Find own/er:Q4" }).click();
    await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get("find"), "own/er:Q4");
  });

  it("shows a slot's facts, plan, transitions and live log at addresses that a reload keeps", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    await page
      .getByRole("listitem", { name: "coder", exact: true })
      .getByRole("link", { name: "coder", exact: true })
      .click();
    const heading = page.getByRole("heading", { name: "coder", level: 1 });
    const part = (name: string): Promise<void> =>
      page.getByRole("navigation", { name: "Parts of coder" }).getByRole("link", { name }).click();
    await heading.waitFor();
    assert.equal(new URL(page.url()).pathname, "/ui/slots/coder");
    await page.reload();
    await heading.waitFor();
    const hour = page.getByRole("region", { name: "The last hour" });
    await hour.getByText("now", { exact: true }).first().waitFor();
    await hour.getByRole("list", { name: "States" }).getByText("Ready").waitFor();
    await hour.getByText(/^\d+ changes, and why$/).press("Enter");
    await hour.getByRole("list", { name: "Transitions" }).getByText("Loading").first().waitFor();
    await part("Details");
    assert.equal(new URL(page.url()).pathname, "/ui/slots/coder/details");
    await page.getByText(/custom on \w+, process/).waitFor();
    await until("the plan is there", async () => /\S/.test((await page.getByLabel("Plan").textContent()) ?? ""));
    await part("Log");
    await page.reload();
    const log = page.getByRole("log");
    await until("the log has lines", async () => ((await log.textContent()) ?? "").trim().length > 0);
    await part("Events");
    const transitions = page.getByRole("list", { name: "Transitions" });
    await transitions.getByText("Loading").first().waitFor();
    await page.getByRole("button", { name: "More for coder" }).click();
    await page.getByRole("menuitem", { name: "Restart" }).click();
    await transitions.getByText("Unloading").first().waitFor();
  });

  it("checks a manifest, shows the difference, saves it, and overwrites no other person's edit", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/later/manifest`);
    const { page } = opened;
    const file = join(berth.configDir, "slots/later.toml");
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    const text = await manifest.inputValue();
    assert.equal(text, await readFile(file, "utf8"));
    await manifest.fill(`${text}idle_secnds = 5\n`);
    await page.getByRole("button", { name: "Validate" }).click();
    await page
      .getByRole("alert")
      .getByText(/idle_secnds/)
      .waitFor();
    await manifest.fill(`${text}idle_seconds = 55\n`);
    assert.match((await page.getByLabel("Difference to the file").textContent()) ?? "", /\+ idle_seconds = 55/);
    await page.getByRole("button", { name: "Save" }).click();
    await until("it is written", async () => (await readFile(file, "utf8")).includes("idle_seconds = 55"));
    await page.getByRole("textbox", { name: "Manifest" }).fill(`${text}idle_seconds = 66\n`);
    // As Git would, meanwhile.
    await writeFile(file, `${text}idle_seconds = 77\n`);
    await page.getByRole("button", { name: "Save" }).click();
    await page
      .getByRole("alert")
      .getByText(/changed meanwhile/)
      .waitFor();
    assert.match(await readFile(file, "utf8"), /77/);
    const difference = (await page.getByLabel("Difference to the file").textContent()) ?? "";
    assert.match(difference, /- idle_seconds = 77/);
    assert.match(difference, /\+ idle_seconds = 66/);
  });

  it("overwrites no edit that was made between a save and the page's next read", async () => {
    const file = join(berth.configDir, "slots/swift.toml");
    await writeFile(file, `load = "onDemand"\n${slotManifest()}`);
    await berth.state("swift", "offline");
    await using opened = await openPage(browser, `${berth.url}/ui/slots/swift/manifest`);
    const { page } = opened;
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    const text = await manifest.inputValue();
    let [puts, reads] = [0, 0];
    const second = Promise.withResolvers<undefined>();
    await page.route("**/api/slots/swift/manifest", async (route) => {
      if (route.request().method() === "PUT") {
        puts += 1;
        await route.continue();
        if (puts === 2) second.resolve(undefined);
        return;
      }
      if (puts === 1) reads += 1;
      // As Git would, right after the save and before the page reads what it has saved.
      if (puts === 1 && reads === 1) await writeFile(file, `${text}idle_seconds = 77\n`);
      // What the page reads later, so that a person is quicker than this reading.
      else if (puts === 1) await second.promise;
      await route.continue();
    });
    await manifest.fill(`${text}idle_seconds = 55\n`);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved.").waitFor();
    await manifest.fill(`${text}idle_seconds = 66\n`);
    await page.getByRole("button", { name: "Save" }).click();
    await page
      .getByRole("alert")
      .getByText(/changed meanwhile/)
      .waitFor();
    assert.equal(await readFile(file, "utf8"), `${text}idle_seconds = 77\n`);
    assert.match((await page.getByLabel("Difference to the file").textContent()) ?? "", /- idle_seconds = 77/);
    assert.equal(await manifest.inputValue(), `${text}idle_seconds = 66\n`);
    await page.unrouteAll({ behavior: "wait" });
  });

  it("shows the other pages by their links", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    for (const name of ["Models", "Requests", "Playground", "Machine", "Providers", "Settings", "Overview"]) {
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { name, level: 1 }).waitFor();
      assert.equal(await page.getByRole("alert").count(), 0, name);
    }
    await page.goto(`${berth.url}/ui/settings`);
    for (const [name, text] of [
      ["Tokens", /^No token yet/],
      ["Clients", /^Every client of OpenAI's API works/],
      ["About", "Version"],
      ["General", /^Authentication is off: everyone/],
    ] as const) {
      const parts = page.getByRole("navigation", { name: "Parts of the settings" });
      await parts.getByRole("link", { name, exact: true }).click();
      await page.getByRole("main").getByText(text).waitFor();
      assert.equal(await page.getByRole("alert").count(), 0, name);
    }
  });

  it("shows which slot holds a group, lends the group, and shows the last requests", async () => {
    await using own = await berthWith({
      one: `group = "gpu"\n${slotManifest()}`,
      two: `group = "gpu"\n${slotManifest()}`,
    });
    await own.state("one", "ready", "idle");
    const body = JSON.stringify({ model: "one", messages: [{ role: "user", content: "hi" }] });
    const headers = { "content-type": "application/json" };
    await (await fetch(`${own.url}/v1/chat/completions`, { method: "POST", headers, body })).text();
    await using opened = await openPage(browser, `${own.url}/ui/requests`);
    const { page } = opened;
    await page
      .getByRole("row", { name: /one.*chat\/completions.*Answered/ })
      .first()
      .waitFor();
    await page.getByRole("link", { name: "Machine", exact: true }).click();
    await page.getByRole("list", { name: "Slots of gpu" }).getByRole("link", { name: "one" }).waitFor();
    await page.getByRole("button", { name: "Lend gpu" }).click();
    await page.getByText(/^Lent until/).waitFor();
    await page.getByText(/^(?:2 h 0|1 h 59) min left$/).waitFor();
    await own.state("one", "offline");
    await page.getByRole("button", { name: "End the loan" }).click();
    await own.state("one", "ready", "idle");
  });

  it("finds requests by filters that the address keeps, holds the list still, and copies a request as curl", async () => {
    const ended = { ended_at: new Date().toISOString(), stream: false, resolved: null, engine_error: null, ms: 900 };
    const times = { held_ms: 0, queued_ms: 0, first_token_ms: 300, engine_ms: 900, tokens_in: 1, tokens_out: 2 };
    const chat = { ...ended, ...times, route: "/v1/chat/completions", slot: "coder", model: "coder", error: null };
    const failed = { ...chat, id: "bad", slot: "upstream acme", model: "later", status: 503, error: "slot.failed" };
    let count = 250;
    await using opened = await openPage(browser, "about:blank", { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = opened;
    await page.route("**/api/requests?*", (route) => {
      const data = Array.from({ length: count }, (_, nth) => ({ ...chat, id: `r${nth}`, status: 200, body: "it's" }));
      return route.fulfill({ json: { object: "list", data: [failed, ...data] } });
    });
    const shown = page.getByRole("main").getByRole("status");
    const rows = page.getByRole("table", { name: "Requests" }).locator("tbody tr");
    await page.goto(`${berth.url}/ui/requests?outcome=failed`);
    await shown.getByText("1 of 251", { exact: true }).waitFor();
    // Two tokens in the 0.6 s after the first one.
    assert.match(
      (await rows.textContent()) ?? "",
      /^\d\d:\d\d:\d\dlater → provider acme.*503 failed.*1 in → 2 out1\.7 tok\/s$/,
    );
    await page.getByRole("combobox", { name: "Outcome" }).selectOption("all");
    assert.equal(page.url(), `${berth.url}/ui/requests`);
    await shown.getByText("251 of 251, the last 200 are listed", { exact: true }).waitFor();
    await page
      .getByRole("figure")
      .getByText(/^251 requests from .* to .*, the slowest in 900 ms, 1 failed$/)
      .waitFor();
    assert.equal(await page.getByRole("figure").locator("line").count(), 251);
    assert.equal(await rows.count(), 200);
    // On a phone a request is two lines, and the filters leave room for many.
    const desk = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    const card = await rows.first().boundingBox();
    assert.ok(card !== null && card.height < 100 && card.y < 450, JSON.stringify(card));
    await page.setViewportSize(desk ?? { width: 1280, height: 720 });
    await page.getByRole("combobox", { name: "Slot" }).selectOption("coder");
    await page.getByRole("searchbox", { name: "Search" }).fill("r249");
    await page.reload();
    await shown.getByText("1 of 251", { exact: true }).waitFor();
    assert.equal(new URL(page.url()).search, "?slot=coder&text=r249");
    count = 260;
    const read = page.waitForResponse(/\/api\/requests/);
    await page.getByRole("button", { name: "Pause" }).click();
    await read;
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert.equal(await shown.textContent(), "1 of 251");
    await rows.getByRole("button", { name: "coder" }).click();
    await page.getByRole("dialog", { name: "Request" }).getByRole("button", { name: "Copy as curl" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(
      await page.evaluate("navigator.clipboard.readText()"),
      `curl ${berth.url}/v1/chat/completions -H 'content-type: application/json' \\\n  -d 'it'\\''s'`,
    );
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Follow" }).click();
    await shown.getByText("1 of 261", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Requests" }).click();
    await shown.getByText(/^261 of 261/).waitFor();
    await page.goBack();
    await shown.getByText("1 of 261", { exact: true }).waitFor();
  });

  it("has the colours that a person has chosen from the first paint on, and so has the chat page", async () => {
    await using opened = await openPage(browser, "about:blank", { colorScheme: "light" });
    const { page } = opened;
    await page.addInitScript(`localStorage.setItem("berth-theme", "dark");
      new MutationObserver(() => (window.darkAt ??= performance.now())).observe(document, { subtree: true, attributeFilter: ["data-theme"] });`);
    // Long enough for a paint that does not wait for the script.
    await page.route("**/*.js", (route) => delay(300).then(() => route.continue()));
    for (const path of ["", "/chat/"]) {
      await page.goto(`${berth.url}${path}`);
      const paint = "performance.getEntriesByName('first-paint')[0]?.startTime";
      await until("it is painted", async () => (await page.evaluate(paint)) !== undefined);
      assert.equal(await page.evaluate(`window.darkAt <= ${paint}`), true, path);
    }
  });

  it("comes back by itself once the server is back", async () => {
    await using own = await berthWith({ coder: slotManifest() });
    await own.state("coder", "ready", "idle");
    await using opened = await openPage(browser, own.url);
    const { page } = opened;
    const rail = page.getByRole("banner");
    await rail.getByText("Healthy").waitFor();
    await own.stop("SIGINT");
    const lost = rail.getByText(/not connected/);
    await lost.waitFor();
    await page.getByRole("button", { name: "Unload coder" }).click();
    const unanswered = page.getByRole("listitem", { name: "coder", exact: true }).getByRole("alert");
    await unanswered.getByText(/^Berth does not answer/).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const { x, width, height } = (await lost.boundingBox()) ?? assert.fail("it is not shown");
    assert.ok(x + width <= 390 && height <= 48, `it ends at ${x + width} px, ${height} px high`);
    await using again = await berthWith({}, own.env);
    await rail.getByText(/not connected/).waitFor({ state: "detached" });
    await again.state("coder", "ready", "idle");
    await page.getByRole("listitem", { name: "coder", exact: true }).getByText("Ready", { exact: true }).waitFor();
    await unanswered.waitFor({ state: "detached" });
  });

  it("asks for a token where authentication is on, and makes one that is shown once, copied and revoked", async () => {
    await using own = await berthWith({ coder: slotManifest() }, { SVC_AUTH_ENABLED: "1" });
    const token = await makeToken(own, "me");
    await using opened = await openPage(browser, own.url);
    const { page } = opened;
    await page.getByLabel("Token").fill("svc_wrong.token");
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("listitem", { name: "coder", exact: true }).waitFor();
    await page.goto(`${own.url}/ui/settings/tokens`);
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByRole("textbox", { name: "Label" }).fill("phone");
    await page.getByRole("button", { name: "Create token" }).click();
    const phone = (await page.getByText(/^svc_/).textContent()) ?? "";
    assert.match(phone, /^svc_[a-z0-9]+\./);
    await page.reload();
    await page.getByRole("row", { name: /phone/ }).waitFor();
    assert.equal(await page.getByText(/^svc_/).count(), 0);
    const kept = { id: "aaaaaaaa", title: "t", model: "coder", updated_at: "2026-01-01T00:00:00.000Z" };
    const written = await fetch(`${own.url}/api/conversations/aaaaaaaa`, {
      method: "PUT",
      headers: { authorization: `Bearer ${phone}`, "content-type": "application/json" },
      body: JSON.stringify({ ...kept, parameters: { system: "", temperature: "", maxTokens: "" }, messages: [] }),
    });
    assert.equal(written.status, 200);
    await page.reload();
    await page.getByRole("button", { name: "Revoke phone" }).click();
    const question = page.getByRole("dialog", {
      name: "Revoke the token of phone? Whoever uses it is refused at once. Its holder's one conversation in the chat is deleted with it.",
    });
    await question.waitFor();
    await page.keyboard.press("Escape");
    // Not only closed: until the page has heard of that, the button does not ask again.
    await page.locator("dialog[aria-labelledby=question]").waitFor({ state: "detached" });
    assert.equal(await page.evaluate("document.activeElement.ariaLabel"), "Revoke phone");
    await page.keyboard.press("Enter");
    await question.waitFor();
    // Asked again before the browser reports that the dialog was closed.
    await page.evaluate(
      "document.querySelector('dialog[open]').close(); document.querySelector('[aria-label=\"Revoke phone\"]').click()",
    );
    await question.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("row", { name: /phone/ }).waitFor({ state: "detached" });
    await page.getByRole("row", { name: /^me/ }).waitFor();
  });
});
