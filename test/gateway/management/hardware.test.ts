import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { later } from "../../support/later.ts";
import { until } from "../../support/until.ts";
import { refusalOf, site } from "./fixture.ts";

const known = { ...withSuggestions(pcFacts), pending: false, now: null };
const pending = { ...known, pending: true };
const newer: HardwareFacts = { ...pcFacts, kernel: "6.13.0" };

/** A gateway whose operator has published `facts`, and the operator's side. */
async function scene(options: Parameters<typeof site>[0] = {}, facts?: HardwareFacts) {
  await using stack = new AsyncDisposableStack();
  const at = stack.use(await site(options));
  const { hardware: store } = stack.use(await sharedSets(at.stateDir));
  const publishFacts = async (given: HardwareFacts, answers?: string): Promise<void> => {
    const answering = answers === undefined ? {} : { answers };
    await store.publish({ schema: 1, ...answering, hardware: withSuggestions(given) });
    const kernel = async (): Promise<unknown> =>
      JSON.parse(await (await at.send("GET", "/api/hardware")).text()).kernel;
    await until("the gateway has seen it", async () => (await kernel()) === given.kernel);
  };
  if (facts !== undefined) await publishFacts(facts);
  const owned = stack.move();
  return {
    ...at,
    store,
    publishFacts,
    /** The token of the request that the operator sees. */
    asked: () => until("a request is there", () => store.pending()?.token),
    probe: (query = "", init = {}) => at.send("POST", `/api/hardware/probe${query}`, undefined, init),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("the hardware", () => {
  it("is absent before an operator has probed; a request for a probe stays", async () => {
    await using at = await scene();
    for (const answer of [await at.send("GET", "/api/hardware"), await at.probe()]) {
      const { is, message } = await refusalOf(answer);
      assert.equal(is, "404 system.not_found");
      assert.equal(message, "no operator of this version has probed this machine yet; the first to start does");
    }
    await at.asked();
  });

  it("is the operator's finding, and is probed again on request, which is answered at once", async () => {
    await using at = await scene({}, pcFacts);
    assert.deepEqual(await at.got("/api/hardware"), known);
    assert.equal((await at.got("/api/features"))["hardware_probe"], true);
    const answer = await at.probe();
    assert.deepEqual([answer.status, await answer.json()], [202, pending]);
    await at.publishFacts(newer, await at.asked());
    assert.equal((await at.got("/api/hardware"))["pending"], false);
  });

  it("is probed before the answer on request; concurrent requests share one probe", async () => {
    await using at = await scene({}, pcFacts);
    const first = later(at.probe("?wait=settled"));
    const token = await at.asked();
    const second = request(`${at.url}/api/hardware/probe?wait=ready&timeout=60`, { method: "POST" });
    const answered: Promise<IncomingMessage[]> = once(second, "response");
    second.end();
    await once(second, "finish");
    // It is on its way: what is asked and answered after it finds it taken.
    for (let turn = 0; turn < 3; turn++) assert.equal((await at.got("/api/hardware"))["pending"], true);
    await at.publishFacts(newer, token);
    const found = { ...withSuggestions(newer), pending: false, now: null };
    assert.deepEqual(await (await first).json(), found);
    const [response] = await answered;
    assert.ok(response !== undefined);
    assert.deepEqual(await json(response), found);
    assert.equal(at.store.pending(), undefined);
  });

  for (const [what, operator, query] of [
    ["while the operator is paused: that one handles no request", { isPaused: true }, "timeout=600"],
    ["without a live operator", { heartbeat: new Date(Date.now() - 60_000).toISOString() }, "timeout=3600"],
    ["longer than the query allows", {}, "timeout=1"],
  ] as const)
    it(`is not waited for ${what}`, { timeout: 180_000 }, async () => {
      await using at = await scene({ operator }, pcFacts);
      const answer = await at.probe(`?wait=settled&${query}`);
      assert.deepEqual([answer.status, await answer.json()], [202, pending]);
    });

  it("is not waited for after the client has left", async () => {
    await using at = await scene({}, pcFacts);
    const leaving = new AbortController();
    const answer = later(at.probe("?wait=settled&timeout=3600", { signal: leaving.signal }));
    await at.asked();
    leaving.abort();
    await assert.rejects(answer);
    // Closing a gateway waits for open requests: the scene would not end.
  });
});
