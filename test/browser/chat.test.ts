import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { freePorts } from "../support/ports.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import type { RunningBerth } from "../support/berth.ts";
import { fromMenu, keptMessages } from "./chat-page.ts";

describe("the chat page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let chatPort: number;
  before(async () => {
    browser = await openBrowser();
    ({ first: chatPort } = await freePorts(1));
    berth = await berthWith(
      // The slow one speaks for minutes, unless somebody stops it.
      { coder: slotManifest("--tokens", "20"), slow: slotManifest("--tokens", "4000", "--token-ms", "50") },
      { SVC_CHAT_PORT: String(chatPort) },
    );
    await berth.state("coder", "ready", "idle");
    await berth.state("slow", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  for (const at of ["its own port", "/chat/"] as const) {
    it(`shows an answer, and keeps, exports and deletes the conversation, at ${at}`, async () => {
      const url = at === "/chat/" ? `${berth.url}/chat` : `http://127.0.0.1:${chatPort}/`;
      await using opened = await openPage(browser, url);
      const { page } = opened;
      await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
      await page.getByRole("textbox", { name: "Message" }).fill(`hello from ${at}`);
      await page.getByRole("button", { name: "Send" }).click();
      const messages = page.getByRole("log", { name: "Messages" });
      await messages.getByText(/^\d+ tokens?\b/).waitFor();
      const kept = page.getByRole("navigation", { name: "Conversations" });
      await kept.getByRole("button", { name: `hello from ${at}`, exact: true }).waitFor();
      await until(
        "the answer is kept",
        async () => (await keptMessages((path) => berth.get(path), `hello from ${at}`)).length === 2,
      );
      await page.reload();
      await kept.getByRole("button", { name: `hello from ${at}`, exact: true }).click();
      await messages.getByText(/^\d+ tokens?\b/).waitFor();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        fromMenu(page, `hello from ${at}`, "Export"),
      ]);
      assert.match(download.suggestedFilename(), /^hello from .*\.md$/);
      await page.getByRole("button", { name: "New chat" }).click();
      assert.equal(await messages.getByRole("article").count(), 0);
      await fromMenu(page, `hello from ${at}`, "Delete");
      await kept.getByRole("button", { name: `hello from ${at}`, exact: true }).waitFor({ state: "detached" });
    });
  }

  it("shows an answer in its own conversation alone, and does not bring back a conversation that was deleted meanwhile", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const kept = page.getByRole("navigation", { name: "Conversations" });
    const messages = page.getByRole("log", { name: "Messages" });
    const send = async (text: string): Promise<void> => {
      await page.getByRole("textbox", { name: "Message" }).fill(text);
      await page.keyboard.press("Enter");
    };
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await send("short and gone");
    await kept.getByRole("button", { name: "short and gone", exact: true }).waitFor();
    // The conversation is listed with its question alone; another message is sent only after the answer.
    await messages.getByText(/^\d+ tokens?\b/).waitFor();
    await page.getByRole("combobox", { name: "Model" }).selectOption("slow");
    await send("more of it");
    const answer = page.getByRole("article", { name: "slow" });
    await until("it has begun", async () => ((await answer.textContent()) ?? "").length > 20);
    await page.getByRole("button", { name: "New chat" }).click();
    assert.equal(await messages.getByRole("article").count(), 0);
    await fromMenu(page, "short and gone", "Delete");
    await kept.getByRole("button", { name: "short and gone", exact: true }).waitFor({ state: "detached" });
    // Its answer ends with it.
    await page.getByRole("button", { name: "Send" }).waitFor();
    await until("nobody asks the engine", async () => (await berth.slot("slow"))["in_flight"] === 0);
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await send("another one");
    await kept.getByRole("button", { name: "another one", exact: true }).waitFor();
    assert.equal(await kept.getByRole("button", { name: "short and gone", exact: true }).count(), 0);
  });

  it("keeps the search of its conversations as long as it leaves some out", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Someday"];
    let data = days.map((title, at) => ({
      id: `aaaaaaa${at}`,
      title,
      model: "coder",
      updated_at: "2026-01-01T00:00:00Z",
    }));
    await page.route("**/api/conversations", (route) => route.fulfill({ json: { object: "list", data } }));
    await page.goto(`${berth.url}/chat/`);
    const kept = page.getByRole("navigation", { name: "Conversations" });
    const search = kept.getByRole("searchbox", { name: "Search conversations" });
    await search.fill("sund");
    assert.equal(await kept.getByRole("listitem").count(), 1);
    // Another window deletes one.
    data = data.slice(0, 6);
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await kept.getByText("No title has “sund”.").waitFor();
    await search.fill("");
    await search.press("Tab");
    await search.waitFor({ state: "detached" });
    assert.equal(await kept.getByRole("listitem").count(), 6);
  });

  it("stops an answer, keeps what was said, and asks again", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("slow");
    await page.getByRole("textbox", { name: "Message" }).fill("a long story");
    await page.keyboard.press("Enter");
    const answer = page.getByRole("article", { name: "slow" });
    await until("it has begun", async () => ((await answer.textContent()) ?? "").length > 20);
    await page.getByRole("button", { name: "Stop" }).click();
    await answer.getByText("Stopped.").waitFor();
    // An end that a person wanted is no fault.
    assert.equal(await page.getByRole("alert").count(), 0);
    await until("nobody asks the engine", async () => (await berth.slot("slow"))["in_flight"] === 0);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    await answer.getByText("Stopped.").waitFor();
    assert.equal(await page.getByRole("article", { name: "slow" }).count(), 1);
  });

  it("says in a sentence that an engine has sent something that is no answer, and keeps what came before", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    for (const broken of ["{oops", "null", '{"choices":{}}']) {
      const body = `data: {"choices":[{"delta":{"content":"so far"}}]}\n\ndata: ${broken}\n\n`;
      await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body }));
      await page.getByRole("button", { name: "New chat" }).click();
      await page.getByRole("textbox", { name: "Message" }).fill(`answered by ${broken}`);
      await page.keyboard.press("Enter");
      const answer = page.getByRole("article", { name: "coder" });
      await answer
        .getByRole("alert")
        .getByText(/^The model has sent something that is no answer\. Retry asks again/)
        .waitFor();
      await answer.getByText("so far").waitFor();
      await page.unrouteAll();
    }
    await page.getByRole("button", { name: "Retry" }).click();
    // The answer before has counted its tokens too.
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    await page.getByRole("alert").waitFor({ state: "detached" });
  });

  it("shows the beginning of a message of megabytes, and all of it where a person wants that", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const body = 'data: {"choices":[{"delta":{"content":"much"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body }));
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const text = "lorem ipsum ".repeat(100_000).trim();
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.keyboard.press("Enter");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    const said = page.getByRole("article", { name: "You" }).getByText("lorem ipsum");
    assert.ok(((await said.textContent()) ?? "").length < 25_000);
    await page.getByRole("button", { name: "Show all 1,199,999 characters" }).click();
    await until("all of it is shown", async () => (await said.textContent()) === text);
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  it("keeps what is typed during an answer, and does not send it when that answer is stopped", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("slow");
    const box = page.getByRole("textbox", { name: "Message" });
    await box.fill("a long story");
    await page.keyboard.press("Enter");
    const answer = page.getByRole("article", { name: "slow" });
    await until("it has begun", async () => ((await answer.textContent()) ?? "").length > 20);
    await box.fill("a draft");
    await page.getByRole("button", { name: "Stop" }).click();
    await answer.getByText("Stopped.").waitFor();
    assert.equal(await box.inputValue(), "a draft");
    assert.equal(await page.getByRole("log", { name: "Messages" }).getByRole("article").count(), 2);
  });
});
