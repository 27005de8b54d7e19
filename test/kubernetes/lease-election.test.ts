import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiUnreachable, statusError } from "../../src/kubernetes/api-error.ts";
import type { ApiClient, Call, Method } from "../../src/kubernetes/client.ts";
import { acquireLease } from "../../src/kubernetes/lease-election.ts";
import { isRecord } from "../../src/lib/record.ts";
import { ApiDouble } from "../doubles/api-client.ts";
import { until } from "../support/until.ts";

const path = "/apis/coordination.k8s.io/v1/namespaces/berth/leases/one";
/** No lease ends, and none is renewed by itself, while a test runs. */
const lasting = { durationMs: 180_000, deadlineMs: 120_000, renewMs: 120_000, pollMs: 5 };
const onLost = (): void => assert.fail("nobody has taken it");

function holderIn(object: unknown): unknown {
  return isRecord(object) && isRecord(object["spec"]) ? object["spec"]["holderIdentity"] : undefined;
}

/** The double, with `around` in the place of each request. */
function clientOf(
  api: ApiDouble,
  around: (method: Method, call: Call, send: () => Promise<unknown>) => unknown,
): ApiClient {
  return {
    namespace: api.namespace,
    server: api.server,
    lines: (...call) => api.lines(...call),
    request: async (method, at, call = {}) => await around(method, call, () => api.request(method, at, call)),
    [Symbol.dispose]: () => undefined,
  };
}

const candidate = { name: "one", identity: "me", labels: {}, annotations: () => ({}), times: lasting };

it("a candidate whose write took the Lease holds it, also where the answer was lost", async () => {
  using api = new ApiDouble();
  api.put(path, {
    spec: { holderIdentity: "dead", leaseDurationSeconds: 0, renewTime: "2026-01-01T00:00:00.000000Z" },
  });
  let isLost = false;
  const client = clientOf(api, async (method, _call, send) => {
    const answer = await send();
    if (method !== "PUT" || isLost) return answer;
    isLost = true;
    throw new ApiUnreachable(api.server, { cause: new Error("the answer was lost") });
  });
  await using lease = await acquireLease({ ...candidate, client }, { onLost });
  assert.ok(isLost && lease.isHeld());
});

it("a Lease is released behind a renewal that is on its way", async () => {
  using api = new ApiDouble();
  const gate = Promise.withResolvers<void>();
  const renewed = Promise.withResolvers<void>();
  let isRenewing = false;
  const client = clientOf(api, async (method, { body }, send) => {
    if (method !== "PUT") return await send();
    const isRelease = holderIn(body) === "";
    if (!isRelease) isRenewing = true;
    await (isRelease ? renewed.promise : gate.promise);
    const answer = await send();
    renewed.resolve();
    return answer;
  });
  const lease = await acquireLease({ ...candidate, client }, { onLost });
  const renewing = lease.renew();
  await until("it is being renewed", () => isRenewing);
  const released = lease[Symbol.asyncDispose]();
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  gate.resolve();
  await Promise.all([renewing, released]);
  assert.equal(holderIn(api.get(path)), "");
});

/** Renews often, by a clock that the test alone moves. */
const hasty = { times: { durationMs: 15_000, deadlineMs: 10_000, renewMs: 5, pollMs: 5 } };
function frozen() {
  const clock = { ms: 0 };
  return { clock, now: () => clock.ms };
}

const endings = [
  [403, { causes: [{ reason: "NamespaceTerminating", field: "metadata.namespace" }] }],
  [404, { name: "berth", kind: "namespaces" }],
] as const;

for (const [code, details] of endings) {
  const refuseNew = (api: ApiDouble, onRefused: () => void = () => undefined): void => {
    api.before = (method) => {
      if (method !== "POST") return;
      onRefused();
      throw statusError({ kind: "Status", code, message: "the namespace is ending", details });
    };
  };

  it(`in a namespace that is being deleted its last holder holds it without, until another has taken it in the next (${code})`, async () => {
    using api = new ApiDouble();
    const errors: unknown[] = [];
    const lost = Promise.withResolvers<void>();
    const onError = (error: unknown): void => void errors.push(error);
    const { clock, now } = frozen();
    await using lease = await acquireLease(
      { ...candidate, ...hasty, now, onError, client: api },
      { onLost: lost.resolve },
    );
    let refused = 0;
    refuseNew(api, () => (refused += 1));
    api.put(path, undefined);
    for (const past of [1, 2, 3]) {
      const before = refused;
      await until("it is refused twice more", () => refused > before + 1);
      clock.ms += 0.9 * hasty.times.deadlineMs;
      assert.ok(lease.isHeld(), `${past}`);
    }
    assert.deepEqual(errors.map(String), ["ApiError: the namespace is ending"], "it is told once");
    api.put(path, { spec: { holderIdentity: "another" } });
    await lost.promise;
    assert.equal(lease.isHeld(), false);
  });

  it(`in a namespace that is being deleted nobody leads again who has not led to its end (${code})`, async () => {
    using api = new ApiDouble();
    let attempts = 0;
    let isCutOff = false;
    const client = clientOf(api, async (_method, _call, send) => {
      attempts += 1;
      if (isCutOff) throw new ApiUnreachable(api.server, { cause: new Error("no route") });
      return await send();
    });
    const { clock, now } = frozen();
    await using lease = await acquireLease({ ...candidate, ...hasty, now, client }, { onLost });
    isCutOff = true;
    clock.ms += hasty.times.deadlineMs + 1;
    assert.equal(lease.isHeld(), false);
    refuseNew(api);
    api.put(path, undefined);
    isCutOff = false;
    const before = attempts;
    await until("it has tried again", () => attempts > before + 10);
    assert.equal(lease.isHeld(), false);
  });
}

it("without rights to make the Lease again its holder acts no more", async () => {
  using api = new ApiDouble();
  const { clock, now } = frozen();
  await using lease = await acquireLease({ ...candidate, ...hasty, now, client: api }, { onLost });
  let refused = 0;
  api.before = (method) => {
    if (method !== "POST") return;
    refused += 1;
    throw statusError({ kind: "Status", code: 403, message: "no rights", details: {} });
  };
  api.put(path, undefined);
  // A renewal that was under way may still have succeeded.
  await until("it is refused", () => refused > 1);
  clock.ms += hasty.times.deadlineMs + 1;
  await until("it is refused again", () => refused > 3);
  assert.equal(lease.isHeld(), false);
});

it("a renewal without an answer is aborted in time for another attempt before the lease ends", async () => {
  using api = new ApiDouble();
  const limits = new Set<number | undefined>();
  let silences = 0;
  const client = clientOf(api, async (method, call, send) => {
    if (method !== "PUT") return await send();
    limits.add(call.timeoutMs);
    if (silences > 0) return await send();
    silences += 1;
    throw new ApiUnreachable(api.server, { cause: new Error("no answer") });
  });
  const { clock, now } = frozen();
  await using lease = await acquireLease({ ...candidate, ...hasty, now, client }, { onLost });
  const before = api.get(path);
  clock.ms += hasty.times.deadlineMs / 2;
  await until("it is renewed after the silence", () => api.get(path) !== before);
  clock.ms += hasty.times.deadlineMs / 2 + 1;
  await until("it is held by the renewal", () => lease.isHeld());
  assert.deepEqual([silences, [...limits]], [1, [hasty.times.deadlineMs / 2]], "no other limit");
});
