import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { withParameters } from "./chat-page.ts";

/** A stream of these pieces, as an engine sends it. */
function streamOf(...pieces: readonly object[]): string {
  const events = pieces.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
  return `${events.join("")}data: [DONE]\n\n`;
}

describe("an answer of the chat page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    // It never listens.
    const command = JSON.stringify([process.execPath, "-e", "setInterval(() => 0, 1000)"]);
    const cold = `engine = "custom"\nload = "onDemand"\ncommand = ${command}\n`;
    berth = await berthWith({ coder: slotManifest(), cold });
    await berth.state("coder", "ready", "idle");
    await berth.state("cold", "offline");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const ask = async (page: Page, model: string, text: string): Promise<void> => {
    await page.getByRole("combobox", { name: "Model" }).selectOption(model);
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.keyboard.press("Enter");
  };
  const isLeft = async (): Promise<void> => {
    await until("nobody waits for it", async () => (await berth.slot("cold"))["held"] === 0);
  };

  it("is waited for in its place, where a person cancels it, or asks another model", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const messages = page.getByRole("log", { name: "Messages" });
    await ask(page, "cold", "are you there?");
    await messages.getByText(/^waiting for cold/).waitFor();
    await messages.getByText(/^cold is (?:starting|loading|about to be loaded) · first in line · \d+ s$/).waitFor();
    await messages.getByRole("button", { name: "Cancel" }).click();
    await messages.getByText("Stopped.").waitFor();
    await isLeft();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.getByRole("button", { name: "Retry" }).click();
    // An answer without text makes way for the card of the wait.
    await messages.getByText("Stopped.").waitFor({ state: "detached" });
    await messages.getByRole("button", { name: "Use another model" }).click();
    await page.getByRole("menuitem", { name: "coder" }).click();
    await page.getByRole("article", { name: "coder" }).getByRole("button", { name: "Retry" }).waitFor();
    assert.equal(await messages.getByRole("article").count(), 2);
    assert.equal(await page.getByRole("combobox", { name: "Model" }).inputValue(), "coder");
    await isLeft();
  });

  it("that fails says why in the server's words, and leads to the log of its slot", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const died = { code: "dispatch.upstream_failed", message: "the engine has died" };
    for (const [answer, says] of [
      [
        { status: 502, json: { error: { code: "dispatch.upstream_failed", message: "The engine failed: no memory" } } },
        /^The engine failed: no memory/,
      ],
      // As an engine words it itself.
      [{ status: 500, json: { error: { code: 500, message: "the prompt is too long" } } }, /^the prompt is too long/],
      [{ status: 500, json: { error: { code: null, message: "the model has crashed" } } }, /^the model has crashed/],
      [
        { contentType: "text/event-stream", body: `data: ${JSON.stringify({ error: died })}\n\n` },
        /^the engine has died\. The log of the slot says more\.$/,
      ],
    ] as const) {
      await page.route("**/v1/chat/completions", (route) => route.fulfill(answer));
      await page.getByRole("button", { name: "New chat" }).click();
      await ask(page, "coder", `to fail with ${says.source}`);
      const card = page.getByRole("article", { name: "coder" }).getByRole("alert");
      await card.getByText(says).waitFor();
      assert.doesNotMatch((await card.textContent()) ?? "", /Reload the page|berth doctor/);
      const link = card.getByRole("link", { name: "Log of coder" });
      assert.match((await link.getAttribute("href")) ?? "", /\/ui\/slots\/coder\/log$/);
      await page.unrouteAll();
    }
    await page.getByRole("alert").getByRole("button", { name: "Retry" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.getByText(/^\d+ tokens?\b/).waitFor();
  });

  it("that no repetition brings leads to the slot's page, or has the slot loaded", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const card = page.getByRole("article", { name: "coder" }).getByRole("alert");
    const refuse = async (status: number, code: string, message: string): Promise<void> => {
      const json = { error: { code, message, details: { slot: "ghost" } } };
      await page.route("**/v1/chat/completions", (route) => route.fulfill({ status, json }));
      await page.getByRole("button", { name: "New chat" }).click();
      await ask(page, "coder", `to refuse with ${code}`);
      await card.waitFor();
      await page.unrouteAll();
    };
    await refuse(503, "slot.failed", "slot ghost has failed: its model is not known");
    await card.getByText("slot ghost has failed: its model is not known. The slot's page says more.").waitFor();
    const link = card.getByRole("link", { name: "Open ghost" });
    assert.match((await link.getAttribute("href")) ?? "", /\/ui\/slots\/ghost$/);
    await refuse(400, "dispatch.rejected", "temperature must be 0 to 2.");
    await card.getByText("temperature must be 0 to 2.", { exact: true }).waitFor();
    assert.equal(await card.getByRole("link").count(), 0);

    await fetch(`${berth.url}/api/slots/coder/unload`, { method: "POST" });
    await berth.state("coder", "offline");
    await page.getByRole("button", { name: "New chat" }).click();
    await ask(page, "coder", "to load");
    await card
      .getByText("slot coder was unloaded by hand, and answers once somebody loads it", { exact: true })
      .waitFor();
    const forbidden = { error: { code: "auth.forbidden", message: "no", details: { scope: "use" } } };
    await page.route("**/load", (route) => route.fulfill({ status: 403, json: forbidden }));
    await card.getByRole("button", { name: "Load coder" }).click();
    await card.getByRole("link", { name: "Open coder" }).waitFor();
    await page.unrouteAll();
    await page.getByRole("button", { name: "New chat" }).click();
    await page.getByRole("button", { name: "to load", exact: true }).click();
    await card.getByRole("button", { name: "Load coder" }).click();
    await page.getByText("coder loads. Retry asks it again.").waitFor();
    await berth.state("coder", "ready", "idle");
    await card.getByRole("button", { name: "Retry" }).click();
    await page.getByText(/^\d+ tokens?\b/).waitFor();
  });

  it("that its limit ends says so and goes on; values that no engine takes are not sent", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await until("the message has the focus", async () => {
      return (await page.evaluate("document.activeElement?.ariaLabel")) === "Message";
    });
    await withParameters(page, async () => {
      const temperature = page.getByRole("spinbutton", { name: "Temperature" });
      const longest = page.getByRole("spinbutton", { name: "Longest answer, in tokens" });
      for (const [field, value, says] of [
        [temperature, "99", "0 to 2. This value is not sent."],
        [longest, "1.5", "A whole number from 1. This value is not sent."],
        [longest, "0", "A whole number from 1. This value is not sent."],
      ] as const) {
        await field.fill(value);
        await page.getByRole("alert").getByText(says, { exact: true }).waitFor();
      }
      assert.equal(await page.getByRole("alert").count(), 2);
      await longest.fill("2");
    });
    const cut = {
      choices: [{ delta: { content: "one two" }, finish_reason: "length" }],
      usage: { completion_tokens: 2 },
    };
    const body = `data: ${JSON.stringify(cut)}\n\ndata: [DONE]\n\n`;
    const sent: string[] = [];
    await page.route("**/v1/chat/completions", (route) => {
      sent.push(route.request().postData() ?? "");
      return route.fulfill({ contentType: "text/event-stream", body });
    });
    await ask(page, "coder", "a short one");
    const answer = page.getByRole("article", { name: "coder" });
    await answer.getByText("Cut at the limit of 2 tokens").waitFor();
    // It came at once: that is no rate.
    assert.equal(await answer.getByText("tok/s").count(), 0);
    await answer.getByRole("button", { name: "Continue" }).click();
    await until("it goes on", async () => (await answer.count()) === 2);
    assert.match(sent[0] ?? "", /"max_tokens":2/);
    assert.doesNotMatch(sent[0] ?? "", /temperature/);
    assert.match(sent[1] ?? "", /"content":"Continue\."/);
  });

  it("says how long it was thought about, and has a head over its code", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const line = `const text = "${"long ".repeat(60)}";`;
    const body = streamOf(
      { reasoning_content: "It is about code." },
      { content: `Here:\n\n\`\`\`ts\n${line}\n\`\`\`\n` },
      { content: "\n```\nplain\n```\n" },
    );
    await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body }));
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await ask(page, "coder", "some code");
    const answer = page.getByRole("article", { name: "coder" });
    await answer.getByText("Thought for 1 s").click();
    await answer.getByText("It is about code.").waitFor();
    const blocks = answer.locator(".code");
    await until("both have a head", async () => (await blocks.count()) === 2);
    assert.deepEqual(await answer.locator(".code > div > span").allTextContents(), ["ts", "text"]);
    const isWide = async (): Promise<boolean> =>
      await page.evaluate("(([pre]) => pre.scrollWidth > pre.clientWidth)(document.querySelectorAll('.code > pre'))");
    assert.equal(await isWide(), true);
    await blocks.first().getByRole("button", { name: "Wrap", pressed: false }).click();
    await blocks.first().getByRole("button", { name: "Wrap", pressed: true }).waitFor();
    assert.equal(await isWide(), false);
    await blocks.first().getByRole("button", { name: "Copy code" }).click();
    await blocks.first().getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await page.evaluate("navigator.clipboard.readText()"), `${line}\n`);
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });
});
