import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { it } from "node:test";
import Fastify from "fastify";
import { loadConfig } from "../../../src/api/config.ts";
import { completeSlot } from "../../../src/api/slot.ts";
import { sendLogs } from "../../../src/gateway/management/logs.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { published } from "../../store/published-slot.ts";

it("a followed log ends for a client that does not read and has lost its right, with lines still to send", async () => {
  await using dir = await tempDir();
  await mkdir(join(dir.path, "logs"));
  // More than the buffers of a connection.
  await writeFile(join(dir.path, "logs", "a.main.log"), `${"x".repeat(1600)}\n`.repeat(5000));
  const environment = { SVC_STATE_DIR: dir.path, SVC_CONFIG_DIR: dir.path };
  const places = { isRoot: false, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined };
  const { config } = loadConfig(environment, {}, places);
  assert.ok(config);
  await using app = Fastify();
  const ended = Promise.withResolvers<boolean>();
  const { name, spec, status } = published("a");
  const slot = { name, spec: completeSlot(name, spec), status };
  app.get("/", { config: { scope: "read" } }, async (_request, reply) => {
    const context = { config, authenticator: { mayStill: () => false }, stopping: new AbortController().signal };
    await sendLogs(reply, context, slot, { tail: 5000, follow: true, timestamps: false });
    ended.resolve(reply.raw.writableEnded);
    return reply;
  });
  const url = new URL(await app.listen({ port: 0, host: "127.0.0.1" }));
  const client = connect(Number(url.port), url.hostname);
  client.pause();
  await once(client, "connect");
  client.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  assert.equal(await ended.promise, true);
  // An error of the response is thrown after this turn.
  await new Promise((resolve) => setImmediate(resolve));
  client.destroy();
});
