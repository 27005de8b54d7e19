import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser } from "playwright-core";
import { isRecord } from "../../src/lib/record.ts";
import { until } from "../support/until.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { openBrowser, openPage } from "./browser.ts";

/** Texts that act where a page takes them for markup. */
const hostile = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror=window.hacked=1>",
  "<svg onload=window.hacked=1></svg>",
  "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
  "[a](javascript:window.hacked=1)",
  "![p](http://127.0.0.1:9/pixel.png)",
  '<a href="java&#115;cript:window.hacked=1">b</a>',
  "<form action=/api/slots method=post><button>Send</button></form>",
  "<style>body{display:none}</style>",
  "<div class=main style=position:fixed>over</div>",
  "```html\n<script>window.hacked = 1</script>\n```",
  "<math><mtext><table><mglyph><style><img src onerror=window.hacked=1>",
] as const;

/** A DOUBLE of an engine that says and thinks what is hostile, and writes it into its log. */
const program = `
import { createServer } from "node:http";
const texts = ${JSON.stringify(hostile)};
for (const text of texts) console.log(text.replaceAll("\\n", " "));
const chunk = (delta) => "data: " + JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta }] }) + "\\n\\n";
createServer((request, response) => {
  if (request.method === "GET") return response.end("ok");
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const text of texts) response.write(chunk({ reasoning_content: text + "\\n\\n" }) + chunk({ content: text + "\\n\\n" }));
  response.end("data: [DONE]\\n\\n");
}).listen(Number(process.env.PORT), process.env.HOST);
`;

const pages = [
  "/",
  "/ui/slots/coder",
  "/ui/slots/coder/manifest",
  "/ui/slots/coder/events",
  "/ui/slots/coder/details",
  "/ui/models",
  "/ui/machine",
  "/ui/providers",
  "/ui/requests",
  "/ui/playground",
  "/ui/settings",
  "/ui/settings/tokens",
  "/ui/settings/clients",
  "/ui/settings/about",
] as const;

/** The same with something hostile in every text but times and states; an address acts by itself. */
function withHostile(value: unknown, key = ""): unknown {
  if (Array.isArray(value)) return value.map((each) => withHostile(each, key));
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withHostile(each, name)]));
  if (typeof value !== "string" || /^\d{4}-\d\d-/.test(value) || /^(?:state|status|object)$/.test(key)) return value;
  if (/url|href|link|source|page/.test(key)) return "javascript:window.hacked=1";
  return `${value} ${hostile.join(" ")}`;
}

describe("hostile text", () => {
  let browser: Browser;
  let berth: RunningBerth;
  before(async () => {
    browser = await openBrowser();
    berth = await startBerth({
      prepare: async ({ configDir, modelsDir }) => {
        const file = join(modelsDir, "hostile.mjs");
        await writeFile(file, program);
        const command = JSON.stringify([process.execPath, file]);
        await writeFile(join(configDir, "slots/coder.toml"), `engine = "custom"\ncommand = ${command}\n`);
      },
    });
    await berth.state("coder", "ready", "idle");
  });
  after(async () => {
    await browser.close();
    await berth[Symbol.asyncDispose]();
  });

  it("of a model is shown in the chat, where it runs nothing and loads nothing", async () => {
    // Styles are refused by the policy already where the text is parsed, before they are removed from it.
    const expected = /^Applying inline style violates/;
    await using opened = await openPage(browser, `${berth.url}/chat/`, { expected });
    const { page } = opened;
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.getByRole("combobox", { name: "Model" }).selectOption("coder");
    await page.getByRole("textbox", { name: "Message" }).fill(hostile[1]);
    await page.getByRole("button", { name: "Send" }).click();
    const messages = page.getByRole("log", { name: "Messages" });
    await messages.getByText(/^\d+ tokens?\b/).waitFor();
    assert.equal(await page.evaluate("window.hacked"), undefined);
    const acting: number = await page.evaluate(
      "document.querySelector('.messages').querySelectorAll('script, iframe, form, style, .markdown svg, svg:not([class]), object, [onerror], [onload], [style], a[href^=\"java\"]').length",
    );
    assert.equal(acting, 0);
    assert.deepEqual(
      asked.filter((url) => !url.startsWith(berth.url)),
      [],
    );
    // The question is also the conversation's title.
    await page
      .getByRole("navigation", { name: "Conversations" })
      .getByRole("button", { name: hostile[1], exact: true })
      .waitFor();
  });

  it("of an engine's log runs nothing on the slot's page", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/slots/coder/log`);
    const { page } = opened;
    await page.getByRole("log").getByText("<svg onload").waitFor();
    assert.equal(await page.evaluate("window.hacked"), undefined);
    const acting: number = await page.evaluate(
      "document.querySelectorAll('main iframe, main script, main [onerror]').length",
    );
    assert.equal(acting, 0);
  });

  it("of the API is shown on every page, where it runs nothing and loads nothing", async () => {
    await using opened = await openPage(browser, `${berth.url}/ui/nowhere`);
    const { page } = opened;
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const slots = await Promise.all(["coder"].map((name) => berth.slot(name)));
    const condition = { type: "Degraded", status: "True", reason: "R", message: "m", lastTransitionTime: "" };
    const snapshot = withHostile({
      slots,
      pulls: [],
      groups: [],
      conditions: [{ kind: "Model", name: "coder", conditions: [condition] }],
    });
    await page.route("**/api/**", async (route) => {
      if (new URL(route.request().url()).pathname === "/api/events") {
        const body = `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`;
        await route.fulfill({ contentType: "text/event-stream", body });
        return;
      }
      const response = await route.fetch();
      if (response.headers()["content-type"]?.startsWith("application/json") !== true)
        await route.fulfill({ response });
      else await route.fulfill({ response, json: withHostile(await response.json()) });
    });
    for (const path of pages) {
      await page.goto(`${berth.url}${path}`);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      await until(`${path} has loaded`, async () => (await page.getByText("Loading …").count()) === 0);
      const acting: number = await page.evaluate(
        "document.body.querySelectorAll('iframe, svg:not([class]), object, style, main script, img, [onerror], [onload], a[href^=\"java\"]').length",
      );
      assert.equal(acting, 0, path);
      assert.equal(await page.evaluate("window.hacked"), undefined, path);
      if (path === "/" || path === "/ui/slots/coder" || path === "/ui/settings")
        await page.getByText("<img src=x").first().waitFor();
      if (path === "/ui/models") {
        // Its verdicts are words that this page does not know: the cards stand all the same, without a link that acts.
        const card = page.getByRole("list", { name: "Catalogue" }).getByRole("listitem").first();
        await card.getByText("<img src=x").first().waitFor();
        assert.equal(await card.getByRole("link").count(), 0);
      }
    }
    assert.deepEqual(
      asked.filter((url) => !url.startsWith(berth.url)),
      [],
    );
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });
});
