import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import type { Call, Method } from "../../../src/lib/kubernetes/client.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { openKubernetesRuntime } from "../../../src/runtimes/kubernetes/kubernetes.ts";
import type { Runtime } from "../../../src/runtimes/runtime.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { llama, site, workload } from "./manifests.ts";

const pod = "/api/v1/namespaces/berth/pods/berth-primary-main-0";
const process = { role: "main", ordinal: 0 } as const;

/** DOUBLES an API server whose Pods end after their grace period, which is over at once where it is a second. */
class Graceful extends ApiDouble {
  /** The grace periods of the deletions that were requested, in seconds. */
  readonly graces: unknown[] = [];
  /** The answer to the deletion of that number, from 0; undefined: it is taken. */
  refusal: (nth: number) => ApiError | undefined = () => undefined;

  override async request(method: Method, path: string, call: Call = {}): Promise<unknown> {
    if (method !== "DELETE" || !path.includes("/pods/")) return await super.request(method, path, call);
    const { gracePeriodSeconds } = isRecord(call.body) ? call.body : {};
    const refusal = this.refusal(this.graces.length);
    this.graces.push(gracePeriodSeconds);
    if (refusal !== undefined) throw refusal;
    return gracePeriodSeconds === 1 ? await super.request(method, path, call) : this.get(path);
  }
}

/** Makes the Pod; the double gives it the time that an API server gives. */
async function start(api: ApiDouble, runtime: Runtime): Promise<void> {
  await runtime.ensure({ ...workload, container: llama });
  const made = api.get(pod);
  assert.ok(isRecord(made?.["metadata"]));
  api.put(pod, { ...made, metadata: { ...made["metadata"], creationTimestamp: "2026-11-23T00:00:00Z" } });
  await until("the Pod is seen", async () => (await runtime.observe(workload.slot)).length === 1);
}

it("gives a Pod no longer time at first than it is to have: the kubelet may keep the first one", async () => {
  const api = new Graceful();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  await start(api, runtime);
  await runtime.remove(workload.slot, process, { stopSeconds: 3600, signal: AbortSignal.abort() });
  assert.deepEqual(api.graces, [1]);
});

it("asks again to end a Pod at once where the API server did not take it", async () => {
  const api = new Graceful();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  await start(api, runtime);
  const hurry = new AbortController();
  api.refusal = (nth) => {
    // Between the first deletion and its answer.
    hurry.abort();
    return nth === 1 ? new ApiError(503, "ServiceUnavailable", "try again") : undefined;
  };
  await runtime.remove(workload.slot, process, { stopSeconds: 3600, signal: hurry.signal });
  assert.deepEqual(api.graces, [3600, 1, 1]);
  assert.equal(api.get(pod), undefined);
});

it("does not take a Pod for gone that another client changed while it was deleted", async () => {
  const api = new Graceful();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  await start(api, runtime);
  api.refusal = (nth) => (nth === 0 ? new ApiError(409, "Conflict", "the object has been modified") : undefined);
  const removed = (): Promise<void> => runtime.remove(workload.slot, process, { stopSeconds: 1 });
  await assert.rejects(removed(), { name: "RuntimeUnavailable", message: /was changed while it was deleted/ });
  assert.equal((await runtime.observe(workload.slot)).length, 1);
  await removed();
  assert.deepEqual(await runtime.observe(workload.slot), []);
});
