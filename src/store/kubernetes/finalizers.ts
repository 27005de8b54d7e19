import { apiVersion } from "../../api/names.ts";
import { isStatus } from "../../lib/kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../lib/kubernetes/client.ts";
import { readObject, type KubeObject } from "../../lib/kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { collectionOf, fieldManager, finalizer } from "./names.ts";
import { hasRecord } from "./slot-record.ts";

/** The interval of checks of the namespace and of its Slots. The namespace's controller waits 5 s before it deletes anything, rights included. */
const pollMs = 1500;

export interface Finalizers extends Disposable {
  /** Its deletion then waits until its engines have ended. */
  add(object: KubeObject): Promise<void>;
  remove(object: KubeObject): Promise<void>;
}

export interface FinalizersOptions {
  readonly client: ApiClient;
  /** For a namespace that is being deleted, where finalizers are removed whoever leads. */
  readonly unfenced: ApiClient;
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
    if (object !== undefined) await remove(client, object);
  }
}

async function isEndingNow(client: ApiClient): Promise<boolean> {
  const value = await client.request("GET", `/api/v1/namespaces/${client.namespace}`);
  return isRecord(value) && isRecord(value["status"]) && value["status"]["phase"] === "Terminating";
}

/** As a field manager of its own, whose set of finalizers has this one alone. */
async function add(client: ApiClient, { meta: { name, uid } }: KubeObject): Promise<unknown> {
  const body = { apiVersion, kind: "Slot", metadata: { name, uid, finalizers: [finalizer] } };
  const query = { fieldManager: `${fieldManager}-finalizer`, force: true };
  try {
    return await client.request("PATCH", pathOf(client, name), { query, body, contentType: patchTypes.apply });
  } catch (error) {
    // The object is gone, or its deletion has begun since.
    if (isStatus(error, 404, 409)) return undefined;
    throw error;
  }
}

/** Attempts against other writers of the same object. */
const attempts = 5;

/**
 * By a merge patch of the version that was read: server-side apply would leave a finalizer that another field manager has
 * put there, such as a person who applies a copy of a Slot. Returns the object as it is now, undefined once it is gone.
 */
async function remove(client: ApiClient, object: KubeObject): Promise<unknown> {
  let { meta } = object;
  let value: unknown;
  for (let attempt = 1; meta.uid === object.meta.uid && meta.finalizers.includes(finalizer); attempt += 1) {
    const { name, uid, resourceVersion } = meta;
    const finalizers = meta.finalizers.filter((each) => each !== finalizer);
    const body = { metadata: { uid, resourceVersion, finalizers } };
    try {
      return await client.request("PATCH", pathOf(client, name), { body, contentType: patchTypes.merge });
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      if (!isStatus(error, 409) || attempt === attempts) throw error;
    }
    value = await client.request("GET", pathOf(client, name)).catch((error: unknown) => {
      if (!isStatus(error, 404)) throw error;
    });
    const now = readObject(value);
    if (now === undefined) return undefined;
    meta = now.meta;
  }
  return value;
}

function pathOf({ namespace }: ApiClient, name: string): string {
  return `${collectionOf("Slot", namespace)}/${name}`;
}

/**
 * The finalizer of Slots. In a namespace that is being deleted there is none, whoever leads: there the operator's Lease
 * and rights go before the Slots do, and a finalizer that nobody may remove would keep the namespace for ever.
 */
export function openFinalizers({ client, unfenced, slots, note, onError }: FinalizersOptions): Finalizers {
  let isEnding = false;
  const removeAndNote = async (object: KubeObject, by: ApiClient): Promise<void> => {
    if (object.meta.finalizers.includes(finalizer)) note(await remove(by, object));
  };
  const check = async (): Promise<void> => {
    isEnding = await isEndingNow(unfenced);
    if (isEnding) return void (await Promise.all(slots().map((object) => removeAndNote(object, unfenced))));
    // Deleted before anything was published of it: no reconcile knows of it, and no engine.
    const unknown = slots().filter((object) => object.meta.isDeleted && !hasRecord(object));
    await Promise.all(unknown.map((object) => removeAndNote(object, client)));
  };
  const timer = setInterval(() => void check().catch(onError), pollMs);
  timer.unref();
  return {
    async add(object) {
      if (isEnding || object.meta.finalizers.includes(finalizer)) return;
      note(await add(client, object));
    },
    remove: (object) => removeAndNote(object, client),
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
