import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { fromMenu, keptMessages } from "./chat-page.ts";

const messagesOf = (page: Page) => page.getByRole("log", { name: "Messages" }).getByRole("article");

/** Sends a message, and waits for the whole of its answer. */
async function say(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.keyboard.press("Enter");
  await isAnswered(page);
}

async function isAnswered(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Retry" }).waitFor();
}

describe("a conversation of the chat page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest(), other: slotManifest() });
    for (const name of ["coder", "other"]) await berth.state(name, "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const heads = async (): Promise<readonly Record<string, unknown>[]> =>
    list(record(await berth.get("/api/conversations"))["data"]);
  const kept = (title: string) => keptMessages((path) => berth.get(path), title);
  /** Has the conversation with that title kept as one of long ago. */
  const makeOld = async (title: string): Promise<void> => {
    const head = (await heads()).find((each) => each["title"] === title);
    const path = `/api/conversations/${String(head?.["id"])}`;
    const body = JSON.stringify({ ...record(await berth.get(path)), updated_at: "2026-01-01T00:00:00Z" });
    const headers = { "content-type": "application/json" };
    assert.equal((await fetch(berth.url + path, { method: "PUT", headers, body })).status, 200);
  };
  const isFocused = (page: Page, name: string): Promise<unknown> =>
    until(`${name} has the focus`, async () => (await page.evaluate("document.activeElement?.ariaLabel")) === name);

  it("keeps the earlier answer and the earlier question as versions, each with what follows it", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await say(page, "first question");
    await page.getByRole("button", { name: "Ask another model" }).click();
    await page.getByRole("menuitem", { name: "other" }).click();
    await page.getByRole("article", { name: "other" }).getByRole("button", { name: "Retry" }).waitFor();
    assert.equal(await messagesOf(page).count(), 2);
    const versions = page.getByRole("group", { name: "Versions" });
    await versions.getByText("2/2").waitFor();
    await versions.getByRole("button", { name: "Earlier version" }).click();
    await page.getByRole("article", { name: "coder" }).waitFor();
    await versions.getByText("1/2").waitFor();
    await say(page, "second question");
    // Its answer goes on from the first model's.
    const sent = page.waitForRequest("**/v1/chat/completions");
    await page.getByRole("button", { name: "Edit the question" }).first().click();
    const box = page.getByRole("textbox", { name: "Your question" });
    assert.equal(await box.inputValue(), "first question");
    await box.fill("first question, in other words");
    await page.getByRole("button", { name: "Ask again" }).click();
    const body = record(JSON.parse((await sent).postData() ?? ""));
    assert.deepEqual(
      list(body["messages"]).map(({ content }) => content),
      ["first question, in other words"],
    );
    await until("its answer is whole", async () => (await messagesOf(page).count()) === 2);
    await isAnswered(page);
    await versions.getByText("2/2").waitFor();
    await until("it is kept", async () => (await kept("first question")).length === 7);
    await page.reload();
    await messagesOf(page).getByText("first question, in other words").waitFor();
    await versions.getByRole("button", { name: "Earlier version" }).click();
    await messagesOf(page).getByText("second question").waitFor();
    assert.equal(await messagesOf(page).count(), 4);
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  it("is pinned, renamed and deleted from the list while another one is open, and comes back by Undo", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await say(page, "to be pinned");
    await page.getByRole("button", { name: "New chat" }).click();
    // With its answer: as one of the question alone it would be kept once more.
    await until("it is kept", async () => (await kept("to be pinned")).length === 2);
    await makeOld("to be pinned");
    // Another visit: the page has the head of it alone.
    await page.goto(`${berth.url}/chat/?model=coder`);
    await fromMenu(page, "to be pinned", "Pin");
    const pinned = page.getByRole("region", { name: "Pinned" });
    await pinned.getByRole("button", { name: "to be pinned", exact: true }).waitFor();
    await until("that is kept", async () => (await heads()).some(({ pinned: isPinned }) => isPinned === true));
    await isFocused(page, "More for to be pinned");
    await fromMenu(page, "to be pinned", "Rename");
    const title = page.getByRole("textbox", { name: "Title" });
    await title.fill("never so");
    await page.keyboard.press("Escape");
    await isFocused(page, "More for to be pinned");
    await fromMenu(page, "to be pinned", "Rename");
    await title.fill("pinned and renamed");
    await page.keyboard.press("Enter");
    await pinned.getByRole("button", { name: "pinned and renamed", exact: true }).waitFor();
    await isFocused(page, "More for pinned and renamed");
    await until("that is kept", async () => (await heads()).some(({ title }) => title === "pinned and renamed"));
    // Nothing was taken for another device's text.
    assert.equal((await heads()).length, 2);
    assert.equal(await page.getByRole("alert").count(), 0);
    await fromMenu(page, "pinned and renamed", "Delete");
    await pinned.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    await pinned.getByRole("button", { name: "pinned and renamed", exact: true }).click();
    await messagesOf(page).getByText("to be pinned").waitFor();
    await until("it is kept again", async () => (await heads()).length === 2);
    const times: string[] = [];
    const held = Promise.withResolvers<undefined>();
    await page.route("**/api/conversations/*?*", async (route) => {
      const { updated_at: time }: { readonly updated_at: string } = route.request().postDataJSON();
      times.push(time);
      await held.promise;
      await route.continue();
    });
    await fromMenu(page, "pinned and renamed", "Unpin");
    await until("that is sent", () => times.length === 1);
    await fromMenu(page, "pinned and renamed", "Rename");
    await title.fill("renamed again");
    await page.keyboard.press("Enter");
    held.resolve(undefined);
    await pinned.waitFor({ state: "detached" });
    // A new title is no new message: the conversation stays under the day of its last one.
    await page.getByRole("region", { name: "Older" }).getByText("renamed again").waitFor();
    await until("both are sent", () => times.length === 2);
    assert.notEqual(times[0], times[1], "a text of each change");
  });
});
