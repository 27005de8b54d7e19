import assert from "node:assert/strict";
import { once } from "node:events";
import { appendFile, mkdir, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import Fastify from "fastify";
import { loadConfig } from "../../../src/api/config.ts";
import type { ResourceStatus } from "../../../src/api/resource-status.ts";
import { completeSlot } from "../../../src/api/slot.ts";
import { ChangeFeed, type FeedEvent } from "../../../src/gateway/management/change-feed.ts";
import { sendLogs } from "../../../src/gateway/management/logs.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { logFile } from "../../../src/runtimes/logs/logs.ts";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { published } from "../../store/published-slot.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { startGateway as startWithTokens } from "../auth/gateway.ts";
import { type EventReader, followEvents } from "./event-reader.ts";
import { rowsOf } from "./fixture.ts";

const isOf = (field: string, value: unknown) => (data: unknown) => isRecord(data) && data[field] === value;
const hasEvent = ({ events }: EventReader, name: string): boolean => events.some(({ event }) => event === name);

const resource = (kind: "Model" | "Upstream", name: string): ResourceStatus => ({
  kind,
  name,
  file: `/c/${name}.toml`,
  generation: 1,
  specHash: "h",
  conditions: [],
});

async function appendLog(gateway: TestGateway, slot: string, ordinal: number, text: string): Promise<void> {
  const file = logFile(gateway.stateDir, { slot, role: "main", ordinal });
  await mkdir(dirname(file), { recursive: true });
  await appendFile(file, text);
}

describe("events", () => {
  let gateway: TestGateway;
  before(async () => {
    gateway = await startGateway({
      slots: { coder: { port: 1 }, gone: {}, primary: {}, logged: { spec: { replicas: 2 } } },
    });
  });
  after(() => gateway[Symbol.asyncDispose]());

  it("begin with a snapshot, then report every change and removal", async () => {
    using reader = await followEvents(gateway.url);
    assert.equal(reader.status, 200);
    const { data, id } = await reader.find("snapshot");
    assert.ok(id !== undefined && isRecord(data));
    const states = rowsOf({ data: data["slots"] }).map(({ name, state }) => `${String(name)} ${String(state)}`);
    const builtins = ["primary", "embed", "stt", "tts", "img"].map((name) => `${name} offline`);
    assert.deepEqual(states, [...builtins, "coder ready", "gone offline", "logged offline"]);
    await gateway.publish("coder", { state: "error" });
    const { data: changed } = await reader.find("slot", isOf("state", "error"));
    assert.ok(isRecord(changed) && changed["name"] === "coder" && !("uptime_seconds" in changed));
    await (await openPublisher(gateway.stateDir)).deleteSlot("gone");
    assert.deepEqual((await reader.find("slot", isOf("removed", true))).data, { name: "gone", removed: true });
    const asked = await gateway.post("/api/models/pull", { source: "hf://acme/tiny/tiny.gguf" });
    assert.equal(asked.status, 202, await asked.clone().text());
    const { data: pull } = await reader.find("pull");
    assert.ok(isRecord(pull) && pull["state"] === "queued");
    await rm(join(gateway.stateDir, "pull-requests", `${String(pull["id"])}.json`));
    assert.deepEqual((await reader.find("pull", isOf("removed", true))).data, { id: pull["id"], removed: true });
    assert.equal(reader.events[0]?.event, "snapshot");
    assert.equal(new Set(reader.events.map((event) => event.id)).size, reader.events.length);
  });

  it("name each model that comes, changes or leaves", async () => {
    using reader = await followEvents(gateway.url);
    await reader.find("snapshot");
    const tiny = modelRecord("tiny");
    await gateway.publishRegistry({ models: [tiny] });
    assert.deepEqual((await reader.find("model")).data, { ref: "tiny", state: "available" });
    await gateway.publishRegistry({ models: [{ ...tiny, state: "missing" }] });
    await reader.find("model", isOf("state", "missing"));
    await gateway.publishRegistry({ models: [] });
    assert.deepEqual((await reader.find("model", isOf("removed", true))).data, { ref: "tiny", removed: true });
  });

  it("report what this gateway alone knows: that a request waits for a slot", async () => {
    using reader = await followEvents(gateway.url);
    await reader.find("snapshot");
    const left = new AbortController();
    const body = { model: "primary", messages: [{ role: "user", content: "hi" }] };
    const asked = gateway.post("/v1/chat/completions", body, { signal: left.signal }).catch(() => undefined);
    await reader.find("slot", isOf("held", 1));
    left.abort();
    await asked;
    await reader.find("slot", isOf("held", 0));
  });

  it("continue from a reader's last event, and start with a snapshot where that event is not known", async () => {
    let lastId = "";
    {
      using reader = await followEvents(gateway.url);
      lastId = (await reader.find("snapshot")).id ?? "";
    }
    await gateway.publish("primary", { state: "error" });
    using resumed = await followEvents(gateway.url, "/api/events", { "last-event-id": lastId });
    await resumed.find("slot", isOf("state", "error"));
    assert.equal(hasEvent(resumed, "snapshot"), false);
    for (const unknown of ["nonsense", "00000000-5", `${lastId}9`, ""]) {
      using reader = await followEvents(gateway.url, "/api/events", { "last-event-id": unknown });
      await reader.find("snapshot");
      assert.equal(reader.events[0]?.event, "snapshot");
    }
  });

  it("have each line of a log that is followed, with its process where the slot has several", async () => {
    const logs = "/api/slots/logged/logs";
    await appendLog(gateway, "logged", 0, "old\n");
    using reader = await followEvents(gateway.url, `${logs}?follow=1&tail=5`);
    await reader.find("message", isOf("line", "old"));
    await appendLog(gateway, "logged", 1, "new\n");
    const { data } = await reader.find("message", isOf("line", "new"));
    assert.partialDeepStrictEqual(data, { process: "main-1", line: "new" });
    const plain = await fetch(`${gateway.url}${logs}?tail=5`);
    assert.equal(plain.headers.get("content-type"), "text/plain; charset=utf-8");
    assert.deepEqual((await plain.text()).split("\n").toSorted(), ["", "main | old", "main-1 | new"]);
    await appendLog(gateway, "coder", 0, "alone\n");
    assert.equal(await (await fetch(`${gateway.url}/api/slots/coder/logs?tail=5`)).text(), "alone\n");
    const timed = await (await fetch(`${gateway.url}${logs}?tail=1&timestamps=1`)).text();
    assert.match(timed, /^\d{4}-\d\d-\d\dT[\d:.]+Z main/);
  });

  it("end with the gateway", async () => {
    using last = await followEvents(gateway.url);
    await last.find("snapshot");
    await gateway.running.close({ drainSeconds: 0 });
    await until("the stream is over", () => last.isOver());
  });
});

it("the configuration and providers are events for admins alone", async () => {
  await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
  const follow = async (scope: "admin" | "read-only"): Promise<EventReader> =>
    await followEvents(gateway.url, "/api/events", { authorization: `Bearer ${await gateway.token(scope)}` });
  using admin = await follow("admin");
  using other = await follow("read-only");
  using stranger = await followEvents(gateway.url);
  assert.equal(stranger.status, 401);
  await Promise.all([admin.find("snapshot"), other.find("snapshot")]);
  await gateway.publishOperator({ problems: [{ reason: "SourceEmpty", message: "secret of the house" }] });
  await admin.find("config");
  // A reader who comes later hears of the present problems.
  using lateAdmin = await follow("admin");
  await lateAdmin.find("config", (data) => JSON.stringify(data).includes("secret of the house"));
  await gateway.publishRegistry({ resources: [resource("Upstream", "acme"), resource("Model", "m")] });
  await admin.find("condition", isOf("name", "acme"));
  const atRest = { name: "acme", circuit: "closed", models: 0, in_flight: 0, queued: 0 };
  assert.deepEqual((await admin.find("upstream")).data, atRest);
  await other.find("condition", isOf("name", "m"));
  using late = await follow("read-only");
  assert.doesNotMatch(JSON.stringify(await late.find("snapshot")), /acme/);
  await gateway.publish("primary", { state: "error" });
  await other.find("slot", isOf("state", "error"));
  assert.doesNotMatch(JSON.stringify(other.events), /acme/);
  assert.equal(hasEvent(other, "config"), false);
});

it("events and the lines of a followed log end with the token that opened them", async () => {
  await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
  const { id, token } = await gateway.tokens.create({ label: "leaver", scope: "admin" });
  const authorization = `Bearer ${token}`;
  using events = await followEvents(gateway.url, "/api/events", { authorization });
  using logs = await followEvents(gateway.url, "/api/slots/primary/logs?follow=1", { authorization });
  using other = await followEvents(gateway.url, "/api/events", {
    authorization: `Bearer ${await gateway.token("all")}`,
  });
  await Promise.all([events.find("snapshot"), other.find("snapshot")]);
  await gateway.tokens.revoke(id);
  await until("both have ended", () => events.isOver() && logs.isOver());
  await gateway.publish("primary", { state: "error" });
  await other.find("slot", isOf("state", "error"));
  assert.equal(other.isOver(), false);
});

it("a change feed keeps a bounded history, and reports each change once", () => {
  const feed = new ChangeFeed("me");
  const told: FeedEvent[] = [];
  using _reader = feed.follow((event) => told.push(event));
  const first = feed.lastId;
  for (let count = 0; count < 1000; count += 1) feed.publish("slot", "a", { count });
  feed.publish("slot", "a", { count: 999 });
  assert.equal(told.length, 1000);
  assert.equal(feed.since(first)?.length, 1000);
  assert.deepEqual(feed.since(feed.lastId), []);
  feed.publish("slot", "a", {});
  assert.equal(feed.since(first), undefined);
  assert.equal(feed.since(told[0]?.id ?? "")?.length, 1000);
  assert.equal(feed.since("you-1"), undefined);
  feed.forget("slot", "b", {});
  assert.equal(told.length, 1001);
});

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
    const context = { config, gate: { mayStill: () => false }, stopping: new AbortController().signal };
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
