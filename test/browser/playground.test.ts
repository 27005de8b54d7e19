import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { heardIn } from "../doubles/whisper.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { openBrowser, openPage, slotManifest, slotOnDouble } from "./browser.ts";
import { scriptedStream } from "./scripted-stream.ts";

const run = promisify(execFile);
const sound = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(5000, 3)]);
const hostile = "<img src=x onerror=window.hacked=1>";

/** Runs a curl snippet of the page as a person who pastes it would. */
async function pasted(page: Page): Promise<string> {
  await page.getByRole("button", { name: "Code" }).click();
  const text = (await page.getByLabel("curl snippet").textContent()) ?? "";
  return (await run("sh", ["-c", text], { timeout: 120_000 })).stdout;
}

describe("the playground", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
        await writeTinyModel(join(modelsDir, "ranker.gguf"), { ranker: true });
        const slot = (name: string, text: string): Promise<void> =>
          writeFile(join(configDir, `slots/${name}.toml`), text);
        await slot("embed", '[model]\ndefault = "tiny-embed"\nrerank = "ranker"\n');
        const onDemand = (...double: Parameters<typeof slotOnDouble>): string =>
          `load = "onDemand"\n${slotOnDouble(...double)}`;
        await slot("coder", slotManifest("--tokens", "5"));
        await slot("later", `load = "onDemand"\n${slotManifest("--tokens", "2")}`);
        await slot("img", onDemand("sdxl-turbo", "comfyui.ts"));
        await slot("stt", onDemand("whisper-tiny", "whisper.ts", "--inference-path", "/v1/audio/transcriptions"));
        await slot("tts", onDemand("kokoro", "kokoro.ts"));
      },
    });
    await berth.state("embed", "ready", "idle");
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("embeds texts by the embedded engine into a table of their similarity, and its snippet does the same", async () => {
    await using opened = await openPage(browser, berth.url);
    const { page } = opened;
    await page.getByRole("link", { name: "Playground" }).click();
    await page.getByRole("link", { name: "Embeddings" }).click();
    await page.getByRole("textbox", { name: "Texts, one a line" }).fill(`hello\nthe world\n${hostile}`);
    await page.getByRole("button", { name: "Embed" }).click();
    const table = page.getByRole("table", { name: "Similarity" });
    const rows = table.getByRole("row");
    await rows.nth(3).waitFor();
    assert.equal(await rows.count(), 4);
    for (const index of [1, 2, 3])
      assert.equal(
        await rows
          .nth(index)
          .getByRole("cell")
          .nth(index - 1)
          .textContent(),
        "1.000",
      );
    const pair = await rows.nth(1).getByRole("cell").nth(1).textContent();
    assert.equal(await rows.nth(2).getByRole("cell").nth(0).textContent(), pair);
    // Shown as text, in the table and in the snippets.
    await table.getByRole("rowheader", { name: hostile }).waitFor();
    assert.equal(await page.evaluate("window.hacked"), undefined);
    const answer = await pasted(page);
    assert.equal(answer.match(/"embedding":/g)?.length, 3);
  });

  it("chats as its snippet does, and says where an answer ends early or is no answer", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, `${berth.url}/ui/playground`);
    const { page } = opened;
    await page.getByRole("textbox", { name: "Question" }).fill("it's a question");
    await page.getByRole("button", { name: "Ask" }).click();
    const answer = page.getByRole("region", { name: "Answer", exact: true });
    await answer.getByText("token0 token1 token2 token3 token4").waitFor();
    await answer.getByText(/^5 tokens, .*the first after \d+/).waitFor();
    await page.getByText("Status 200").waitFor();
    assert.equal((await pasted(page)).match(/"content":"token\d "/g)?.length, 5);
    await page.getByRole("button", { name: "Python" }).click();
    const other = page.getByRole("combobox", { name: "Compare with" });
    await other.selectOption("later");
    await page.getByRole("button", { name: "Ask" }).click();
    await page
      .getByRole("region", { name: "Answer of coder" })
      .getByText(/^token0 .* token4/)
      .waitFor();
    await page.getByRole("region", { name: "Answer of later" }).getByText("token0 token1", { exact: true }).waitFor();
    // The language is remembered, and the code is of what the fields say now.
    await page.reload();
    await page.getByRole("textbox", { name: "Question" }).fill("again");
    await page.getByRole("button", { name: "Code" }).click();
    await page.getByLabel("Python snippet").getByText('"content": "again"').waitFor();
    await other.selectOption("no other model");
    // Its port is needed by the slots of other tests.
    await fetch(`${berth.url}/api/slots/later/unload`, { method: "POST" });
    await berth.state("later", "offline");
    await page.route("**/v1/chat/completions", (route) => route.continue({ url: stream.url }));
    const chunk = { choices: [{ index: 0, delta: { content: "The harbour" } }] };
    const error = { error: { code: "dispatch.upstream_failed", message: "the engine has died" } };
    for (const [end, says] of [
      [() => stream.drop(), /^The answer ended early\. The connection to Berth was lost/],
      [
        () => stream.send("message", error),
        "The answer ended early. the engine has died. The slot's page has the log of its engine.",
      ],
      [
        () => stream.send("message", "[DONE"),
        /^The answer ended early\. The model has sent something that is no answer/,
      ],
    ] as const) {
      await page.getByRole("button", { name: "Ask" }).click();
      await until("it is asked", () => stream.followers() > 0);
      stream.send("message", chunk);
      await page.getByText("The harbour", { exact: true }).waitFor();
      end();
      await page.getByRole("alert").getByText(says).waitFor();
      await page.getByText("The harbour", { exact: true }).waitFor();
      assert.equal(await answer.count(), 0);
      await until("that stream has ended", () => stream.followers() === 0);
    }
  });

  it("asks for a whole answer, by a schema and with tools, and sends nothing while the JSON of a field is wrong", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/playground`);
    const { page } = opened;
    const sent: unknown[] = [];
    const said = { tool_calls: [{ function: { name: "tide", arguments: "{}" } }], reasoning_content: "Let me see." };
    await page.route("**/v1/chat/completions", (route) => {
      sent.push(route.request().postDataJSON());
      return route.fulfill({ json: { choices: [{ message: said }], usage: { completion_tokens: 7 } } });
    });
    const tools = page.getByRole("textbox", { name: "Tools" });
    const ask = page.getByRole("button", { name: "Ask" });
    await page.getByRole("checkbox", { name: "Stream" }).uncheck();
    await page.getByRole("textbox", { name: "JSON schema" }).fill('{"type": "object"}');
    for (const [text, says] of [
      ["{}", "This must be a list: […]."],
      ["[", /^This is no JSON, correct it first: /],
    ] as const) {
      await tools.fill(text);
      await ask.click();
      await page.getByRole("alert").getByText(says).waitFor();
    }
    assert.equal(await page.evaluate("document.activeElement.getAttribute('aria-invalid')"), "true");
    await tools.fill('[{"type": "function"}]');
    await ask.click();
    const answer = page.getByRole("region", { name: "Answer", exact: true });
    await answer.getByText("7 tokens", { exact: true }).waitFor();
    await answer.getByRole("list", { name: "Tool calls" }).getByText("tide").waitFor();
    await answer.getByText("Thoughts").click();
    await answer.getByText("Let me see.").waitFor();
    assert.deepEqual(sent, [
      {
        model: "coder",
        messages: [{ role: "user", content: "Write one sentence about a harbour." }],
        response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } },
        tools: [{ type: "function" }],
      },
    ]);
  });

  it("ranks documents by the embedded engine", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/playground/rerank`);
    const { page } = opened;
    await page.getByRole("textbox", { name: "Documents, one a line" }).fill("one\nthe man with\nagain");
    await page.getByRole("button", { name: "Rank" }).click();
    const items = page.getByRole("list", { name: "Ranking" }).getByRole("listitem");
    await items.nth(2).waitFor();
    const scores = (await items.allTextContents()).map((text) => Number(/-?[\d.]+$/.exec(text)?.[0]));
    assert.deepEqual(
      scores,
      scores.toSorted((a, b) => b - a),
    );
    assert.match(await pasted(page), /"relevance_score"/);
  });

  it("shows a picture, plays speech and reads a file, each of a double", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/playground/images`);
    const { page } = opened;
    await page.getByRole("textbox", { name: "Prompt" }).fill(hostile);
    await page.getByRole("combobox", { name: "Size" }).selectOption("256x256");
    await page.getByRole("button", { name: "Draw" }).click();
    const picture = page.getByRole("img", { name: hostile });
    await picture.waitFor();
    assert.equal(
      await page.evaluate(
        "document.querySelector('img.drawn').decode().then(() => document.querySelector('img.drawn').naturalWidth)",
      ),
      256,
    );
    await page.getByRole("link", { name: "Speech" }).click();
    await page.getByRole("button", { name: "Speak" }).click();
    await page.getByText(/bytes of audio\/mpeg/).waitFor();
    assert.match((await page.getByLabel("Speech", { exact: true }).last().getAttribute("src")) ?? "", /^blob:/);
    await page.getByRole("link", { name: "Transcription" }).click();
    await page.getByLabel("Sound file").setInputFiles({ name: "a.wav", mimeType: "audio/wav", buffer: sound });
    await page.getByRole("button", { name: "Transcribe" }).click();
    await page.getByText(heardIn(sound)).waitFor();
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });

  it("sends any request, shows status, headers and body, and stops an endless answer", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/playground/raw`);
    const { page } = opened;
    const body = page.getByLabel("Body of the answer");
    await page.getByRole("button", { name: "Send" }).click();
    await body.getByText('"object": "list"').first().waitFor();
    await page
      .getByRole("table", { name: "Headers" })
      .getByRole("row", { name: /x-request-id/ })
      .waitFor();
    assert.match(await pasted(page), /^HTTP\/1.1 200[^]*"object":"list"/);
    await page.getByRole("combobox", { name: "Method" }).selectOption("POST");
    await page.getByRole("textbox", { name: "Path" }).fill("/v1/embeddings");
    const json = page.getByRole("textbox", { name: "JSON body" });
    await json.fill('{"model": "embed", ');
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .getByRole("alert")
      .getByText(/no JSON, correct it first/)
      .waitFor();
    await json.fill('{"model": "none such", "input": "it\'s"}');
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Status 404").waitFor();
    assert.match(await pasted(page), /^HTTP\/1.1 404/);
    await json.fill('{"model": "embed", "input": "it\'s"}');
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Status 200").waitFor();
    await page.getByRole("textbox", { name: "Path" }).fill("//evil.example/");
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .getByRole("alert")
      .getByText(/begins with one slash/)
      .waitFor();
    await page.getByRole("combobox", { name: "Method" }).selectOption("GET");
    await page.getByRole("textbox", { name: "Path" }).fill("/api/events");
    await page.getByRole("button", { name: "Send" }).click();
    await body.getByText(/event:|data:/).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await until("nothing runs", async () => (await page.getByRole("button", { name: "Stop" }).count()) === 0);
    await using stream = await scriptedStream();
    await page.route("**/v1/models", (route) => route.continue({ url: stream.url }));
    await page.getByRole("textbox", { name: "Path" }).fill("/v1/models");
    await page.getByRole("button", { name: "Send" }).click();
    await body.getByText(": here").waitFor();
    stream.drop();
    await page.getByRole("alert").getByText("The answer ended early. The connection to Berth was lost").waitFor();
    await body.getByText(": here").waitFor();
  });

  it("says once what to do where a request is refused", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/playground/rerank`);
    const { page } = opened;
    const rank = page.getByRole("button", { name: "Rank" });
    await until("a model is chosen", async () => !(await rank.isDisabled()));
    for (const [status, retry, says] of [
      [503, "7", "it is full. Try again in 7 s."],
      [502, undefined, "it is full. The slot's page has the log of its engine."],
      [404, undefined, "it is full. Choose another model; the page Overview shows what runs."],
    ] as const) {
      await page.route("**/v1/rerank", (route) =>
        route.fulfill({
          status,
          headers: retry === undefined ? {} : { "retry-after": retry },
          json: { error: { code: "dispatch.refused", message: "it is full" } },
        }),
      );
      await rank.click();
      await page.getByRole("alert").getByText(says, { exact: true }).waitFor();
      await page.unrouteAll({ behavior: "wait" });
    }
  });

  it("keeps what a person has chosen and typed while the slot is away, and when no slot is left", async () => {
    await using stream = await scriptedStream();
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.route("**/api/events", (route) => route.continue({ url: stream.url }));
    let ids = ["one", "two"];
    await page.route("**/v1/models?*", (route) => {
      const data = ids.map((id) => ({ id, berth: { capabilities: ["rerank"] } }));
      return route.fulfill({ json: { object: "list", data } });
    });
    await page.goto(`${berth.url}/ui/playground/rerank`);
    await until("it follows", () => stream.followers() > 0);
    stream.send("snapshot", { slots: [], conditions: [] });
    const model = page.getByRole("combobox", { name: "Model" });
    await model.selectOption("two");
    const query = page.getByRole("textbox", { name: "Query" });
    await query.fill("Where is it?");
    const slot = await berth.slot("embed");
    for (const [left, options, event] of [
      [["one"], ["two · Not here now", "one"], (): void => stream.drop()],
      [[], ["two · Not here now"], (): void => stream.send("slot", slot)],
      [["one", "two"], ["one", "two"], (): void => stream.send("slot", { name: "embed", removed: true })],
    ] as const) {
      ids = [...left];
      event();
      await until("the models are read again", async () => {
        const texts = await model.getByRole("option").allTextContents();
        return texts.join() === options.join();
      });
      assert.equal(await model.inputValue(), "two");
      assert.equal(await query.inputValue(), "Where is it?");
    }
  });

  it("says what to do where no slot or provider has the capability, and where a request fails", async () => {
    await using own = await startBerth({});
    await using opened = await openPage(browser, `${own.url}/ui/playground/speech`);
    const { page } = opened;
    await page.getByText(/no slot and no provider has the capability/).waitFor();
    // Neither a form that can only fail, nor lines that name no model.
    assert.equal(await page.getByRole("button", { name: "Speak" }).count(), 0);
    assert.equal(await page.getByLabel("curl snippet").count(), 0);
    await page.goto(`${own.url}/ui/playground/nothing`);
    await page.getByText("There is no such kind of request.").waitFor();
    await page.goto(`${own.url}/ui/playground/raw`);
    await page.getByRole("button", { name: "Send" }).waitFor();
    await own.stop("SIGINT");
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .getByRole("alert")
      .getByText(/Berth does not answer/)
      .waitFor();
  });
});
