import assert from "node:assert/strict";
import { it } from "node:test";
import { startGateway } from "../../support/gateway.ts";

const longest = 1024 ** 2;

it("a conversation of many megabytes is neither parsed nor written as JSON on the thread of all requests", async (t) => {
  await using gateway = await startGateway({ slots: {} });
  const id = "aaaaaaaa";
  const content = "a picture ".repeat(1_300_000);
  const body = JSON.stringify({
    id,
    title: "t",
    model: "m",
    updated_at: "2026-01-01T00:00:00Z",
    parameters: { system: "", temperature: "", maxTokens: "" },
    messages: [{ role: "user", content }],
  });
  const url = `${gateway.url}/api/conversations/${id}`;
  // The gateway runs in this process.
  const { parse, stringify } = JSON;
  t.mock.method(JSON, "parse", (text: string, ...rest: []) => {
    assert.ok(text.length < longest, "a long text is parsed");
    const value: unknown = parse(text, ...rest);
    return value;
  });
  t.mock.method(JSON, "stringify", (value: unknown, ...rest: []) => {
    const text = stringify(value, ...rest);
    assert.ok((text ?? "").length < longest, "a long text is written");
    return text;
  });
  const kept = await fetch(url, { method: "PUT", headers: { "content-type": "application/json" }, body });
  assert.deepEqual(
    [kept.status, await kept.text()],
    [200, '{"id":"aaaaaaaa","title":"t","model":"m","updated_at":"2026-01-01T00:00:00Z"}'],
  );
  const read = await fetch(url);
  assert.match(read.headers.get("content-type") ?? "", /^application\/json/);
  assert.equal(await read.text(), body);
});
