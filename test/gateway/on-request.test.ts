import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FailedRef } from "../../src/api/on-request.ts";
import { isRecord } from "../../src/lib/record.ts";
import { modelRecord, startGateway, type SlotSketch } from "../support/gateway.ts";
import { json, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = (model: string, stream = false): object => ({
  model,
  stream,
  messages: [{ role: "user", content: "hi" }],
});
const refs = ["small", "large"];

/** A slot whose model requests choose, as its operator publishes it. */
function choosing(ref: string, chosen: string, sketch: SlotSketch = {}, failed: FailedRef[] = []): SlotSketch {
  const onRequest = { usual: "small", refs, chosen, since: new Date().toISOString(), failed };
  return {
    ...sketch,
    spec: { model: { default: "small", onRequest: ["large"] }, ...sketch.spec },
    status: { model: { ref, origin: "spec", served: `engine-${ref}` }, onRequest, ...sketch.status },
  };
}

const registry = { models: refs.map((ref) => modelRecord(ref)) };
const completion = (name: string) => scriptedEngine((response) => json(response, { model: name, choices: [] }));

describe("a request to a slot whose model requests choose", () => {
  it("waits in its model's own queue while another model is loaded, and counts as demand for its model", async () => {
    await using small = await completion("engine-small");
    await using large = await completion("engine-large");
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: small.port }) },
      registry,
    });
    const asked = Date.now();
    const answers = ["large", "coder:large"].map((name) => gateway.post("/v1/chat/completions", chat(name)));
    const line = (ref: string) => gateway.demand("coder")?.refs?.find((each) => each.ref === ref);
    await until("both wait", () => gateway.demand("coder")?.held === 2 && line("large")?.held === 2);
    assert.equal(await gateway.metric('berth_requests_held{slot="coder"}'), 2);
    const since = Date.parse(line("large")?.waitingSince ?? "");
    assert.ok(since >= asked && since <= Date.now(), `asked at ${asked}, waits since ${since}`);
    // Requests for the loaded model overtake it.
    assert.equal((await gateway.post("/v1/chat/completions", chat("small"))).status, 200);
    await gateway.publish("coder", choosing("small", "large", { state: "unloading" }));
    await gateway.publish("coder", choosing("large", "large", { port: large.port }));
    for (const answered of answers) assert.equal((await answered).status, 200);
    assert.equal(small.seen.length, 1);
    assert.deepEqual(
      large.seen.map(({ body }) => /"model":"([^"]*)"/.exec(body)?.[1]),
      ["engine-large", "engine-large"],
    );
    await until("nobody waits", () => line("large")?.held === 0 && line("large")?.waitingSince === undefined);
  });

  it("gets comments that describe the wait, with its position", async () => {
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "large", { state: "unloading" }) },
      registry,
      gateway: { commentTimes: { firstMs: 10, everyMs: 20 } },
    });
    const response = await gateway.post("/v1/chat/completions", chat("large", true));
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    assert.ok(reader !== undefined);
    let text = "";
    const says = async (words: string): Promise<void> => {
      while (!text.includes(words)) text += (await reader.read()).value ?? assert.fail(`the stream ended: ${text}`);
    };
    await says('position=1 doing="draining small for large"');
    await gateway.publish("coder", choosing("large", "large", { state: "pulling" }));
    await says('doing="fetching large"');
    await gateway.publish("coder", choosing("large", "large", { state: "warming" }));
    await says('doing="loading large"');
    await gateway.publish("coder", choosing("small", "small", { state: "starting" }));
    await says('doing="small comes first, then large is loaded"');
    await reader.cancel();
  });

  it("may name any model of the slot's list, as /v1/models and the slot's record show", async () => {
    const at = new Date().toISOString();
    const failure = { ref: "large", reason: "Exited", message: "it exited", failures: 2 };
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: 9 }, [{ ...failure, at, retryAt: at, isStalled: false }]) },
    });
    const list = await (await fetch(`${gateway.url}/v1/models?available=1`)).text();
    assert.deepEqual(list.match(/"id":"[^"]*"/g), ['"id":"coder"', '"id":"small"', '"id":"large"']);
    const slot: unknown = await (await fetch(`${gateway.url}/api/slots/coder`)).json();
    const failed = [{ ...failure, retry_at: at }];
    assert.ok(isRecord(slot));
    assert.deepEqual(slot["on_request"], { usual: "small", refs, chosen: "small", failed });
  });
});
