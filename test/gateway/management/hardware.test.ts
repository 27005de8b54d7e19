import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openHardwareStore, type HardwareStore } from "../../../src/store/state/hardware.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { later } from "../../support/later.ts";
import { until } from "../../support/until.ts";
import { refusalOf, site, type Json, type Site } from "./fixture.ts";

const known = { ...withSuggestions(pcFacts), pending: false };
const pending = { ...known, pending: true };
const newer: HardwareFacts = { ...pcFacts, kernel: "6.13.0" };

interface Scene extends Site {
  /** The operator's side. */
  readonly store: HardwareStore;
  /** Publishes, and waits until the gateway has seen it. */
  publishFacts(facts: HardwareFacts, answers?: string): Promise<void>;
  probe(query?: string, init?: RequestInit): Promise<Response>;
  read(): Promise<Json>;
}

/** A gateway whose operator has published `facts`. */
async function scene(options: Parameters<typeof site>[0] = {}, facts?: HardwareFacts): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const at = stack.use(await site(options));
  const store = stack.use(await openHardwareStore(documentsInFiles(at.stateDir)));
  const read = async (): Promise<Json> => JSON.parse(await (await at.send("GET", "/api/hardware")).text());
  const publishFacts: Scene["publishFacts"] = async (given, answers) => {
    const answering = answers === undefined ? {} : { answers };
    await store.publish({ schema: 1, ...answering, hardware: withSuggestions(given) });
    await until("the gateway has seen it", async () => (await read())["kernel"] === given.kernel);
  };
  if (facts !== undefined) await publishFacts(facts);
  const owned = stack.move();
  return {
    ...at,
    store,
    read,
    publishFacts,
    probe: (query = "", init = {}) => at.send("POST", `/api/hardware/probe${query}`, undefined, init),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The token of the request that the operator sees. */
async function asked({ store }: Scene): Promise<string> {
  return await until("a request is there", () => store.pending()?.token);
}

describe("the hardware", () => {
  it("is absent before an operator has probed; a request for a probe stays", async () => {
    await using at = await scene();
    for (const answer of [await at.send("GET", "/api/hardware"), await at.probe()]) {
      const { is, message } = await refusalOf(answer);
      assert.equal(is, "404 system.not_found");
      assert.equal(message, "no operator of this version has probed this machine yet; the first to start does");
    }
    await asked(at);
  });

  it("is the operator's finding, and is probed again on request, which is answered at once", async () => {
    await using at = await scene({}, pcFacts);
    assert.deepEqual(await at.read(), known);
    assert.equal((await at.got("/api/features"))["hardware_probe"], true);
    assert.match((await at.refused("POST", "/api/hardware/probe", { deep: true })).is, /^400 /);
    assert.equal((await at.probe("?wait=never")).status, 400);
    assert.equal(at.store.pending(), undefined);
    const answer = await at.probe();
    assert.deepEqual([answer.status, await answer.json()], [202, pending]);
    await at.publishFacts(newer, await asked(at));
    assert.equal((await at.read())["pending"], false);
  });

  it("is probed before the answer on request; concurrent requests share one probe", async () => {
    await using at = await scene({}, pcFacts);
    const first = later(at.probe("?wait=settled"));
    const token = await asked(at);
    const second = request(`${at.url}/api/hardware/probe?wait=ready&timeout=60`, { method: "POST" });
    const answered: Promise<IncomingMessage[]> = once(second, "response");
    second.end();
    await once(second, "finish");
    // It is on its way: what is asked and answered after it finds it taken.
    for (let turn = 0; turn < 3; turn++) assert.equal((await at.read())["pending"], true);
    await at.publishFacts(newer, token);
    const found = { ...withSuggestions(newer), pending: false };
    assert.deepEqual(await (await first).json(), found);
    const [response] = await answered;
    assert.ok(response !== undefined);
    assert.deepEqual(await json(response), found);
    assert.equal(at.store.pending(), undefined);
  });

  const waits: readonly (readonly [what: string, operator: object, query: string])[] = [
    ["while the operator is paused: that one handles no request", { isPaused: true }, "timeout=600"],
    ["without a live operator", { heartbeat: new Date(Date.now() - 60_000).toISOString() }, "timeout=3600"],
    ["longer than the query allows", {}, "timeout=1"],
  ];
  for (const [what, operator, query] of waits)
    it(`is not waited for ${what}`, { timeout: 180_000 }, async () => {
      await using at = await scene({ operator }, pcFacts);
      const answer = await at.probe(`?wait=settled&${query}`);
      assert.deepEqual([answer.status, await answer.json()], [202, pending]);
    });

  it("is not waited for after the client has left", async () => {
    await using at = await scene({}, pcFacts);
    const leaving = new AbortController();
    const answer = later(at.probe("?wait=settled&timeout=3600", { signal: leaving.signal }));
    await asked(at);
    leaving.abort();
    await assert.rejects(answer);
    // Closing a gateway waits for open requests: the scene would not end.
  });
});
