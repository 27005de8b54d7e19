import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Dialog, Page } from "playwright-core";
import type { RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, openBrowser, openPage, slotManifest } from "./browser.ts";

describe("an edit of a manifest that is not saved", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    const later = `load = "onDemand"\n${slotManifest()}`;
    berth = await berthWith({ later, fleeting: later, spare: later, twice: later });
    await berth.state("twice", "offline");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  const isGone = (slot: string): Promise<boolean> =>
    berth.slot(slot).then(
      () => false,
      () => true,
    );
  const edit = async (page: Page): Promise<string> => {
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    const text = `${await manifest.inputValue()}idle_seconds = 55\n`;
    await manifest.fill(text);
    const save = page.getByRole("button", { name: "Save", exact: true });
    await until("the edit can be saved", () => save.isEnabled());
    return text;
  };

  it("is left by a link, and by Back, only as the person says", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const later = page.getByRole("listitem", { name: "later", exact: true });
    await later.getByRole("link", { name: "later", exact: true }).click();
    await page.getByRole("link", { name: "Manifest", exact: true }).click();
    const text = await edit(page);
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    const question = page.getByRole("dialog", { name: /Your edit of slots\/later\.toml is not saved\. Leave/ });
    await page.getByRole("link", { name: "Models", exact: true }).click();
    // Enter presses what is safe.
    await question.waitFor();
    await page.keyboard.press("Enter");
    await question.waitFor({ state: "detached" });
    assert.equal(await manifest.inputValue(), text);
    assert.match(page.url(), /\/ui\/slots\/later\/manifest$/);
    await page.evaluate("history.back()");
    await question.getByRole("button", { name: "Stay" }).click();
    await question.waitFor({ state: "detached" });
    assert.equal(await manifest.inputValue(), text);
    await until("the address is that of the slot", () => page.url().endsWith("/ui/slots/later/manifest"));
    await page.evaluate("history.back()");
    await question.getByRole("button", { name: "Leave" }).click();
    await manifest.waitFor({ state: "detached" });
    assert.equal(new URL(page.url()).pathname, "/ui/slots/later");
    // The edit is gone: nothing is asked about it any more.
    await page.evaluate("history.forward()");
    await manifest.waitFor();
    assert.doesNotMatch(await manifest.inputValue(), /idle_seconds/);
    await page.getByRole("link", { name: "Models", exact: true }).click();
    await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
  });

  it("has the browser ask before a reload", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/later/manifest`);
    const { page } = opened;
    await edit(page);
    const asked: string[] = [];
    page.on("dialog", (dialog: Dialog) => asked.push(dialog.type()));
    await page.reload();
    assert.deepEqual(asked, ["beforeunload"]);
    await page.getByRole("textbox", { name: "Manifest" }).waitFor();
    await page.reload();
    assert.deepEqual(asked, ["beforeunload"]);
  });

  it("is kept where Git removes the slot, and the page says so", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/fleeting/manifest`);
    const { page } = opened;
    const text = await edit(page);
    await rm(join(berth.configDir, "slots/fleeting.toml"));
    const kept = page.getByRole("region", { name: "Your unsaved manifest" });
    await kept
      .getByRole("alert")
      .getByText(/^slots\/fleeting\.toml was removed while you edited it/)
      .waitFor();
    assert.equal(await kept.getByLabel("Your text", { exact: true }).textContent(), text);
    await until("the slot is gone", () => isGone("fleeting"));
    assert.equal(await kept.getByLabel("Your text", { exact: true }).textContent(), text);
    await page.getByRole("link", { name: "Models", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stay" }).click();
    // Once the file is back, the edit goes on in the editor.
    await writeFile(join(berth.configDir, "slots/fleeting.toml"), text.replace("55", "77"));
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    await manifest.waitFor();
    assert.equal(await manifest.inputValue(), text);
    await page.getByRole("button", { name: "Undo" }).click();
  });

  it("goes with the slot that a person deletes by its menu", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/spare/manifest`);
    const { page } = opened;
    await edit(page);
    const choose = async (answer: string): Promise<void> => {
      await page.getByRole("button", { name: "More for spare" }).click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      const question = page.getByRole("dialog", {
        name: /^Delete spare\? Its manifest .*slots\/spare\.toml is removed/,
      });
      await question.getByRole("button", { name: answer }).click();
      await question.waitFor({ state: "detached" });
    };
    await choose("Cancel");
    await page.getByRole("textbox", { name: "Manifest" }).waitFor();
    await choose("Delete");
    await page.getByText("spare is deleted.").waitFor();
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    await page.getByRole("listitem", { name: "spare", exact: true }).waitFor({ state: "detached" });
    await until("the slot is gone", () => isGone("spare"));
    // A built-in slot is there without a manifest.
    await page.getByRole("link", { name: "stt", exact: true }).click();
    await page.getByRole("button", { name: "More for stt" }).click();
    await page.getByRole("menuitem", { name: "Copy the name" }).waitFor();
    assert.equal(await page.getByRole("menuitem", { name: "Delete" }).count(), 0);
  });

  it("is written once by a double click on Save", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/twice/manifest`);
    const { page } = opened;
    const text = await edit(page);
    const [puts, checks]: [string[], string[]] = [[], []];
    page.on("request", (request) => {
      if (request.method() === "PUT") puts.push(request.url());
      if (request.url().endsWith("/api/config/validate")) checks.push(request.url());
    });
    // Both within one drawing of the page.
    await page.getByRole("button", { name: "Save" }).evaluate((button: { click(): void }) => {
      button.click();
      button.click();
    });
    await page.getByText("Saved.").waitFor();
    assert.equal(await readFile(join(berth.configDir, "slots/twice.toml"), "utf8"), text);
    assert.deepEqual([checks.length, puts.length], [1, 1]);
  });
});
