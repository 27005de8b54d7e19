import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { berthWith, makeToken, openBrowser, openPage, slotManifest } from "./browser.ts";

describe("what a person enters", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let token = "";
  before(async () => {
    browser = await openBrowser();
    berth = await berthWith({ coder: slotManifest() }, { SVC_AUTH_ENABLED: "1" });
    token = await makeToken(berth);
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("is refused in a sentence where it cannot be a token, and asked for again", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const give = async (text: string): Promise<void> => {
      await page.getByLabel("Token").fill(text);
      await page.getByRole("button", { name: "Use token" }).click();
    };
    for (const text of ["пароль", "two words", "x".repeat(100_000), "\u202esvc_", "   "]) {
      await give("svc_wrong");
      await page.getByRole("alert").getByText("The server does not accept that token.").waitFor();
      await give(text);
      await page
        .getByRole("alert")
        .getByText(/^That is no token: /)
        .waitFor();
    }
    await give(token);
    await page.getByRole("listitem", { name: "coder", exact: true }).waitFor();
    await page.getByRole("link", { name: "Models", exact: true }).click();
    // The page gives its heading the focus once it is there.
    await page.locator("h1:focus", { hasText: "Models" }).waitFor();
    await page.getByRole("link", { name: "Skip to the content" }).press("Enter");
    assert.equal(await page.evaluate("document.activeElement.id"), "main");
    assert.match(page.url(), /\/ui\/models$/);
  });

  it("stays on the page while a token is asked for again", async () => {
    const tokenOf = async (label: string): Promise<string> => {
      return await makeToken(berth, label);
    };
    const brief = await tokenOf("brief");
    await using opened = await openPage(browser, `${berth.url}/ui/settings/tokens`);
    const { page } = opened;
    const give = async (text: string): Promise<void> => {
      await page.getByLabel("Token", { exact: true }).fill(text);
      await page.getByRole("button", { name: "Use token" }).click();
    };
    await give(brief);
    await page.getByRole("banner").getByText("Healthy").waitFor();
    await page.getByRole("button", { name: "New token" }).click();
    const label = page.getByRole("textbox", { name: "Label" });
    await label.fill("my new phone");
    const id = /^svc_([^.]*)/.exec(brief)?.[1] ?? "";
    const headers = { authorization: `Bearer ${token}` };
    await fetch(`${berth.url}/api/auth/tokens/${id}`, { method: "DELETE", headers });
    const form = page.getByRole("dialog", { name: "Who are you?" });
    await form.getByRole("alert").getByText("The server does not accept that token.").waitFor();
    // Escape does not close the form: without a token the page could read nothing.
    await page.keyboard.press("Escape");
    await give(token);
    await form.waitFor({ state: "detached" });
    await page.getByRole("banner").getByText("Healthy").waitFor();
    await page.getByRole("row", { name: /^ada/ }).waitFor();
    assert.equal(await label.inputValue(), "my new phone");
  });

  it("is used where the browser keeps nothing for the site", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.addInitScript(
      "for (const name of ['sessionStorage', 'localStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError'); } })",
    );
    await page.goto(berth.url);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("listitem", { name: "coder", exact: true }).waitFor();
  });

  it("is sent without half a character, and kept by a title that says where it is cut", async () => {
    const headers = { authorization: `Bearer ${token}` };
    await until("coder is ready", async () => {
      const slot = record(await (await fetch(`${berth.url}/api/slots/coder`, { headers })).json());
      return ["ready", "idle"].includes(String(slot["state"]));
    });
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.getByRole("dialog").getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const box = page.getByRole("textbox", { name: "Message" });
    await box.evaluate(
      (area: { value: string; dispatchEvent(event: Event): boolean }, text) => {
        area.value = text;
        area.dispatchEvent(new Event("input", { bubbles: true }));
      },
      `half \ud83d ${"😀".repeat(70)}`,
    );
    await box.press("Enter");
    await page.getByText(/^\d+ tokens?\b/).waitFor();
    // That the page had no token at first, it says until it has read the conversations.
    await page.getByRole("alert").waitFor({ state: "detached" });
    const title = `half \ufffd ${"😀".repeat(52)}…`;
    await page.getByRole("button", { name: title, exact: true }).waitFor();
    const kept = await until("it is kept", async () => {
      const found = record(await (await fetch(`${berth.url}/api/conversations`, { headers })).json());
      return list(found["data"]).length > 0 && list(found["data"]);
    });
    assert.deepEqual(
      kept.map((each) => each["title"]),
      [title],
    );
  });
});
