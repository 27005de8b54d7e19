import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import { describe, it } from "node:test";
import { makeAuthority } from "../support/kube/certificates.ts";
import { openApiServer } from "../support/kube/control-plane.ts";
import { tempDir } from "../support/temp-dir.ts";

/** The facts of an API server on loopback that answers so. */
async function serve(listener: RequestListener) {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const authority = await makeAuthority(join(directory.path, "pki"));
  const { cert, key } = await authority.issue("server", "/CN=server", "serverAuth", ["IP:127.0.0.1"]);
  const server = createServer({ cert: await readFile(cert), key: await readFile(key) }, listener);
  stack.defer(() => server.closeAllConnections());
  stack.defer(() => void server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  const facts = { directory: directory.path, url: `https://127.0.0.1:${address.port}`, token: "t" };
  const owned = stack.move();
  return { facts, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe("a test's client of an API server", () => {
  it("does not wait for ever for an answer, nor for the rest of one", async () => {
    for (const listener of [
      () => undefined,
      (_request, answer) => void answer.write("{"),
    ] satisfies RequestListener[]) {
      await using server = await serve(listener);
      await assert.rejects(openApiServer(server.facts, 200).ask("/readyz"), /abort/);
    }
  });

  it("makes namespaces of names of their own, however often a process has opened it", async () => {
    await using server = await serve((_request, answer) => void answer.end("{}"));
    const names: string[] = [];
    for (let nth = 0; nth < 3; nth += 1) names.push(await openApiServer(server.facts).namespace());
    assert.equal(new Set(names).size, 3);
  });
});
