import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { restOf } from "../support/held-stream.ts";
import { until } from "../support/until.ts";

const chat = (word: string): object => ({ model: "primary", messages: [{ role: "user", content: word }] });

/** An engine that answers only when it is told to. */
function onDemand(): { script: (response: ServerResponse, seen: Seen) => void; answerNext(): void; open(): number } {
  const open: [ServerResponse, Seen][] = [];
  return {
    script: (response, seen) => void open.push([response, seen]),
    answerNext() {
      const next = open.shift();
      if (next !== undefined) sayHello(...next);
    },
    open: () => open.length,
  };
}

const queued = (gateway: TestGateway): Promise<number | undefined> =>
  gateway.metric('berth_requests_queued{slot="primary"}');

describe("a slot that is busy", () => {
  it("queues requests beyond its limit, refuses requests beyond the queue, serves in order, and tells a stream its place", async () => {
    const script = onDemand();
    await using engine = await scriptedEngine(script.script);
    const spec = { concurrency: { max: 1, queue: 2 } };
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, spec } },
      gateway: { holdTimes: { firstCommentMs: 30, everyMs: 30 } },
    });
    const first = gateway.post("/v1/chat/completions", chat("one"));
    await until("the first is inside", () => script.open() === 1);
    const second = await gateway.post("/v1/chat/completions", { ...chat("two"), stream: true });
    const reader = second.body?.pipeThrough(new TextDecoderStream()).getReader();
    const place = String((await reader?.read())?.value);
    assert.match(place, /^: waiting slot=primary state=queued position=1 waited=\d+s\n\n/);
    const third = gateway.post("/v1/chat/completions", chat("three"));
    await until("the third waits", async () => (await queued(gateway)) === 2);
    const refused = await gateway.post("/v1/chat/completions", { ...chat("four"), stream: true });
    assert.equal(refused.status, 429);
    assert.match(refused.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    const { error } = await envelopeOf(refused);
    assert.deepEqual([error.code, error.type], ["slot.overloaded", "rate_limit_error"]);
    assert.deepEqual(error.details, { slot: "primary", in_flight: 1, queued: 2 });
    for (let count = 0; count < 3; count += 1) {
      await until("one is inside", () => script.open() === 1);
      script.answerNext();
    }
    assert.deepEqual([(await first).status, (await third).status], [200, 200]);
    assert.match(await restOf(reader), /\[DONE\]\n\n$/);
    const waits = 'berth_request_wait_seconds_count{slot="primary"}';
    assert.equal(await gateway.metric(waits), 2, "who went in at once did not wait");
    assert.ok(((await gateway.metric('berth_request_wait_seconds_sum{slot="primary"}')) ?? 0) > 0);
    const order = engine.seen.map(({ body }) => /one|two|three/.exec(body)?.[0]);
    assert.deepEqual(order, ["one", "two", "three"]);
  });
});
