import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { navigation } from "../../site/navigation.ts";
import { pageOf } from "../../site/links.ts";
import { findings } from "../browser/axe.ts";
import { openBrowser, openPage, type WatchedPage } from "../browser/browser.ts";
import { listen } from "../support/listen.ts";

/** What `make test-site` has built, below a path that is not the server's root. */
const built = fileURLToPath(new URL("../../.cache/built-site", import.meta.url));
const base = "/handbook/berth/";
const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".woff2": "font/woff2",
  ".png": "image/png",
};

/** Plain file server: it knows no page without its ending. */
const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url ?? "", "http://site").pathname);
  const file = path.startsWith(base) ? path.slice(base.length) : "outside of the base";
  void readFile(join(built, file === "" || file.endsWith("/") ? `${file}index.html` : file)).then(
    (bytes) => response.setHeader("content-type", contentTypes[extname(path) || ".html"] ?? "text/plain").end(bytes),
    () => response.writeHead(404).end("no such file"),
  );
});

describe("the documentation site", { timeout: 300_000 }, () => {
  let browser: Browser;
  let site = "";
  before(async () => {
    site = `http://127.0.0.1:${await listen(server)}${base}`;
    browser = await openBrowser();
  });
  after(async () => {
    await browser.close();
    server.close();
  });

  /** Opens a page; every request that leaves the server, and every file that is not there, fails the test. */
  async function open(path: string, width = 1280, colorScheme: "light" | "dark" = "light"): Promise<WatchedPage> {
    const opened = await openPage(browser, "about:blank", { viewport: { width, height: 800 }, colorScheme });
    await opened.page.route(
      (url) => !url.href.startsWith(site),
      (route) => {
        assert.fail(`the site asks another host: ${route.request().url()}`);
      },
    );
    opened.page.on("response", (response) => assert.ok(response.status() < 400, response.url()));
    await opened.page.goto(site + path, { waitUntil: "networkidle" });
    return opened;
  }

  it("takes scripts, styles, fonts and pictures from no other host", () => {
    const foreign =
      /(?:src|srcset)="?(?:https?:)?\/\/|<link[^>]*href="?(?:https?:)?\/\/|url\(["']?(?:https?:)?\/\/|import\(["'](?:https?:)?\/\//;
    const files = globSync("**/*.{html,css,js}", { cwd: built });
    assert.ok(files.length > 100, "`make test-site` builds the site first");
    const found = files.filter((file) => foreign.test(readFileSync(join(built, file), "utf8")));
    assert.deepEqual(found, []);
  });

  it("finds a word without a network", async () => {
    await using opened = await open("");
    const { page } = opened;
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill("KillMode");
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("main").getByText("KillMode=process").first().waitFor();
  });

  it("leads from the menu to a page, and from its links to others and to files", async () => {
    await using opened = await open("");
    const { page } = opened;
    await page.getByRole("navigation").getByRole("link", { name: "Edge proxy" }).click();
    await page.getByRole("heading", { level: 1 }).filter({ hasText: /edge/i }).waitFor();
    const manifest = await page.getByRole("link", { name: "manifests/nginx/berth.conf" }).first().getAttribute("href");
    assert.equal((await page.request.get(new URL(manifest ?? "", site).href)).status(), 200);
  });

  it("shows the picture of its own look, whatever that of the system", async () => {
    await using opened = await open("pages.html", 1280, "dark");
    const { page } = opened;
    const picture = page.getByRole("img", { name: /^The overview: / });
    assert.match((await picture.getAttribute("src")) ?? "", /overview-dark/);
    await page.getByRole("switch", { name: /theme/i }).first().click();
    assert.match((await picture.getAttribute("src")) ?? "", /overview-light/);
  });

  for (const look of ["light", "dark"] as const) {
    it(`has no findings of axe, ${look}`, async () => {
      for (const [path, width] of [
        ["", 1280],
        ["quick/laptop.html", 1280],
        ["audio.html", 1280],
        ["comparison.html", 360],
        ["audio.html", 360],
      ] as const) {
        await using opened = await open(path, width, look);
        assert.deepEqual(await findings(opened.page), [], `${path} at ${width}`);
      }
    });
  }

  it("moves no page sideways on a phone of 360 px", async () => {
    await using opened = await open("", 360);
    const wide: string[] = [];
    for (const file of navigation
      .flatMap(({ entries }) => entries)
      .map((entry) => ("file" in entry ? entry.file : `${entry.folder}/README.md`))) {
      await opened.page.goto(site + pageOf(file).replace(/\.md$/, ".html"));
      const width: number = await opened.page.evaluate("document.documentElement.scrollWidth");
      if (width > 360) wide.push(`${file}: ${width} px`);
    }
    assert.deepEqual(wide, []);
  });
});
