import { bearerSchema, type SecretKeyRef, type Workload } from "../../api/workload.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes } from "../../kubernetes/client.ts";
import { texts } from "../../kubernetes/object.ts";
import type { SecretPlaces } from "../../lib/secret-file.ts";
import { isRecord } from "../../lib/record.ts";
import { givenTo, type Given } from "../process/child.ts";
import { PodMemory } from "./pod-memory.ts";
import { instanceLabel } from "./pod-label.ts";
import type { Pod } from "./pod-object.ts";
import type { PodSecret } from "./pod.ts";
import type { PodView } from "./pod-view.ts";

/** Options for an object that is made: an unknown field is refused, and not left out. */
export const createStrictly = { fieldManager: "berth", fieldValidation: "Strict" } as const;

/** A Secret of the manifest does not exist, or lacks the key: it may come after the slot. */
export class SecretMissing extends Error {
  override readonly name = "SecretMissing";
}

/** The Secrets beside Pods: each has its Pod's name, and holds the bearer that the engine requires. */
export class PodSecrets {
  readonly #view: PodView;
  readonly #places: SecretPlaces | undefined;
  readonly #bearers = new PodMemory<string>();

  constructor(view: PodView, places: SecretPlaces | undefined) {
    this.#view = view;
    this.#places = places;
  }

  /**
   * The values that the operator gives to the engine. A key of a Secret reaches the Pod by reference, except for the
   * bearer, which the gateway must know too. Throws BadWorkload or SecretMissing, naming the variable.
   */
  async givenTo(workload: Workload): Promise<Given> {
    const name = workload.bearer?.env;
    const env: Record<string, Workload["env"][string]> = {};
    for (const [key, value] of Object.entries(workload.env)) {
      const isReference = typeof value === "object" && "secretKeyRef" in value;
      if (!isReference) env[key] = value;
      else if (key === name) env[key] = await this.#read(key, value.secretKeyRef);
    }
    return await givenTo({ ...workload, env }, this.#places);
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
    return uidIn(await this.#get(name));
  }

  /**
   * Makes the Secret of a Pod. One that an earlier Pod has left behind is deleted first, and never written over: what
   * still ends with that Pod would take the new values with it. Throws where it is somebody else's. Returns its uid.
   */
  async replace(secret: PodSecret, instance: string): Promise<string | undefined> {
    const { name } = secret.metadata;
    const found = (await this.#get(name))?.["metadata"];
    if (isRecord(found)) {
      if (texts(found["labels"])[instanceLabel] !== instance)
        throw new Error(
          `the Secret ${name} belongs to another installation of Berth, or to somebody else: give each installation a ` +
            "namespace of its own, or delete that Secret",
        );
      await this.remove(name, String(found["uid"]));
    }
    return await this.create(secret);
  }

  /** Returns its uid. */
  async create(secret: PodSecret): Promise<string | undefined> {
    return uidIn(await this.#view.request("POST", "secrets", "", { query: createStrictly, body: secret }));
  }

  /** Makes a Pod without an owner the owner of its Secret of that uid, which then goes with it, whoever ends it. */
  async giveTo(pod: Pod, secretUid: string): Promise<void> {
    const { name, uid } = pod.metadata;
    const ownerReferences = [{ apiVersion: "v1", kind: "Pod", name, uid }];
    const body = { metadata: { uid: secretUid, ownerReferences } };
    await this.#view.request("PATCH", "secrets", name, { body, contentType: patchTypes.merge });
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
      throw new SecretMissing(`env.${variable}: the Secret ${ref.name} has no key ${ref.key}, or does not exist`);
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

function uidIn(object: unknown): string | undefined {
  const metadata = isRecord(object) ? object["metadata"] : undefined;
  const uid = isRecord(metadata) ? metadata["uid"] : undefined;
  return typeof uid === "string" ? uid : undefined;
}
