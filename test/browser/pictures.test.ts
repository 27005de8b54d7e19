import assert from "node:assert/strict";
import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import type { Page } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth } from "../support/berth.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { openBrowser, openPage } from "./browser.ts";

const answer = `Read the file line by line, so that its size does not matter:

\`\`\`python
from collections import Counter

def count_words(path: str) -> Counter[str]:
    words: Counter[str] = Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            words.update(line.lower().split())
    return words
\`\`\`

1. \`split()\` without an argument takes any white space.
2. \`Counter.most_common(10)\` then gives the **ten** most frequent words.
`;

/** A DOUBLE of an engine, for pictures: it streams one answer that was written by hand. */
const program = `
import { createServer } from "node:http";
const pieces = ${JSON.stringify(answer.match(/\S*\s+/g) ?? [])};
const event = (delta) => "data: " + JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta }] }) + "\\n\\n";
createServer((request, response) => {
  if (request.method === "GET") return response.end("ok");
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(event({ reasoning_content: "A large file must not be read at once." }));
  let next = 0;
  const timer = setInterval(() => {
    if (next < pieces.length) return response.write(event({ content: pieces[next++] }));
    clearInterval(timer);
    response.end("data: [DONE]\\n\\n");
  }, 20);
  response.once("close", () => clearInterval(timer));
}).listen(Number(process.env.PORT), process.env.HOST);
`;

const largestBytes = 200_000;

it("pictures of the dashboard, a slot and a chat are taken, light and dark", async (t) => {
  await using own = await tempDir();
  // `make pictures` names the directory of the documents.
  const directory = process.env["BERTH_TEST_PICTURES"] ?? own.path;
  await mkdir(directory, { recursive: true });
  await using berth = await startBerth({
    prepare: async ({ configDir, modelsDir }) => {
      await writeTinyModel(join(modelsDir, "tiny.gguf"), { name: "tiny" });
      await writeFile(join(modelsDir, "double.mjs"), program);
      const command = JSON.stringify([process.execPath, join(modelsDir, "double.mjs")]);
      const slots = {
        primary: '[model]\ndefault = "tiny"\n',
        coder: `engine = "custom"\ncommand = ${command}\n`,
        writer: `engine = "custom"\nload = "onDemand"\ncommand = ${command}\n`,
        embed: '[model]\ndefault = "nomic-embed"\n',
      };
      for (const [name, text] of Object.entries(slots)) await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
  });
  await berth.state("primary", "ready", "idle");
  await berth.state("coder", "ready", "idle");
  await until("the memory is measured", async () => (await berth.slot("primary"))["memory"] !== null);
  await using browser = { at: await openBrowser(), [Symbol.asyncDispose]: () => browser.at.close() };

  const picture = async (page: Page, name: string): Promise<void> => {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const path = join(directory, `${name}-${colorScheme}.png`);
      await page.screenshot({ path, animations: "disabled" });
      const { size } = await stat(path);
      t.diagnostic(`${name}-${colorScheme}.png: ${Math.round(size / 1000)} kB`);
      assert.ok(size <= largestBytes, `${path} has ${size} bytes`);
    }
  };

  const viewport = { width: 1120, height: 700 };
  await using chat = await openPage(browser.at, `${berth.url}/chat/`, { viewport });
  await chat.page.getByRole("combobox", { name: "Model" }).selectOption("coder");
  await chat.page.getByRole("textbox", { name: "Message" }).fill("Count the words of a large file in Python.");
  await chat.page.getByRole("button", { name: "Send" }).click();
  await chat.page.getByText(/^\d+ tokens?\b/).waitFor();
  await chat.page
    .getByRole("navigation", { name: "Conversations" })
    .getByRole("button", { name: /^Count the words/ })
    .first()
    .waitFor();
  await picture(chat.page, "chat");

  await using dashboard = await openPage(browser.at, berth.url, { viewport: { width: 1120, height: 500 } });
  const { page } = dashboard;
  const row = page.getByRole("row", { name: /^primary/ });
  const body = JSON.stringify({ model: "primary", max_tokens: 64, messages: [{ role: "user", content: "hi" }] });
  let lengths = 24;
  await until("there is a line of tokens", async () => {
    const headers = { "content-type": "application/json" };
    const sent = body.replace("64", String((lengths = lengths >= 96 ? 24 : lengths + 24)));
    await (await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body: sent })).text();
    const points = (await row.locator("polyline").first().getAttribute("points")) ?? "";
    return points.split(" ").length >= 6 && (await row.getByRole("img", { name: /: [1-9]/ }).count()) > 0;
  });
  await page
    .getByRole("row", { name: /^embed/ })
    .getByText(/error/)
    .waitFor();
  await picture(page, "dashboard");

  await using slot = await openPage(browser.at, `${berth.url}/ui/slots/primary`, { viewport });
  await slot.page.getByRole("table", { name: "Conditions" }).getByText("Ready").first().waitFor();
  await picture(slot.page, "slot");
});
