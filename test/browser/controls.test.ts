import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, live, makeToken, openBrowser, openPage, slotManifest, type WatchedPage } from "./browser.ts";
import { scriptedStream } from "./scripted-stream.ts";

const later = `load = "onDemand"\n${slotManifest()}`;

describe("the controls of the dashboard", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let token = "";
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ later }, { SVC_AUTH_ENABLED: "1" });
    token = await makeToken(berth);
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const openAs = async (path: string, prepare?: (page: Page) => Promise<void>): Promise<WatchedPage> => {
    const opened = await openPage(browser, "about:blank");
    await prepare?.(opened.page);
    await opened.page.addInitScript(`sessionStorage.setItem("berth-token", ${JSON.stringify(token)})`);
    await opened.page.goto(`${berth.url}${path}`);
    return opened;
  };
  const hasFocus = (of: Locator): Promise<boolean> =>
    of.evaluate((element: { matches(selector: string): boolean }) => element.matches(":focus"));

  it("keep the focus while they act and when they are off then, and give it to the heading where they go away", async () => {
    await using opened = await openAs("/ui/slots/later");
    const { page } = opened;
    const asked = Promise.withResolvers<undefined>();
    const held = Promise.withResolvers<undefined>();
    await page.route("**/api/slots/later/load", async (route) => {
      asked.resolve(undefined);
      await held.promise;
      await route.continue();
    });
    const load = page.getByRole("button", { name: /^(?:Load|Unload) later$/ });
    await load.press("Enter");
    await asked.promise;
    await page.locator("button[aria-busy=true]").waitFor();
    assert.equal(await load.isDisabled(), true);
    assert.equal(await hasFocus(load), true);
    held.resolve(undefined);
    await page.locator("button[aria-busy=true]").waitFor({ state: "detached" });
    assert.equal(await hasFocus(load), true);
    // The tabs move while lines above them say how the load goes.
    await page.locator(".page-head").getByText("Ready", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Manifest", exact: true }).click();
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    await manifest.fill(`${await manifest.inputValue()}idle_seconds = 55\n`);
    const save = page.getByRole("button", { name: "Save", exact: true });
    await save.press("Enter");
    await page.getByText("Saved.").waitFor();
    await until("nothing is left to save", async () => await save.isDisabled());
    assert.equal(await hasFocus(save), true);

    await page.getByRole("link", { name: "Settings", exact: true }).click();
    await page.getByRole("link", { name: "Tokens", exact: true }).click();
    await page.getByRole("button", { name: "New token" }).press("Enter");
    await page.getByRole("textbox", { name: "Label" }).fill("brief");
    // Enter in the field is what the button is for.
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "I have it" }).press("Enter");
    await until("the button has the focus again", () => hasFocus(page.getByRole("button", { name: "New token" })));
    await page.getByRole("button", { name: "Revoke brief" }).press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).press("Enter");
    await page.getByRole("row", { name: /^brief/ }).waitFor({ state: "detached" });
    assert.equal(await hasFocus(page.getByRole("heading", { name: "Settings", level: 1 })), true);
  });

  it("of a dialog lose nothing by a click beside it, nor a new token by Escape", async () => {
    await using opened = await openAs("/ui/settings/tokens");
    const { page } = opened;
    const dialog = page.getByRole("dialog", { name: "New token" });
    const clickAround = async (): Promise<void> => {
      const box = (await dialog.boundingBox()) ?? assert.fail("the dialog is not shown");
      await page.mouse.click(box.x + 4, box.y + 4);
      await page.mouse.click(4, 4);
    };
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByRole("textbox", { name: "Label" }).fill("brief");
    await clickAround();
    assert.equal(await page.getByRole("textbox", { name: "Label" }).inputValue(), "brief");
    await page.getByRole("button", { name: "Create token" }).click();
    await dialog.getByText(/^svc_/).waitFor();
    await clickAround();
    for (const key of ["Escape", "Escape", "Control+k"]) await page.keyboard.press(key);
    await dialog.getByText(/^svc_/).waitFor();
    await page.getByRole("button", { name: "I have it" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "New token" }).click();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.equal(await hasFocus(page.getByRole("button", { name: "New token" })), true);
  });

  it("of the palette find a slot and lead to it, and a click beside it alone closes it", async () => {
    await using opened = await openAs("/ui/settings");
    const { page } = opened;
    const palette = page.getByRole("dialog", { name: "Go to" });
    await live(page);
    await page.keyboard.press("Control+k");
    await palette.waitFor();
    const box = (await palette.boundingBox()) ?? assert.fail("the palette is not shown");
    await page.mouse.click(box.x + 4, box.y + 4);
    await page.mouse.move(box.x + 20, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(4, 4);
    await page.mouse.up();
    assert.equal(await palette.isVisible(), true);
    await page.mouse.click(4, 4);
    await palette.waitFor({ state: "detached" });
    await page.keyboard.press("Control+k");
    await palette.waitFor();
    // The browser tells the page of the end of a dialog a moment later.
    await page.evaluate(`document.querySelector("dialog[open]").close();
      dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));`);
    await palette.waitFor();
    await page.keyboard.type("man lat");
    await palette.getByRole("option", { name: "Manifest of later", selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "later", level: 1 }).waitFor();
    assert.equal(new URL(page.url()).pathname, "/ui/slots/later/manifest");
  });

  it("of a menu are reached in a window that is lower than it", async () => {
    await using opened = await openAs("/ui/slots/later");
    const { page } = opened;
    await page.setViewportSize({ width: 800, height: 170 });
    await page.getByRole("button", { name: "More for later" }).click();
    const menu = page.getByRole("menu", { name: "More for later" });
    const last = menu.getByRole("menuitem").last();
    await last.waitFor();
    const bounds = async (of: Locator): Promise<readonly [number, number]> => {
      const { y, height } = (await of.boundingBox()) ?? assert.fail("it is not shown");
      return [y, y + height];
    };
    const [top, bottom] = await bounds(menu);
    assert.ok(top >= 0 && bottom <= 170, `the menu is from ${top} to ${bottom}`);
    await page.keyboard.press("ArrowUp");
    assert.equal(await hasFocus(last), true);
    const [from, to] = await bounds(last);
    assert.ok(from >= top && to <= bottom, `its last item is from ${from} to ${to}`);
  });

  it("of a message stay while a person is at them, and a failure until it is closed", async () => {
    await using opened = await openAs("/ui/slots/later", async (page) => {
      await page.clock.install();
      await page.route("**/api/slots/later/restart", (route) =>
        route.fulfill({ status: 409, json: { error: { code: "x", message: "it burns" } } }),
      );
    });
    const { page } = opened;
    const said = page.getByRole("status", { name: "What was done" });
    const choose = async (item: string): Promise<void> => {
      await page.getByRole("button", { name: "More for later" }).click();
      await page.getByRole("menuitem", { name: item }).click();
    };
    const headers = { authorization: `Bearer ${token}` };
    assert.ok((await fetch(`${berth.url}/api/slots/later/load`, { method: "POST", headers })).ok);
    await choose("Restart");
    await said.getByText("it burns").waitFor();
    const copied = said.getByText(/^(?:Copied|Select it)/);
    for (let count = 0; count < 3; count += 1) await choose("Copy the name");
    await copied.waitFor();
    await page.clock.fastForward(7000);
    await copied.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Unload later" }).click();
    const unloads = said.getByText("later unloads.");
    await unloads.hover();
    await page.clock.fastForward(21_000);
    await said.getByRole("button", { name: "Undo" }).click();
    await said.getByText("later loads again.").waitFor();
    assert.equal(await unloads.count(), 0);
    // The new message stands below the pointer.
    await page.mouse.move(4, 4);
    await page.clock.fastForward(7000);
    await said.getByText("later loads again.").waitFor({ state: "detached" });
    const failure = page.locator(".toast.bad");
    await failure.getByRole("button", { name: "Close the message" }).click();
    await failure.waitFor({ state: "detached" });
  });

  it("stay the same ones when the stream of events begins after they were pressed", async () => {
    const [events, pressed] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()];
    await using opened = await openAs("/ui/slots/later", async (page) => {
      await page.route("**/api/events", async (route) => {
        await events.promise;
        await route.continue();
      });
      await page.route("**/api/slots/later/*load", async (route) => {
        await pressed.promise;
        await route.continue();
      });
    });
    const { page } = opened;
    // Drawn by the answer about the slot alone.
    const load = page.getByRole("button", { name: /^(?:Load|Unload) later$/ });
    await load.press("Enter");
    await page.locator("button[aria-busy=true]").waitFor();
    events.resolve(undefined);
    await page
      .getByRole("banner")
      .getByText(/Healthy|problem/)
      .waitFor();
    assert.equal(await load.getAttribute("aria-busy"), "true");
    assert.equal(await hasFocus(load), true);
    pressed.resolve(undefined);
    await page.locator("button[aria-busy=true]").waitFor({ state: "detached" });
  });

  it("say that a text is copied, valid or saved of that text alone", async () => {
    await using opened = await openAs("/ui/settings/tokens");
    const { page } = opened;
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const shown = page.getByRole("region", { name: "New token" });
    for (const label of ["one", "two"]) {
      await page.getByRole("button", { name: "New token" }).click();
      await page.getByRole("textbox", { name: "Label" }).fill(label);
      await page.getByRole("button", { name: "Create token" }).click();
      await shown.getByText(`The token of ${label}, shown this once`).waitFor();
      await shown.getByRole("button", { name: "Copy the token" }).click();
      await shown.getByRole("button", { name: "Copied" }).waitFor();
      const copied: string = await page.evaluate("navigator.clipboard.readText()");
      assert.equal(await shown.locator("code").textContent(), copied);
      await shown.getByRole("button", { name: "I have it" }).click();
    }
    // A client's lines name the key where this Berth asks for one, without the token itself.
    await page.getByRole("link", { name: "Clients" }).click();
    for (const [client, key] of [
      ["curl", 'Bearer $BERTH_TOKEN"'],
      ["Python", "BERTH_TOKEN"],
      ["Open WebUI", "OPENAI_API_KEY=svc_…"],
    ] as const)
      await page.getByRole("region", { name: client }).getByText(key).waitFor();
    await page.goto(`${berth.url}/ui/slots/later/manifest`);
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    await page.getByRole("button", { name: "Validate" }).click();
    await page.getByText("It is valid.").waitFor();
    await manifest.fill("nonsense = [");
    await page.getByText("It is valid.").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Validate" }).click();
    const problem = page.getByRole("alert").getByText(/^slots\/later\.toml:1: /);
    await problem.waitFor();
    // The problem stays while a person corrects the text.
    await manifest.fill("nonsense = 1");
    await problem.waitFor();
    // The message goes with the text that it is about, also while a person types.
    await page.getByRole("button", { name: "Undo" }).click();
    await problem.waitFor({ state: "detached" });
    const valid = await manifest.inputValue();
    await manifest.fill("nonsense = [");
    await page.getByRole("button", { name: "Validate" }).click();
    await problem.waitFor();
    await manifest.fill(`${valid}# corrected\n`);
    await problem.waitFor({ state: "detached" });
    await page.getByText("It is valid.").waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
  });

  it("remove the model that they name, whatever is in its name", async () => {
    await using opened = await openAs("/ui/nowhere");
    const { page } = opened;
    const ids = ["other#1", "a/../other", "50%?"];
    await page.route("**/api/models", (route) => {
      const data = ids.map((id) => ({ id, state: "available", slots: [], capabilities: [], message: null }));
      return route.fulfill({ json: { object: "list", data } });
    });
    await page.goto(`${berth.url}/ui/models`);
    for (const id of ids) {
      await page.getByRole("button", { name: `More for ${id}`, exact: true }).click();
      await page.getByRole("menuitem", { name: "Remove" }).click();
      const [request] = await Promise.all([
        page.waitForRequest((each) => each.method() === "DELETE"),
        page.getByRole("dialog").getByRole("button", { name: "Remove" }).click(),
      ]);
      assert.equal(request.url(), `${berth.url}/api/models/${encodeURIComponent(id)}?files=1`);
      // The server reads the same name from it.
      const answer: unknown = await (await request.response())?.json();
      assert.match(JSON.stringify(answer), new RegExp(RegExp.escape(`no model is called \\"${id}\\"`)));
    }
  });

  it("show what providers do now", async () => {
    await using opened = await openAs("/ui/nowhere");
    const { page } = opened;
    await using stream = await scriptedStream();
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    let inFlight: number | undefined;
    await page.route("**/api/upstreams", (route) => {
      const provider = { name: "far", spec: null, circuit: "closed", in_flight: inFlight, queued: 0, models: 0 };
      const data = inFlight === undefined ? [] : [{ ...provider, problem: null }];
      return route.fulfill({ json: { object: "list", data } });
    });
    await page.goto(`${berth.url}/ui/providers`);
    await until("it follows", () => stream.followers() > 0);
    stream.send("snapshot", { slots: [], groups: [], conditions: [] });
    // What a person has begun to write stays, although another person adds the first provider.
    const name = page.getByRole("textbox", { name: "Name" });
    await name.fill("near");
    for (const count of [1, 7, 3]) {
      inFlight = count;
      stream.send("upstream", { name: "far", in_flight: count });
      await page.getByText(`${count} in flight, 0 queued`).waitFor();
      assert.equal(await name.inputValue(), "near");
    }
  });
});
