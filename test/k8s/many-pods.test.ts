import assert from "node:assert/strict";
import { it } from "node:test";
import { openApiClient } from "../../src/lib/kubernetes/client.ts";
import { connect } from "../../src/lib/kubernetes/connection.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import { plainContainer } from "../support/container.ts";
import { startControlPlane } from "../support/kube/control-plane.ts";
import { workload } from "../runtimes/kubernetes/manifests.ts";

const slots = 200;
/** From a workload to its Pod in the API server, the slowest but one in a hundred. */
const limitMs = 300;

it(`makes the Pods of ${slots} slots, each soon`, { timeout: 300_000 }, async (context) => {
  await using plane = await startControlPlane();
  const namespace = await plane.namespace();
  const connection = { ...(await connect({ KUBECONFIG: plane.kubeconfig })), namespace };
  await using runtime = await openKubernetesRuntime({
    client: openApiClient(connection),
    site: { instance: "many", user: 65_532 },
  });
  const container = { ...plainContainer, pod: { backend: "cpu", extended: {}, claims: [] } };
  const round = async (prefix: string): Promise<number> => {
    const took: number[] = [];
    const waiting = Array.from({ length: slots }, (_, index) => `${prefix}-${index}`);
    const one = async (): Promise<void> => {
      for (let slot = waiting.pop(); slot !== undefined; slot = waiting.pop()) {
        const began = performance.now();
        await runtime.ensure({ ...workload, slot, bearer: { env: "LLAMA_API_KEY" }, container });
        took.push(performance.now() - began);
      }
    };
    // As many slots are reconciled at once.
    await Promise.all([one(), one(), one(), one()]);
    return took.toSorted((a, b) => a - b).at(Math.floor(slots * 0.99) - 1) ?? Infinity;
  };
  // The machine may be busy with something else once, hardly three times.
  const found: number[] = [];
  while (found.length < 3 && !found.some((late) => late <= limitMs)) found.push(await round(`round-${found.length}`));
  assert.equal((await runtime.list()).length, found.length * slots);
  context.diagnostic(`p99 ${found.map(Math.round).join(", ")} ms`);
  assert.ok(
    found.some((late) => late <= limitMs),
    `p99 is ${found.map(Math.round).join(", ")} ms`,
  );
});
