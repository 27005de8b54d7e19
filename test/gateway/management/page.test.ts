import assert from "node:assert/strict";
import { it } from "node:test";
import { startGateway } from "../../support/gateway.ts";

it("the page at / shows every slot with its state, model and port, and links that lead somewhere", async () => {
  await using gateway = await startGateway({
    slots: {
      primary: { port: 8123 },
      coder: { state: "error", status: { model: { ref: "vendor/m:free", origin: "spec" } } },
    },
  });
  const response = await fetch(`${gateway.url}/`);
  assert.deepEqual([response.status, response.headers.get("content-type")], [200, "text/html; charset=utf-8"]);
  const page = await response.text();
  assert.match(page, /<td>primary<\/td><td>ready<\/td><td>test-model<\/td><td>/);
  assert.match(page, /<td>coder<\/td><td>error<\/td><td>vendor\/m:free<\/td><td>–<\/td>/);
  assert.match(page, /<td>tts<\/td><td>offline<\/td>/);
  const links = [...page.matchAll(/href="([^"]+)"/g)].map(([, link]) => link ?? "");
  assert.ok(links.length >= 5);
  for (const link of links) assert.equal((await fetch(new URL(link, gateway.url))).status, 200, link);
});
