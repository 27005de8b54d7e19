import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { heartbeatTtlMs } from "../../../src/api/status.ts";
import { ApiError, ApiUnreachable } from "../../../src/lib/kubernetes/api-error.ts";
import type { ApiClient } from "../../../src/lib/kubernetes/client.ts";
import { openDemandLease, openDemandLeases } from "../../../src/store/kubernetes/demand.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

it("demand is written five times a second at most, also while the API server refuses it", async () => {
  using api = new ApiDouble();
  const triedMs: number[] = [];
  api.before = (method) => {
    if (method !== "PATCH") return;
    triedMs.push(performance.now());
    throw new ApiError(500, "InternalError", "no room");
  };
  await using writer = openDemandLease(api, "g");
  for (const inFlight of [1, 2, 3, 4, 5, 6]) {
    const slots = { chat: { held: 0, inFlight, seenRevision: 1, endpoints: [] } };
    await assert.rejects(writer.write({ sendsBearers: true, slots }), /no room/);
  }
  const gaps = triedMs.map((at, index) => Math.round(at - (triedMs[index - 1] ?? -Infinity)));
  assert.equal(gaps.length, 6);
  // A late first attempt on a busy machine brings the second one closer, but not all of them.
  const [first = 0] = triedMs;
  assert.ok((triedMs.at(-1) ?? 0) - first >= 800, `${gaps.join(", ")} ms between the attempts`);
});

it("a write of demand that gets no answer is given up in time for another one", async () => {
  using api = new ApiDouble();
  const limits: (number | undefined)[] = [];
  const request = api.request.bind(api);
  api.request = async (method, path, call) => {
    if (method === "PATCH") limits.push(call?.timeoutMs);
    return await request(method, path, call);
  };
  await using writer = openDemandLease(api, "g");
  await writer.write({ sendsBearers: true, slots: {} });
  assert.deepEqual(limits, [heartbeatTtlMs / 2]);
});

const lease = "/apis/coordination.k8s.io/v1/namespaces/berth/leases/berth-gateway-g";

/** The demand of a gateway on another machine, as it writes it. */
function beat(api: ApiDouble, { number, ageMs = 0 }: { readonly number: number; readonly ageMs?: number }): void {
  const heartbeat = new Date(Date.now() - ageMs).toISOString();
  const slots = { chat: { held: 0, inFlight: 1, seenRevision: 1 } };
  const stamp = { gateway: "g", pid: 1, bootId: "of another machine", heartbeat, incarnation: "g", beat: number };
  const annotations = { "berth.dev/demand": JSON.stringify({ schema: 1, ...stamp, sendsBearers: true, slots }) };
  api.put(lease, { metadata: { annotations } });
}

interface Link {
  readonly client: ApiClient;
  /** The API server does not answer until `restore` is called. */
  readonly cut: () => void;
  readonly restore: () => void;
  readonly isOpen: () => boolean;
}

function linkTo(api: ApiDouble): Link {
  let cutting = Promise.withResolvers<never>();
  let isCut = false;
  let open = 0;
  const away = (): ApiUnreachable => new ApiUnreachable(api.server, { cause: new Error("cut") });
  const client: ApiClient = {
    namespace: api.namespace,
    server: api.server,
    request: async (...call) => {
      if (isCut) throw away();
      return await api.request(...call);
    },
    lines: async (path, call) => {
      if (isCut) throw away();
      const stop = new AbortController();
      const signal = AbortSignal.any([stop.signal, ...(call?.signal === undefined ? [] : [call.signal])]);
      const lines = (await api.lines(path, { signal }))[Symbol.asyncIterator]();
      const cut = cutting.promise;
      return (async function* () {
        open += 1;
        try {
          for (;;) {
            const next = await Promise.race([lines.next(), cut]);
            if (next.done === true) return;
            yield next.value;
          }
        } finally {
          open -= 1;
          stop.abort();
        }
      })();
    },
    [Symbol.dispose]: () => undefined,
  };
  return {
    client,
    cut() {
      isCut = true;
      cutting.promise.catch(() => undefined);
      cutting.reject(away());
    },
    restore() {
      isCut = false;
      cutting = Promise.withResolvers();
    },
    isOpen: () => open > 0,
  };
}

/** Lets the steady clock jump. */
function jumpsOf(context: TestContext): (ms: number) => void {
  const now = performance.now.bind(performance);
  let aheadMs = 0;
  context.mock.method(performance, "now", () => now() + aheadMs);
  return (ms) => void (aheadMs += ms);
}

it("the demand of a gateway stays in force while the operator cannot hear it, and ends where it is silent", async (context) => {
  const jump = jumpsOf(context);
  using api = new ApiDouble();
  beat(api, { number: 1 });
  const link = linkTo(api);
  await using demand = await openDemandLeases(link.client, () => undefined);
  const isLive = (): boolean => demand.list().length === 1;
  assert.ok(isLive(), "an operator that has just taken over has not heard it twice");
  await until("the watch is open", link.isOpen);
  link.cut();
  await until("the watch is away", () => !link.isOpen());
  jump(60_000);
  assert.ok(isLive(), "nobody can be heard");
  link.restore();
  await until("the watch is open again", link.isOpen);
  beat(api, { number: 2 });
  jump(4000);
  assert.ok(isLive());
  jump(4000);
  await until("it is silent", () => !isLive(), 15_000);
});

it("the Lease of a gateway that was killed long ago is no demand for the next operator", async () => {
  using api = new ApiDouble();
  beat(api, { number: 1, ageMs: 120_000 });
  await using demand = await openDemandLeases(api, () => undefined);
  assert.deepEqual(demand.list(), []);
});
