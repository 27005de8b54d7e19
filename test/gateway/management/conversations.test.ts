import assert from "node:assert/strict";
import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Conversation } from "../../../src/api/management/chat-routes.ts";
import { startGateway as startWithTokens, type TestGateway as ProtectedGateway } from "../auth/gateway.ts";
import { refusalOf, rowsOf, site, type Site } from "./fixture.ts";

const [first, second, third] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"];
const conversation = (id: string, at: string, content = "hi"): Conversation => ({
  id,
  title: `about ${id}`,
  model: "primary",
  updated_at: at,
  parameters: { system: "", temperature: "", maxTokens: "" },
  messages: [{ role: "user", content }],
});

describe("conversations of the chat page", () => {
  let at: Site;
  before(async () => {
    at = await site({ slots: {} });
  });
  after(() => at[Symbol.asyncDispose]());

  const pathOf = (id: string): string => `/api/conversations/${id}`;
  const put = (id: string, time: string, content?: string, query = ""): Promise<Response> =>
    at.send("PUT", pathOf(id) + query, conversation(id, time, content));
  const remove = async (id: string): Promise<number> => (await at.send("DELETE", pathOf(id))).status;
  const statusOf = async (id: string): Promise<number> => (await at.send("GET", pathOf(id))).status;

  it("are kept, listed latest first, and deleted; nobody else of the machine may read their files", async () => {
    assert.equal((await put("aaaaaaaa", first)).status, 200);
    assert.equal((await put("bbbbbbbb", second)).status, 200);
    const ids = rowsOf(await at.got("/api/conversations")).map(({ id }) => id);
    assert.deepEqual(ids, ["bbbbbbbb", "aaaaaaaa"]);
    assert.deepEqual(await at.got(pathOf("aaaaaaaa")), conversation("aaaaaaaa", first));
    const [owner = ""] = await readdir(join(at.stateDir, "conversations"));
    const directory = join(at.stateDir, "conversations", owner);
    assert.equal((await stat(directory)).mode & 0o777, 0o700);
    for (const file of await readdir(directory)) assert.equal((await stat(join(directory, file))).mode & 0o777, 0o600);
    assert.equal(await remove("aaaaaaaa"), 204);
    assert.equal(await statusOf("aaaaaaaa"), 404);
    assert.equal((await readdir(directory)).length, 2);
    await writeFile(join(directory, "bbbbbbbb.json"), '{"id": "aaaa');
    assert.deepEqual(
      [await statusOf("bbbbbbbb"), await remove("bbbbbbbb")],
      [404, 204],
      "also where its file is broken",
    );
  });

  it("hold texts of any characters, however many of them are brackets, quotes or commas, and of megabytes", async () => {
    for (const content of ["[".repeat(100), '\\\\"[,'.repeat(20_000), '\\"', "a picture ".repeat(300_000)]) {
      assert.equal((await put("texts111", first, content)).status, 200);
      assert.deepEqual(await at.got(pathOf("texts111")), conversation("texts111", first, content));
    }
  });

  it("are not replaced by a text that continues an earlier or deleted one: 409 names what is kept, which stays", async () => {
    const keep = (time: string, content: string, basedOn: string): Promise<Response> =>
      put("based111", time, content, `?based_on=${basedOn}`);
    assert.equal((await keep(first, "one", "none")).status, 200);
    assert.equal((await keep(second, "of this device", first)).status, 200);
    // Another device has read the first text, and a third one knows of none.
    for (const basedOn of [first, "none"]) {
      const { is, details } = await refusalOf(await keep(third, "of another device", basedOn));
      assert.deepEqual([is, details], ["409 config.changed", { updated_at: second }]);
      assert.deepEqual(await at.got(pathOf("based111")), conversation("based111", second, "of this device"));
    }
    // The answer to a PUT may be lost: the same text is taken again.
    assert.equal((await keep(second, "of this device", first)).status, 200);
    assert.equal((await keep(third, "after reading", second)).status, 200);
    assert.deepEqual(await at.got(pathOf("based111")), conversation("based111", third, "after reading"));
    assert.equal((await keep(first, "no time", "yesterday")).status, 400);
    // A text that continues a deleted conversation does not bring it back; one that begins it anew does.
    assert.equal(await remove("based111"), 204);
    const { is, details } = await refusalOf(await keep(third, "gone", third));
    assert.deepEqual([is, details], ["409 config.changed", { updated_at: null }]);
    assert.equal(await statusOf("based111"), 404);
    assert.equal((await keep(third, "anew", "none")).status, 200);
  });

  it("are refused with the path of the wrong field, and when they are too large", async () => {
    const robot = { ...conversation("refused1", first), messages: [{ role: "robot" }] };
    const headers = { "content-type": "application/json" };
    for (const [body, message] of [
      ["{", /^the body is no JSON$/],
      ["", /^the body is missing$/],
      ['"\\ud800"', /half a character/],
      [Buffer.from([0x22, 0xff, 0x22]), /is not UTF-8/],
      ["[".repeat(65), /nested more than 64 deep/],
      ['{"__proto__":{"id":"aaaaaaaa"}}', /./],
      [JSON.stringify(robot), /messages\.0\.role/],
      // Lists are sorted by it.
      ...["2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z"].map(
        (time) => [JSON.stringify(conversation("refused1", time)), /^updated_at: a time in UTC/] as const,
      ),
    ] as const) {
      const told = await refusalOf(await at.send("PUT", pathOf("refused1"), undefined, { headers, body }));
      assert.match(told.is, /^400 /, String(body));
      assert.match(told.message, message);
    }
    assert.equal((await at.send("PUT", pathOf("refused1"), conversation("bbbbbbbb", first))).status, 422);
    assert.equal((await at.send("PUT", pathOf("..%2f..%2fx"), conversation("refused1", first))).status, 422);
    assert.equal((await put("refused1", first, "x".repeat(17 * 1024 ** 2))).status, 413);
  });
});

