import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { assertAccessible, findings } from "./axe.ts";
import { berthWith, live, makeToken, openBrowser, openPage, slotManifest, tabTo } from "./browser.ts";

interface Place {
  readonly path: string;
  /** Brings up what stands over the page; the text is its name. */
  readonly open?: readonly [name: string, open: (page: Page) => Promise<unknown>];
}

const press =
  (name: string) =>
  async (page: Page): Promise<unknown> =>
    await page.getByRole("button", { name, exact: true }).click();

/** Every page and each of its parts, and what stands over them. */
const places: readonly Place[] = [
  { path: "/" },
  { path: "/", open: ["the dialog for a slot", press("New slot")] },
  { path: "/", open: ["a slot's menu", press("More for coder")] },
  {
    path: "/",
    open: [
      "the problems",
      async (page) => {
        await page.getByRole("banner").getByRole("button", { name: "problem" }).click();
        await page.getByRole("list", { name: "Problems" }).getByRole("link", { name: "broken" }).waitFor();
      },
    ],
  },
  { path: "/", open: ["the palette", (page) => page.keyboard.press("Control+k")] },
  { path: "/ui/slots/coder" },
  { path: "/ui/slots/coder/manifest" },
  { path: "/ui/slots/coder/log" },
  { path: "/ui/slots/coder/events" },
  { path: "/ui/slots/coder/details" },
  { path: "/ui/slots/broken" },
  { path: "/ui/models" },
  { path: "/ui/models", open: ["a licence", press("Pull gemma-3-4b-it")] },
  { path: "/ui/requests" },
  { path: "/ui/requests", open: ["a request", press("coder")] },
  { path: "/ui/playground" },
  { path: "/ui/playground", open: ["the code", press("Code")] },
  { path: "/ui/playground/embeddings" },
  { path: "/ui/playground/images" },
  { path: "/ui/playground/raw" },
  { path: "/ui/machine" },
  { path: "/ui/providers" },
  { path: "/ui/settings" },
  {
    path: "/ui/settings/tokens",
    open: ["none can be made", async (page) => page.locator("button[disabled]", { hasText: "New token" }).waitFor()],
  },
  { path: "/ui/settings/clients" },
  { path: "/ui/settings/about" },
  { path: "/ui/nowhere" },
  // Remembered from then on.
  { path: "/", open: ["the slots as a table", press("Table")] },
];

const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } as const;
const colours = { runOnly: ["color-contrast"] } as const;

/** Fails for a button or a field that is smaller than a finger. */
const small = `[...document.querySelectorAll("button, .button, select, summary, input:not([type=checkbox], [type=file])")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && each.getBoundingClientRect().width > 2)
  .filter((each) => each.getBoundingClientRect().height < 43.5)
  .map((each) => each.outerHTML.slice(0, 120))`;

