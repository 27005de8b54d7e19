import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { openBrowser, openPage } from "../browser/browser.ts";
import type { RunningBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { record } from "../support/openai.ts";
import { freePorts } from "../support/ports.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";
import { startWithLlamaServer } from "./fixture.ts";

/** What `hack/llama-page.sh` has built. */
function pageFolder(): string {
  const path = process.env["BERTH_TEST_LLAMA_PAGE"];
  assert.ok(path !== undefined, "this test needs llama.cpp's own page: run `make test-llama-server`");
  return path;
}

interface Site extends AsyncDisposable {
  readonly berth: RunningBerth;
  /** Of engines' pages. */
  readonly url: string;
  readonly token: (scope: "admin" | "all") => Promise<string>;
}

/** Authentication is on; the engines of `primary` and `closed` have a page, that of `bare` has none, `closed` is not named. */
async function site(enginePages: string): Promise<Site> {
  const { first } = await freePorts(1);
  const berth = await startWithLlamaServer(
    async ({ configDir, modelsDir }) => {
      await writeTinyModel(join(modelsDir, "tiny.gguf"));
      // Noise of a chosen seed, without the token that ends an answer: otherwise some answers end with their first token.
      const noise = ["--predict", "1900", "--ignore-eos", "--seed", "7"];
      const model = '[model]\ndefault = "tiny"\ncontext_size = 2048\n';
      const withPage = `args = ${JSON.stringify(["--webui", "--path", pageFolder(), ...noise])}\n${model}`;
      for (const [name, text] of Object.entries({ primary: withPage, closed: withPage, bare: model }))
        await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
    { SVC_AUTH_ENABLED: "1", SVC_ENGINE_PAGES: enginePages, SVC_ENGINE_PAGES_PORT: String(first) },
  );
  const token = async (scope: string): Promise<string> => {
    const made = await runBerth(["token", "create", "--label", scope, "--scope", scope], berth.env);
    return /svc_\S+/.exec(made.stdout)?.[0] ?? assert.fail(made.stderr);
  };
  return { berth, url: `http://127.0.0.1:${first}`, token, [Symbol.asyncDispose]: () => berth[Symbol.asyncDispose]() };
}

async function isReady({ berth }: Site, slot: string, token: string): Promise<void> {
  await until(`${slot} is ready`, async () => {
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${berth.url}/api/slots/${slot}`, { headers });
    return ["ready", "idle"].includes(String(record(await answer.json())["state"]));
  });
}

interface Chat {
  /** Every text that the answer has had while it grew: few on a busy machine, where the page draws late. */
  readonly grown: readonly string[];
  /** The content type of the answer. */
  readonly type: string;
}

/** Sends a message, and resolves once its answer is drawn whole. */
async function chat(page: Page, message: string): Promise<Chat> {
  const answered = later(
    page.waitForResponse((answer) => new URL(answer.url()).pathname.endsWith("/v1/chat/completions")),
  );
  await page.evaluate(`
    window.grown = [];
    new MutationObserver(() => {
      const said = document.querySelector("[aria-label^='Assistant message'] .markdown-content")?.textContent ?? "";
      if (said !== "" && said !== window.grown.at(-1)) window.grown.push(said);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  `);
  await page.getByRole("textbox", { name: "Type a message..." }).fill(message);
  await page.getByRole("button", { name: "Send" }).click();
  const { "content-type": type = "" } = (await answered).headers();
  await page.getByRole("button", { name: "Regenerate" }).waitFor();
  // The page may draw the last text after the button.
  const grown = await until("the answer is drawn", async () => {
    const texts = await page.evaluate<readonly string[]>("window.grown");
    return texts.length > 0 && texts;
  });
  return { grown, type };
}

/** Status and text of the page as a browser is shown it. */
async function shown(browser: Browser, url: string, password?: string): Promise<readonly [number | undefined, string]> {
  const origin = new URL(url).origin;
  const options = password === undefined ? {} : { httpCredentials: { username: "ada", password, origin } };
  const context = await browser.newContext(options);
  // A machine that runs other suites too is slow.
  context.setDefaultTimeout(60_000);
  try {
    const page = await context.newPage();
    const answer = await page.goto(url);
    return [answer?.status(), await page.evaluate<string>("document.body.innerText")];
  } catch (error) {
    // Where Chromium would ask for the password, it sometimes shows the answer's own text instead.
    if (String(error).includes("ERR_INVALID_AUTH_CREDENTIALS")) return [401, ""];
    throw error;
  } finally {
    await context.close();
  }
}

describe("llama.cpp's own page", () => {
  let browser: Browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser.close());

  it("chats for an administrator, streams the answer and keeps the conversation in the browser", async () => {
    await using own = await site("primary,bare");
    const token = await own.token("admin");
    await isReady(own, "primary", token);
    const httpCredentials = { username: "ada", password: token, origin: own.url };
    await using opened = await openPage(browser, `${own.url}/upstream/primary/`, { httpCredentials });
    const { page } = opened;
    const statuses: string[] = [];
    page.on("response", (answer) => statuses.push(`${answer.status()} ${new URL(answer.url()).pathname}`));
    const { grown, type } = await chat(page, "tell me a story");
    assert.match(type, /^text\/event-stream/);
    for (const [at, text] of grown.entries())
      assert.ok(at === 0 || text.startsWith(grown[at - 1]?.trimEnd() ?? ""), text);
    assert.ok(statuses.includes("200 /upstream/primary/v1/chat/completions"), statuses.join("\n"));
    // llama.cpp's own tools are off, and it says so; nothing else is missing.
    const missing = statuses.filter((each) => !/^(?:200|304) \/upstream\/primary\//.test(each));
    assert.deepEqual(new Set(missing), new Set(["403 /upstream/primary/tools"]));
    await page.reload();
    await page.getByText(grown.at(-1)?.slice(0, 80) ?? "").waitFor();
    assert.equal(new URL(page.url()).origin, own.url);
  });

  it("is refused to strangers, to lower scopes, for slots that are not named, and where the engine shows none", async () => {
    await using own = await site("primary,bare");
    const [admin, poor] = [await own.token("admin"), await own.token("all")];
    await Promise.all(["primary", "closed", "bare"].map(async (slot) => await isReady(own, slot, admin)));
    const at = (slot: string, password?: string) => shown(browser, `${own.url}/upstream/${slot}/`, password);
    assert.equal((await at("primary", admin))[0], 200);
    for (const password of [undefined, "svc_wrong"]) assert.equal((await at("primary", password))[0], 401);
    const [status, said] = await at("primary", poor);
    assert.equal(status, 403);
    assert.match(said, /scope/);
    const [closedStatus, closedSays] = await at("closed", admin);
    assert.equal(closedStatus, 404);
    assert.match(closedSays, /the page of the engine of slot closed is not open here: SVC_ENGINE_PAGES names/);
    assert.equal((await at("bare", admin))[0], 404);
  });
});
