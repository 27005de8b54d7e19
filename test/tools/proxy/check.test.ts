import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { describe, it } from "node:test";
import { checkProxy, type Finding } from "../../../src/tools/proxy/check.ts";
import { askEdge, type EdgeTarget } from "../../../src/tools/proxy/edge-client.ts";
import { certificate } from "../../support/certificate.ts";
import { listen } from "../../support/listen.ts";

/** The finding on streams behind a DOUBLE of a proxy, which answers for the service too, over plain HTTP. */
async function streamsBehind(onEvents: (response: ServerResponse) => void): Promise<Finding | undefined> {
  const server = createServer(({ url, headers }, response) => {
    if (url === "/api/events" && headers.authorization === "Bearer known") onEvents(response);
    else response.writeHead(401).end();
  });
  const port = await listen(server);
  const target: EdgeTarget = {
    url: new URL("http://svc.local"),
    address: { host: "127.0.0.1", port },
    root: undefined,
    isVerifying: true,
  };
  const token = { text: "known", label: "a token" };
  try {
    const round = { target, plain: target, user: undefined, password: undefined, token, revoke: undefined };
    const findings = await Array.fromAsync(checkProxy(round));
    return findings.find(({ what }) => what === "streams are not held back");
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe("berth proxy check, of streams", () => {
  const what = "streams are not held back";
  const type = { "content-type": "text/event-stream" };

  it("is content with a first event, though more may follow", async () => {
    assert.deepEqual(await streamsBehind((response) => void response.writeHead(200, type).write("event: slot\n\n")), {
      outcome: "ok",
      what,
      detail: "the first event arrived at once",
    });
  });

  for (const [name, onEvents, detail] of [
    ["is not passed on", (response) => void response.writeHead(404).end("{}"), "it answered 404"],
    ["ends at once", (response) => void response.writeHead(200, type).end(), "the stream ended without an event"],
    ["is cut", (response) => void response.destroy(), "socket hang up"],
  ] as const satisfies readonly (readonly [string, (response: ServerResponse) => void, string])[]) {
    it(`fails where the event stream ${name}`, async () => {
      assert.deepEqual(await streamsBehind(onEvents), { outcome: "failed", what, detail });
    });
  }
});

it("a proxy is told the name that is asked for, and never an address as a name", async () => {
  const told: unknown[] = [];
  const server = createTlsServer(certificate, (_request, response) => void response.end("{}"));
  server.on("secureConnection", ({ servername }) => told.push(servername));
  const port = await listen(server);
  const address = { host: "127.0.0.1", port };
  try {
    for (const name of ["hub.test", "127.0.0.1", "[::1]"])
      await askEdge({ url: new URL(`https://${name}`), address, root: undefined, isVerifying: false }, "/");
  } finally {
    server.closeAllConnections();
    server.close();
  }
  assert.deepEqual(told, ["hub.test", false, false]);
});
