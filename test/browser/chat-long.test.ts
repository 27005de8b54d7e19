import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { watchTasks, type PageTasks } from "./page-tasks.ts";
import { scriptedStream, type ScriptedStream } from "./scripted-stream.ts";

const pairs = 200;
const id = "0123456789abcdef01234567";
/** Some KiB of all that Markdown has. */
const answer =
  `${"Some **bold** words with `code` that go on for a while, as answers do. ".repeat(8)}\n\n- one\n- two\n\n`.repeat(
    6,
  );

describe("a long conversation of the chat page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest() });
    await berth.state("coder", "ready", "idle");
    const messages = Array.from({ length: pairs }, () => [
      { role: "user", content: "go on" },
      { role: "assistant", content: answer, model: "coder" },
    ]).flat();
    const parameters = { system: "", temperature: "", maxTokens: "" };
    const updated_at = new Date().toISOString();
    const put = await fetch(`${berth.url}/api/conversations/${id}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id, title: "long", model: "coder", parameters, messages, updated_at }),
    });
    assert.equal(put.status, 200, await put.text());
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const piece = (content: string): object => ({ choices: [{ index: 0, delta: { content } }] });

  /** Sends a message whose answer the stream gives. */
  async function ask(page: Page, url: string): Promise<void> {
    await page.route("**/v1/chat/completions", (route) => route.continue({ url }));
    await page.getByRole("textbox", { name: "Message" }).fill("and then?");
    await page.keyboard.press("Enter");
  }

  /** Sends 50 pieces, each once the page shows the one before. */
  async function goOn(page: Page, stream: ScriptedStream): Promise<void> {
    // Looked at cheaply: to look for a text among all messages would itself be work of the page.
    const last = "document.querySelector('.messages').lastElementChild.textContent";
    for (let index = 0; index < 50; index += 1) {
      stream.send("message", piece(` piece${index}.`));
      await until("it is drawn", async () => await page.evaluate<boolean>(`${last}.includes("piece${index}.")`));
    }
  }

  /** What the page does while 50 pieces come below what it shows already. */
  async function drawing(page: Page, url: string, before: number): Promise<PageTasks> {
    await using stream = await scriptedStream();
    await page.goto(url);
    if (before > 0) await page.getByRole("button", { name: "long", exact: true }).click();
    else await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const articles = page.getByRole("article");
    await until("it is shown", async () => (await articles.count()) === before);
    await ask(page, stream.url);
    await until("it is asked", () => stream.followers() > 0);
    stream.send("message", piece("first"));
    await articles
      .nth(before + 1)
      .getByText("first")
      .waitFor();
    const tasks = await watchTasks(browser, page);
    await goOn(page, stream);
    return await tasks.end();
  }

  it("draws each piece of an answer without the earlier answers", async (t) => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const short = await drawing(page, `${berth.url}/chat/?new`, 0);
    const long = await drawing(page, `${berth.url}/chat/?long`, 2 * pairs);
    const told = (tasks: typeof long): string =>
      `${tasks.totalMs.toFixed(0)} ms of the processor, at most ${tasks.longestMs.toFixed(1)} ms in one piece`;
    t.diagnostic(`50 pieces below ${2 * pairs} messages: ${told(long)}; below none: ${told(short)}`);
    // Drawing all earlier answers takes longer for each piece; what a busy machine adds to some is no fault of the page.
    assert.ok(long.over <= 25, `${long.over} tasks take over 50 ms: ${told(long)}`);
    assert.ok(long.totalMs < 15 * short.totalMs, `${told(long)}; below no message ${told(short)}`);
  });

  it("shows code with a word without end, and goes on", async (t) => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await ask(page, stream.url);
    await until("it is asked", () => stream.followers() > 0);
    const tasks = await watchTasks(browser, page);
    stream.send("message", piece(`\`\`\`java\nint a = 1;\n${"a".repeat(40_000)}\n\`\`\`\n\nafter it`));
    await goOn(page, stream);
    const { longestMs } = await tasks.end();
    t.diagnostic(`a word of 40 000 letters: at most ${longestMs.toFixed(0)} ms of the processor in one piece`);
    assert.ok(longestMs < 1000, `${longestMs} ms`);
  });

  it("keeps what came of an answer that is cut off while the page is hidden", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.goto(`${berth.url}/chat/`);
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await ask(page, stream.url);
    await until("it is asked", () => stream.followers() > 0);
    stream.send("message", piece("seen"));
    const shown = page.getByRole("article", { name: "coder" });
    await shown.getByText("seen").waitFor();
    // A hidden page draws no frames.
    await page.evaluate("window.requestAnimationFrame = () => 1");
    stream.send("message", piece(" and unseen"));
    stream.send("message", { error: { message: "the engine has ended" } });
    await shown
      .getByRole("alert")
      .getByText(/^the engine has ended/)
      .waitFor();
    await shown.getByText("seen and unseen", { exact: true }).waitFor();
  });
});
