import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { fromMenu, keptConversation, keptMessages, knowsAllKept, withParameters } from "./chat-page.ts";

describe("the chat page loses nothing", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest(), mute: slotManifest("--hang") });
    await berth.state("coder", "ready", "idle");
    await berth.state("mute", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const send = async (page: Page, model: string, text: string): Promise<void> => {
    await page.getByRole("combobox", { name: "Model" }).selectOption(model);
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.keyboard.press("Enter");
  };
  const messagesOf = (page: Page) => page.getByRole("log", { name: "Messages" }).getByRole("article");
  const inList = (page: Page, title: string) =>
    page.getByRole("navigation", { name: "Conversations" }).getByRole("button", { name: title, exact: true });
  const get = (path: string) => berth.get(path);
  /** The texts of the messages of the conversation with that title, as the server has kept them. */
  const keptTexts = async (title: string): Promise<readonly unknown[]> =>
    (await keptMessages(get, title)).map(({ content }) => content);

  it("of a question whose answer has not begun when the page is loaded anew", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => dialogs.push(dialog.type()));
    await send(page, "mute", "a question of mine");
    const progress = page.getByRole("status", { name: "Progress" });
    await progress.getByText("waiting for mute …").waitFor();
    await until("the tab is called by it", async () => (await page.title()) === "a question of mine · Berth chat");
    await until("it is kept", async () => (await keptTexts("a question of mine")).length === 1);
    await page.reload();
    // The browser has asked whether the page may go.
    assert.deepEqual(dialogs, ["beforeunload"]);
    await inList(page, "a question of mine").click();
    await messagesOf(page).getByText("a question of mine").waitFor();
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    assert.equal(await messagesOf(page).count(), 2);
  });

  it("of what stands on the page when it is loaded anew: the conversation, the draft, model and parameters", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => dialogs.push(dialog.type()));
    const box = page.getByRole("textbox", { name: "Message" });
    const model = page.getByRole("combobox", { name: "Model" });
    const system = page.getByRole("textbox", { name: "System prompt" });
    await withParameters(page, () => system.fill("Be brief."));
    await model.selectOption("mute");
    await box.fill("a draft of mine");
    await page.reload();
    await until("the draft is back", async () => (await box.inputValue()) === "a draft of mine");
    await until("the model is back", async () => (await model.inputValue()) === "mute");
    await withParameters(page, async () => assert.equal(await system.inputValue(), "Be brief."));
    await send(page, "coder", "before the reload");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await until("it is kept", async () => (await keptTexts("before the reload")).length === 2);
    await knowsAllKept(page);
    await model.selectOption("mute");
    await box.fill("half a quest");
    await page.reload();
    await messagesOf(page).getByText("before the reload").waitFor();
    await until("the model is back", async () => (await model.inputValue()) === "mute");
    assert.equal(await box.inputValue(), "half a quest");
    // Nothing was lost, so nothing was asked.
    assert.deepEqual(dialogs, []);
    // More than a browser keeps for a tab.
    await box.evaluate((area: { value: string; dispatchEvent(event: Event): boolean }) => {
      area.value = "x".repeat(11_000_000);
      area.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.reload();
    assert.deepEqual(dialogs, ["beforeunload"]);
    await page.getByRole("button", { name: "New chat" }).click();
    assert.equal(await box.inputValue(), "");
  });

  it("of a text for which a proxy's login page answered", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const login = { contentType: "text/html", body: "<h1>Sign in</h1>" };
    await page.route("**/api/conversations/*", (route) =>
      route.request().method() === "PUT" ? route.fulfill(login) : route.continue(),
    );
    await send(page, "coder", "behind a login");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    assert.deepEqual(await keptTexts("behind a login"), []);
    await page.unroute("**/api/conversations/*");
    await until("it is kept by Berth", async () => (await keptTexts("behind a login")).length === 2);
  });

  it("of a link to a model that is not offered yet, also when the page is loaded anew", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/?model=late`);
    const { page } = opened;
    const model = page.getByRole("combobox", { name: "Model" });
    for (const load of [() => Promise.resolve(null), () => page.reload()]) {
      await load();
      await page.getByText("Ask late").waitFor();
      await model.locator("option", { hasText: "coder" }).waitFor({ state: "attached" });
      assert.equal(await model.inputValue(), "late");
      assert.equal(new URL(page.url()).search, "");
    }
  });

  it("of what a person chooses while the conversation comes back", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const model = page.getByRole("combobox", { name: "Model" });
    const system = page.getByRole("textbox", { name: "System prompt" });
    const temperature = page.getByRole("spinbutton", { name: "Temperature" });
    await withParameters(page, () => temperature.fill("0.3"));
    await send(page, "coder", "slow to come back");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await until("it is kept", async () => (await keptTexts("slow to come back")).length === 2);
    const held = Promise.withResolvers<void>();
    await page.route("**/api/conversations/*", async (route) => {
      await held.promise;
      await route.continue();
    });
    const asked = page.waitForRequest("**/api/conversations/*");
    await page.reload();
    await asked;
    await model.selectOption("mute");
    await withParameters(page, () => system.fill("Be kind."));
    held.resolve();
    await messagesOf(page).getByText("slow to come back").waitFor();
    assert.equal(await model.inputValue(), "mute");
    await withParameters(page, async () => {
      assert.equal(await system.inputValue(), "Be kind.");
      assert.equal(await temperature.inputValue(), "0.3");
      await temperature.fill("0.5");
    });
    await until("the parameters are kept", async () => {
      const { system: prompt, temperature: heat } = record(
        (await keptConversation(get, "slow to come back"))["parameters"],
      );
      return prompt === "Be kind." && heat === "0.5";
    });
  });

  it("of a good answer when another one is requested: it stays until the other has text, and where that fails", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await send(page, "coder", "ask twice");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await until("it is kept", async () => (await keptTexts("ask twice")).length === 2);
    const held = Promise.withResolvers<void>();
    await page.route("**/v1/chat/completions", async (route) => {
      await held.promise;
      await route.fulfill({ status: 503, json: { error: { code: "slot.failed", message: "The slot has failed" } } });
    });
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByRole("status", { name: "Progress" }).getByText("waiting for coder …").waitFor();
    const answer = page.getByRole("article", { name: "coder" }).getByText(/token0 token1/);
    assert.equal(await answer.count(), 1);
    held.resolve();
    await page
      .getByRole("alert")
      .getByText(/^There is no new answer, and the earlier one stays: The slot has failed/)
      .waitFor();
    assert.equal(await answer.count(), 1);
    assert.equal((await keptTexts("ask twice")).length, 2);
    await page.unrouteAll();
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    assert.equal(await messagesOf(page).count(), 2);
  });

  it("of two devices that continue the same conversation", async () => {
    await using one = await openPage(browser, `${berth.url}/chat/`);
    await send(one.page, "coder", "shared talk");
    await one.page.getByText(/^\d+ tokens?\b/).waitFor();
    await until("it is kept", async () => (await keptTexts("shared talk")).length === 2);
    await using other = await openPage(browser, `${berth.url}/chat/`);
    await inList(other.page, "shared talk").click();
    await until("it is open", async () => (await messagesOf(other.page).count()) === 2);
    await send(one.page, "coder", "from the first device");
    await until("it is kept", async () => (await keptTexts("shared talk")).length === 4);
    await send(other.page, "coder", "from the second device");
    await other.page
      .getByRole("alert")
      .getByText(/What you have written here is kept as “shared talk \(copy\)”/)
      .waitFor();
    await until("both are kept", async () => (await keptTexts("shared talk (copy)")).length === 4);
    await other.page.getByRole("button", { name: "New chat" }).click();
    // The alert stands in the conversation that it is about, and in no other.
    await other.page.getByRole("alert").waitFor({ state: "detached" });
    await inList(other.page, "shared talk (copy)").click();
    await other.page.getByRole("alert").getByRole("button", { name: "Close" }).click();
    await other.page.getByRole("alert").waitFor({ state: "detached" });
    assert.equal((await keptTexts("shared talk"))[2], "from the first device");
    assert.equal((await keptTexts("shared talk (copy)"))[2], "from the second device");
    await inList(other.page, "shared talk").click();
    await messagesOf(other.page).getByText("from the first device").waitFor();
  });

  it("of what another device has deleted, which does not come back by itself", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    for (const title of ["to be deleted", "to be deleted too"]) {
      await page.getByRole("button", { name: "New chat" }).click();
      await send(page, "coder", title);
      await page.getByText(/^\d+ tokens?\b/).waitFor();
      await until("it is kept", async () => (await keptTexts(title)).length === 2);
      const [head] = list(record(await berth.get("/api/conversations"))["data"]).filter(
        (each) => each["title"] === title,
      );
      await fetch(`${berth.url}/api/conversations/${String(head?.["id"])}`, { method: "DELETE" });
    }
    await send(page, "coder", "another question");
    const alert = page.getByRole("alert");
    await alert.getByText(/^“to be deleted too” was deleted elsewhere meanwhile\./).waitFor();
    await until("it is answered", async () => (await page.getByText(/^\d+ tokens?\b/).count()) === 2);
    assert.deepEqual(await keptTexts("to be deleted too"), []);
    await page.getByRole("button", { name: "New chat" }).click();
    await alert.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "to be deleted too (not kept yet)" }).click();
    await page.getByRole("button", { name: "Keep it after all" }).click();
    await alert.waitFor({ state: "detached" });
    assert.equal((await keptTexts("to be deleted too")).length, 4);
    // The other one stands in the list only until somebody wants to read it.
    await inList(page, "to be deleted").click();
    await alert.getByText(/^“to be deleted” is kept no longer: it was deleted on another device/).waitFor();
    assert.equal(await inList(page, "to be deleted").count(), 0);
  });

  it("and shows the conversation of the last click, in whatever order they arrive", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    for (const title of ["slow to come", "quick to come"]) {
      await page.getByRole("button", { name: "New chat" }).click();
      await send(page, "coder", title);
      await page.getByText(/^\d+ tokens?\b/).waitFor();
      await until("it is kept", async () => (await keptTexts(title)).length === 2);
    }
    await page.getByRole("button", { name: "New chat" }).click();
    const held = Promise.withResolvers<void>();
    let count = 0;
    await page.route("**/api/conversations/*", async (route) => {
      count += 1;
      if (count === 1) await held.promise;
      await route.continue();
    });
    await inList(page, "slow to come").click();
    await until("it is requested", async () => count === 1);
    await inList(page, "quick to come").click();
    await messagesOf(page).getByText("quick to come").waitFor();
    const late = page.waitForResponse("**/api/conversations/*");
    held.resolve();
    await (await late).finished();
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert.equal(await messagesOf(page).getByText("slow to come").count(), 0);
    assert.equal(await messagesOf(page).getByText("quick to come").count(), 1);
  });

  it("of what the server refuses to keep: the page says so, and tries again", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    let isFull = true;
    await page.route("**/api/conversations/*", async (route) =>
      isFull
        ? await route.fulfill({ status: 507, json: { error: { code: "system.full", message: "the disk is full" } } })
        : await route.continue(),
    );
    await send(page, "coder", "on a full disk");
    await page
      .getByRole("alert")
      .getByText(/^“on a full disk” is not kept: the disk is full\..* This page tries again by itself/)
      .waitFor();
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    isFull = false;
    await page.getByRole("alert").waitFor({ state: "detached" });
    await until("it is kept", async () => (await keptTexts("on a full disk")).length === 2);
  });

  it("of a text that the server does not answer: the page says so after a while, and sends it again", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.addInitScript(
      "AbortSignal.timeout = ((timeout) => (ms) => timeout.call(AbortSignal, window.isHung ? 500 : ms))(AbortSignal.timeout)",
    );
    await page.goto(`${berth.url}/chat/`);
    let isHung = true;
    await page.route("**/api/conversations/*", async (route) => (isHung ? undefined : await route.continue()));
    await page.evaluate("window.isHung = true");
    await send(page, "coder", "into the void");
    await page.getByRole("alert").filter({ hasText: "Berth does not answer." }).waitFor();
    await page.evaluate("window.isHung = false");
    isHung = false;
    await until("it is kept", async () => (await keptTexts("into the void")).length === 2);
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await page.getByRole("alert").waitFor({ state: "detached" });
  });

  it("and says what was not done while the server was out of reach, when that answers again too", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await send(page, "coder", "to stay");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await until("it is kept", async () => (await keptTexts("to stay")).length === 2);
    const alert = page.getByRole("alert");
    await page.route(/\/(?:v1|api)\//, (route) => route.abort());
    await page.getByRole("button", { name: "Retry" }).click();
    await alert.getByText(/This page asks again every few seconds/).waitFor();
    await page.unrouteAll();
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await alert.waitFor({ state: "detached" });
    await page.route("**/api/conversations/*", (route) => route.abort());
    await fromMenu(page, "to stay", "Delete");
    const notDone = alert.getByText("Berth did not answer, and what you did last was not done. Do it again.");
    await notDone.waitFor();
    await page.unrouteAll();
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await alert.getByText(/This page asks again every few seconds/).waitFor({ state: "detached" });
    assert.equal(await notDone.count(), 1);
    await fromMenu(page, "to stay", "Delete");
    await inList(page, "to stay").waitFor({ state: "detached" });
    assert.equal(await alert.count(), 0);
  });

  it("and asks for nothing while nothing happens, and for the models once a person looks at them", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.clock.install();
    await page.route("**/v1/models?*", (route) => route.fulfill({ json: { object: "list", data: [] } }));
    await page.goto(`${berth.url}/chat/`);
    await page.getByText("No model can chat here yet").waitFor();
    // It asks again while it has no model.
    await page.unroute("**/v1/models?*");
    await page.clock.runFor(6000);
    await page.getByText("Ask coder").waitFor();
    await page.waitForLoadState("networkidle");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.clock.runFor(60_000);
    assert.deepEqual(asked, []);
    const read = page.waitForRequest("**/v1/models?*");
    await page.getByRole("combobox", { name: "Model" }).focus();
    await read;
  });

  it("and says how much it sends, until the server has taken it", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const held = Promise.withResolvers<void>();
    await page.route("**/v1/chat/completions", async (route) => {
      await held.promise;
      await route.continue();
    });
    await send(page, "coder", "x".repeat(400 * 1024));
    const progress = page.getByRole("status", { name: "Progress" });
    await progress.getByText("sending 400 KiB to coder …").waitFor();
    held.resolve();
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    assert.equal(await progress.textContent(), "");
  });
});
