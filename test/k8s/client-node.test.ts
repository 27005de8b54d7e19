import {
  CoordinationV1Api,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  KubernetesObjectApi,
  makeInformer,
  PatchStrategy,
  type KubernetesObject,
} from "@kubernetes/client-node";
import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { sharedPlane } from "../support/kube/shared.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

/** As another program's client knows it. */
interface Slot extends KubernetesObject {
  readonly spec?: object;
  readonly status?: {
    readonly state?: string;
    readonly processes?: readonly { readonly pid?: number }[];
    readonly transitions?: readonly { readonly to?: string }[];
  };
}

const [group, version, plural] = ["berth.dev", "v1alpha1", "slots"] as const;
const spec = { engine: "custom", command: engineCommand(), model: { default: "m" } };

/** Berth has a client of its own: this test reads and writes what it makes with the official one. */
it("@kubernetes/client-node applies, follows, restarts and deletes a Slot, and reads its Events and Leases", async () => {
  await using plane = await sharedPlane();
  await using at = await openSlotSite(plane);
  const { namespace } = at;
  const config = new KubeConfig();
  config.loadFromFile(plane.kubeconfig);
  const custom = config.makeApiClient(CustomObjectsApi);
  const objects = KubernetesObjectApi.makeApiClient(config);
  const list = async (): Promise<{ items: Slot[] }> =>
    await custom.listNamespacedCustomObject({ group, version, namespace, plural });
  const informer = makeInformer<Slot>(config, `/apis/${group}/${version}/namespaces/${namespace}/${plural}`, list);
  const states: (string | undefined)[] = [];
  informer.on("change", (slot) => {
    if (slot.status?.state !== states.at(-1)) states.push(slot.status?.state);
  });
  const follows = async (what: string, holds: (slot: Slot | undefined) => boolean): Promise<void> =>
    void (await until(what, () => Promise.resolve(holds(informer.get("coder", namespace)))));
  await informer.start();
  try {
    await using berth = await startBerth({ args: ["operator"], env: at.env });
    const head = { apiVersion: `${group}/${version}`, kind: "Slot", metadata: { name: "coder", namespace } };
    const slot: Slot = { ...head, spec };
    await objects.patch(slot, undefined, undefined, "controller", undefined, PatchStrategy.ServerSideApply);
    await follows(`the informer shows it ready\n${berth.log()}`, (seen) => seen?.status?.state === "ready");
    // The informer may see two writes as one. The status keeps every move.
    const isKey = (state: string | undefined): boolean => state === "starting" || state === "ready";
    assert.match(states.filter(isKey).join(), /^(starting,)?ready$/);
    const { processes, transitions = [] } = informer.get("coder", namespace)?.status ?? {};
    assert.deepEqual(transitions.map(({ to }) => to).filter(isKey), ["starting", "ready"]);
    const pid = processes?.[0]?.pid;
    assert.equal(typeof pid, "number");
    const restart = { ...head, metadata: { ...head.metadata, annotations: { "berth.dev/restart": "1" } } };
    await objects.patch(restart, undefined, undefined, "controller", undefined, PatchStrategy.MergePatch);
    await follows("another process", ({ status } = {}) => {
      const next = status?.processes?.[0]?.pid;
      return status?.state === "ready" && next !== undefined && next !== pid;
    });
    const lease = await config
      .makeApiClient(CoordinationV1Api)
      .readNamespacedLease({ name: "berth-operator", namespace });
    const renewedAt = new Date(String(lease.spec?.renewTime)).getTime();
    assert.ok(Math.abs(Date.now() - renewedAt) < 60_000, JSON.stringify(lease));
    assert.notEqual(lease.spec?.holderIdentity ?? "", "");
    const core = config.makeApiClient(CoreV1Api);
    await until("an Event says that it is ready", async () => {
      const { items } = await core.listNamespacedEvent({ namespace });
      return items.some(({ involvedObject, message, type, lastTimestamp }) => {
        const isOurs = involvedObject.kind === "Slot" && involvedObject.name === "coder" && type === "Normal";
        return isOurs && message?.includes("→ ready") === true && lastTimestamp instanceof Date;
      });
    });
    await objects.delete(slot);
    await follows("it is gone", (seen) => seen === undefined);
  } finally {
    await informer.stop();
  }
});
