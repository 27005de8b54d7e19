import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { freePorts } from "../support/ports.ts";
import { until } from "../support/until.ts";
import { berthWith, makeToken, openBrowser, openPage, slotManifest } from "./browser.ts";
import { keptMessages, knowsAllKept } from "./chat-page.ts";

describe("the chat page, with a token", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let chatUrl: string;
  let token: string;
  const make = async (label: string): Promise<string> => {
    return await makeToken(berth, label);
  };
  before(async () => {
    browser = await openBrowser();
    const { first } = await freePorts(1);
    chatUrl = `http://127.0.0.1:${first}/`;
    berth = await berthWith({ coder: slotManifest() }, { SVC_AUTH_ENABLED: "1", SVC_CHAT_PORT: String(first) });
    token = await make("ada");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });
  const holding = (each: string) => ({ authorization: `Bearer ${each}` });
  const revoke = async (each: string): Promise<void> => {
    const id = /^svc_(.*)\./.exec(each)?.[1] ?? "";
    const headers = holding(token);
    const revoked = await fetch(`${berth.url}/api/auth/tokens/${id}`, { method: "DELETE", headers });
    assert.equal(revoked.status, 204);
  };
  const give = async (page: Page, text: string): Promise<void> => {
    await page.getByLabel("Token", { exact: true }).fill(text);
    await page.getByRole("button", { name: "Use token" }).click();
  };
  /** Sends a message, and waits until its answer is kept too, for the person of these headers. */
  const say = async (page: Page, headers: Readonly<Record<string, string>>, text: string): Promise<void> => {
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.keyboard.press("Enter");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await page.getByRole("button", { name: text, exact: true }).waitFor();
    const get = async (path: string): Promise<unknown> => (await fetch(berth.url + path, { headers })).json();
    await until("the answer is kept", async () => (await keptMessages(get, text)).length === 2);
    await knowsAllKept(page);
  };

  it("asks for another token over the page, and keeps the draft and the messages", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const mine = await make("soon revoked");
    await give(page, mine);
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const box = page.getByRole("textbox", { name: "Message" });
    await say(page, holding(mine), "before the token ends");
    await box.fill("a draft of mine");
    await revoke(mine);
    await page.getByRole("button", { name: "before the token ends", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("The server does not accept that token.").waitFor();
    // Escape leads nowhere: nothing could be asked of the server.
    for (let time = 0; time < 4; time += 1) await page.keyboard.press("Escape");
    await dialog.getByRole("textbox").waitFor();
    await give(page, token);
    await dialog.waitFor({ state: "detached" });
    assert.equal(await box.inputValue(), "a draft of mine");
    assert.equal(await page.getByRole("log", { name: "Messages" }).getByRole("article").count(), 2);
  });

  it("does not ask again because an earlier token is refused late", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const mine = await make("refused late");
    await give(page, mine);
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    for (const title of ["one", "other"]) {
      await page.getByRole("button", { name: "New chat" }).click();
      await say(page, holding(mine), title);
    }
    const release = Promise.withResolvers<void>();
    let held = 0;
    await page.route("**/api/conversations/*", async (route) => {
      held += 1;
      if (held === 1) await release.promise;
      await route.continue();
    });
    await page.getByRole("button", { name: "one", exact: true }).click();
    await until("a request with the first token is held", async () => held === 1);
    await revoke(mine);
    // Another request is refused, and a person gives another token.
    await page.getByRole("button", { name: "other", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("The server does not accept that token.").waitFor();
    await give(page, token);
    await dialog.waitFor({ state: "detached" });
    const refused = page.waitForResponse((response) => response.status() === 401);
    release.resolve();
    await (await refused).finished();
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert.equal(await dialog.count(), 0);
  });

  it("leads to the dashboard from its own port, and forgets the token there", async () => {
    await using opened = await openPage(browser, chatUrl);
    const { page } = opened;
    await give(page, token);
    await page.getByRole("link", { name: "Dashboard" }).click();
    await page.getByRole("listitem", { name: /^coder/ }).waitFor();
    assert.match(page.url(), /\/ui$/);
    await page.goto(chatUrl);
    const box = page.getByRole("textbox", { name: "Message" });
    await box.fill("of nobody else's concern");
    await page.getByRole("button", { name: "Forget the token" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Use token" }).waitFor();
    assert.equal(await box.inputValue(), "");
    assert.equal(await page.getByText("The server does not accept that token.").count(), 0);
  });

  it("or with a user of the proxy, keeps conversations for each user", async () => {
    const userOf = (user: string) => ({ "x-forwarded-email": user });
    const openAs = (user: string) => openPage(browser, `${berth.url}/chat/`, { extraHTTPHeaders: userOf(user) });
    await using ann = await openAs("ann@example.com");
    await ann.page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const title = { name: "a secret of Ann", exact: true } as const;
    // The page is loaded anew below, and shows then what is kept.
    await say(ann.page, userOf("ann@example.com"), title.name);
    await using bob = await openAs("bob@example.com");
    await bob.page.getByText("No conversation yet.").waitFor();
    assert.equal(await bob.page.getByRole("button", title).count(), 0);
    await ann.page.reload();
    await ann.page.getByRole("button", title).click();
    await ann.page.getByText(/^\d+ tokens?\b/).waitFor();
  });
});
