import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Locator } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startHub, type Hub } from "../doubles/hub.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { list, record } from "../support/openai.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { openBrowser, openPage } from "./browser.ts";

describe("the page Models", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let hub: Hub;
  before(async () => {
    browser = await openBrowser();
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const tiny = await readFile(path);
    const licensed = "gemma-3-4b-it-Q4_K_M.gguf";
    hub = await startHub({ "tiny.gguf": tiny, "large.bin": randomBytes(8 * 1024 * 1024), [licensed]: tiny });
    berth = await startBerth({
      env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" },
      prepare: async ({ configDir }) => {
        await mkdir(join(configDir, "models"));
        const source = `source = "hf://ggml-org/gemma-3-4b-it-GGUF/${licensed}"\n`;
        await writeFile(join(configDir, "models/gem.toml"), source);
        await writeFile(join(configDir, "slots/helper.toml"), '[model]\ndefault = "gemma-3-4b-it"\n');
      },
    });
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
  });

  it("finds what a person names, pulls with progress, cancels, and removes a model with its files", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/models`);
    const { page } = opened;
    hub.hold();
    const name = page.getByRole("textbox", { name: "Model, repository or address" });
    const find = async (text: string): Promise<void> => {
      await name.fill(text);
      await page.getByRole("button", { name: "Find" }).click();
    };
    const found = page.getByRole("table", { name: "Models of that name" });
    await find("hf://acme/tiny/large.bin");
    await found.getByRole("button", { name: /^Pull/ }).click();
    const large = page.getByRole("list", { name: "Pulls" }).getByRole("listitem", { name: /^large/ });
    await large.getByText(/^50 % 4\.0 MiB of 8\.0 MiB|5\d % .* of 8\.0 MiB/).waitFor();
    assert.ok(Number(await large.getByRole("progressbar").getAttribute("value")) >= 4 * 1024 * 1024);
    await large.getByRole("button", { name: /^Cancel/ }).click();
    await large.getByText("was cancelled").waitFor();
    assert.equal(await large.getByRole("button").count(), 0);
    hub.release();
    await find("hf://acme/tiny/tiny.gguf");
    await found.getByRole("button", { name: /^Pull/ }).click();
    // From then on nothing moves.
    await page
      .getByRole("list", { name: "Pulls" })
      .getByRole("listitem", { name: "tiny" })
      .getByText("is here")
      .waitFor();
    const here = page.getByRole("list", { name: "Models on this machine" }).getByRole("listitem", { name: "tiny" });
    await here.getByText("Here", { exact: true }).waitFor();
    const model = await berth.get("/api/models/tiny");
    const path = typeof model === "object" && model !== null && "path" in model ? String(model.path) : "";
    await stat(path);
    await here.getByRole("button", { name: "More for tiny" }).click();
    await page.getByRole("menuitem", { name: "Check its files" }).click();
    await page.getByRole("list", { name: "Pulls" }).getByText("is whole").waitFor();
    await here.getByRole("button", { name: "More for tiny" }).click();
    await page.getByRole("menuitem", { name: "Remove" }).click();
    await page
      .getByRole("dialog", { name: "Remove tiny and its files?" })
      .getByRole("button", { name: "Remove" })
      .click();
    await here.waitFor({ state: "detached" });
    await until("its file is gone", () =>
      stat(path).then(
        () => false,
        () => true,
      ),
    );
    await find("ftp://acme/tiny");
    await found.getByRole("button", { name: /^Pull/ }).click();
    await page
      .getByRole("alert")
      .getByText(/hf:\/\//)
      .waitFor();
  });

  it("looks for the model that the address names, and shows no answer under a later text", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/models?find=qwen3-0.6b`);
    const { page } = opened;
    const found = page.getByRole("table", { name: "Models of that name" }).getByRole("row");
    const only = async (name: string): Promise<void> => {
      await found.nth(1).getByText(name, { exact: true }).waitFor();
      assert.equal(await found.count(), 2);
    };
    await only("qwen3-0.6b");
    const slow = Promise.withResolvers<undefined>();
    await page.route("**/api/models/hub?name=slow", async (route) => {
      await slow.promise;
      const data = [{ name: "slow", quantization: null, size_bytes: 1, is_projector: false, fit: null }];
      await route.fulfill({ json: { object: "list", data, repository: null, left_out: 0 } });
    });
    const name = page.getByRole("textbox", { name: "Model, repository or address" });
    const find = page.getByRole("button", { name: "Find" });
    await name.fill("slow");
    await find.click();
    await name.fill("qwen3-4b");
    await find.click();
    await only("qwen3-4b");
    slow.resolve(undefined);
    await page.unrouteAll({ behavior: "wait" });
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    await only("qwen3-4b");
  });

  it("says of its catalogue what fits, and has a licence accepted before its model is fetched", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/models`);
    const { page } = opened;
    hub.release();
    const failed = await berth.state("helper", "error");
    const catalogue = page.getByRole("list", { name: "Catalogue" });
    await catalogue.getByRole("listitem").first().waitFor();
    const words = {
      fits: "Fits",
      fits_with: "Fits with other settings",
      does_not_fit: "Does not fit",
      unknown: "Not known",
    };
    const entries = list(record(await berth.get("/api/models/catalog"))["data"]);
    const verdicts = new Map(
      entries.map(({ title, fit }) => [title, new Map(Object.entries(words)).get(String(record(fit)["verdict"]))]),
    );
    const cards = async (): Promise<readonly (readonly [string | null, string | null])[]> => {
      const all = await catalogue.getByRole("listitem").all();
      return await Promise.all(
        all.map(async (card) => [await card.getAttribute("aria-label"), await card.locator(".pill").textContent()]),
      );
    };
    assert.deepEqual(new Map(await cards()), verdicts);
    await page.getByRole("checkbox", { name: "Only what fits" }).check();
    const fitting = [...verdicts].filter(([, word]) => word?.startsWith("Fits") === true);
    assert.deepEqual(new Map(await cards()), new Map(fitting));
    await page.getByRole("searchbox", { name: "Search" }).fill("no such model");
    assert.deepEqual(await cards(), []);
    await page.getByText("None of them is what you look for.").last().waitFor();
    await page.getByRole("searchbox", { name: "Search" }).fill("");
    await page.getByRole("checkbox", { name: "Only what fits" }).uncheck();
    const gemma = catalogue.getByRole("listitem").filter({ has: page.getByText("gemma-3-4b-it", { exact: true }) });
    assert.equal(
      await gemma.getByRole("link", { name: "Gemma Terms of Use" }).first().getAttribute("href"),
      "https://ai.google.dev/gemma/terms",
    );
    const asked = (of: string): Locator => page.getByRole("dialog", { name: `The licence of ${of}`, exact: true });
    await gemma.getByRole("button", { name: "Pull gemma-3-4b-it" }).click();
    assert.equal(
      await asked("gemma-3-4b-it").getByRole("link", { name: "Gemma Terms of Use" }).getAttribute("href"),
      "https://ai.google.dev/gemma/terms",
    );
    await page.keyboard.press("Escape");
    await asked("gemma-3-4b-it").waitFor({ state: "detached" });
    // The same licence, of a model that a manifest declares and of an address: the page asks when the server wants it.
    const here = page.getByRole("list", { name: "Models on this machine" });
    const declared = here.getByRole("listitem", { name: "gem", exact: true });
    await declared.getByRole("button", { name: "Pull gem" }).click();
    await asked("gem").getByRole("button", { name: "Close" }).click();
    const address = "hf://ggml-org/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf";
    await page.getByRole("textbox", { name: "Model, repository or address" }).fill(address);
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByRole("table", { name: "Models of that name" }).getByRole("button", { name: /^Pull/ }).click();
    await page
      .getByRole("dialog", { name: /^The licence of/ })
      .getByRole("button", { name: "Close" })
      .click();
    const pulled = list(record(await berth.get("/api/pulls"))["data"]).map(({ model }) => String(model));
    assert.deepEqual(
      pulled.filter((name) => name.startsWith("gem")),
      [],
    );
    await gemma.getByRole("button", { name: "Pull gemma-3-4b-it" }).click();
    await asked("gemma-3-4b-it").getByRole("button", { name: "Accept and pull" }).click();
    await gemma.getByText("is here").waitFor();
    // The slot that has named it all the time, and has said how it is pulled, loads it by itself.
    assert.match(JSON.stringify(failed), /fetch it by `berth model pull gemma-3-4b-it`/);
    assert.equal((await berth.state("helper", "ready", "idle"))["model"], "gemma-3-4b-it");
    await declared.getByRole("button", { name: "Pull gem" }).click();
    await asked("gem").getByRole("button", { name: "Accept and pull" }).click();
    await declared.getByText("Here", { exact: true }).waitFor();
  });
});
