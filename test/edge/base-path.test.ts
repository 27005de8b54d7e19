import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openBrowser, openPage } from "../browser/browser.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway } from "../support/gateway.ts";
import { chunk, scriptedEngine } from "../support/scripted-engine.ts";
import { tempDir } from "../support/temp-dir.ts";
import { runNginx } from "./nginx-site.ts";

const pages = fileURLToPath(new URL("../../web/dist", import.meta.url));

/** The two locations of docs/edge.md in a real nginx. */
async function startNginx(berth: string): Promise<AsyncDisposable & { readonly url: string }> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const url = `http://127.0.0.1:${await freePort()}`;
  const location = (from: string, to: string): string =>
    `location ${from} { proxy_pass ${to}; proxy_set_header Host $http_host; proxy_http_version 1.1; proxy_buffering off; }`;
  const locations = `${location("/removed/", `${berth}/`)}\n${location("/kept/", berth)}`;
  const server = `server {\nlisten ${new URL(url).host};\n${locations}\n}\n`;
  stack.use(await runNginx(path, server, async () => (await fetch(`${url}/removed/livez`)).ok));
  const owned = stack.move();
  return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe("the pages below a path of nginx", () => {
  it("open, follow links and events, and chat, whether nginx removes the path or keeps it", async () => {
    await using engine = await scriptedEngine();
    engine.answer((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`${chunk({ role: "assistant", content: "hello from below" })}data: [DONE]\n\n`);
    });
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      env: { SVC_BASE_PATH: "/kept" },
      gateway: { pages },
    });
    await using nginx = await startNginx(gateway.url);
    await using browser = { chromium: await openBrowser(), [Symbol.asyncDispose]: () => browser.chromium.close() };
    for (const prefix of ["/removed", "/kept"]) {
      await using opened = await openPage(browser.chromium, `${nginx.url}${prefix}/`);
      const { page } = opened;
      const isAt = (path: string): void => assert.equal(page.url(), `${nginx.url}${prefix}${path}`);
      await page.getByText("live", { exact: true }).waitFor();
      await page.getByRole("link", { name: "primary", exact: true }).click();
      await page.getByRole("heading", { name: "primary", level: 1 }).waitFor();
      isAt("/ui/slots/primary");
      await page.reload();
      await page.getByRole("heading", { name: "primary", level: 1 }).waitFor();
      await page.getByText("live", { exact: true }).waitFor();
      await page.getByRole("link", { name: "Models", exact: true }).click();
      await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
      isAt("/ui/models");
      await page.goBack();
      await page.getByRole("heading", { name: "primary", level: 1 }).waitFor();
      await page.getByRole("link", { name: "Chat", exact: true }).click();
      await page.getByRole("textbox", { name: "Message" }).fill("hi");
      isAt("/chat/");
      await page.keyboard.press("Enter");
      await page.getByText("hello from below").waitFor();
    }
  });
});
