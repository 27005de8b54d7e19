import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Locator } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startProvider, type ProviderDouble } from "../doubles/provider.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { berthWith, makeToken, openBrowser, openPage, slotManifest } from "./browser.ts";

describe("the pages", () => {
  let browser: Browser;
  let berth: RunningBerth;
  let provider: ProviderDouble;
  before(async () => {
    browser = await openBrowser();
    provider = await startProvider({ models: ["m1", "m2"] });
    berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        await writeTinyModel(join(modelsDir, "tiny.gguf"));
        await mkdir(join(configDir, "upstreams"));
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
    await provider[Symbol.asyncDispose]();
  });

  it("Machine: shows the machine's devices and what each slot holds of them, and probes again", async () => {
    await until("the memory of coder is measured", async () => (await berth.slot("coder"))["memory"] !== null);
    await using opened = await openPage(browser, `${berth.url}/ui/machine`);
    const { page } = opened;
    const held = page.getByRole("region", { name: "Memory of Host" });
    await held
      .getByRole("listitem")
      .filter({ hasText: /^\s*coder\s*[1-9]\d*\.\d MiB/ })
      .waitFor();
    await held.getByText(/ of \d+\.\d [KMG]iB free$/).waitFor();
    await page.getByText(/\d+ threads/).waitFor();
    await page
      .getByRole("listitem", { name: "Processor" })
      .getByText(/\d+\.\d GiB, \d+\.\d [KMG]iB free/)
      .waitFor();
    const again = page.getByRole("button", { name: "Look again" });
    await again.click();
    await until("it has looked", async () => !(await again.isDisabled()));
    assert.equal(await page.getByRole("alert").filter({ hasNotText: "idle_secnds" }).count(), 0);
    await held.getByRole("link", { name: "coder" }).click();
    await page.getByRole("heading", { name: "coder", level: 1 }).waitFor();
  });

  it("Providers: lists the declared providers, and a check that reports their problems", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/providers`);
    const { page } = opened;
    const card = (name: string): Locator => page.getByRole("listitem", { name, exact: true });
    await card("acme").getByText("Reachable").waitFor();
    await page.getByRole("button", { name: "Check acme" }).click();
    await card("acme")
      .getByRole("status")
      .getByText(/answers in \d+ ms, 2 models/)
      .waitFor();
    await card("wrong")
      .getByText(/models, discover, or both/)
      .waitFor();
    assert.equal(await page.getByRole("button", { name: "Check wrong" }).isDisabled(), true);
    await page.getByRole("button", { name: "Check gone" }).click();
    await card("gone").getByRole("status").getByText(/\w+/).waitFor();
  });

  it("Settings: each with its value, origin and variable", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/settings`);
    const { page } = opened;
    const ports = page.getByRole("table", { name: "Settings: Ports" });
    await ports
      .getByRole("row", { name: /SVC_PORT/ })
      .getByText("environment")
      .waitFor();
    const chatPort = ports.getByRole("row", { name: /SVC_ENGINE_PAGES_PORT/ });
    assert.equal(await chatPort.count(), 0);
    await page.getByRole("checkbox", { name: "Show defaults" }).check();
    await chatPort.getByText("default").waitFor();
    await page.getByText(/^Authentication is off: everyone/).waitFor();
    await page.getByRole("searchbox", { name: "Search" }).fill("nonsense");
    await page.getByText("No setting is called so.").waitFor();
    await page.getByRole("searchbox", { name: "Search" }).fill("");
    await page.getByText(berth.configDir, { exact: true }).first().waitFor();
  });

  it("First steps are shown until a person hides them, and every page reports a wrong manifest", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByRole("link", { name: "Chat", exact: true }).waitFor();
    const broken = page.getByRole("listitem", { name: "broken" });
    await broken.getByText(/idle_secnds/).waitFor();
    // What a person has chosen on the page below stays.
    const latency = page.getByRole("button", { name: "First token", exact: true });
    await latency.click();
    await steps.getByRole("button", { name: "Hide this" }).click();
    await steps.waitFor({ state: "detached" });
    assert.equal(await latency.getAttribute("aria-pressed"), "true");
    await page.reload();
    await page.getByRole("listitem", { name: "coder" }).waitFor();
    assert.equal(await steps.count(), 0);
    await broken.getByRole("link", { name: "broken", exact: true }).click();
    await page.getByText(/Correct the manifest/).waitFor();
    await page.getByRole("link", { name: "Edit the manifest" }).click();
    await page.getByRole("textbox", { name: "Manifest" }).waitFor();
  });

  it("A slot's page loads, unloads, restarts and swaps the slot, and shows its tokens a second", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/coder`);
    const { page } = opened;
    await page.getByRole("button", { name: "Unload coder" }).click();
    await berth.state("coder", "offline");
    await page.locator(".page-head").getByText("Unloaded by hand").waitFor();
    assert.equal(await page.getByRole("button", { name: "Unload coder" }).count(), 0);
    await page.getByRole("button", { name: "Load coder" }).click();
    const first = await berth.state("coder", "ready", "idle");
    await page.getByRole("button", { name: "More for coder" }).click();
    await page.getByRole("menuitem", { name: "Restart" }).click();
    await until("it has restarted", async () => {
      const slot = await berth.slot("coder");
      return (
        slot["restarts"] !== first["restarts"] ||
        JSON.stringify(slot["processes"]) !== JSON.stringify(first["processes"])
      );
    });
    await berth.state("coder", "ready", "idle");
    await page.goto(berth.url);
    const card = page.getByRole("listitem", { name: "coder" });
    const body = JSON.stringify({ model: "coder", stream: true, messages: [{ role: "user", content: "hi" }] });
    await until("its tokens are counted", async () => {
      const headers = { "content-type": "application/json" };
      await (await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body })).text();
      return (await card.getByText(/^[1-9]\d* tok\/s$/).count()) > 0;
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
    const swap = page.getByRole("button", { name: "Swap", exact: true });
    assert.equal(await swap.isDisabled(), true);
    await page
      .getByRole("region", { name: "Model" })
      .getByText(/^one .*trained for \d+k tokens$/)
      .waitFor();
    // It comes while the page is open.
    await writeTinyModel(join(berth.modelsDir, "three.gguf"), { name: "three" });
    const choice = page.getByRole("combobox", { name: "Model to swap in" });
    await choice.getByRole("option", { name: "three" }).waitFor({ state: "attached" });
    await choice.selectOption("two");
    await swap.click();
    await page.getByText("two, swapped in: the manifest names another one").waitFor();
    await page.getByRole("button", { name: "Back to the manifest's model" }).click();
    await until("it holds one again", async () => (await berth.slot("swapper"))["model"] === "one");
    await page.getByRole("button", { name: "Back to the manifest's model" }).waitFor({ state: "detached" });
  });

  it("A configuration that Git owns is shown and not written, and the page says why", async () => {
    await using own = await berthWith({ coder: slotManifest() }, { SVC_READ_ONLY: "1" });
    await own.state("coder", "ready", "idle");
    await using opened = await openPage(browser, `${own.url}/ui/slots/coder/manifest`);
    const { page } = opened;
    await page.getByText(/read-only here: read_only is set\. Change it where it comes from\./).waitFor();
    const manifest = page.getByRole("textbox", { name: "Manifest" });
    const text = await manifest.inputValue();
    await manifest.focus();
    await page.keyboard.type("x");
    assert.equal(await manifest.inputValue(), text);
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
      "/ui/requests",
      "/ui/machine",
      "/ui/providers",
      "/ui/settings",
      "/ui/settings/tokens",
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
    await page.goto(`${own.url}/ui/settings/tokens`);
    await page.getByRole("button", { name: "New token" }).click();
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
