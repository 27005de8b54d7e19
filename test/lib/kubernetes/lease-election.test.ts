import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { it } from "node:test";
import { ApiUnreachable } from "../../../src/lib/kubernetes/api-error.ts";
import type { ApiClient } from "../../../src/lib/kubernetes/client.ts";
import { acquireLease } from "../../../src/lib/kubernetes/lease-election.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

const never = new Promise<never>(() => undefined);

it("a renewal without an answer is aborted in time for another attempt before the lease ends", async () => {
  using api = new ApiDouble();
  const limits = new Set<number | undefined>();
  let isSilent = false;
  const client: ApiClient = {
    namespace: api.namespace,
    server: api.server,
    lines: (...call) => api.lines(...call),
    async request(method, path, call = {}) {
      if (method === "PUT") limits.add(call.timeoutMs);
      if (!isSilent || method !== "PUT") return await api.request(method, path, call);
      isSilent = false;
      const late = delay(call.timeoutMs).then(() => {
        throw new ApiUnreachable(api.server, { cause: new Error("no answer") });
      });
      return await Promise.race([never, late]);
    },
    [Symbol.dispose]: () => undefined,
  };
  const times = { durationMs: 1500, deadlineMs: 1000, renewMs: 5, pollMs: 5 };
  const errors: unknown[] = [];
  const candidate = { client, name: "one", identity: "me", labels: {}, annotations: () => ({}), times };
  const onError = (error: unknown): void => void errors.push(error);
  await using lease = await acquireLease({ ...candidate, onError }, { onLost: () => assert.fail("it is still held") });
  isSilent = true;
  await until("a renewal had no answer", () => errors.length > 0);
  const before = api.get("/apis/coordination.k8s.io/v1/namespaces/berth/leases/one");
  await until(
    "it is renewed again",
    () => api.get("/apis/coordination.k8s.io/v1/namespaces/berth/leases/one") !== before && lease.isHeld(),
  );
  assert.deepEqual([...limits], [times.deadlineMs / 2], "no other limit");
});
