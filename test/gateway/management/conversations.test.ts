import assert from "node:assert/strict";
import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Conversation } from "../../../src/api/management/chat-routes.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway } from "../../support/gateway.ts";
import { list, record } from "../../support/openai.ts";
import { startGateway as startWithTokens } from "../auth/gateway.ts";

const conversation = (id: string, at: string, content = "hi"): Conversation => ({
  id,
  title: `about ${id}`,
  model: "primary",
  updated_at: at,
  parameters: { system: "", temperature: "", maxTokens: "" },
  messages: [{ role: "user", content }],
});
const put = async (url: string, body: unknown, id: string, headers: Record<string, string> = {}): Promise<Response> =>
  await fetch(`${url}/api/conversations/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

describe("conversations of the chat page", () => {
  it("are kept, listed latest first, and deleted; nobody else of the machine may read their files", async () => {
    await using gateway = await startGateway({ slots: {} });
    const all = `${gateway.url}/api/conversations`;
    assert.equal(
      (await put(gateway.url, conversation("aaaaaaaa", "2026-01-01T00:00:00.000Z"), "aaaaaaaa")).status,
      200,
    );
    assert.equal(
      (await put(gateway.url, conversation("bbbbbbbb", "2026-01-02T00:00:00.000Z"), "bbbbbbbb")).status,
      200,
    );
    const { data }: { data: { id: string }[] } = JSON.parse(await (await fetch(all)).text());
    assert.deepEqual(
      data.map(({ id }) => id),
      ["bbbbbbbb", "aaaaaaaa"],
    );
    const read = await fetch(`${all}/aaaaaaaa`);
    assert.deepEqual(await read.json(), conversation("aaaaaaaa", "2026-01-01T00:00:00.000Z"));
    const [owner = ""] = await readdir(join(gateway.stateDir, "conversations"));
    const directory = join(gateway.stateDir, "conversations", owner);
    assert.equal((await stat(directory)).mode & 0o777, 0o700);
    for (const file of await readdir(directory)) assert.equal((await stat(join(directory, file))).mode & 0o777, 0o600);
    assert.equal((await fetch(`${all}/aaaaaaaa`, { method: "DELETE" })).status, 204);
    assert.equal((await fetch(`${all}/aaaaaaaa`)).status, 404);
    assert.equal((await readdir(directory)).length, 2);
  });

  it("hold texts of any characters, however many of them are brackets, quotes or commas", async () => {
    await using gateway = await startGateway({ slots: {} });
    const at = "2026-01-01T00:00:00Z";
    for (const content of [
      "[".repeat(100),
      ",".repeat(20_000),
      '\\\\"[,'.repeat(20_000),
      "\\",
      '\\"',
      '"'.repeat(20_000),
    ]) {
      const kept = await put(gateway.url, conversation("aaaaaaaa", at, content), "aaaaaaaa");
      assert.equal(kept.status, 200, await kept.text());
      const read = await fetch(`${gateway.url}/api/conversations/aaaaaaaa`);
      assert.deepEqual(await read.json(), conversation("aaaaaaaa", at, content));
    }
  });

  it("need a valid date, since lists are sorted by it", async () => {
    await using gateway = await startGateway({ slots: {} });
    for (const at of ["9999-99-99T99:99:99Z", "2026-13-01T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z"]) {
      const answer = await put(gateway.url, conversation("aaaaaaaa", at), "aaaaaaaa");
      assert.equal(answer.status, 400, at);
      assert.match((await envelopeOf(answer)).error.message, /^updated_at: a time in UTC/);
    }
  });

  it("are never replaced by a text that continues an earlier one: 409 names what is kept, which stays", async () => {
    await using gateway = await startGateway({ slots: {} });
    const [first, second, other] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"];
    const keep = async (at: string, content: string, basedOn: string): Promise<Response> =>
      await fetch(`${gateway.url}/api/conversations/aaaaaaaa?based_on=${basedOn}`, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(conversation("aaaaaaaa", at, content)),
      });
    const kept = async (): Promise<unknown> => await (await fetch(`${gateway.url}/api/conversations/aaaaaaaa`)).json();
    assert.equal((await keep(first, "one", "none")).status, 200);
    assert.equal((await keep(second, "of this device", first)).status, 200);
    // Another device has read the first text, and a third one knows of none.
    for (const basedOn of [first, "none"]) {
      const refused = await keep(other, "of another device", basedOn);
      assert.equal(refused.status, 409);
      const { error } = await envelopeOf(refused);
      assert.equal(error.code, "config.changed");
      assert.deepEqual(error.details, { updated_at: second });
      assert.deepEqual(await kept(), conversation("aaaaaaaa", second, "of this device"));
    }
    // The answer to a PUT may be lost: the same text is taken again.
    assert.equal((await keep(second, "of this device", first)).status, 200);
    assert.equal((await keep(other, "after reading", second)).status, 200);
    assert.deepEqual(await kept(), conversation("aaaaaaaa", other, "after reading"));
    assert.equal((await keep(first, "no time", "yesterday")).status, 400);
  });

  it("do not come back by a text that continues what was deleted meanwhile: 409, until they are kept anew", async () => {
    await using gateway = await startGateway({ slots: {} });
    const [first, second] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"];
    const one = `${gateway.url}/api/conversations/aaaaaaaa`;
    const keep = async (basedOn: string): Promise<Response> =>
      await fetch(`${one}?based_on=${basedOn}`, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(conversation("aaaaaaaa", second)),
      });
    assert.equal((await put(gateway.url, conversation("aaaaaaaa", first), "aaaaaaaa")).status, 200);
    assert.equal((await fetch(one, { method: "DELETE" })).status, 204);
    const refused = await keep(first);
    assert.equal(refused.status, 409);
    const { error } = await envelopeOf(refused);
    assert.equal(error.code, "config.changed");
    assert.deepEqual(error.details, { updated_at: null });
    assert.equal((await fetch(one)).status, 404);
    assert.equal((await keep("none")).status, 200);
    assert.equal((await fetch(one)).status, 200);
  });

  it("are deleted also where their file is broken", async () => {
    await using gateway = await startGateway({ slots: {} });
    const one = `${gateway.url}/api/conversations/aaaaaaaa`;
    await put(gateway.url, conversation("aaaaaaaa", "2026-01-01T00:00:00.000Z"), "aaaaaaaa");
    const [owner = ""] = await readdir(join(gateway.stateDir, "conversations"));
    const directory = join(gateway.stateDir, "conversations", owner);
    await writeFile(join(directory, "aaaaaaaa.json"), '{"id": "aaaa');
    assert.equal((await fetch(one)).status, 404);
    assert.equal((await fetch(one, { method: "DELETE" })).status, 204);
    assert.deepEqual(await readdir(directory), []);
    assert.equal((await fetch(one, { method: "DELETE" })).status, 404);
  });

  it("belong to the token that has kept them", async () => {
    await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
    const [one, other] = [await gateway.token("v1-only"), await gateway.token("all")];
    const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
    const at = "2026-01-01T00:00:00.000Z";
    assert.equal((await put(gateway.url, conversation("aaaaaaaa", at), "aaaaaaaa", bearer(one))).status, 200);
    const asked = async (token: string): Promise<number> =>
      (await fetch(`${gateway.url}/api/conversations/aaaaaaaa`, { headers: bearer(token) })).status;
    assert.deepEqual([await asked(one), await asked(other)], [200, 404]);
    assert.equal((await fetch(`${gateway.url}/api/conversations`)).status, 401);
  });

  it("are deleted with the token that has kept them, and with no other", async () => {
    await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
    const [one, other] = [await gateway.token("v1-only"), await gateway.token("admin")];
    const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
    const kept = conversation("aaaaaaaa", "2026-01-01T00:00:00.000Z");
    for (const token of [one, other])
      assert.equal((await put(gateway.url, kept, "aaaaaaaa", bearer(token))).status, 200);
    const all = join(gateway.stateDir, "conversations");
    assert.equal((await readdir(all)).length, 2);
    const id = /^svc_(.*)\./.exec(one)?.[1] ?? "";
    const listed = record(await (await fetch(`${gateway.url}/api/auth/tokens`, { headers: bearer(other) })).json());
    assert.deepEqual(
      list(listed["data"]).map((each) => record(each)["conversations"]),
      [1, 1],
    );
    const revoked = await fetch(`${gateway.url}/api/auth/tokens/${id}`, { method: "DELETE", headers: bearer(other) });
    assert.equal(revoked.status, 204);
    assert.equal((await readdir(all)).length, 1);
    const left = await fetch(`${gateway.url}/api/conversations/aaaaaaaa`, { headers: bearer(other) });
    assert.deepEqual(await left.json(), kept);
  });

  it("are not reached through the path of another owner's file", async () => {
    await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
    const [one, other] = [await gateway.token("v1-only"), await gateway.token("all")];
    const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
    const kept = conversation("aaaaaaaa", "2026-01-01T00:00:00.000Z");
    assert.equal((await put(gateway.url, kept, "aaaaaaaa", bearer(one))).status, 200);
    const [owner = ""] = await readdir(join(gateway.stateDir, "conversations"));
    for (const method of ["GET", "DELETE"]) {
      const path = `${gateway.url}/api/conversations/..%2f${owner}%2faaaaaaaa`;
      assert.equal((await fetch(path, { method, headers: bearer(other) })).status, 404);
    }
    const read = await fetch(`${gateway.url}/api/conversations/aaaaaaaa`, { headers: bearer(one) });
    assert.deepEqual(await read.json(), kept);
  });

  it("are refused with the path of the wrong field, and when they are too large", async () => {
    await using gateway = await startGateway({ slots: {} });
    const at = "2026-01-01T00:00:00.000Z";
    const wrong = await put(
      gateway.url,
      { ...conversation("aaaaaaaa", at), messages: [{ role: "robot" }] },
      "aaaaaaaa",
    );
    assert.equal(wrong.status, 400);
    assert.match((await envelopeOf(wrong)).error.message, /messages\.0\.role/);
    for (const [body, message] of [
      ["{", /^the body is no JSON$/],
      ["", /^the body is missing$/],
      ['"\\ud800"', /half a character/],
      [Buffer.from([0x22, 0xff, 0x22]), /is not UTF-8/],
      ["[".repeat(65), /nested more than 64 deep/],
      ['{"__proto__":{"id":"aaaaaaaa"}}', /./],
    ] as const) {
      const headers = { "content-type": "application/json" };
      const refused = await fetch(`${gateway.url}/api/conversations/aaaaaaaa`, { method: "PUT", headers, body });
      assert.equal(refused.status, 400, String(body));
      assert.match((await envelopeOf(refused)).error.message, message);
    }
    assert.equal((await put(gateway.url, conversation("bbbbbbbb", at), "aaaaaaaa")).status, 422);
    assert.equal((await put(gateway.url, conversation("aaaaaaaa", at), "..%2f..%2fx")).status, 422);
    const large = conversation("aaaaaaaa", at, "x".repeat(17 * 1024 ** 2));
    assert.equal((await put(gateway.url, large, "aaaaaaaa")).status, 413);
    assert.equal(
      (await put(gateway.url, conversation("aaaaaaaa", at, "x".repeat(3 * 1024 ** 2)), "aaaaaaaa")).status,
      200,
    );
  });
});
