import { apiVersion } from "../../api/names.ts";
import { isStatus } from "../../lib/kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../lib/kubernetes/client.ts";
import { readObject, type KubeObject } from "../../lib/kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { collectionOf, fieldManager, finalizer } from "./names.ts";

/** The interval of checks of the namespace. Its controller waits 5 s before it deletes anything, rights included. */
const pollMs = 1500;

export interface Finalizers extends Disposable {
  /** Its deletion then waits until its engines have ended. */
  add(object: KubeObject): Promise<void>;
  remove(object: KubeObject): Promise<void>;
}

export interface FinalizersOptions {
  readonly client: ApiClient;
  /** Every Slot of the namespace. */
  readonly slots: () => readonly KubeObject[];
  readonly note: (answer: unknown) => void;
  readonly onError: (error: unknown) => void;
}

/** Of an operator that cannot lead because its namespace is being deleted. */
export async function releaseEndingNamespace(client: ApiClient): Promise<void> {
  if (!(await isEndingNow(client))) return;
  const page = await client.request("GET", collectionOf("Slot", client.namespace));
  const items: readonly unknown[] = isRecord(page) && Array.isArray(page["items"]) ? page["items"] : [];
  for (const item of items) {
    const object = readObject(item);
    if (object?.meta.finalizers.includes(finalizer) === true) await apply(client, object, []);
  }
}

async function isEndingNow(client: ApiClient): Promise<boolean> {
  const value = await client.request("GET", `/api/v1/namespaces/${client.namespace}`);
  return isRecord(value) && isRecord(value["status"]) && value["status"]["phase"] === "Terminating";
}

/** As a field manager of its own: the manager's set of finalizers is this one, or none. */
async function apply(client: ApiClient, { meta }: KubeObject, finalizers: readonly string[]): Promise<unknown> {
  const { name, uid } = meta;
  const body = { apiVersion, kind: "Slot", metadata: { name, uid, finalizers } };
  const query = { fieldManager: `${fieldManager}-finalizer`, force: true };
  try {
    const path = `${collectionOf("Slot", client.namespace)}/${name}`;
    return await client.request("PATCH", path, { query, body, contentType: patchTypes.apply });
  } catch (error) {
    // The object is gone, or its deletion has begun since.
    if (isStatus(error, 404, 409)) return undefined;
    throw error;
  }
}

/**
 * The finalizer of Slots. In a namespace that is being deleted there is none, whoever leads: there the operator's Lease
 * and rights go before the Slots do, and a finalizer that nobody may remove would keep the namespace for ever.
 */
export function openFinalizers({ client, slots, note, onError }: FinalizersOptions): Finalizers {
  let isEnding = false;
  const remove = async (object: KubeObject): Promise<void> => {
    if (object.meta.finalizers.includes(finalizer)) note(await apply(client, object, []));
  };
  const check = async (): Promise<void> => {
    isEnding = await isEndingNow(client);
    if (isEnding) await Promise.all(slots().map(remove));
  };
  const timer = setInterval(() => void check().catch(onError), pollMs);
  timer.unref();
  return {
    async add(object) {
      if (isEnding || object.meta.finalizers.includes(finalizer)) return;
      note(await apply(client, object, [finalizer]));
    },
    remove,
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
