import assert from "node:assert/strict";
import { it } from "node:test";
import { openApiClient, type ApiClient } from "../../src/lib/kubernetes/client.ts";
import { connect } from "../../src/lib/kubernetes/connection.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import { plainContainer } from "../support/container.ts";
import { startControlPlane } from "../support/kube/control-plane.ts";
import { workload } from "../runtimes/kubernetes/manifests.ts";

const slots = 200;
/** As many slots are reconciled at once. */
const atOnce = 4;
/** From a workload to its Pod in the API server, the slowest but one in a hundred. */
const limitMs = 300;
/** Where the machine is busy: of what a program takes that sends the same requests and does nothing else. */
const limitOfPlain = 2;

interface Round {
  readonly ensureMs: number;
  readonly plainMs: number;
}

const isSoon = ({ ensureMs, plainMs }: Round): boolean => ensureMs <= Math.max(limitMs, limitOfPlain * plainMs);

/** The slowest but one in a hundred of `slots` calls. */
async function slowest(one: (index: number) => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < slots) {
      const began = performance.now();
      await one(next++);
      took.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return took.toSorted((a, b) => a - b).at(Math.floor(slots * 0.99) - 1) ?? Infinity;
}

/** The three requests that a Pod with a bearer needs: its Secret, the Pod, and the Pod as the owner of the Secret. */
async function plainPod(client: ApiClient, namespace: string, name: string): Promise<void> {
  const core = `/api/v1/namespaces/${namespace}`;
  const metadata = { name };
  const secret = { apiVersion: "v1", kind: "Secret", metadata, stringData: { bearer: "x" } };
  await client.request("POST", `${core}/secrets`, { body: secret });
  const spec = { containers: [{ name: "engine", image: "registry.example/engine:1" }] };
  await client.request("POST", `${core}/pods`, { body: { apiVersion: "v1", kind: "Pod", metadata, spec } });
  const body = { metadata: { labels: { owner: name } } };
  await client.request("PATCH", `${core}/secrets/${name}`, { body, contentType: "application/merge-patch+json" });
}

it(`makes the Pods of ${slots} slots, each soon`, { timeout: 600_000 }, async (context) => {
  await using plane = await startControlPlane();
  const [namespace, plainNamespace] = [await plane.namespace(), await plane.namespace()];
  const connection = { ...(await connect({ KUBECONFIG: plane.kubeconfig })), namespace };
  await using runtime = await openKubernetesRuntime({
    client: openApiClient(connection),
    site: { instance: "many", user: 65_532 },
  });
  const plain = openApiClient(connection);
  const container = { ...plainContainer, pod: { backend: "cpu", extended: {}, claims: [] } };
  const round = async (nth: number): Promise<Round> => ({
    ensureMs: await slowest((index) =>
      runtime.ensure({ ...workload, slot: `round-${nth}-${index}`, bearer: { env: "LLAMA_API_KEY" }, container }),
    ),
    plainMs: await slowest((index) => plainPod(plain, plainNamespace, `round-${nth}-${index}`)),
  });
  // The machine may be busy with something else once, hardly three times.
  const found: Round[] = [];
  while (found.length < 3 && !found.some(isSoon)) found.push(await round(found.length));
  assert.equal((await runtime.list()).length, found.length * slots);
  const text = found.map((each) => `${Math.round(each.ensureMs)} (plain ${Math.round(each.plainMs)})`).join(", ");
  context.diagnostic(`p99 ${text} ms`);
  assert.ok(found.some(isSoon), `p99 is ${text} ms`);
});
