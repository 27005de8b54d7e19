import assert from "node:assert/strict";
import { appendFile, mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it, mock } from "node:test";
import type { ResourceStatus } from "../../../src/api/resource-status.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { Admission } from "../../../src/gateway/admission/admission.ts";
import { ChangeFeed, type FeedEvent } from "../../../src/gateway/management/change-feed.ts";
import { logFile } from "../../../src/runtimes/logs/logs.ts";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { startGateway as startWithTokens } from "../auth/gateway.ts";
import { startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { followEvents } from "./event-reader.ts";

const isOf = (field: string, value: unknown) => (data: unknown) => isRecord(data) && data[field] === value;

const hasFailed = (round: number) => (data: unknown) =>
  isRecord(data) && isRecord(data["last_error"]) && String(data["last_error"]["message"]).startsWith(`${round} `);

const resource = (kind: "Model" | "Upstream", name: string): ResourceStatus => ({
  kind,
  name,
  file: `/c/${name}.toml`,
  generation: 1,
  specHash: "h",
  conditions: [],
});

describe("events", () => {
  it("begin with a snapshot, then report every change", async () => {
    await using gateway = await startGateway({ slots: { primary: {}, coder: { port: 1 } } });
    using reader = await followEvents(gateway.url);
    assert.equal(reader.status, 200);
    const { data, id } = await reader.find("snapshot");
    assert.ok(id !== undefined && isRecord(data) && Array.isArray(data["slots"]));
    const states = data["slots"].map(
      (slot: unknown) => isRecord(slot) && `${String(slot["name"])} ${String(slot["state"])}`,
    );
    assert.deepEqual(states, [
      "primary offline",
      "embed offline",
      "stt offline",
      "tts offline",
      "img offline",
      "coder ready",
    ]);
    await gateway.publish("coder", { state: "error" });
    const { data: changed } = await reader.find("slot", isOf("state", "error"));
    assert.ok(isRecord(changed) && changed["name"] === "coder" && !("uptime_seconds" in changed));
    assert.equal(reader.events[0]?.event, "snapshot");
    assert.equal(new Set(reader.events.map((event) => event.id)).size, reader.events.length);
  });

  it("read the slots once for all readers that connect, not once for each", async () => {
    const names = Array.from({ length: 20 }, (_, index) => `slot${index}`);
    await using gateway = await startGateway({ slots: Object.fromEntries(names.map((name) => [name, { port: 1 }])) });
    using stack = new DisposableStack();
    const counted = mock.method(Admission.prototype, "counts");
    stack.defer(() => counted.mock.restore());
    const readers = await Promise.all(Array.from({ length: 100 }, () => followEvents(gateway.url)));
    for (const reader of readers) stack.use(reader);
    await Promise.all(readers.map((reader) => reader.find("snapshot")));
    // Twice for each reader would be 4000. A slow machine polls some times more, and makes some more snapshots.
    const calls = counted.mock.callCount();
    assert.ok(calls <= 1000, `${calls} views`);
  });

  it("report what this gateway alone knows: that a slot is serving", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "offline" } } });
    using reader = await followEvents(gateway.url);
    await reader.find("snapshot");
    const left = new AbortController();
    const body = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }] });
    const asked = gateway.post("/v1/chat/completions", body, { signal: left.signal }).catch(() => undefined);
    await reader.find("slot", isOf("held", 1));
    left.abort();
    await asked;
    await reader.find("slot", isOf("held", 0));
  });

  it("report a removed slot", async () => {
    await using gateway = await startGateway({ slots: { primary: {}, coder: {} } });
    using reader = await followEvents(gateway.url);
    await reader.find("snapshot");
    const publisher = await openPublisher(gateway.stateDir);
    await publisher.deleteSlot("coder");
    const { data } = await reader.find("slot", isOf("removed", true));
    assert.deepEqual(data, { name: "coder", removed: true });
  });

  it("report a removed pull", async () => {
    await using gateway = await startGateway({ slots: { primary: {} } });
    using reader = await followEvents(gateway.url);
    await reader.find("snapshot");
    const asked = await gateway.post("/api/models/pull", JSON.stringify({ source: "hf://acme/tiny/tiny.gguf" }));
    assert.equal(asked.status, 202, await asked.clone().text());
    const { data } = await reader.find("pull");
    assert.ok(isRecord(data) && data["state"] === "queued");
    await rm(join(gateway.stateDir, "pulls", `${String(data["id"])}.json`));
    const { data: gone } = await reader.find("pull", isOf("removed", true));
    assert.deepEqual(gone, { id: data["id"], removed: true });
  });

  it("continue from a reader's last event, and start with a snapshot where that event is not known", async () => {
    await using gateway = await startGateway({ slots: { primary: {} } });
    let lastId = "";
    {
      using reader = await followEvents(gateway.url);
      lastId = (await reader.find("snapshot")).id ?? "";
    }
    await gateway.publish("primary", { state: "error" });
    using resumed = await followEvents(gateway.url, "/api/events", { "last-event-id": lastId });
    await resumed.find("slot", isOf("state", "error"));
    assert.equal(
      resumed.events.some(({ event }) => event === "snapshot"),
      false,
    );
    for (const unknown of ["nonsense", "00000000-5", `${lastId}9`, ""]) {
      using reader = await followEvents(gateway.url, "/api/events", { "last-event-id": unknown });
      await reader.find("snapshot");
      assert.equal(reader.events[0]?.event, "snapshot");
    }
  });

  it("report the configuration to admins alone", async () => {
    await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
    const headers = async (scope: "admin" | "read-only"): Promise<Record<string, string>> => ({
      authorization: `Bearer ${await gateway.token(scope)}`,
    });
    using admin = await followEvents(gateway.url, "/api/events", await headers("admin"));
    using other = await followEvents(gateway.url, "/api/events", await headers("read-only"));
    using stranger = await followEvents(gateway.url);
    assert.equal(stranger.status, 401);
    await Promise.all([admin.find("snapshot"), other.find("snapshot")]);
    await gateway.publishOperator({ problems: [{ reason: "SourceEmpty", message: "secret of the house" }] });
    await admin.find("config");
    // One who comes later is told of what is wrong now.
    using lateAdmin = await followEvents(gateway.url, "/api/events", await headers("admin"));
    await lateAdmin.find("config", (data) => JSON.stringify(data).includes("secret of the house"));
    await gateway.publishRegistry({ resources: [resource("Upstream", "acme"), resource("Model", "m")] });
    await admin.find("condition", isOf("name", "acme"));
    await other.find("condition", isOf("name", "m"));
    using late = await followEvents(gateway.url, "/api/events", await headers("read-only"));
    assert.doesNotMatch(JSON.stringify(await late.find("snapshot")), /acme/);
    assert.equal(
      other.events.some(({ data }) => JSON.stringify(data).includes("acme")),
      false,
    );
    await gateway.publish("primary", { state: "error" });
    await other.find("slot", isOf("state", "error"));
    assert.equal(
      other.events.some(({ event }) => event === "config"),
      false,
    );
  });

  it("end with the token that opened them, and so do the lines of a followed log", async () => {
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

  it("drop a reader that does not read, alone, and leave nothing behind", async () => {
    await using gateway = await startGateway({ slots: { primary: {} } });
    using slow = await followEvents(gateway.url);
    using quick = await followEvents(gateway.url);
    await Promise.all([slow.find("snapshot"), quick.find("snapshot")]);
    slow.pause();
    for (let round = 0; round < 60; round += 1) {
      const message = `${round} ${"x".repeat(300_000)}`;
      await gateway.publish("primary", {
        status: { lastError: { reason: "Exited", message, time: new Date().toISOString() } },
      });
      await quick.find("slot", hasFailed(round));
    }
    assert.equal(
      quick.events.some(({ event }) => event === "resync"),
      false,
    );
    slow.resume();
    await until("the slow one is dropped", () => slow.isOver());
    assert.ok(slow.events.length < quick.events.length);
  });

  it("tell a slow reader, before they drop it, that it has to reconnect", async () => {
    await using gateway = await startGateway({ slots: { primary: {} } });
    using slow = await followEvents(gateway.url);
    await slow.find("snapshot");
    slow.pause();
    // It has 5 s to read what it was sent: here as long as a slow machine may take to send it more.
    const { setTimeout: real } = globalThis;
    const patience = mock.method(
      globalThis,
      "setTimeout",
      (act: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
        real(act, ms === 5000 ? 600_000 : ms, ...args),
    );
    using stack = new DisposableStack();
    stack.defer(() => patience.mock.restore());
    // More than sockets hold.
    for (let round = 0; round < 8; round += 1) {
      const message = `${round} ${"x".repeat(3_000_000)}`;
      await gateway.publish("primary", {
        status: { lastError: { reason: "Exited", message, time: new Date().toISOString() } },
      });
    }
    slow.resume();
    await until("it is dropped", () => slow.isOver());
    assert.ok(patience.mock.calls.some(({ arguments: [, ms] }) => ms === 5000));
    assert.deepEqual([slow.events.at(-1)?.event, slow.events.at(-1)?.data], ["resync", {}]);
    assert.ok(slow.events.length < 8, "it did not get everything");
    using again = await followEvents(gateway.url);
    const { data } = await again.find("snapshot");
    assert.ok(JSON.stringify(data).includes('"message":"7 x'), "beginning anew shows the last of all");
  });

  it("carry a comment every 15 s, by which clients know that the stream lives", async () => {
    mock.timers.enable({ apis: ["setInterval"] });
    try {
      await using gateway = await startGateway({ slots: { primary: {} } });
      using events = await followEvents(gateway.url);
      await events.find("snapshot");
      using models = await followEvents(gateway.url, "/models/sse");
      using log = await followEvents(gateway.url, "/api/slots/primary/logs?follow=1");
      const readers = [events, models, log];
      mock.timers.tick(14_999);
      assert.ok(readers.every((reader) => reader.comments() === 0));
      for (let count = 1; count <= 3; count += 1) {
        mock.timers.tick(count === 1 ? 1 : 15_000);
        await until("a comment", () => readers.every((reader) => reader.comments() === count));
      }
      assert.ok(events.events.every(({ event }) => event !== "message"));
    } finally {
      mock.timers.reset();
    }
  });

  it("end with their readers and with the gateway", async () => {
    const gateway = await startGateway({ slots: { primary: {} } });
    const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
    const before = timers();
    const readers = await Promise.all(Array.from({ length: 20 }, () => followEvents(gateway.url)));
    await Promise.all(readers.map((reader) => reader.find("snapshot")));
    assert.ok(timers() >= before + 20);
    for (const reader of readers) reader[Symbol.dispose]();
    await until("their heartbeats have ended", () => timers() < before + 5);
    using last = await followEvents(gateway.url);
    await last.find("snapshot");
    await gateway[Symbol.asyncDispose]();
    await until("the stream is over", () => last.isOver());
  });
});

describe("a change feed", () => {
  it("keeps a bounded history, and reports each change once", () => {
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
});

describe("a log that is followed", () => {
  it("sends each line when it is written, and ends with its reader", async () => {
    await using gateway = await startGateway({ slots: { primary: {} } });
    const file = logFile(gateway.stateDir, { slot: "primary", role: "main", ordinal: 0 });
    await mkdir(dirname(file), { recursive: true });
    await appendFile(file, "old\n");
    using reader = await followEvents(gateway.url, "/api/slots/primary/logs?follow=1&tail=5");
    await reader.find("message", isOf("line", "old"));
    await appendFile(file, "new\n");
    const { data } = await reader.find("message", isOf("line", "new"));
    assert.deepEqual(isRecord(data) && Object.keys(data), ["time", "stream", "line"]);
    const plain = await fetch(`${gateway.url}/api/slots/primary/logs?tail=1`);
    assert.equal(plain.headers.get("content-type"), "text/plain; charset=utf-8");
    assert.equal(await plain.text(), "new\n");
    const timed = await fetch(`${gateway.url}/api/slots/primary/logs?tail=1&timestamps=1`);
    assert.match(await timed.text(), /^\d{4}-\d\d-\d\dT[\d:.]+Z new\n$/);
  });

  it("names the process of each line where the slot has several", async () => {
    await using gateway = await startGateway({ slots: { primary: { spec: { replicas: 2 } } } });
    for (const ordinal of [0, 1]) {
      const file = logFile(gateway.stateDir, { slot: "primary", role: "main", ordinal });
      await mkdir(dirname(file), { recursive: true });
      await appendFile(file, "hello\n");
    }
    using reader = await followEvents(gateway.url, "/api/slots/primary/logs?follow=1&tail=5");
    for (const process of ["main", "main-1"]) await reader.find("message", isOf("process", process));
    const plain = await (await fetch(`${gateway.url}/api/slots/primary/logs?tail=5`)).text();
    assert.deepEqual(plain.split("\n").toSorted(), ["", "main | hello", "main-1 | hello"]);
  });
});
