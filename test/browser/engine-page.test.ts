import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { startPageEngine, type PageEngineDouble } from "../doubles/page-engine.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { freePorts } from "../support/ports.ts";
import { until } from "../support/until.ts";
import { TokenStore } from "../../src/store/auth/tokens.ts";
import { openBrowser, openPage, type WatchedPage } from "./browser.ts";
import { hostilePage } from "./hostile-page.ts";

type Findings = Readonly<Record<string, string>>;

interface Site extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly engine: PageEngineDouble;
  /** Of engines' pages. */
  readonly url: string;
  /** Of an administrator; undefined: authentication is off. */
  readonly token: string | undefined;
  /** What the engine was asked at the chat's route of `/v1`. */
  readonly chats: () => number;
  readonly labels: () => Promise<readonly string[]>;
}

/** The pages as they are built, a gateway, and an engine whose page is hostile. */
async function site(isAuthenticated: boolean): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await startPageEngine({ html: hostilePage, policy: "script-src * 'unsafe-inline'" }));
  const { first } = await freePorts(1);
  const gateway = stack.use(
    await startGateway({
      slots: { primary: { port: engine.port }, second: { port: engine.port } },
      env: {
        SVC_ENGINE_PAGES: "primary,second",
        SVC_ENGINE_PAGES_PORT: String(first),
        SVC_CHAT_PORT: "0",
        ...(isAuthenticated ? { SVC_AUTH_ENABLED: "1" } : {}),
      },
      gateway: { pages: fileURLToPath(new URL("../../web/dist", import.meta.url)) },
    }),
  );
  const tokens = stack.use(new TokenStore(gateway.stateDir));
  const token = isAuthenticated ? (await tokens.create({ label: "ada", scope: "admin" })).token : undefined;
  const owned = stack.move();
  return {
    gateway,
    engine,
    url: `http://127.0.0.1:${first}`,
    token,
    chats: () => engine.calls.filter(({ url }) => url === "/v1/chat/completions").length,
    labels: async () => (await tokens.list()).map(({ label }) => label),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Visit extends WatchedPage {
  /** Method, address and status of each answer of the dashboard's origin that was no reading. */
  readonly changes: readonly string[];
}

/** A person at the dashboard, logged in where that is asked for. */
async function visit(browser: Browser, { gateway, url, token }: Site): Promise<Visit> {
  const options =
    token === undefined ? {} : { httpCredentials: { username: "ada", password: token, origin: new URL(url).origin } };
  // Chromium reports each attempt that it refuses.
  const opened = await openPage(browser, `${gateway.url}/ui/slots/primary`, { ...options, expected: /./ });
  const changes: string[] = [];
  const context = opened.page.context();
  await context.addInitScript("addEventListener('message', ({ data }) => (window.heard ??= []).push(data))");
  context.on("response", (response) => {
    const method = response.request().method();
    if (response.url().startsWith(gateway.url) && method !== "GET")
      changes.push(`${method} ${response.url().slice(gateway.url.length)} ${response.status()}`);
  });
  if (token !== undefined) {
    await opened.page.getByLabel("Token").fill(token);
    await opened.page.getByRole("button", { name: "Use token" }).click();
  }
  await opened.page.getByRole("heading", { name: "primary", level: 1 }).waitFor();
  return { ...opened, changes };
}

/** The engine's page as its reader reaches it: by the link on the slot's page. */
async function followLink(page: Page): Promise<Page> {
  const [opened] = await Promise.all([
    page.context().waitForEvent("page"),
    page.getByRole("link", { name: "The engine's own page" }).click(),
  ]);
  await opened.getByRole("heading", { name: "Hello from the engine" }).waitFor();
  return opened;
}

const attack = async (page: Page, { gateway }: Site): Promise<Findings> =>
  await page.evaluate<Findings>(`attack(${JSON.stringify(gateway.url)})`);

const refused = /^(?:nothing|refused: (?:TypeError|SecurityError)|)$/;

describe("a hostile engine's page", () => {
  let browser: Browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser.close());

  for (const isAuthenticated of [true, false])
    describe(isAuthenticated ? "with authentication" : "without authentication", () => {
      it("runs, and reaches neither the dashboard, nor its reader's rights, nor other slots", async () => {
        await using it = await site(isAuthenticated);
        await using visited = await visit(browser, it);
        const page = await followLink(visited.page);
        assert.equal(new URL(page.url()).origin, it.url);
        assert.deepEqual(await page.evaluate("probe('primary')"), {
          fetched: "hello",
          socket: "opened",
          kept: "1",
          worker: `${it.url}/upstream/primary/`,
        });
        // In a tab of its own, and in the dashboard's, whose session storage holds the token.
        await visited.page.goto(`${it.url}/upstream/primary/`);
        for (const tab of [page, visited.page]) {
          const findings = await attack(tab, it);
          // The browser reports neither to the page: what the server has answered is below.
          const { blindCreate, blindUnload, blindChat, ...rest } = findings;
          for (const kind of [blindCreate, blindUnload, blindChat])
            assert.match(kind ?? "", /^(?:opaque|refused: TypeError)$/);
          for (const [name, found] of Object.entries(rest)) assert.match(found, refused, name);
          for (const frame of tab.frames()) assert.ok(!frame.url().startsWith(it.gateway.url), frame.url());
        }
        // The test may hear of an answer after the page.
        await until("the unload is answered", () =>
          visited.changes.some((each) => each.startsWith("POST /api/slots/primary/unload")),
        );
        for (const each of visited.changes) assert.match(each, / 40[134]$/, each);
        assert.equal(it.chats(), 0);
        assert.deepEqual(await it.labels(), isAuthenticated ? ["ada"] : []);
      });

      it("opens the dashboard, and neither reads nor reaches it", async () => {
        await using it = await site(isAuthenticated);
        await using visited = await visit(browser, it);
        const page = await followLink(visited.page);
        const [held] = await Promise.all([
          page.context().waitForEvent("page"),
          page.evaluate(`openDashboard(${JSON.stringify(it.gateway.url)})`),
        ]);
        await held
          .getByRole(isAuthenticated ? "textbox" : "link")
          .first()
          .waitFor();
        const { text, storage, message, heard } = await page.evaluate<Findings>("meddle()");
        assert.match(text ?? "", /^refused: /);
        assert.match(storage ?? "", /^refused: |^nothing$/);
        assert.equal(message, "nothing");
        assert.equal(heard, "");
        assert.equal(await held.evaluate("window.heard"), undefined);
        assert.equal(await held.evaluate("window.opener"), null);
      });

      it("may set cookies for the whole host, which the dashboard and other engines ignore", async () => {
        await using it = await site(isAuthenticated);
        await using visited = await visit(browser, it);
        const page = await followLink(visited.page);
        assert.match(await page.evaluate<string>("bake()"), /x-forwarded-email=baked/);
        await visited.page.reload();
        await visited.page.getByRole("heading", { name: "primary", level: 1 }).waitFor();
        const mine = await visited.page.evaluate<string>("document.cookie");
        assert.match(mine, /berth-token=baked/);
        const headers = it.token === undefined ? {} : { authorization: `Bearer ${it.token}` };
        const me = async (more: Readonly<Record<string, string>>): Promise<unknown> =>
          await (await fetch(`${it.gateway.url}/api/auth/me`, { headers: more })).json();
        assert.deepEqual(await me({ ...headers, cookie: mine }), await me(headers));
        if (isAuthenticated) {
          const stranger = await fetch(`${it.gateway.url}/api/auth/me`, { headers: { cookie: mine } });
          assert.equal(stranger.status, 401);
        }
        await page.goto(`${it.url}/upstream/primary/`);
        assert.equal(it.engine.calls.at(-1)?.headers.cookie, undefined);
      });
    });

  it("would reach all of that from the dashboard's own origin", async () => {
    await using it = await site(true);
    await using visited = await visit(browser, it);
    const { page } = visited;
    await page.route(`${it.gateway.url}/hostile`, (route) =>
      route.fulfill({ contentType: "text/html", body: hostilePage }),
    );
    await page.goto(`${it.gateway.url}/hostile`);
    const findings = await attack(page, it);
    assert.equal(findings["token"], it.token);
    assert.equal(findings["read"], "200");
    assert.equal(findings["create"], "201");
    assert.equal(findings["chat"], "200");
    assert.equal(it.chats(), 1);
    assert.deepEqual((await it.labels()).toSorted(), ["ada", "stolen"]);
    const [held] = await Promise.all([
      page.context().waitForEvent("page"),
      page.evaluate(`openDashboard(${JSON.stringify(it.gateway.url)})`),
    ]);
    await held.getByRole("heading", { level: 1 }).waitFor();
    const { text, storage } = await page.evaluate<Findings>("meddle()");
    assert.match(text ?? "", /Overview/);
    assert.equal(storage, it.token);
    await until(
      "the message is there",
      async () => await held.evaluate<boolean>("window.heard?.[0] === 'from the engine'"),
    );
  });
});
