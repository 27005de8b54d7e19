import { kubernetesTraits } from "../../src/runtimes/kubernetes/traits.ts";
import { RuntimeUnavailable } from "../../src/runtimes/runtime-unavailable.ts";
import { RuntimeSet } from "../../src/runtimes/set.ts";
import { RuntimeDouble } from "../doubles/runtime.ts";
import { Site } from "./site.ts";

/** A site with a runtime beside processes of which the operator has never heard: it is in the registry alone. */
export class PodsSite extends Site {
  readonly pods = new RuntimeDouble(this.clock, kubernetesTraits);
  /** Whether the cluster answers. */
  isUp = true;

  constructor({ isNamedOnly = true } = {}) {
    super();
    const { pods } = this;
    this.runtimes = new RuntimeSet(this.runtime, [{ traits: kubernetesTraits, isNamedOnly, open: async () => pods }]);
    this.probes = (probe) => (probe.host === "127.0.0.1" ? this.runtime.probe(probe) : pods.probe(probe));
    const [observe, remove] = [pods.observe.bind(pods), pods.remove.bind(pods)];
    pods.observe = async (slot) => (this.#ask(), await observe(slot));
    pods.remove = async (slot, process) => (this.#ask(), await remove(slot, process));
    Object.assign(pods, { isAnswering: () => this.isUp });
  }

  #ask(): void {
    if (!this.isUp) throw new RuntimeUnavailable("the cluster does not answer");
  }
}
