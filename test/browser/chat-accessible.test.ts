import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { findings, violations } from "./axe.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";
import { withParameters } from "./chat-page.ts";

const picture =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const conversation = {
  id: "aaaaaaaa",
  title: "everything",
  model: "coder",
  updated_at: "2026-01-01T00:00:00.000Z",
  parameters: { system: "Be brief.", temperature: "", maxTokens: "" },
  messages: [
    {
      role: "user",
      content: "what is this?",
      images: [picture],
      files: [{ name: "a.txt", text: "a text\n".repeat(50) }],
    },
    {
      role: "assistant",
      model: "coder",
      content:
        '# A heading\n\nA [link](https://example.org), `code` and a list:\n\n- [x] one\n- two\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```ts\nconst text = "a text"; // said\n```\n',
      thoughts: "It may be *a cat*.",
      thoughtSeconds: 4.2,
      toolCalls: [{ name: "look", arguments: '{"at": "it"}' }],
      tokens: 20,
      seconds: 2,
    },
    { role: "user", content: "and now?" },
    { role: "assistant", model: "coder", content: "half", failure: "Stopped." },
    { role: "assistant", model: "coder", content: "", failure: "The engine failed", after: 2 },
    { role: "assistant", model: "coder", content: "half again", failure: "Stopped.", after: 2 },
  ],
};

