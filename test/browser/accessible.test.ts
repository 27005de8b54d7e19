import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { assertAccessible } from "./axe.ts";
import { berthWith, makeToken, openBrowser, openPage, slotManifest, tabTo } from "./browser.ts";
import { until } from "../support/until.ts";
import type { RunningBerth } from "../support/berth.ts";

const paths = [
  "/",
  "/ui/slots/coder",
  "/ui/models",
  "/ui/groups",
  "/ui/hardware",
  "/ui/upstreams",
  "/ui/tokens",
  "/ui/requests",
  "/ui/playground",
  "/ui/playground/images",
  "/ui/playground/transcription",
  "/ui/playground/raw",
  "/ui/settings",
  "/chat/",
] as const;

describe("every page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest(), broken: `idle_secnds = 1\n${slotManifest()}` });
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("has no serious accessibility violation, light and dark", async () => {
    for (const path of paths) {
      await using opened = await openPage(browser, `${berth.url}${path}`);
      const { page } = opened;
      await (path === "/chat/" ? page.getByRole("textbox") : page.getByRole("heading", { level: 1 })).first().waitFor();
      await until("it has loaded", async () => (await page.getByText("Loading …").count()) === 0);
      await assertAccessible(page, path);
    }
  });

  it("asks without a serious accessibility violation: for a token, and whether it may", async () => {
    await using own = await berthWith({ coder: slotManifest() }, { SVC_AUTH_ENABLED: "1" });
    const token = await makeToken(own);
    await using opened = await openPage(browser, `${own.url}/ui/tokens`);
    const { page } = opened;
    await page.getByRole("button", { name: "Use token" }).waitFor();
    await assertAccessible(page, "the token form");
    await page.getByLabel("Token", { exact: true }).fill("two words");
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("alert").waitFor();
    await assertAccessible(page, "the token form that refuses");
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("button", { name: "Revoke ada" }).click();
    const question = page.getByRole("dialog");
    await question.waitFor();
    await assertAccessible(page, "the question");
    await question.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog", { name: "Who are you?" }).waitFor();
    await assertAccessible(page, "the token form over the page");
  });

  it("fits a phone that is 360 px wide: only tables and code scroll sideways", async () => {
    for (const path of paths) {
      await using opened = await openPage(browser, `${berth.url}${path}`, { viewport: { width: 360, height: 640 } });
      const { page } = opened;
      await (path === "/chat/" ? page.getByRole("textbox") : page.getByRole("heading", { level: 1 })).first().waitFor();
      const width: number = await page.evaluate("document.documentElement.scrollWidth");
      assert.ok(width <= 360, `${path} is ${width} px wide`);
    }
  });

  it("is used with the keyboard alone: to a slot, its restart, and a chat", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    await page.getByRole("link", { name: "coder" }).waitFor();
    await tabTo(page, /^coder$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "coder", level: 1 }).waitFor();
    await tabTo(page, /^Restart$/);
    await page.keyboard.press("Enter");
    await page.getByRole("table", { name: "Transitions" }).getByText("unloading").first().waitFor();
    await page.goto(`${berth.url}/chat/`);
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await page.getByRole("textbox", { name: "Message" }).focus();
    await page.keyboard.type("hello");
    await page.keyboard.press("Enter");
    await page
      .getByRole("log", { name: "Messages" })
      .getByText(/^\d+ tokens?\b/)
      .waitFor();
  });
});
