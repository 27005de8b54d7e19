import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { OtlpExporter, type OtlpOptions, type SpanWriter } from "../../../src/gateway/telemetry/otlp-exporter.ts";
import { until } from "../../support/until.ts";
import { startReceiver } from "./receiver.ts";

function exporterTo({ url }: { readonly url: string }, options: Partial<OtlpOptions> = {}): OtlpExporter {
  return new OtlpExporter({ endpoint: url, version: "0", instance: "0", onFailing: assert.fail, ...options });
}

/** `count` spans with a name of that length. */
function spansOf(count: number, nameLength = 4): SpanWriter {
  const text = JSON.stringify({
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    name: "x".repeat(nameLength),
    kind: 2,
    startTimeUnixNano: "1767225600000000000",
    endTimeUnixNano: "1767225600000000000",
    attributes: [],
    status: { code: 0 },
  });
  const bytes = Buffer.from(`${text},`.repeat(count));
  return { count, mostBytes: bytes.length, put: (memory, at) => at + bytes.copy(memory, at) };
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

describe("the exporter of traces", () => {
  it("sends every span that it holds at its end, unless the receiver is gone", async () => {
    let isGone = false;
    await using receiver = await startReceiver((response) => void response.writeHead(isGone ? 503 : 200).end("{}"));
    const failures: string[] = [];
    for (const batches of [
      [512, 512, 276],
      [512, 512],
    ]) {
      const exporter = exporterTo(receiver, { onFailing: (message) => failures.push(message) });
      for (let request = 0; request < 325; request += 1) exporter.add(spansOf(4));
      await exporter[Symbol.asyncDispose]();
      assert.deepEqual(receiver.batches.splice(0), batches);
      isGone = true;
    }
    assert.equal(failures.length, 1);
  });

  it("makes spans wait for a receiver in few batches, each whole, and no more than the limit", async () => {
    const held: ServerResponse[] = [];
    await using receiver = await startReceiver((response) => void held.push(response));
    await using exporter = exporterTo(receiver, { everyMs: 1 });
    exporter.add(spansOf(1, 700));
    await until("the first is on its way", () => receiver.batches.length === 1);
    let taken = 0;
    for (; exporter.hasRoom; taken += 1) exporter.add(spansOf(1, 700));
    assert.equal(taken, 2048);
    await until("the receiver has all of them", () => {
      for (const response of held.splice(0)) response.end("{}");
      return sum(receiver.batches) === 1 + taken;
    });
    assert.ok(receiver.batches.length <= 7, `batches: ${receiver.batches.join(", ")}`);
    assert.ok(exporter.hasRoom);
  });

  it("sends what came while the receiver was silent, although the time to send it has passed", async () => {
    for (const count of [1, 2048]) {
      let first: ServerResponse | undefined;
      await using receiver = await startReceiver((response) => {
        if (first === undefined) first = response;
        else response.end("{}");
      });
      await using exporter = exporterTo(receiver, { everyMs: 1 });
      exporter.add(spansOf(1));
      await until("the first is on its way", () => first !== undefined);
      for (let nth = 0; nth < count; nth += 1) exporter.add(spansOf(1));
      // The exporter's timer, which is due after 1 ms, fires before this one.
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.deepEqual(receiver.batches, [1]);
      first?.end("{}");
      await until("the others have come", () => sum(receiver.batches) === 1 + count);
    }
  });

  it("reports a receiver whose answer has no end", async () => {
    await using receiver = await startReceiver((response) => void response.writeHead(200).write("{"));
    const failures: string[] = [];
    const exporter = exporterTo(receiver, { timeoutMs: 100, onFailing: (message) => failures.push(message) });
    exporter.add(spansOf(1));
    await exporter[Symbol.asyncDispose]();
    assert.match(failures.join("; "), /timeout/);
  });
});
