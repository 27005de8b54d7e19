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

it("a gateway, which knows no runtime, knows of each engine whether it outlives a boot: a Pod does", () => {
  const names = { pid: { pid: 1 }, containerId: { containerId: "c" }, podName: { podName: "p" } } as const;
  for (const { kind, identity } of Object.values(traitsOfKind))
    assert.equal(outlivesBoot(names[identity]), kind === "kubernetes", kind);
  assert.equal(outlivesBoot({}), false, "an engine that was published without a name");
});
