import assert from "node:assert/strict";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { it } from "node:test";
import { isRecord } from "../../src/lib/record.ts";
import { freePort } from "../support/free-port.ts";
import { publishedSlot, startGateway } from "../support/gateway.ts";
import { packagesOf } from "../support/packages.ts";
import { sayHello, scriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { serverBehind } from "../support/server-behind.ts";
import { until } from "../support/until.ts";

// Memory at rest: what only an upstream, a written manifest or a check of files needs is loaded for those.
it("a gateway that starts loads no client of providers, and no parser of manifests", async () => {
  const packages = await packagesOf("src/gateway/main.ts");
  const light = ["eventsource-parser", "fastify", "prom-client", "zod"];
  assert.deepEqual([...packages.keys()].toSorted(), light, JSON.stringify([...packages]));
});

it("a gateway that cannot start does not listen", async () => {
  const port = await freePort();
  const onStart = (stateDir: string): void => {
    rmSync(stateDir, { recursive: true });
    writeFileSync(stateDir, "no directory");
  };
  await assert.rejects(startGateway({ env: { SVC_PORT: String(port) }, onStart }), { code: "ENOTDIR" });
  await assert.rejects(fetch(`http://127.0.0.1:${port}/livez`), { message: "fetch failed" });
});

it("logs a connection that the system refuses, and continues", async () => {
  await using gateway = await startGateway();
  const server = await serverBehind(`${gateway.url}/livez`);
  // As Node tells of an `accept` that fails for want of descriptors or memory.
  server.emit("error", Object.assign(new Error("accept ENFILE"), { code: "ENFILE", syscall: "accept" }));
  assert.match(gateway.log(), /a connection could not be accepted/);
  assert.ok((await fetch(`${gateway.url}/livez`)).ok);
});

it("ends a connection whose further request has a header without an end", async () => {
  await using gateway = await startGateway();
  const server = await serverBehind(`${gateway.url}/livez`);
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.write("GET /livez HTTP/1.1\r\nhost: berth\r\n\r\n");
  await once(socket, "data");
  assert.ok(server.headersTimeout <= 10_000);
  server.headersTimeout = 100;
  socket.write("GET /livez HTTP/1.1\r\nhost:");
  // Node itself looks every 30 s.
  await once(socket.resume(), "close", { signal: AbortSignal.timeout(20_000) });
});

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };

it("a gateway of another machine than its operator holds requests until the operator's heartbeat changes, however wrong its clock is", async () => {
  await using engine = await scriptedEngine(sayHello);
  const elsewhere = { bootId: "another", heartbeat: "2020-01-01T00:00:00.000Z" };
  const slots = { primary: { state: "ready", port: engine.port } } as const;
  await using gateway = await startGateway({ slots, operator: elsewhere });
  const heartbeat = async (): Promise<string | undefined> =>
    /^\[(.)\]operator_heartbeat/m.exec(await (await fetch(`${gateway.url}/readyz?verbose`)).text())?.[1];
  const held = gateway.post("/v1/chat/completions", chat);
  await until("it is held", () => gateway.demand("primary")?.held === 1);
  assert.equal(engine.seen.length, 0, "what is published may be of before a reboot");
  assert.equal(await heartbeat(), "-");
  await gateway.publishOperator(elsewhere);
  assert.equal((await held).status, 200);
  await until("its life is seen", async () => {
    // A busy machine may look only when the heartbeat before is too old again.
    await gateway.publishOperator(elsewhere);
    return (await heartbeat()) === "+";
  });
});

it("the probes list their sources on request", async () => {
  await using gateway = await startGateway();
  const text = async (path: string): Promise<string> => await (await fetch(gateway.url + path)).text();
  assert.equal(await text("/livez"), "ok\n");
  assert.equal(await text("/livez?verbose"), "[+]process ok\n[+]event loop ok\n");
  assert.match(await text("/readyz?verbose"), /^\[\+\]serving ok\n/);
});

it("a gateway under a later operator serves a slot in an unknown state, logs that once, and confirms its unloading", async () => {
  await using engine = await scriptedEngine(sayHello);
  await using gateway = await startGateway({ slots: { primary: { state: "ready", port: engine.port } } });
  const publish = async (revision: number, status: object): Promise<void> => {
    const slot = publishedSlot("primary", { state: "ready", port: engine.port }, revision);
    const text = JSON.stringify({ ...slot, status: { ...slot.status, ...status } });
    await writeFile(join(gateway.stateDir, "slots/primary.json"), text);
    await until("it is seen", () => gateway.running.seenRevision("primary") === revision);
  };
  for (const revision of [50, 51]) {
    await publish(revision, { state: "hibernating", capabilities: ["chat", "telepathy"] });
    const answer = await gateway.post("/v1/chat/completions", { model: "primary", messages: [] });
    assert.equal(answer.status, 200);
  }
  assert.equal(gateway.log().split("hibernating").length, 2);
  // Not even what is published otherwise can be read.
  await publish(52, { state: "unloading", restarts: "many" });
  await until("that is confirmed", () => gateway.demand("primary")?.seenRevision === 52);
});

/** Waits until a gateway shows these: state, requests in flight, in the queue and held. */
async function showing(url: string, slot: string, expected: string): Promise<void> {
  await until(`${url} shows ${expected} of ${slot}`, async () => {
    const body: unknown = await (await fetch(`${url}/api/slots/${slot}`)).json();
    const shown = isRecord(body) ? [body["state"], body["in_flight"], body["queued"], body["held"]] : [];
    return JSON.stringify(shown) === expected;
  });
}

it("each of two gateways shows the requests of both, until the other one ends", async () => {
  const open: [ServerResponse, Seen][] = [];
  await using engine = await scriptedEngine((response, seen) => void open.push([response, seen]));
  const spec = { concurrency: { max: 1, queue: 8 } };
  await using one = await startGateway({
    slots: { primary: { port: engine.port, spec }, chat: { state: "starting", spec: { model: { default: "m" } } } },
  });
  const all = [one.post("/v1/chat/completions", chat)];
  {
    await using two = await startGateway({ env: { SVC_STATE_DIR: one.stateDir } });
    const bodies = [chat, chat, { ...chat, model: "chat" }];
    const others = bodies.map((body) => two.post("/v1/chat/completions", body));
    await until("both engines' places are taken", () => open.length === 2);
    for (const url of [one.url, two.url]) {
      await showing(url, "primary", '["serving",2,1,0]');
      await showing(url, "chat", '["starting",0,0,1]');
    }
    for (const next of open.splice(0)) sayHello(...next);
    await until("the last one is inside", () => open.length === 1);
    await showing(one.url, "primary", '["serving",1,0,0]');
    for (const next of open.splice(0)) sayHello(...next);
    await Promise.all(others.slice(0, 2));
  }
  await showing(one.url, "chat", '["starting",0,0,0]');
  for (const answer of await Promise.all(all)) assert.equal(answer.status, 200);
});
