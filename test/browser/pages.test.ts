import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startHub, type Hub } from "../doubles/hub.ts";
import { startProvider, type ProviderDouble } from "../doubles/provider.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { berthWith, makeToken, openBrowser, openPage, slotManifest } from "./browser.ts";

describe("the pages", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let hub: Hub;
  let provider: ProviderDouble;
  before(async () => {
    browser = await openBrowser();
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const tiny = await readFile(path);
    const licensed = "gemma-3-4b-it-Q4_K_M.gguf";
    hub = await startHub({ "tiny.gguf": tiny, "large.bin": randomBytes(8 * 1024 * 1024), [licensed]: tiny });
    provider = await startProvider({ models: ["m1", "m2"] });
    berth = await startBerth({
      env: { HF_ENDPOINT: hub.server.url, SVC_DISK_RESERVE: "0" },
      prepare: async ({ configDir }) => {
        await mkdir(join(configDir, "models"));
        await mkdir(join(configDir, "upstreams"));
        await writeFile(
          join(configDir, "models/gem.toml"),
          `source = "hf://ggml-org/gemma-3-4b-it-GGUF/${licensed}"\n`,
        );
        await writeFile(join(configDir, "upstreams/acme.toml"), `baseUrl = "${provider.baseUrl}"\n[discover]\n`);
        await writeFile(join(configDir, "upstreams/gone.toml"), 'baseUrl = "http://127.0.0.1:9/v1"\n[discover]\n');
        await writeFile(join(configDir, "upstreams/wrong.toml"), 'baseUrl = "http://127.0.0.1:9/v1"\n');
        await writeFile(join(configDir, "slots/coder.toml"), slotManifest("--tokens", "40", "--token-ms", "20"));
        await writeFile(join(configDir, "slots/broken.toml"), `idle_secnds = 1\n${slotManifest()}`);
      },
    });
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
    await hub[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  });

  it("Models: pulls with progress, cancels, and removes a model with its files", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/models`);
    const { page } = opened;
    hub.hold();
    const pulls = page.getByRole("table", { name: "Pulls" });
    const address = page.getByRole("textbox", { name: "Address" });
    await address.fill("hf://acme/tiny/large.bin");
    await page.getByRole("button", { name: "Pull", exact: true }).click();
    const large = pulls.getByRole("row", { name: /^large/ });
    await large.getByText(/^50 % 4\.0 MiB of 8\.0 MiB|5\d % .* of 8\.0 MiB/).waitFor();
    assert.ok(Number(await large.getByRole("progressbar").getAttribute("value")) >= 4 * 1024 * 1024);
    await large.getByRole("button", { name: /^Cancel/ }).click();
    await large.getByText("cancelled").waitFor();
    assert.equal(await large.getByRole("button").count(), 0);
    hub.release();
    await address.fill("hf://acme/tiny/tiny.gguf");
    await page.getByRole("button", { name: "Pull", exact: true }).click();
    const here = page.getByRole("table", { name: "Models on this machine" }).getByRole("row", { name: /^tiny/ });
    await here.getByText("available").waitFor();
    const model = await berth.get("/api/models/tiny");
    const path = typeof model === "object" && model !== null && "path" in model ? String(model.path) : "";
    await stat(path);
    await here.getByRole("button", { name: "Remove tiny" }).click();
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
    await address.fill("ftp://acme/tiny");
    await page.getByRole("button", { name: "Pull", exact: true }).click();
    await page
      .getByRole("alert")
      .getByText(/hf:\/\//)
      .waitFor();
  });

  it("Models: the catalogue says what fits, and a licence is accepted before its model is fetched", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/models`);
    const { page } = opened;
    hub.release();
    const catalogue = page.getByRole("table", { name: "Catalogue" });
    await catalogue.getByRole("row").nth(1).waitFor();
    for (const row of (await catalogue.getByRole("row").all()).slice(1))
      assert.match((await row.textContent()) ?? "", /^(?:fits|fits with other settings|does not fit|not known)/);
    const gemma = catalogue.getByRole("row", { name: /gemma-3-4b-it/ });
    assert.equal(await gemma.getByRole("button", { name: "Pull gemma-3-4b-it" }).isDisabled(), true);
    assert.equal(
      await gemma.getByRole("link", { name: "Gemma Terms of Use" }).first().getAttribute("href"),
      "https://ai.google.dev/gemma/terms",
    );
    // The same licence, of a model that a manifest declares and of an address: the page asks when the server wants it.
    const declared = page.getByRole("table", { name: "Models on this machine" }).getByRole("row", { name: /^gem / });
    await declared.getByRole("button", { name: "Pull gem" }).click();
    await declared.getByRole("checkbox", { name: "I accept the licence of gem" }).check();
    await page
      .getByRole("textbox", { name: "Address" })
      .fill("hf://ggml-org/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf");
    await page.getByRole("button", { name: "Pull", exact: true }).click();
    await page.getByRole("checkbox", { name: "I accept the licence of gemma-3-4b-it-Q4_K_M.gguf" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Pull", exact: true }).isDisabled(), true);
    await gemma.getByRole("checkbox", { name: /I accept the licence/ }).check();
    await gemma.getByRole("button", { name: "Pull gemma-3-4b-it" }).click();
    await gemma.getByText("is here").waitFor();
    await declared.getByRole("button", { name: "Pull gem" }).click();
    await declared.getByText("available").waitFor();
  });

  it("Hardware: shows the machine's devices and what each slot holds of them, and probes again", async () => {
    await until("the memory of coder is measured", async () => (await berth.slot("coder"))["memory"] !== null);
    await using opened = await openPage(browser, `${berth.url}/ui/hardware`);
    const { page } = opened;
    const held = page.getByRole("table", { name: "Memory of host by slot" });
    await held.getByRole("row", { name: /^coder .*[1-9]\d*\.\d MiB/ }).waitFor();
    await held.getByRole("meter", { name: "coder holds" }).waitFor();
    await page.getByText(/cores, \d+ threads/).waitFor();
    await page.getByText(/available of/).waitFor();
    await page.getByRole("button", { name: "Look again" }).click();
    await until("it has looked", async () => !(await page.getByRole("button", { name: "Look again" }).isDisabled()));
    assert.equal(await page.getByRole("alert").filter({ hasNotText: "idle_secnds" }).count(), 0);
    await held.getByRole("link", { name: "coder" }).click();
    await page.getByRole("heading", { name: "coder", level: 1 }).waitFor();
  });

  it("Providers: lists the declared providers, and a check that reports their problems", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/upstreams`);
    const { page } = opened;
    const providers = page.getByRole("table", { name: "Providers" });
    await providers.getByRole("row", { name: /^acme/ }).getByText("closed").waitFor();
    await page.getByRole("button", { name: "Check acme" }).click();
    await providers
      .getByRole("row", { name: /^acme/ })
      .getByRole("status")
      .getByText(/answers in \d+ ms, 2 models/)
      .waitFor();
    await providers
      .getByRole("row", { name: /^wrong/ })
      .getByText(/models, discover, or both/)
      .waitFor();
    assert.equal(await page.getByRole("button", { name: "Check wrong" }).isDisabled(), true);
    await page.getByRole("button", { name: "Check gone" }).click();
    await providers.getByRole("row", { name: /^gone/ }).getByRole("status").getByText(/\w+/).waitFor();
  });

  it("Settings: each with its value, origin and variable", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/settings`);
    const { page } = opened;
    const settings = page.getByRole("table", { name: "Settings" });
    await settings
      .getByRole("row", { name: /SVC_PORT/ })
      .getByText("environment")
      .waitFor();
    await settings.getByRole("row", { name: /SVC_CHAT_PORT/ }).waitFor();
    await page.getByText("You are anonymous").waitFor();
    await page.getByText(berth.configDir).first().waitFor();
  });

  it("First steps are shown until a person hides them, and every page reports a wrong manifest", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByRole("link", { name: "talk to it" }).waitFor();
    const broken = page.getByRole("row", { name: /^broken/ });
    await broken.getByText(/idle_secnds/).waitFor();
    await steps.getByRole("button", { name: "Hide this" }).click();
    await steps.waitFor({ state: "detached" });
    await page.reload();
    await page.getByRole("row", { name: /^coder/ }).waitFor();
    assert.equal(await steps.count(), 0);
    await page.getByRole("link", { name: "broken" }).click();
    await page.getByText(/Next:/).waitFor();
    await page.getByText(/Correct the manifest below/).waitFor();
  });

  it("A slot's page loads, unloads, restarts and swaps the slot, and shows its tokens a second", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/coder`);
    const { page } = opened;
    await page.getByRole("button", { name: "Unload", exact: true }).click();
    await berth.state("coder", "offline");
    await page.locator("main strong").getByText("offline").waitFor();
    assert.equal(await page.getByRole("button", { name: "Unload", exact: true }).isDisabled(), true);
    await page.getByRole("button", { name: "Load", exact: true }).click();
    const first = await berth.state("coder", "ready", "idle");
    await page.getByRole("button", { name: "Restart" }).click();
    await until("it has restarted", async () => {
      const slot = await berth.slot("coder");
      return (
        slot["restarts"] !== first["restarts"] ||
        JSON.stringify(slot["processes"]) !== JSON.stringify(first["processes"])
      );
    });
    await berth.state("coder", "ready", "idle");
    await page.goto(berth.url);
    const row = page.getByRole("row", { name: /^coder/ });
    const body = JSON.stringify({ model: "coder", stream: true, messages: [{ role: "user", content: "hi" }] });
    await until("the line of tokens rises", async () => {
      const headers = { "content-type": "application/json" };
      await (await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body })).text();
      return (await row.getByRole("img", { name: /tokens a second: [1-9]/ }).count()) > 0;
    });
  });

  it("A slot's page swaps the model, and returns to the manifest's model", async () => {
    await writeTinyModel(join(berth.modelsDir, "one.gguf"), { name: "one" });
    await writeTinyModel(join(berth.modelsDir, "two.gguf"), { name: "two" });
    const manifest = `load = "onDemand"\n${slotManifest()}[model]\ndefault = "one"\n`;
    await writeFile(join(berth.configDir, "slots/swapper.toml"), manifest);
    await until("it holds one", async () => (await berth.slot("swapper"))["model"] === "one");
    await using opened = await openPage(browser, `${berth.url}/ui/slots/swapper`);
    const { page } = opened;
    const swap = page.getByRole("button", { name: "Swap" });
    assert.equal(await swap.isDisabled(), true);
    await page.getByRole("combobox", { name: "Model to swap in" }).selectOption("two");
    await swap.click();
    await page.getByText("two (swapped in; the manifest names another one)").waitFor();
    await page.getByRole("button", { name: "Back to the manifest's model" }).click();
    await until("it holds one again", async () => (await berth.slot("swapper"))["model"] === "one");
    await page.getByRole("button", { name: "Back to the manifest's model" }).waitFor({ state: "detached" });
  });

  it("A configuration that Git owns is shown and not written, and the page says why", async () => {
    await using own = await berthWith({ coder: slotManifest() }, { SVC_READ_ONLY: "1" });
    await own.state("coder", "ready", "idle");
    await using opened = await openPage(browser, `${own.url}/ui/slots/coder`);
    const { page } = opened;
    await page.getByText(/read-only here: read_only is set\. Change it where it comes from\./).waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Manifest" }).getAttribute("readonly"), "");
    for (const name of ["Save", "Validate"]) assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByText(/which Berth only reads: Git or the cluster owns it/).waitFor();
  });

  it("A token without the scope: a sentence with what to do, on every page", async () => {
    await using own = await berthWith({ coder: slotManifest() }, { SVC_AUTH_ENABLED: "1" });
    const tokenOf = async (scope: string): Promise<string> => {
      return await makeToken(own, scope, scope);
    };
    const [poor, reader, admin] = [await tokenOf("v1-only"), await tokenOf("read-only"), await tokenOf("admin")];
    await using opened = await openPage(browser, own.url, { permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = opened;
    const give = async (token: string): Promise<void> => {
      await page.getByLabel("Token").fill(token);
      await page.getByRole("button", { name: "Use token" }).click();
    };
    const forget = async (): Promise<void> => {
      await page.goto(`${own.url}/ui/settings`);
      await page.getByRole("button", { name: "Forget the token" }).click();
      await page.getByRole("textbox", { name: "Token" }).waitFor();
    };
    await give(poor);
    const refusal = /this needs a higher scope than v1-only\. Use a token with more rights/;
    await page.getByRole("alert").getByText(refusal).waitFor();
    await page.getByText("not allowed", { exact: true }).waitFor();
    for (const path of [
      "/ui/slots/coder",
      "/ui/models",
      "/ui/groups",
      "/ui/hardware",
      "/ui/upstreams",
      "/ui/tokens",
      "/ui/requests",
      "/ui/settings",
    ]) {
      await page.goto(`${own.url}${path}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.getByRole("alert").getByText(refusal).first().waitFor();
    }
    await forget();
    // The address stays the one of Settings; the token is asked for once.
    await give(reader);
    await page.getByText("You are read-only, with the scope read-only").waitFor();
    await page.goto(own.url);
    await page.getByRole("button", { name: "Unload coder" }).click();
    await page
      .getByRole("alert")
      .getByText(/this needs a higher scope than read-only\. Use a token/)
      .waitFor();
    await forget();
    await give(admin);
    await page.goto(`${own.url}/ui/tokens`);
    await page.getByRole("textbox", { name: "Label" }).fill("phone");
    await page.getByRole("combobox", { name: "Scope" }).selectOption("read-only");
    await page.getByRole("button", { name: "Create token" }).click();
    const shown = (await page.getByRole("region", { name: "New token" }).locator("code").textContent()) ?? "";
    await page.getByRole("button", { name: "Copy the token" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate("navigator.clipboard.readText()"), shown);
    const me = await fetch(`${own.url}/api/auth/me`, { headers: { authorization: `Bearer ${shown}` } });
    assert.equal(me.status, 200);
    await page.getByRole("button", { name: "I have it" }).click();
    assert.equal(await page.getByText(shown).count(), 0);
    await page.getByRole("button", { name: "Revoke phone" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("row", { name: /^phone/ }).waitFor({ state: "detached" });
    const after = await fetch(`${own.url}/api/auth/me`, { headers: { authorization: `Bearer ${shown}` } });
    assert.equal(after.status, 401);
  });
});
