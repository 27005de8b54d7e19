import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { openBrowser } from "../browser/browser.ts";
import { hostilePage } from "../browser/hostile-page.ts";
import { startPageEngine, type PageEngineDouble } from "../doubles/page-engine.ts";
import { freePort } from "../support/free-port.ts";
import { basic, password, startEdge, user, type Edge } from "./site.ts";

type Findings = Readonly<Record<string, string>>;

const refused = /^(?:nothing|refused: (?:TypeError|SecurityError)|)$/;
const bearer = "engine-secret";

/**
 * A hostile engine's page behind the edge proxy, in the browser of a person who has given the proxy's password at both
 * ports: that browser adds the password to whatever the page asks of either.
 */
describe("a hostile engine's page behind the edge proxy", () => {
  let engine: PageEngineDouble;
  let edge: Edge;
  let browser: Browser;
  let dashboard = "";
  let pages = "";
  before(async () => {
    engine = await startPageEngine({ html: hostilePage, policy: "script-src * 'unsafe-inline'" });
    const [httpsPort, port, chatPort] = [await freePort(), await freePort(), await freePort()];
    edge = await startEdge({
      env: { SVC_ENGINE_PAGES: "primary,own", SVC_ENGINE_PAGES_PORT: String(port), SVC_CHAT_PORT: String(chatPort) },
      slots: Object.fromEntries(
        ["primary", "own", "closed"].map((name) => [
          name,
          { port: engine.port, bearerList: [{ role: "main", ordinal: 0, bearer }] },
        ]),
      ),
      args: ["--engine-pages-port", String(httpsPort)],
      pages: fileURLToPath(new URL("../../web/dist", import.meta.url)),
    });
    dashboard = `https://svc.local:${edge.httpsPort}`;
    pages = `https://svc.local:${httpsPort}`;
    browser = await openBrowser("--host-resolver-rules=MAP svc.local 127.0.0.1", "--ignore-certificate-errors");
  });
  after(async () => {
    await browser.close();
    await edge[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  /** A browser in which that person has logged in at the dashboard. */
  async function loggedIn(): Promise<BrowserContext> {
    const context = await browser.newContext({ httpCredentials: { username: user, password } });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    await page.goto(`${dashboard}/ui/slots/primary`);
    await page.getByRole("heading", { name: "primary", level: 1 }).waitFor();
    return context;
  }

  const attack = async (page: Page): Promise<Findings> =>
    await page.evaluate<Findings>(`attack(${JSON.stringify(dashboard)})`);

  it("reads nothing and changes nothing of the dashboard with the password that the browser keeps", async () => {
    const context = await loggedIn();
    const answers: string[] = [];
    context.on("response", (answer) => {
      if (answer.url().startsWith(dashboard))
        answers.push(`${answer.request().method()} ${answer.url().slice(dashboard.length)} ${answer.status()}`);
    });
    const page = await context.newPage();
    await page.goto(`${dashboard}/upstream/primary/`);
    assert.equal(page.url(), `${pages}/upstream/primary/`);
    const probe = await page.evaluate<Findings>("probe('primary')");
    assert.deepEqual([probe["fetched"], probe["socket"]], ["hello", "opened"]);
    answers.length = 0;

    const findings = await attack(page);
    const { blindCreate, blindUnload, blindChat, ...rest } = findings;
    for (const kind of [blindCreate, blindUnload, blindChat])
      assert.match(kind ?? "", /^(?:opaque|refused: TypeError)$/);
    for (const [name, found] of Object.entries(rest)) assert.match(found, refused, name);

    const more = await page.evaluate<Findings>(`further(${JSON.stringify(dashboard)}, ${JSON.stringify(pages)})`);
    const { unnamed, api, mine, ...others } = more;
    for (const [name, found] of Object.entries(others)) assert.match(found, /^(?:opaque|refused: TypeError)$/, name);
    // At its own origin the password opens named engines, and nothing else.
    assert.deepEqual([unnamed, api, mine], ["404", "404", "200"]);

    const [held] = await Promise.all([
      context.waitForEvent("page"),
      page.evaluate(`openDashboard(${JSON.stringify(dashboard)})`),
    ]);
    await held.getByRole("link", { name: "Slots" }).waitFor();
    const { text, storage, heard } = await page.evaluate<Findings>("meddle()");
    assert.match(text ?? "", /^refused: /);
    assert.match(storage ?? "", /^refused: |^nothing$/);
    assert.equal(heard, "");

    // 403 and not 401: the browser has added the password, the proxy has let it through, and the gateway has refused.
    const changes = answers.filter((each) => !each.startsWith("GET "));
    assert.ok(changes.includes("POST /api/slots/primary/unload 403"), changes.join("\n"));
    for (const each of changes) assert.match(each, / (?:307|40[134])$/);
    assert.deepEqual(await edge.gateway.tokens.list(), []);
    const kept = await edge.ask("/api/conversations", basic);
    assert.deepEqual([kept.status, JSON.parse(kept.body)], [200, { object: "list", data: [] }]);
    assert.equal(engine.calls.filter(({ url }) => url.startsWith("/v1/")).length, 0);
    for (const { headers } of engine.calls) {
      assert.equal(headers.authorization, `Bearer ${bearer}`);
      assert.equal(headers["x-forwarded-email"], undefined);
    }
    await context.close();
  });

  it("would get all of that on the dashboard's own origin", async () => {
    const context = await loggedIn();
    const page = await context.newPage();
    await page.route(`${dashboard}/hostile`, (route) => route.fulfill({ contentType: "text/html", body: hostilePage }));
    await page.goto(`${dashboard}/hostile`);
    const findings = await attack(page);
    assert.deepEqual([findings["read"], findings["create"]], ["200", "201"]);
    assert.deepEqual(
      (await edge.gateway.tokens.list()).map(({ label }) => label),
      ["stolen"],
    );
    await context.close();
  });
});
