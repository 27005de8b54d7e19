import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openHardwareStore, type HardwareStore } from "../../../src/store/state/hardware.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";

interface Scene extends AsyncDisposable {
  readonly gateway: TestGateway;
  /** The operator's side. */
  readonly store: HardwareStore;
  /** Publishes, and waits until the gateway has seen it. */
  publish(facts: HardwareFacts, answers?: string): Promise<void>;
  probe(query?: string): Promise<Response>;
  read(): Promise<Record<string, unknown>>;
}

async function scene(options: Parameters<typeof startGateway>[0] = {}): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startGateway(options));
  const store = stack.use(await openHardwareStore(documentsInFiles(gateway.stateDir)));
  const owned = stack.move();
  const read = async (): Promise<Record<string, unknown>> => {
    const found: unknown = await (await fetch(`${gateway.url}/api/hardware`)).json();
    return isRecord(found) ? found : {};
  };
  return {
    gateway,
    store,
    read,
    async publish(facts, answers) {
      await store.publish({
        schema: 1,
        ...(answers === undefined ? {} : { answers }),
        hardware: withSuggestions(facts),
      });
      await until("the gateway has seen it", async () => (await read())["kernel"] === facts.kernel);
    },
    probe: (query = "") => fetch(`${gateway.url}/api/hardware/probe${query}`, { method: "POST" }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The token of the request that the operator sees. */
async function asked({ store }: Scene): Promise<string> {
  return await until("a request is there", () => store.pending()?.token);
}

describe("the hardware", () => {
  it("is the operator's finding", async () => {
    await using at = await scene();
    await at.publish(pcFacts);
    assert.deepEqual(await at.read(), { ...withSuggestions(pcFacts), pending: false });
  });

  it("is absent before an operator has probed; a request for a probe stays", async () => {
    await using at = await scene();
    const message = "no operator of this version has probed this machine yet; the first to start does";
    for (const answer of [await fetch(`${at.gateway.url}/api/hardware`), await at.probe()]) {
      assert.equal(answer.status, 404);
      const { error } = await envelopeOf(answer);
      assert.deepEqual([error.code, error.message], ["system.not_found", message]);
    }
    await asked(at);
  });

  it("is probed again on request, which is answered at once", async () => {
    await using at = await scene();
    await at.publish(pcFacts);
    const answer = await at.probe();
    assert.equal(answer.status, 202);
    assert.deepEqual(await answer.json(), { ...withSuggestions(pcFacts), pending: true });
    await at.publish({ ...pcFacts, kernel: "6.13.0" }, await asked(at));
    assert.equal((await at.read())["pending"], false);
  });

  it("is probed before the answer on request; concurrent requests share one probe", async () => {
    await using at = await scene();
    await at.publish(pcFacts);
    const first = later(at.probe("?wait=settled"));
    const token = await asked(at);
    const second = request(`${at.gateway.url}/api/hardware/probe?wait=ready&timeout=60`, { method: "POST" });
    const answered: Promise<IncomingMessage[]> = once(second, "response");
    second.end();
    await once(second, "finish");
    // It is on its way: what is asked and answered after it finds it taken.
    for (let turn = 0; turn < 3; turn++) assert.equal((await at.read())["pending"], true);
    await at.publish({ ...pcFacts, kernel: "6.13.0" }, token);
    const found = { ...withSuggestions({ ...pcFacts, kernel: "6.13.0" }), pending: false };
    assert.deepEqual(await (await first).json(), found);
    const [response] = await answered;
    assert.ok(response !== undefined);
    assert.deepEqual(await json(response), found);
    assert.equal(at.store.pending(), undefined);
  });

  it("is not waited for while the operator is paused: that one handles no request", { timeout: 20_000 }, async () => {
    await using at = await scene({ operator: { isPaused: true } });
    await at.publish(pcFacts);
    const answer = await at.probe("?wait=settled&timeout=600");
    assert.deepEqual([answer.status, await answer.json()], [202, { ...withSuggestions(pcFacts), pending: true }]);
  });

  it("is waited for no longer than the query allows", async () => {
    await using at = await scene();
    await at.publish(pcFacts);
    const answer = await at.probe("?wait=settled&timeout=1");
    assert.equal(answer.status, 202);
    assert.deepEqual(await answer.json(), { ...withSuggestions(pcFacts), pending: true });
  });

  it("is not waited for without a live operator", async () => {
    const heartbeat = new Date(Date.now() - 60_000).toISOString();
    await using at = await scene({ operator: { heartbeat } });
    await at.publish(pcFacts);
    const answer: unknown = await (await at.probe("?wait=settled&timeout=3600")).json();
    assert.equal(isRecord(answer) && answer["pending"], true);
  });

  it("is not waited for after the client has left", async () => {
    await using at = await scene();
    await at.publish(pcFacts);
    const leaving = new AbortController();
    const answer = later(
      fetch(`${at.gateway.url}/api/hardware/probe?wait=settled&timeout=3600`, {
        method: "POST",
        signal: leaving.signal,
      }),
    );
    await asked(at);
    leaving.abort();
    await assert.rejects(answer);
    // Closing a gateway waits for open requests: the scene would not end.
  });

  it("is listed as a feature, and a probe needs no body", async () => {
    await using at = await scene();
    await at.publish(pcFacts);
    const features: unknown = await (await fetch(`${at.gateway.url}/api/features`)).json();
    assert.equal(isRecord(features) && features["hardware_probe"], true);
    assert.equal((await at.gateway.post("/api/hardware/probe", { deep: true })).status, 400);
    assert.equal((await at.probe("?wait=never")).status, 400);
    assert.equal(at.store.pending(), undefined);
  });
});
