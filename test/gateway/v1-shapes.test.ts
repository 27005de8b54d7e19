import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway } from "../support/gateway.ts";

/** Each has the wrong shape; with the field that the answer names. */
const wrong: readonly (readonly [path: string, body: object, field: string])[] = [
  ["/v1/chat/completions", { messages: "x" }, "messages"],
  ["/v1/chat/completions", { messages: {} }, "messages"],
  ["/v1/chat/completions", { messages: [], stream: "x" }, "stream"],
  ["/v1/chat/completions", { messages: [], stream: 1 }, "stream"],
  ["/v1/completions", { prompt: 5 }, "prompt"],
  ["/v1/embeddings", {}, "input"],
  ["/v1/embeddings", { input: null }, "input"],
  ["/v1/responses", { input: 5 }, "input"],
  ["/v1/messages", { messages: "x", max_tokens: 5 }, "messages"],
];

describe("a body of the wrong shape", () => {
  it("is refused with its field, and loads no model", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "offline" } } });
    for (const [path, body, field] of wrong) {
      const answer = await gateway.post(path, { model: "primary", ...body });
      assert.equal(answer.status, 400, `${path} ${JSON.stringify(body)}`);
      // Each protocol has errors of its own form.
      const text = await answer.text();
      assert.match(text, new RegExp(`"message":"${field}: (must be|is required)`), path);
    }
    assert.equal(gateway.demand("primary")?.lastRequestAt, undefined);
  });
});

describe("the probes", () => {
  it("list their sources on request", async () => {
    await using gateway = await startGateway();
    const text = async (path: string): Promise<string> => await (await fetch(gateway.url + path)).text();
    assert.equal(await text("/livez"), "ok\n");
    assert.equal(await text("/livez?verbose"), "[+]process ok\n[+]event loop ok\n");
    assert.match(await text("/readyz?verbose"), /^\[\+\]serving ok\n/);
  });
});
