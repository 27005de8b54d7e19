import assert from "node:assert/strict";
import type { Workload } from "../../../src/api/workload.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { openKubernetesRuntime } from "../../../src/runtimes/kubernetes/kubernetes.ts";
import type { Runtime } from "../../../src/runtimes/runtime.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { llama, site, workload } from "./manifests.ts";

export const podPath = "/api/v1/namespaces/berth/pods/berth-primary-main-0";
export const secretPath = "/api/v1/namespaces/berth/secrets/berth-primary-main-0";

export const plain: Workload = { ...workload, container: llama };
export const withBearer: Workload = { ...plain, env: { LLAMA_API_KEY: "b3arer" }, bearer: { env: "LLAMA_API_KEY" } };

export type Options = Partial<Parameters<typeof openKubernetesRuntime>[0]>;

export interface Pods<Api extends ApiDouble = ApiDouble> extends AsyncDisposable {
  readonly api: Api;
  readonly runtime: Runtime;
}

export async function podsOn<Api extends ApiDouble>(api: Api, options: Options = {}): Promise<Pods<Api>> {
  const runtime = await openKubernetesRuntime({ client: api, site, ...options });
  return { api, runtime, [Symbol.asyncDispose]: () => runtime[Symbol.asyncDispose]() };
}

/** Makes the Pod; the double gives it the time that an API server gives. */
export async function start(
  { api, runtime }: Pods,
  { of = plain, creationTimestamp = "2026-11-23T00:00:00Z" } = {},
): Promise<void> {
  await runtime.ensure(of);
  const made = api.get(podPath);
  assert.ok(isRecord(made?.["metadata"]));
  api.put(podPath, { ...made, metadata: { ...made["metadata"], creationTimestamp } });
  await until("the Pod is seen", async () => (await runtime.observe(of.slot)).length === 1);
}
