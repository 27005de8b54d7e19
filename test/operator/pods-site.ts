import { kubernetesTraits } from "../../src/runtimes/kubernetes/traits.ts";
import { RuntimeSet } from "../../src/runtimes/set.ts";
import { RuntimeDouble } from "../doubles/runtime.ts";
import { Site } from "./site.ts";

/** A site with a runtime beside processes of which the operator has never heard: it is in the registry alone. */
export function siteWithPods({ isNamedOnly = true } = {}): { readonly site: Site; readonly pods: RuntimeDouble } {
  const site = new Site();
  const pods = new RuntimeDouble(site.clock, kubernetesTraits);
  site.runtimes = new RuntimeSet(site.runtime, [{ traits: kubernetesTraits, isNamedOnly, open: async () => pods }]);
  site.probes = (probe) => (probe.host === "127.0.0.1" ? site.runtime.probe(probe) : pods.probe(probe));
  return { site, pods };
}
