import { knownPart } from "../../api/known-part.ts";
import { demandSchema, type Demand } from "../../api/status.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { otherDemand } from "../state/other-demand.ts";
import type { OtherDemand } from "../store.ts";
import { demandIn, freshMs, gatewaysSelector } from "./demand.ts";
import { follow } from "./followed.ts";
import { gatewayLease, leasesPath } from "./names.ts";

/** The Leases of the other gateways of the namespace. Their text is parsed when somebody asks, and not at each renewal. */
export async function openOtherLeases(
  client: ApiClient,
  gateway: string,
  onError: (error: unknown) => void,
): Promise<OtherDemand & AsyncDisposable> {
  const watch = await follow({
    client,
    path: leasesPath(client.namespace),
    labelSelector: gatewaysSelector,
    fieldSelector: `metadata.name!=${gatewayLease(gateway)}`,
    // The demand is an annotation.
    keep: () => ({}),
    onError,
    onChange: () => undefined,
  });
  const parsed = new WeakMap<KubeObject, Demand>();
  const demandOf = (object: KubeObject): Demand | undefined => {
    const demand = parsed.get(object) ?? knownPart(demandSchema, demandIn(object.meta.annotations));
    if (demand !== undefined) parsed.set(object, demand);
    return demand;
  };
  const read = (): ReadonlyMap<string, Demand> =>
    new Map(
      watch.values().flatMap((object) => {
        const demand = demandOf(object);
        return demand === undefined ? [] : [[object.meta.name, demand] as const];
      }),
    );
  // A gateway is silent by the time of an open watch alone.
  const others = otherDemand(read, { elapsedMs: () => watch.connectedMs, freshMs });
  return { list: () => others.list(), [Symbol.asyncDispose]: () => watch[Symbol.asyncDispose]() };
}