describe("conversations where callers have tokens", () => {
  let gateway: ProtectedGateway;
  before(async () => {
    gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
  });
  after(() => gateway[Symbol.asyncDispose]());

  const kept = conversation("aaaaaaaa", first);
  const ask = async (token: string | undefined, method: string, path: string, body?: object): Promise<Response> => {
    const headers = {
      "content-type": "application/json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    return await fetch(`${gateway.url}/api/${path}`, init);
  };

  it("belong to the token that has kept them, also by the path of their file", async () => {
    const [one, other] = [await gateway.token("v1-only"), await gateway.token("all")];
    assert.equal((await ask(one, "PUT", "conversations/aaaaaaaa", kept)).status, 200);
    assert.equal((await ask(other, "GET", "conversations/aaaaaaaa")).status, 404);
    assert.equal((await ask(undefined, "GET", "conversations")).status, 401);
    const proxied = { headers: { "x-forwarded-email": "ada@example.org" } };
    assert.equal((await fetch(`${gateway.url}/api/conversations/aaaaaaaa`, proxied)).status, 404);
    const [owner = ""] = await readdir(join(gateway.stateDir, "conversations"));
    for (const method of ["GET", "DELETE"])
      assert.equal((await ask(other, method, `conversations/..%2f${owner}%2faaaaaaaa`)).status, 404);
    assert.deepEqual(await (await ask(one, "GET", "conversations/aaaaaaaa")).json(), kept);
  });

  it("are deleted with the token that has kept them, and with no other", async () => {
    const [one, other] = [await gateway.token("v1-only"), await gateway.token("admin")];
    for (const token of [one, other])
      assert.equal((await ask(token, "PUT", "conversations/aaaaaaaa", kept)).status, 200);
    const all = join(gateway.stateDir, "conversations");
    assert.equal((await readdir(all)).length, 2);
    const id = /^svc_(.*)\./.exec(one)?.[1] ?? "";
    const tokens = rowsOf(JSON.parse(await (await ask(other, "GET", "auth/tokens")).text()));
    const counts = new Map(tokens.map((token) => [token["label"], token["conversations"]]));
    assert.deepEqual([counts.get("a v1-only"), counts.get("a admin")], [1, 1]);
    assert.equal((await ask(other, "DELETE", `auth/tokens/${id}`)).status, 204);
    assert.equal((await readdir(all)).length, 1);
    assert.deepEqual(await (await ask(other, "GET", "conversations/aaaaaaaa")).json(), kept);
  });
});
