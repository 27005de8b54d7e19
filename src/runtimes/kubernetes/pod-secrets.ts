import { bearerSchema, type SecretKeyRef, type Workload } from "../../api/workload.ts";
import { isStatus } from "../../lib/kubernetes/api-error.ts";
import { isRecord } from "../../lib/record.ts";
import { givenTo, type Given } from "../process/child.ts";
import { BadWorkload } from "../start-failure.ts";
import { PodMemory } from "./pod-memory.ts";
import type { Pod } from "./pod-object.ts";
import type { PodView } from "./pod-view.ts";

/** The Secrets beside Pods: each has its Pod's name, and holds the bearer that the engine requires. */
export class PodSecrets {
  readonly #view: PodView;
  readonly #bearers = new PodMemory<string>();

  constructor(view: PodView) {
    this.#view = view;
  }

  /**
   * The values that the operator gives to the engine. A key of a Secret reaches the Pod by reference, except for the
   * bearer, which the gateway must know too. Throws BadWorkload, naming the variable.
   */
  async givenTo(workload: Workload): Promise<Given> {
    const name = workload.bearer?.env;
    const env: Record<string, Workload["env"][string]> = {};
    for (const [key, value] of Object.entries(workload.env)) {
      const isReference = typeof value === "object" && "secretKeyRef" in value;
      if (!isReference) env[key] = value;
      else if (key === name) env[key] = await this.#read(key, value.secretKeyRef);
    }
    return await givenTo({ ...workload, env });
  }

  /** The bearer of an adopted Pod comes from its Secret, once. */
  async bearerOf(pod: Pod): Promise<string | undefined> {
    const { metadata, label } = pod;
    if (label.bearer === undefined) return undefined;
    const known = this.#bearers.get(pod);
    if (known !== undefined) return known;
    const value = await this.#value({ name: metadata.name, key: label.bearer });
    // As givenTo reads it: of several keys the first.
    const bearer = bearerSchema.safeParse(value?.split(",")[0]?.trim()).data;
    if (bearer !== undefined) this.#bearers.set(pod, bearer);
    return bearer;
  }

  remember(pod: Pod, bearer: string): void {
    this.#bearers.set(pod, bearer);
  }

  forget(pod: Pod): void {
    this.#bearers.forget(pod);
  }

  /** Forgets the bearer of every other Pod. */
  keepOnly(pods: readonly Pod[]): void {
    this.#bearers.keepOnly(pods);
  }

  /** The uid of the Secret beside the Pod of that name; undefined: it has none. */
  async uidOf(name: string): Promise<string | undefined> {
    const metadata = (await this.#get(name))?.["metadata"];
    const uid = isRecord(metadata) ? metadata["uid"] : undefined;
    return typeof uid === "string" ? uid : undefined;
  }

  /** `uid`: another Secret of that name, which another operator may have made meanwhile, stays. */
  async remove(name: string, uid?: string): Promise<void> {
    try {
      await this.#view.request(
        "DELETE",
        "secrets",
        name,
        uid === undefined ? {} : { body: { preconditions: { uid } } },
      );
    } catch (error) {
      if (!isStatus(error, 404) && !(uid !== undefined && isStatus(error, 409))) throw error;
    }
  }

  async #read(variable: string, ref: SecretKeyRef): Promise<string> {
    const value = await this.#value(ref);
    if (value === undefined)
      throw new BadWorkload(`env.${variable}: the Secret ${ref.name} has no key ${ref.key}, or does not exist`);
    return value;
  }

  async #value({ name, key }: SecretKeyRef): Promise<string | undefined> {
    const data = (await this.#get(name))?.["data"];
    const value = isRecord(data) ? data[key] : undefined;
    return typeof value === "string" ? Buffer.from(value, "base64").toString() : undefined;
  }

  async #get(name: string): Promise<Readonly<Record<string, unknown>> | undefined> {
    try {
      const secret = await this.#view.request("GET", "secrets", name);
      return isRecord(secret) ? secret : undefined;
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      throw error;
    }
  }
}
