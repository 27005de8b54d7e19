import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { watchTasks, type PageTasks } from "./page-tasks.ts";
import { scriptedStream, type ScriptedStream } from "./scripted-stream.ts";

const pairs = 200;
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
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  /** Has the server keep a conversation of that title. */
  async function keep(title: string): Promise<void> {
    const id = createHash("sha256").update(title).digest("hex").slice(0, 24);
    const messages = Array.from({ length: pairs }, () => [
      { role: "user", content: "go on" },
      { role: "assistant", content: answer, model: "coder" },
    ]).flat();
    const parameters = { system: "", temperature: "", maxTokens: "" };
    const updated_at = new Date().toISOString();
    const put = await fetch(`${berth.url}/api/conversations/${id}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id, title, model: "coder", parameters, messages, updated_at }),
    });
    assert.equal(put.status, 200, await put.text());
  }

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

  /** What the page does while 50 pieces come below the conversation of that title, or below none. */
  async function drawing(page: Page, title?: string): Promise<PageTasks> {
    await using stream = await scriptedStream();
    const before = title === undefined ? 0 : 2 * pairs;
    await page.goto(`${berth.url}/chat/?${title ?? "new"}`);
    if (title !== undefined) await page.getByRole("button", { name: title, exact: true }).click();
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

  interface Round {
    readonly short: PageTasks;
    readonly long: PageTasks;
  }

  /** Below a conversation of its own: the question of an earlier round is kept in the earlier one. */
  async function round(nth: number): Promise<Round> {
    await keep(`long-${nth}`);
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    return { short: await drawing(page), long: await drawing(page, `long-${nth}`) };
  }

  // Drawing all earlier answers takes far longer for each piece, on a slow machine too.
  const isFlat = ({ short, long }: Round): boolean => long.totalMs < 15 * short.totalMs;

  it("draws each piece of an answer without the earlier answers", async (t) => {
    // The machine may be busy with something else once, hardly three times.
    const found: Round[] = [];
    while (found.length < 3 && !found.some(isFlat)) found.push(await round(found.length));
    const told = ({ totalMs, longestMs, over }: PageTasks): string =>
      `${totalMs.toFixed(0)} ms of the processor, at most ${longestMs.toFixed(1)} ms in one piece, ${over} over 50 ms`;
    const text = found.map(({ short, long }) => `${told(long)}; below none: ${told(short)}`).join("; again: ");
    t.diagnostic(`50 pieces below ${2 * pairs} messages: ${text}`);
    assert.ok(found.some(isFlat), text);
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
