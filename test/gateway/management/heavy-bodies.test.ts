import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cpuMsSince } from "../../support/cpu-time.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway } from "../../support/gateway.ts";

const lines = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join("\n");

/** Each kept its parser busy for seconds or minutes. */
const files: Readonly<Record<string, string>> = {
  "slots/anchors.yaml": "&a ".repeat(300_000),
  "slots/aliases.yaml": lines(50_000, (index) => `k${index}: &a${index} x`),
  "slots/tags.yaml": "!a ".repeat(300_000),
  "slots/dashes.yaml": "- ".repeat(450_000),
  "slots/questions.yaml": "? ".repeat(450_000),
  "slots/keys.yaml": lines(9000, (index) => `key${index}: x`),
  "slots/map.yaml": lines(60_000, (index) => `key${index}: x`),
  "slots/list.yaml": `a: [${"1,".repeat(400_000)}]`,
  "slots/documents.yaml": "---\na: 1\n".repeat(80_000),
  "slots/deep.yaml": "[".repeat(900_000),
  "slots/indented.yaml": lines(1300, (index) => `${" ".repeat(index)}a:`),
  "slots/map.toml": lines(60_000, (index) => `key${index} = 1`),
  "slots/tables.toml": lines(60_000, (index) => `[a.b${index}]`),
};

/**
 * The most processor time for which nothing else could run in this process, in which the gateway runs too. The time for
 * which a busy machine runs other programs does not count.
 */
async function longestTurnMs<T>(task: () => Promise<T>): Promise<{ result: T; turnMs: number }> {
  let turnMs = 0;
  let last = process.threadCpuUsage();
  const timer = setInterval(() => {
    turnMs = Math.max(turnMs, cpuMsSince(last));
    last = process.threadCpuUsage();
  }, 5);
  try {
    return { result: await task(), turnMs };
  } finally {
    clearInterval(timer);
  }
}

describe("bodies that take their parser long", () => {
  it("delay no other request, and are answered", { timeout: 600_000 }, async () => {
    await using gateway = await startGateway();
    for (const [file, text] of Object.entries(files)) {
      const body = JSON.stringify({ files: { [file]: text } });
      const { result, turnMs } = await longestTurnMs(async () => {
        const answer = await gateway.post("/api/config/validate", body);
        return { status: answer.status, text: await answer.text() };
      });
      assert.equal(result.status, 200, file);
      assert.doesNotMatch(result.text.slice(0, 100), /"valid":true/, file);
      // Without a thread of its own: 400 ms to minutes.
      assert.ok(turnMs < 400, `${file}: ${turnMs.toFixed(0)} ms`);
    }
  });

  it("are written in a single edit: a provider with a thousand labels", async () => {
    await using gateway = await startGateway();
    const labels = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`label-${index}`, "x"]));
    const spec = { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] };
    const put = async (body: object): Promise<Response> =>
      await gateway.post("/api/upstreams/acme", body, { method: "PUT" });
    assert.equal((await put(spec)).status, 201);
    const { result, turnMs } = await longestTurnMs(async () => await put({ ...spec, labels }));
    assert.equal(result.status, 202, await result.text());
    assert.ok(turnMs < 400, `${turnMs.toFixed(0)} ms`);
  });

  it("are refused beyond ten thousand values, before anything is parsed", async () => {
    await using gateway = await startGateway();
    const answer = await gateway.post("/api/config/validate", `{"files":{"a":[${"1,".repeat(10_001)}1]}}`);
    assert.equal(answer.status, 400);
    assert.match((await envelopeOf(answer)).error.message, /holds more than 10000 values/);
  });

  it("report at most a hundred unknown keys of one map", async () => {
    await using gateway = await startGateway();
    const text = lines(2000, (index) => `key${index}: x`);
    const answer = await gateway.post("/api/config/validate", { files: { "slots/a.yaml": text } });
    const body: unknown = await answer.json();
    assert.ok(typeof body === "object" && body !== null && "diagnostics" in body && Array.isArray(body.diagnostics));
    assert.equal(body.diagnostics.length, 100);
  });
});
