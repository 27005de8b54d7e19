import assert from "node:assert/strict";
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { double, openBrowser, openPage, slotManifest, slotOnDouble } from "./browser.ts";

async function ask(page: Page, model: string, text: string): Promise<void> {
  await page.getByRole("combobox", { name: "Model" }).selectOption(model);
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

/** There is something to hear: Chromium's own microphone beeps once a second. */
async function hasRecorded(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Stop recording" }).waitFor();
  const began: number = await page.evaluate("performance.now()");
  await until("it has recorded", async () => Number(await page.evaluate("performance.now()")) > began + 1500);
}

/** The bytes of an empty picture. */
async function pngOf(page: Page, width = 300, height = 150): Promise<Buffer> {
  const canvas = `Object.assign(document.createElement("canvas"), { width: ${width}, height: ${height} })`;
  const text: string = await page.evaluate(`${canvas}.toDataURL("image/png").split(",")[1]`);
  return Buffer.from(text, "base64");
}

describe("the chat page", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        await writeTinyModel(join(modelsDir, "one.gguf"), { name: "one" });
        // A DOUBLE that begins once the test says so.
        const gate = join(modelsDir, "gate");
        const wait = [
          'import { existsSync } from "node:fs";',
          'import { setTimeout as delay } from "node:timers/promises";',
          `while (!existsSync(${JSON.stringify(gate)})) await delay(20);`,
          `await import(${JSON.stringify(double)});`,
        ].join("\n");
        await writeFile(join(modelsDir, "gated.mjs"), wait);
        const gated = JSON.stringify([process.execPath, join(modelsDir, "gated.mjs")]);
        await writeFile(
          join(configDir, "slots/cold.toml"),
          `engine = "custom"\nload = "onDemand"\ncommand = ${gated}\n`,
        );
        await writeFile(join(configDir, "slots/coder.toml"), `${slotManifest()}[model]\ndefault = "one"\n`);
        await writeFile(join(configDir, "slots/img.toml"), slotOnDouble("sdxl-turbo", "comfyui.ts"));
        await writeFile(join(configDir, "slots/tts.toml"), slotOnDouble("kokoro", "kokoro.ts"));
        const path = ["--inference-path", "/v1/audio/transcriptions"];
        await writeFile(join(configDir, "slots/stt.toml"), slotOnDouble("whisper-tiny", "whisper.ts", ...path));
      },
    });
    for (const name of ["coder", "img", "tts", "stt"]) await berth.state(name, "ready", "idle");
    await berth.state("cold", "offline");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("says in words what a held request waits for, until the slot answers", async () => {
    const left = new AbortController();
    const body = JSON.stringify({ model: "cold", stream: true, messages: [{ role: "user", content: "first" }] });
    const headers = { "content-type": "application/json" };
    const first = fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body, signal: left.signal });
    first.catch(() => undefined);
    await until("the first waits", async () => Number((await berth.slot("cold"))["held"]) === 1);
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await ask(page, "cold", "second");
    const messages = page.getByRole("log", { name: "Messages" });
    await page
      .getByRole("status")
      .getByText(/^cold is (?:starting|loading|about to be loaded), second in line …$/)
      .waitFor();
    left.abort();
    await page
      .getByRole("status")
      .getByText(/^cold is (?:starting|loading), first in line …$/)
      .waitFor();
    await writeFile(join(berth.modelsDir, "gate"), "");
    await messages.getByText(/^\d+ tokens?\b/).waitFor();
    assert.equal(await page.getByRole("status", { name: "Progress" }).textContent(), "");
  });

  it("names slots and models, and sends the message to the chosen model", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    for (const model of ["coder", "one"]) {
      await page.getByRole("button", { name: "New chat" }).click();
      await ask(page, model, `to ${model}`);
      await page
        .getByRole("article", { name: model })
        .getByText(/^\d+ tokens?\b/)
        .waitFor();
    }
    // A model that nobody has: the page says what to do.
    await page.route("**/v1/chat/completions", (route) =>
      route.continue({ postData: (route.request().postData() ?? "").replace('"model":"one"', '"model":"nobody"') }),
    );
    await ask(page, "one", "to nobody");
    await page
      .getByRole("alert")
      .getByText(/Choose another model above\./)
      .waitFor();
  });

  it("sends pictures, scaled to the size that a model takes, and refuses other files and pictures that are too large", async () => {
    await using directory = await tempDir();
    const large = join(directory.path, "large.png");
    await using file = await open(large, "w");
    await file.truncate(51 * 1024 * 1024);
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const attach = page.getByLabel("Attach a picture");
    await attach.setInputFiles(large);
    await page.getByRole("alert").getByText("large.png is larger than 50 MiB; attach a smaller picture.").waitFor();
    await attach.setInputFiles({ name: "a.zip", mimeType: "application/zip", buffer: Buffer.from("text") });
    await page.getByRole("alert").getByText("a.zip is neither a picture nor a text.").waitFor();
    await attach.setInputFiles({ name: "a.png", mimeType: "image/png", buffer: Buffer.from("text") });
    await page
      .getByRole("alert")
      .getByText(/a\.png cannot be read as a picture/)
      .waitFor();
    const wide = { name: "wide.png", mimeType: "image/png", buffer: await pngOf(page, 3000, 1000) };
    const other = { name: "b.zip", mimeType: "application/zip", buffer: Buffer.from("text") };
    await attach.setInputFiles([wide, other, { ...wide, name: "other.png" }]);
    await page.getByRole("alert").getByText("b.zip is neither a picture nor a text.").waitFor();
    await page.getByRole("button", { name: "Remove picture 2" }).click();
    await page.getByRole("button", { name: "Remove picture 2" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Remove picture 1" }).waitFor();
    const [request] = await Promise.all([
      page.waitForRequest("**/v1/chat/completions"),
      ask(page, "coder", "what is this?"),
    ]);
    const body: unknown = JSON.parse(request.postData() ?? "");
    const messages = JSON.stringify(isRecord(body) ? body["messages"] : undefined);
    assert.match(messages, /"type":"image_url","image_url":\{"url":"data:image\/png;base64,/);
    await page.getByRole("img", { name: "attached picture" }).waitFor();
    const size: unknown = await page.evaluate(
      "(async (image) => { await image.decode(); return [image.naturalWidth, image.naturalHeight]; })(document.querySelector('img[alt=\"attached picture\"]'))",
    );
    assert.deepEqual(size, [1536, 512]);
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  it("sends an attached text as a block under its name, and refuses a file that is no text", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const attach = page.getByLabel("Attach a picture or a text");
    const message = page.getByRole("textbox", { name: "Message" });
    await message.fill("Explain this.");
    // Browsers take a `.ts` for a film.
    await attach.setInputFiles({
      name: "a.ts",
      mimeType: "video/mp2t",
      buffer: Buffer.from("const text = `\n```\n`;\n"),
    });
    const block = "a.ts:\n````ts\nconst text = `\n```\n`;\n````";
    const chip = page.getByRole("button", { name: "Remove a.ts" });
    await chip.waitFor();
    assert.equal(await message.inputValue(), "Explain this.");
    await attach.setInputFiles({ name: "a.log", mimeType: "", buffer: Buffer.alloc(256 * 1024 + 1, "a") });
    await page.getByRole("alert").getByText("a.log is larger than 256 KiB; attach a part of it.").waitFor();
    await attach.setInputFiles({ name: "b.log", mimeType: "", buffer: Buffer.from([0, 1, 2]) });
    await page.locator("form").getByRole("alert").getByText("b.log is no text.").waitFor();
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await page.evaluate(`(() => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", "word ".repeat(4001));
      const pasted = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
      document.querySelector("textarea").dispatchEvent(pasted);
    })()`);
    await page.getByRole("button", { name: "Remove pasted.txt" }).click();
    const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), message.press("Enter")]);
    const { messages } = JSON.parse(request.postData() ?? "");
    assert.deepEqual(messages, [{ role: "user", content: `${block}\n\nExplain this.` }]);
    await page.getByRole("article", { name: "You" }).locator("summary").getByText("a.ts").click();
    await page.getByRole("article", { name: "You" }).getByText("const text").waitFor();
    assert.equal(await chip.count(), 0);
    await until("its title has the person's words", async () => (await page.title()) === "Explain this. · Berth chat");
  });

  it("goes on saying what is wrong with a file once the conversations are read", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    const isRead = Promise.withResolvers<undefined>();
    await page.route("**/api/conversations", async (route) => {
      await isRead.promise;
      await route.continue();
    });
    await page.goto(`${berth.url}/chat/`);
    await page
      .getByLabel("Attach a picture")
      .setInputFiles({ name: "a.zip", mimeType: "application/zip", buffer: Buffer.from("text") });
    const refusal = page.getByRole("alert").getByText(/^a\.zip is neither/);
    await refusal.waitFor();
    const answer = page.waitForResponse("**/api/conversations");
    isRead.resolve(undefined);
    await (await answer).finished();
    // The page draws the list of conversations with the next frame.
    await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
    assert.equal(await refusal.count(), 1);
  });

  it("sends no message before its pictures are read", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.addInitScript(`
      const real = window.createImageBitmap;
      window.createImageBitmap = async (file) => {
        await new Promise((read) => (window.read = read));
        return await real(file);
      };
    `);
    await page.goto(`${berth.url}/chat/`);
    const buffer = await pngOf(page);
    await page.getByLabel("Attach a picture").setInputFiles({ name: "a.png", mimeType: "image/png", buffer });
    await page.getByText("reading files …").waitFor();
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    const message = page.getByRole("textbox", { name: "Message" });
    await message.fill("what is this?");
    await message.press("Enter");
    assert.equal(await page.getByRole("button", { name: "Send" }).isDisabled(), true);
    assert.equal(await message.inputValue(), "what is this?");
    await until("it is read", async () => (await page.evaluate("typeof window.read")) === "function");
    await page.evaluate("window.read()");
    await page.getByRole("button", { name: "Remove picture 1" }).waitFor();
    const [request] = await Promise.all([page.waitForRequest("**/v1/chat/completions"), message.press("Enter")]);
    assert.match(request.postData() ?? "", /"type":"image_url"/);
  });

  it("offers what only draws after all that talks, and shows what an image slot has drawn", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const options = page.getByRole("combobox", { name: "Model" }).getByRole("option");
    await options.first().waitFor({ state: "attached" });
    const names = (await options.allTextContents()).map((text) => text.split(" · ")[0] ?? "");
    assert.equal(names.at(-1), "img", names.join());
    await ask(page, "img", "a cat");
    await page.getByRole("img", { name: "drawn by img" }).waitFor();
    const width: unknown = await page.evaluate(
      "(async (image) => { await image.decode(); return image.naturalWidth; })(document.querySelector('img[alt=\"drawn by img\"]'))",
    );
    assert.ok(Number(width) >= 256, String(width));
  });

  it("transcribes speech, and says what to do where the microphone is refused", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    const record = page.getByRole("button", { name: "Record" });
    await record.click();
    await page
      .getByRole("alert")
      .getByText(/gave no microphone: allow it for this page, then press Record again/)
      .waitFor();
    await page.context().grantPermissions(["microphone"]);
    await record.click();
    await hasRecorded(page);
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.getByRole("button", { name: "Stop recording" }).click();
    // What the double "hears" is the size and the digest of the file.
    const message = page.getByRole("textbox", { name: "Message" });
    await until(
      "it is written down",
      async () => {
        const [problem] = await page.getByRole("alert").allTextContents();
        assert.equal(problem, undefined);
        return /^The file has \d+ bytes/.test(await message.inputValue());
      },
      60_000,
    );
  });

  it("reads an answer aloud, and says so where the browser cannot play it", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await ask(page, "coder", "hello");
    const speak = page.getByRole("button", { name: "Speak" });
    await speak.waitFor();
    const [request] = await Promise.all([page.waitForRequest("**/v1/audio/speech"), speak.click()]);
    const body: unknown = JSON.parse(request.postData() ?? "");
    assert.ok(isRecord(body) && String(body["input"]).startsWith("token0 token1") && body["voice"] === "af_bella");
    // The double's bytes are no sound.
    await page
      .getByRole("alert")
      .getByText(/The browser cannot play what tts has said/)
      .waitFor();
    await speak.waitFor();
  });

  it("ends a reading and a recording when another conversation is shown, and writes down what was said", async () => {
    await using opened = await openPage(browser, `${berth.url}/chat/`);
    const { page } = opened;
    await page.context().grantPermissions(["microphone"]);
    await ask(page, "coder", "hello");
    const ended = Promise.withResolvers<string>();
    page.on("requestfailed", (request) => ended.resolve(request.url()));
    let isRequested = false;
    // Never answered.
    await page.route("**/v1/audio/speech", () => {
      isRequested = true;
    });
    await page.getByRole("button", { name: "Speak" }).click();
    await until("it is requested", () => isRequested);
    const newChat = page.getByRole("button", { name: "New chat" });
    await newChat.click();
    assert.match(await ended.promise, /\/v1\/audio\/speech$/);
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.getByRole("button", { name: "Record" }).click();
    await hasRecorded(page);
    await newChat.click();
    await page.getByRole("button", { name: "Record" }).waitFor();
    const message = page.getByRole("textbox", { name: "Message" });
    await until("it is written down", async () => /^The file has \d+ bytes/.test(await message.inputValue()), 60_000);
  });

  it("turns each microphone off that it has turned on", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    // A person takes time to allow it.
    await page.addInitScript(`
      window.tracks = [];
      window.asked = [];
      const { mediaDevices } = navigator;
      const real = mediaDevices.getUserMedia.bind(mediaDevices);
      mediaDevices.getUserMedia = async (what) => {
        await new Promise((allow) => window.asked.push(allow));
        const stream = await real(what);
        window.tracks.push(...stream.getTracks());
        return stream;
      };
    `);
    await page.context().grantPermissions(["microphone"]);
    const slots = ["coder", "stt"];
    await page.route("**/v1/models?*", async (route) => {
      const response = await route.fetch();
      const { data }: { data: readonly { id: string }[] } = await response.json();
      const kept = data.filter(({ id }) => slots.includes(id));
      const berth = { kind: "model", state: "", slot: null, capabilities: ["chat"] };
      const gone = slots.includes("stt") ? [] : [{ id: "without stt", object: "model", berth }];
      await route.fulfill({ response, json: { object: "list", data: [...kept, ...gone] } });
    });
    await page.goto(`${berth.url}/chat/`);
    const record = page.getByRole("button", { name: "Record" });
    const stop = page.getByRole("button", { name: "Stop recording" });
    const allow = (): Promise<unknown> => page.evaluate("window.asked.splice(0).forEach((each) => each())");
    const states = (): Promise<string> => page.evaluate("window.tracks.map(({ readyState }) => readyState).join()");
    await record.click();
    await record.click();
    assert.equal(await page.evaluate("window.asked.length"), 1);
    await allow();
    await stop.waitFor();
    // The slot that transcribes may go; the button that turns the microphone off may not.
    slots.pop();
    const model = page.getByRole("combobox", { name: "Model" });
    await model.focus();
    await model.locator("option", { hasText: "without stt" }).waitFor({ state: "attached" });
    await stop.click();
    await record.waitFor({ state: "detached" });
    assert.equal(await states(), "ended");
    await page.getByRole("alert").getByText("No slot transcribes any more").waitFor();
    // Another conversation was chosen before it was allowed.
    slots.push("stt");
    await model.focus();
    await record.click();
    await page.getByRole("button", { name: "New chat" }).click();
    await allow();
    await until("the second one was on", async () => (await states()).split(",").length === 2);
    await until("it is off", async () => (await states()) === "ended,ended");
    assert.equal(await stop.count(), 0);
  });
});