describe("the chat page is accessible", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    // The slow one speaks for minutes, unless somebody stops it.
    berth = await berthWith({ coder: slotManifest(), slow: slotManifest("--tokens", "4000", "--token-ms", "50") });
    await berth.state("coder", "ready", "idle");
    await berth.state("slow", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify(conversation);
    const kept = await fetch(`${berth.url}/api/conversations/aaaaaaaa`, { method: "PUT", headers, body });
    assert.equal(kept.status, 200, await kept.text());
  });

  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [360, 390, 1440])
      it(`with an open conversation of every part, ${width} px wide, ${colorScheme}`, async () => {
        const isPhone = width < 640;
        await using opened = await openPage(browser, `${berth.url}/chat/`, {
          colorScheme,
          viewport: { width, height: 844 },
          isMobile: isPhone,
          hasTouch: isPhone,
        });
        const { page } = opened;
        await page.getByText("Ask coder").waitFor();
        await isSound(page);
        if (isPhone) await page.getByRole("button", { name: "Conversations", exact: true }).click();
        await page.getByRole("button", { name: "More for everything" }).click();
        await page.getByRole("menuitem", { name: "Rename" }).waitFor();
        await isSound(page);
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: "everything", exact: true }).click();
        await page.getByText("Stopped.").waitFor();
        for (const summary of ["a.txt", "Thought for 4 s", "Calls look"]) await page.getByText(summary).click();
        await until("it is coloured", async () => (await page.locator(".hljs-keyword").count()) > 0);
        await isSound(page);
        await page.getByText("3/3").waitFor();
        await page.getByRole("button", { name: "Earlier version" }).click();
        await page.getByRole("alert").getByText("The engine failed").waitFor();
        await page.getByRole("button", { name: "Edit the question" }).last().click();
        await page.getByRole("textbox", { name: "Your question" }).waitFor();
        await isSound(page);
        await page.route("**/v1/chat/completions", () => undefined);
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: "Retry" }).click();
        await page.getByRole("button", { name: "Cancel" }).waitFor();
        // It appears slowly, so that a quick answer shows none of it.
        await until("all of it is seen", async () => {
          return (await page.evaluate("getComputedStyle(document.querySelector('.held')).opacity")) === "1";
        });
        await isSound(page);
        await page.getByRole("button", { name: "Cancel" }).click();
        await withParameters(page, () => isSound(page));
        // On a phone the list of conversations, with its button, is out of the way.
        await page.getByRole("button", { name: "New chat" }).click();
        await page.locator(".bar").getByText("Ready", { exact: true }).waitFor();
        await page.getByText("Ask coder").waitFor();
      });

    it(`with the form for a token, and so is the dashboard, ${colorScheme}`, async () => {
      for (const path of ["/chat/", "/"]) {
        await using opened = await openPage(browser, "about:blank", { colorScheme });
        const { page } = opened;
        const refusal = { error: { code: "auth.required", message: "Credentials are required for this route" } };
        await page.route(/\/(?:v1|api)\//, (route) => route.fulfill({ status: 401, json: refusal }));
        await page.goto(`${berth.url}${path}`);
        await page.getByLabel("Token", { exact: true }).fill("two words");
        await page.getByRole("button", { name: "Use token" }).click();
        await page.getByText(/^That is no token/).waitFor();
        assert.deepEqual(await violations(page), [], path);
      }
    });
  }

  it("stays where a person has scrolled it, so that nothing moves under a press", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`, { viewport: { width: 390, height: 600 } });
    const { page } = opened;
    await page.getByRole("button", { name: "Conversations", exact: true }).click();
    await page.getByRole("button", { name: "everything", exact: true }).click();
    await page.getByText("Stopped.").waitFor();
    await until("it is coloured", async () => (await page.locator(".hljs-keyword").count()) > 0);
    const toEnd = page.getByRole("button", { name: "To the end" });
    const view = "document.querySelector('[role=log]')";
    await page.evaluate(`${view}.scrollTop = 0`);
    await toEnd.waitFor();
    const height: unknown = await page.evaluate(`${view}.scrollHeight`);
    await page.evaluate(`${view}.scrollTop = ${view}.scrollHeight - ${view}.clientHeight - 30`);
    await toEnd.waitFor({ state: "detached" });
    assert.equal(await page.evaluate(`${view}.scrollHeight`), height);
    const below: number = await page.evaluate(`${view}.scrollHeight - ${view}.clientHeight - ${view}.scrollTop`);
    assert.ok(Math.abs(below - 30) < 2, `${below} px from the end`);
  });

  it("by the keyboard alone: a new chat, its model, a message, stop, retry and delete", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("option", { name: /^slow/ }).waitFor({ state: "attached" });
    await tabTo(page, "New chat");
    await page.keyboard.press("Enter");
    // A new chat begins with its message.
    await focusIs(page, "Message");
    await tabTo(page, "Model", "Shift+Tab");
    await page.keyboard.type("slow");
    await until(
      "slow is chosen",
      async () => (await page.getByRole("combobox", { name: "Model" }).inputValue()) === "slow",
    );
    await tabTo(page, "Message");
    await page.keyboard.type("by the keyboard");
    await tabTo(page, "Send");
    await page.keyboard.press("Enter");
    const answer = page.getByRole("article", { name: "slow" });
    await until("it has begun", async () => ((await answer.textContent()) ?? "").length > 20);
    await focusIs(page, "Message");
    await tabTo(page, "Stop");
    await page.keyboard.press("Enter");
    await answer.getByText("Stopped.").waitFor();
    await focusIs(page, "Message");
    await tabTo(page, "Retry", "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
    await focusIs(page, "Message");
    await until("the tab is called by it", async () => (await page.title()) === "by the keyboard · Berth chat");
    await tabTo(page, "More for by the keyboard", "Shift+Tab");
    await page.keyboard.press("Enter");
    await focusIs(page, "Rename");
    await page.keyboard.press("ArrowUp");
    await focusIs(page, "Delete");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "by the keyboard", exact: true }).waitFor({ state: "detached" });
    await focusIs(page, "Message");
    await until("the tab is called anew", async () => (await page.title()) === "New chat · Berth chat");
    await page.getByRole("button", { name: "Send" }).waitFor();
  });
});

/** It breaks no rule of axe, and nobody has to scroll sideways. */
async function isSound(page: Page): Promise<void> {
  assert.deepEqual(await findings(page), []);
  const [wide, seen]: [number, number] = await page.evaluate(
    "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
  );
  assert.equal(wide, seen, "the page scrolls sideways");
}

const focused = "document.activeElement.ariaLabel ?? document.activeElement.textContent";

async function focusIs(page: Page, name: string): Promise<void> {
  await until(`${name} has the focus`, async () => (await page.evaluate(focused)) === name);
}

async function tabTo(page: Page, name: string, key = "Tab"): Promise<void> {
  for (let count = 0; count < 60; count += 1) {
    if ((await page.evaluate(focused)) === name) return;
    await page.keyboard.press(key);
  }
  assert.fail(`${key} does not reach ${name}`);
}
