import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { live, makeToken, openBrowser, openPage, slotManifest, tabTo } from "./browser.ts";

async function press(page: Page, name: RegExp, key = "Enter"): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press(key);
}

describe("with the keyboard alone", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let token = "";
  before(async () => {
    browser = await openBrowser();
    berth = await startBerth({
      env: { SVC_AUTH_ENABLED: "1" },
      prepare: async ({ configDir }) => {
        await mkdir(join(configDir, "upstreams"));
        await writeFile(join(configDir, "upstreams/gone.toml"), 'baseUrl = "http://127.0.0.1:9/v1"\n[discover]\n');
        const later = `load = "onDemand"\ngroup = "gpu"\n${slotManifest()}`;
        await writeFile(join(configDir, "slots/later.toml"), later);
      },
    });
    token = await makeToken(berth);
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("each page is used for what it is for, from the token to its end", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    await page.getByRole("button", { name: "Use token" }).waitFor();
    await tabTo(page, /^Token$/);
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
    await live(page);
    const to = async (name: string): Promise<void> => {
      await press(page, new RegExp(`^${name}$`));
      await page.getByRole("heading", { name, level: 1, exact: true }).waitFor();
    };

    await press(page, /^Load later$/);
    await page
      .getByRole("listitem", { name: "later" })
      .getByText(/^Ready/)
      .waitFor();

    await to("later");
    await press(page, /^Manifest$/);
    await page.getByRole("textbox", { name: "Manifest" }).waitFor();
    await tabTo(page, /^Manifest$/);
    await page.keyboard.press("Control+End");
    await page.keyboard.type("idle_seconds = 55\n");
    await press(page, /^Save$/);
    await page.getByText("Saved.").waitFor();

    await to("Models");
    await tabTo(page, /^Model, repository or address$/);
    await page.keyboard.type("ftp://acme/tiny");
    await press(page, /^Find$/);
    await page.getByRole("table", { name: "Models of that name" }).waitFor();
    await press(page, /^Pull ftp:/);
    await page
      .getByRole("alert")
      .getByText(/hf:\/\//)
      .waitFor();

    await to("Machine");
    await page.getByText(/\d+ threads/).waitFor();
    const probed = page.waitForResponse((response) => response.url().includes("/api/hardware/probe"));
    await press(page, /^Look again$/);
    assert.ok((await probed).ok());
    await page.getByRole("button", { name: "Lend gpu" }).waitFor();
    await press(page, /^Lend gpu$/);
    await page.getByText(/Lent until/).waitFor();
    await press(page, /^End the loan$/);
    await page.getByRole("button", { name: "Lend gpu" }).waitFor();

    await to("Providers");
    await page.getByRole("button", { name: "Check gone" }).waitFor();
    await press(page, /^Check gone$/);
    await page.getByRole("listitem", { name: "gone" }).getByRole("status").getByText(/\w+/).waitFor();

    await to("Settings");
    await press(page, /^Tokens$/);
    await page.getByRole("row", { name: /^ada/ }).waitFor();
    await press(page, /^New token$/);
    await tabTo(page, /^Label$/);
    await page.keyboard.type("phone");
    await press(page, /^Create token$/);
    await page.getByRole("region", { name: "New token" }).waitFor();
    await press(page, /^I have it$/);
    await page.getByRole("row", { name: /^phone/ }).waitFor();
    await press(page, /^Revoke phone$/);
    await page.getByRole("dialog", { name: /Revoke the token of phone/ }).waitFor();
    // The focus cannot leave the question for the page below it.
    await press(page, /^Revoke$/);
    await page.getByRole("row", { name: /^phone/ }).waitFor({ state: "detached" });

    await to("Requests");
    await page.getByText(/^No request yet\./).waitFor();

    await to("Playground");
    await press(page, /^Raw request$/);
    await page.getByRole("textbox", { name: "Path" }).waitFor();
    await press(page, /^Send$/);
    await page.getByText(/^Status \d+/).waitFor();

    await to("Settings");
    await page.getByRole("button", { name: "Forget the token" }).waitFor();
    await press(page, /^Forget the token$/);
    await page.getByRole("button", { name: "Use token" }).waitFor();
  });
});
