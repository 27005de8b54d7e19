import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { outlivesBoot } from "../../src/api/engine-identity.ts";
import { apiVersion } from "../../src/api/names.ts";
import { publishedBefore } from "../../src/operator/act/stopping.ts";
import { RuntimeSet } from "../../src/runtimes/set.ts";
import { operatorLease, recordAnnotation } from "../../src/store/kubernetes/names.ts";
import { ApiDouble } from "../doubles/api-client.ts";
import { traitsOfKind } from "../doubles/runtime-kinds.ts";
import { leader } from "../store/kubernetes/leader.ts";
import { epoch } from "./fixture.ts";
import { PodsSite } from "./pods-site.ts";
import { custom } from "./site.ts";

const slotsPath = `/apis/${apiVersion}/namespaces/berth/slots`;
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/berth/leases/${operatorLease}`;
const image = { engine: "custom", image: "x:1", model: { default: "m" } } as const;

/** The record of an operator of another node, as it is left in its Lease. */
const at = epoch.toISOString();
const marks = { startedAt: at, heartbeat: at, isPaused: false, isSettled: true, configDir: "/config", problems: [] };
const record = JSON.stringify({ schema: 1, instance: "i", pid: 1, bootId: "the boot of another node", ...marks });

describe("an operator that starts on another node of the cluster", () => {
  it("goes on with the Pods of the last one: nothing is started, warmed up or published anew", async () => {
    await using site = await new PodsSite().run({ pod: { ...image, runtime: "kubernetes" }, process: custom() });
    const { pods } = site;
    const api = new ApiDouble();
    const [pod, process] = [site.slot("pod"), site.slot("process")];
    assert.deepEqual([pod.status.state, process.status.state], ["ready", "ready"]);
    for (const { name, spec } of [pod, process])
      api.put(`${slotsPath}/${name}`, { apiVersion, kind: "Slot", metadata: {}, spec });
    {
      await using first = await leader(api);
      for (const slot of [pod, process]) await first.store.publisher.writeSlot(slot);
    }
    api.put(leasePath, { metadata: { annotations: { [recordAnnotation]: record } } });
    await site.end();
    await using second = await leader(api);
    assert.ok(site.runtimes instanceof RuntimeSet);
    const published = publishedBefore(second.store.before, site.runtimes);
    const taken = published.get("pod");
    assert.deepEqual([taken?.status.state, taken?.status.processes], ["ready", pod.status.processes]);
    assert.equal(published.get("process")?.status.state, "offline", "a process of the other node is gone");
    assert.ok(taken !== undefined);
    const before = { warmUps: pods.warmUps.length, deeds: pods.deeds.length, revision: pod.revision };
    await site.start({ published: new Map([...site.publisher.slots, ["pod", taken]]) });
    await site.advance(20);
    const after = { warmUps: pods.warmUps.length, deeds: pods.deeds.length, revision: site.slot("pod").revision };
    assert.deepEqual([site.state("pod"), after], ["ready", before]);
  });
});

it("a gateway, which knows no runtime, knows of each engine whether it outlives a boot: a Pod does", () => {
  const names = { pid: { pid: 1 }, containerId: { containerId: "c" }, podName: { podName: "p" } } as const;
  for (const { kind, identity } of Object.values(traitsOfKind))
    assert.equal(outlivesBoot(names[identity]), kind === "kubernetes", kind);
  assert.equal(outlivesBoot({}), false, "an engine that was published without a name");
});
