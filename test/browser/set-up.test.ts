import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startHub } from "../doubles/hub.ts";
import { startProvider } from "../doubles/provider.ts";
import { startBerth } from "../support/berth.ts";
import { record } from "../support/openai.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { openBrowser, openPage, slotManifest } from "./browser.ts";

async function tinyModel(): Promise<Buffer> {
  await using directory = await tempDir();
  const path = join(directory.path, "tiny.gguf");
  await writeTinyModel(path);
  return await readFile(path);
}

describe("a person who sets a Berth up by its pages", () => {
  let browser: Browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser.close());

  it("chooses a model of three, sees it come, and talks to it", async () => {
    await using hub = await startHub({ "Qwen3-0.6B-Q8_0.gguf": await tinyModel() });
    await using own = await startBerth({ env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" } });
    await using opened = await openPage(browser, own.url);
    const { page } = opened;
    const first = page.getByRole("region", { name: "First steps" });
    const step = first.locator("[aria-current=step]");
    await first.getByText(/There is no model yet/).waitFor();
    assert.equal(await step.textContent(), "Choose a model");
    // In the place of charts and slots, of which there are none.
    assert.equal(await page.getByRole("region", { name: "Traffic" }).count(), 0);
    const cards = first.getByRole("list", { name: "Models to begin with" }).getByRole("listitem");
    await cards.nth(2).waitFor();
    assert.equal(await cards.count(), 3);
    hub.hold();
    await first.getByRole("button", { name: "Pull qwen3-0.6b" }).click();
    await first.getByRole("progressbar", { name: "Progress of qwen3-0.6b" }).waitFor();
    assert.equal(await step.textContent(), "Pull and load it");
    // The slot waits for the model, whatever a person does with the page.
    await own.state("primary", "pulling");
    assert.equal((await own.slot("primary"))["recent_failures"], null);
    await page.goto("about:blank");
    hub.release();
    await own.state("primary", "ready", "idle");
    await page.goto(own.url);
    await first.getByText("A slot is ready.").waitFor();
    assert.equal((await own.slot("primary"))["model"], "qwen3-0.6b");
    assert.equal(await step.textContent(), "Talk to it");
    await first.getByText(/"model":"primary"/).waitFor();
    assert.equal(await first.getByRole("link", { name: "Chat" }).getAttribute("href"), "chat/?model=primary");
    // The first answer ends the steps.
    const asked = await fetch(`${own.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "primary", max_tokens: 4, messages: [{ role: "user", content: "hi" }] }),
    });
    assert.equal(asked.status, 200, await asked.text());
    await first.waitFor({ state: "detached" });
    await page.reload();
    await page.getByRole("region", { name: "Traffic" }).waitFor();
    assert.equal(await first.count(), 0);
  });

  it("makes a slot with a model that is pulled: its name is checked first, and its licence accepted", async () => {
    await using hub = await startHub({ "gemma-3-4b-it-Q4_K_M.gguf": await tinyModel() });
    await using own = await startBerth({
      env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" },
      prepare: ({ configDir }) =>
        writeFile(join(configDir, "slots/coder.toml"), `aliases = ["gpt-4o"]\n${slotManifest()}`),
    });
    await own.state("coder", "ready", "idle");
    await using opened = await openPage(browser, own.url);
    const { page } = opened;
    await page.getByRole("button", { name: "New slot" }).click();
    const dialog = page.getByRole("dialog", { name: "New slot" });
    const create = dialog.getByRole("button", { name: "Create" });
    const nameField = dialog.getByRole("textbox", { name: "Name" });
    await dialog.getByText("It needs a name.").waitFor();
    await nameField.fill("gpt-4o");
    await dialog.getByText("It needs a model.").waitFor();
    await dialog.getByRole("status").getByText("gpt-4o is an alias of coder, which loses it").waitFor();
    // The fields of the dialog stand in rows, one in each.
    await dialog.getByText("More", { exact: true }).click();
    const group = dialog.getByRole("textbox", { name: "Group" });
    const [first, last] = [await nameField.boundingBox(), await group.boundingBox()];
    assert.deepEqual([last?.x, last?.width], [first?.x, first?.width]);
    await dialog.getByRole("combobox", { name: "Model" }).selectOption("gemma-3-4b-it");
    for (const [name, refusal] of [
      ["coder", /^There is a slot coder already/],
      ["No_Name", /lower-case letters/],
    ] as const) {
      await dialog.getByRole("textbox", { name: "Name" }).fill(name);
      assert.equal(await create.isDisabled(), name === "coder");
      await dialog.getByRole("checkbox", { name: /^I have read and accept Gemma Terms of Use/ }).check();
      await create.click();
      await dialog.getByRole("alert").getByText(refusal).waitFor();
    }
    assert.deepEqual(record(await own.get("/api/pulls"))["data"], []);
    await dialog.getByRole("textbox", { name: "Name" }).fill("gem");
    await create.click();
    await page.getByRole("heading", { name: "gem", level: 1 }).waitFor();
    await until("its model is here", async () => /gemma-3-4b/.test(JSON.stringify(await own.get("/api/models"))));
  });

  it("uses a model that is here in a slot, in a built-in one, and in a new one", async () => {
    await using own = await startBerth({
      prepare: async ({ modelsDir }) => {
        await writeTinyModel(join(modelsDir, "tiny.gguf"));
        await writeTinyModel(join(modelsDir, "other.gguf"));
        await writeTinyModel(join(modelsDir, "vectors.gguf"), { embedding: true });
      },
    });
    await using opened = await openPage(browser, `${own.url}/ui/models`);
    const { page } = opened;
    const use = (model: string, item: string): Promise<void> => {
      return page
        .getByRole("button", { name: `Use in… ${model}`, exact: true })
        .click()
        .then(() => page.getByRole("menuitem", { name: item, exact: true }).click());
    };
    const said = page.getByRole("status", { name: "What was done" });
    await page.getByRole("button", { name: "Use in… vectors" }).click();
    const menu = page.getByRole("menu", { name: "Use in… vectors" });
    await menu.getByRole("menuitem").nth(1).waitFor();
    assert.deepEqual(await menu.getByRole("menuitem").allTextContents(), ["embed (not set up)", "A new slot …"]);
    await page.keyboard.press("Escape");
    await use("tiny", "primary (not set up)");
    await said.getByText("primary holds tiny now.").waitFor();
    await own.state("primary", "ready", "idle");
    const chat = page.getByRole("link", { name: "Chat with tiny", exact: true });
    assert.equal(await chat.getAttribute("href"), "chat/?model=primary");
    await use("other", "primary");
    await until("it is swapped", async () => (await own.slot("primary"))["model"] === "other");
    await use("tiny", "A new slot …");
    const dialog = page.getByRole("dialog", { name: "New slot" });
    const { x, width } = (await dialog.boundingBox()) ?? assert.fail("the dialog is not shown");
    assert.ok(Math.abs(x + width / 2 - 1280 / 2) < 10, `the dialog begins at ${x} px`);
    await dialog.getByRole("textbox", { name: "Name" }).fill("second");
    assert.equal(await dialog.getByRole("combobox", { name: "Model" }).inputValue(), "tiny");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "second", level: 1 }).waitFor();
    // A file without a known checksum cannot be compared: the page says so.
    await page.goto(`${own.url}/ui/models`);
    await page.getByRole("button", { name: "More for other" }).click();
    await page.getByRole("menuitem", { name: "Check its files" }).click();
    await said.getByText(/^other was not fetched by Berth, .* \(docs\/models\.md\), or pull the model$/).waitFor();
    // The server's own refusal, since a slot holds it.
    await page.getByRole("button", { name: "More for other" }).click();
    await page.getByRole("menuitem", { name: "Remove" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await said.getByText(/other is held by primary/).waitFor();
  });

  it("adds a provider, reads the names of its models, and removes it", async () => {
    await using provider = await startProvider({ models: ["m1", "m2"] });
    // Without the variable the API declares no provider on this machine.
    await using own = await startBerth({ env: { SVC_API_EXEC: "1" } });
    await using opened = await openPage(browser, `${own.url}/ui/providers`);
    const { page } = opened;
    const form = page.getByRole("region", { name: "Add provider" });
    await form.getByRole("textbox", { name: "Name" }).fill("acme");
    await form.getByRole("textbox", { name: "Base URL" }).fill("nowhere");
    await form.getByRole("button", { name: "Add provider" }).click();
    await form
      .getByRole("alert")
      .getByText(/baseUrl/)
      .waitFor();
    await form.getByRole("textbox", { name: "Base URL" }).fill(provider.baseUrl);
    await form.getByRole("button", { name: "Add provider" }).click();
    const card = page.getByRole("listitem", { name: "acme", exact: true });
    await card.getByText("2 models").waitFor();
    const names = card.getByRole("group", { name: "Models of acme" });
    await until("the models are named", async () => (await names.textContent()) === "m1m2");
    await page.getByRole("button", { name: "Add provider" }).click();
    const dialog = page.getByRole("dialog", { name: "Add provider" });
    await dialog.getByRole("textbox", { name: "Name" }).fill("far");
    await dialog.getByRole("textbox", { name: "Base URL" }).fill("http://127.0.0.1:9/v1");
    await dialog.getByRole("textbox", { name: "Models" }).fill("big");
    await dialog.getByRole("combobox", { name: "Its key" }).selectOption("env");
    await dialog.getByRole("textbox", { name: "Name of the variable" }).fill("FAR_KEY");
    await dialog.getByRole("button", { name: "Add provider" }).click();
    await page.getByRole("listitem", { name: "far", exact: true }).getByText("big", { exact: true }).waitFor();
    assert.equal(await dialog.count(), 0);
    await page.getByRole("button", { name: "More for far" }).click();
    await page.getByRole("menuitem", { name: "Remove" }).click();
    await page
      .getByRole("dialog", { name: /^Remove the provider far\?/ })
      .getByRole("button", { name: "Remove" })
      .click();
    await page.getByRole("listitem", { name: "far", exact: true }).waitFor({ state: "detached" });
    await card.waitFor();
  });

  it("sees on the chart when slots were loaded and failed, and reads the chart as a table", async () => {
    await using own = await startBerth({
      prepare: async ({ configDir }) => {
        await writeFile(join(configDir, "slots/coder.toml"), slotManifest());
        await writeFile(join(configDir, "slots/helper.toml"), slotManifest("--exit-code", "3"));
      },
    });
    await own.state("coder", "ready", "idle");
    await own.state("helper", "error");
    const body = JSON.stringify({ model: "coder", stream: true, messages: [{ role: "user", content: "hi" }] });
    const headers = { "content-type": "application/json" };
    await (await fetch(`${own.url}/v1/chat/completions`, { method: "POST", headers, body })).text();
    await using opened = await openPage(browser, own.url);
    const { page } = opened;
    const traffic = page.getByRole("region", { name: "Traffic" });
    const marks = traffic.getByRole("list", { name: "Loads, restarts and failures" });
    await marks.getByText(/^coder loaded /).waitFor();
    await marks
      .getByText(/^helper failed /)
      .first()
      .waitFor();
    await traffic
      .getByRole("img", { name: /^Tokens\/s of the last fifteen minutes\. coder: .*coder loaded / })
      .waitFor();
    for (const [word, label] of [
      ["Requests/s", "Requests/s"],
      ["First token", "First token"],
      ["Tokens/s", "Tokens/s"],
    ] as const) {
      await traffic.getByRole("button", { name: word }).click();
      await traffic
        .getByRole("img", { name: new RegExp(`^${RegExp.escape(label)} of the last fifteen minutes`) })
        .waitFor();
    }
    await traffic.getByRole("button", { name: "Show as a table" }).click();
    const table = traffic.getByRole("table", { name: "Tokens/s by the minute" });
    await table.getByRole("columnheader", { name: "coder" }).waitFor();
    assert.ok((await table.getByRole("row").count()) >= 15);
    // A slot that is loaded anew is marked without a reload, on its own page each time.
    await page.goto(`${own.url}/ui/slots/coder`);
    const loads = page.getByRole("list", { name: "Loads, restarts and failures" });
    await loads.getByText(/^coder loaded (?!2)/).waitFor();
    await page.getByRole("button", { name: "More for coder" }).click();
    await page.getByRole("menuitem", { name: "Restart" }).click();
    await loads.getByText(/^coder loaded 2 times, the last /).waitFor();
  });
});
