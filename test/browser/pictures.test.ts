import assert from "node:assert/strict";
import { mkdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import type { Page } from "playwright-core";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { openBrowser, openPage } from "./browser.ts";
import { pictureBerth } from "./picture-berth.ts";

/**
 * `make pictures` names the directory of the documents, which gets the pictures that they show;
 * `BERTH_TEST_PICTURES_ALL=1 make pictures` leaves all of them there.
 */
const named = process.env["BERTH_TEST_PICTURES"];
const isAll = process.env["BERTH_TEST_PICTURES_ALL"] === "1";
/** Minutes of traffic before the first picture; 15 fill the charts. */
const minutes = Number(process.env["BERTH_TEST_PICTURES_MINUTES"] ?? (named === undefined ? "0.25" : "15"));
const largestBytes = 250 * 1024;
const sizes = [
  ["", { width: 1440, height: 900 }],
  ["-phone", { width: 390, height: 844 }],
] as const;
const inDocuments = new Set(["overview", "overview-phone", "slot", "chat", "chat-phone"]);

/** The address of each page, and what it has once it shows what it knows. */
const pages = [
  ["overview", "/", 'section[aria-label="Traffic"] canvas'],
  ["slot", "/ui/slots/coder", 'section[aria-label="Traffic"] canvas'],
  ["failed", "/ui/slots/scout", ".strip"],
  ["manifest", "/ui/slots/primary/manifest", "textarea"],
  ["log", "/ui/slots/primary/log", '[role="log"] >> text=/./'],
  ["models", "/ui/models", '[aria-label="Catalogue"] li'],
  ["requests", "/ui/requests", "table.requests tbody tr"],
  ["playground", "/ui/playground", "form"],
  ["machine", "/ui/machine", 'section[aria-label="Memory"] section'],
  ["providers", "/ui/providers", '[aria-label="Providers"] li'],
  ["settings", "/ui/settings", "table"],
] as const;

it("pictures of the pages are taken at the width of a desk and of a phone, light and dark", async (t) => {
  await using own = await tempDir();
  const directory = named ?? own.path;
  await mkdir(directory, { recursive: true });
  await using shown = await pictureBerth();
  const { url } = shown.berth;
  await using browser = { at: await openBrowser(), [Symbol.asyncDispose]: () => browser.at.close() };

  const picture = async (page: Page, name: string, colorScheme: "light" | "dark"): Promise<void> => {
    await page.evaluate("document.fonts.ready");
    const file = `${name}-${colorScheme}.png`;
    const path = join(directory, file);
    await page.screenshot({ path, animations: "disabled" });
    const { size } = await stat(path);
    t.diagnostic(`${file}: ${Math.round(size / 1024)} KiB`);
    assert.ok(size <= largestBytes, `${path} has ${size} bytes`);
    if (named !== undefined && !isAll && !inDocuments.has(name)) await rm(path);
  };

  await until(
    `there are ${minutes} minutes of traffic`,
    async () => (await shown.steps()) >= minutes * 12,
    (minutes + 10) * 60_000,
  );
  for (const [suffix, viewport] of sizes) {
    const isPhone = suffix === "-phone";
    const context = { viewport, hasTouch: isPhone, isMobile: isPhone };
    await using chat = await openPage(browser.at, `${url}/chat/`, context);
    await chat.page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const questions = ["Plan the backups of a small server.", "Count the words of a large file in Python."];
    for (const question of isPhone ? questions.slice(1) : questions) {
      if (!isPhone) await chat.page.getByRole("button", { name: "New chat" }).click();
      await chat.page.getByRole("textbox", { name: "Message" }).fill(question);
      await chat.page.getByRole("button", { name: "Send" }).click();
      await chat.page.getByRole("button", { name: "Retry" }).last().waitFor();
      await chat.page.getByRole("button", { name: "Send" }).waitFor();
    }
    for (const colorScheme of ["light", "dark"] as const) {
      await chat.page.emulateMedia({ colorScheme });
      await picture(chat.page, `chat${suffix}`, colorScheme);
    }

    await using dashboard = await openPage(browser.at, url, context);
    const { page } = dashboard;
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const [name, path, drawn] of pages) {
        await page.goto(url + path);
        await page.locator(drawn).first().waitFor();
        await picture(page, name + suffix, colorScheme);
      }
    }
  }
});