describe("every page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        await mkdir(join(configDir, "upstreams"));
        await writeFile(join(configDir, "upstreams/gone.toml"), 'baseUrl = "http://127.0.0.1:9/v1"\n[discover]\n');
        await writeFile(join(configDir, "slots/coder.toml"), `group = "gpu"\n${slotManifest()}`);
        await writeFile(join(configDir, "slots/broken.toml"), `idle_secnds = 1\n${slotManifest()}`);
        await writeTinyModel(join(modelsDir, "tiny.gguf"));
      },
    });
    await berth.state("coder", "ready", "idle");
    const body = JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hi" }] });
    const headers = { "content-type": "application/json" };
    await (await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body })).text();
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const go = async (page: Page, { path, open }: Place): Promise<string> => {
    await page.goto(`${berth.url}${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await live(page);
    await until(`${path} has loaded`, async () => (await page.getByText("Loading …").count()) === 0);
    await open?.[1](page);
    return `${path}${open === undefined ? "" : `, ${open[0]}`}`;
  };

  it("breaks no rule of axe, light and dark, 1440 px wide", async () => {
    await using opened = await openPage(browser, "about:blank", { viewport: { width: 1440, height: 900 } });
    const { page } = opened;
    const wrong: string[] = [];
    for (const place of places) {
      const at = await go(page, place);
      for (const found of await findings(page)) wrong.push(`${at}: ${found}`);
      await page.emulateMedia({ colorScheme: "dark" });
      for (const found of await findings(page, colours)) wrong.push(`${at}, dark: ${found}`);
      await page.emulateMedia({ colorScheme: "light" });
    }
    assert.deepEqual(wrong, []);
  });

  it("breaks none on a phone either, 390 and 360 px wide, does not scroll sideways there, and is met by a finger", async () => {
    await using opened = await openPage(browser, "about:blank", { ...phone, colorScheme: "dark" });
    const { page } = opened;
    assert.equal(await page.evaluate("matchMedia('(pointer: coarse)').matches"), true);
    const wrong: string[] = [];
    for (const place of [...places, { path: "/", open: ["more pages", press("More")] }] satisfies Place[]) {
      await page.setViewportSize(phone.viewport);
      const at = await go(page, place);
      for (const found of await findings(page)) wrong.push(`${at}, dark, 390 px: ${found}`);
      await page.setViewportSize({ width: 360, height: 640 });
      await page.emulateMedia({ colorScheme: "light" });
      for (const found of await findings(page)) wrong.push(`${at}, 360 px: ${found}`);
      await page.emulateMedia({ colorScheme: "dark" });
      const width: number = await page.evaluate("document.documentElement.scrollWidth");
      if (width > 360) wrong.push(`${at} is ${width} px wide`);
      const tooSmall: readonly string[] = await page.evaluate(small);
      for (const each of tooSmall) wrong.push(`${at}, smaller than a finger: ${each}`);
    }
    assert.deepEqual(wrong, []);
  });

  it("tells how many problems there are, and which, on a phone and beside icons, and leads on from there", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const list = page.getByRole("list", { name: "Problems" });
    for (const [width, widestPx] of [
      [390, 390],
      [800, 56],
    ] as const) {
      await page.setViewportSize({ width, height: 640 });
      const button = page.getByRole("banner").getByRole("button", { name: "problem" });
      await button.click();
      const box = (await button.boundingBox()) ?? assert.fail("it is not shown");
      assert.ok(box.width > 20 && box.x + box.width <= widestPx, `${width} px: ${JSON.stringify(box)}`);
      await list.getByRole("link", { name: "broken" }).click();
      await page.getByRole("heading", { name: "broken", level: 1 }).waitFor();
      await list.waitFor({ state: "hidden" });
      await page.goto(berth.url);
    }
    await page.setViewportSize(phone.viewport);
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("dialog", { name: "More pages" }).getByRole("link", { name: "Machine" }).click();
    await page.getByRole("dialog", { name: "More pages" }).waitFor({ state: "detached" });
    await until("the heading has the focus", async () => {
      return (await page.evaluate("document.activeElement.textContent")) === "Machine";
    });
  });

  it("asks without a serious accessibility violation: for a token, and whether it may", async () => {
    await using own = await berthWith({ coder: slotManifest() }, { SVC_AUTH_ENABLED: "1" });
    const token = await makeToken(own);
    await using opened = await openPage(browser, `${own.url}/ui/settings/tokens`);
    const { page } = opened;
    await page.getByRole("button", { name: "Use token" }).waitFor();
    await assertAccessible(page, "the token form");
    await page.getByLabel("Token", { exact: true }).fill("two words");
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("alert").waitFor();
    await assertAccessible(page, "the token form that refuses");
    await page.getByLabel("Token", { exact: true }).fill(token);
    await page.getByRole("button", { name: "Use token" }).click();
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByRole("textbox", { name: "Label" }).waitFor();
    await assertAccessible(page, "the dialog for a token");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Revoke ada" }).click();
    const question = page.getByRole("dialog");
    await question.waitFor();
    await assertAccessible(page, "the question");
    await question.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog", { name: "Who are you?" }).waitFor();
    await assertAccessible(page, "the token form over the page");
  });

  it("is used with the keyboard alone: to a slot, its restart, and a chat", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    await page.getByRole("listitem", { name: "coder" }).waitFor();
    await tabTo(page, /^coder$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "coder", level: 1 }).waitFor();
    await tabTo(page, /^More for coder$/);
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Restart" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("status").getByText("coder restarts.").waitFor();
    await tabTo(page, /^Events$/);
    await page.keyboard.press("Enter");
    await page.getByRole("list", { name: "Transitions" }).getByText("Unloading").first().waitFor();
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
