import { apiVersion } from "../../api/names.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import { itemsOf, readObject, type KubeObject } from "../../kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { collectionOf, fieldManager, finalizer } from "./names.ts";
import { hasRecord } from "./slot-record.ts";

/**
 * The interval of checks of the namespace and of its Slots. The namespace's controller waits 5 s before it deletes anything,
 * rights included.
 */
const pollMs = 1500;

export interface Finalizers extends Disposable {
  /**
   * Before each publication: its deletion then waits until its engines have ended. One whose deletion has begun gets no
   * finalizer, and keeps the one that it has.
   */
  add(object: KubeObject): Promise<void>;
  /** Nothing is published of it any more. */
  forget(name: string): void;
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
  for (const item of itemsOf(page)) {
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
 * put there, such as a person who applies a copy of a Slot. Ends where `isMeant` does not accept the version that was read.
 * Returns the object as it is now, undefined once it is gone.
 */
async function remove(
  client: ApiClient,
  object: KubeObject,
  isMeant: (now: KubeObject) => boolean = () => true,
): Promise<unknown> {
  let now = object;
  let value: unknown;
  for (let attempt = 1; now.meta.uid === object.meta.uid && isMeant(now); attempt += 1) {
    const { name, uid, resourceVersion, finalizers: present } = now.meta;
    if (!present.includes(finalizer)) break;
    const finalizers = present.filter((each) => each !== finalizer);
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
    const read = readObject(value);
    if (read === undefined) return undefined;
    now = read;
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
  /** The uid of each Slot that this operator has begun to publish, by name. */
  const begun = new Map<string, string>();
  const isUnknown = (object: KubeObject): boolean =>
    object.meta.isDeleted && begun.get(object.meta.name) !== object.meta.uid && !hasRecord(object);
  const removeAndNote = async (
    object: KubeObject,
    by: ApiClient,
    isMeant?: (now: KubeObject) => boolean,
  ): Promise<void> => {
    if (object.meta.finalizers.includes(finalizer)) note(await remove(by, object, isMeant));
  };
  const check = async (): Promise<void> => {
    isEnding = await isEndingNow(unfenced);
    if (isEnding) return void (await Promise.all(slots().map((object) => removeAndNote(object, unfenced))));
    // Deleted before this operator began to publish anything of it, and no earlier one has left a record: nobody else
    // removes it. An engine may be on its way all the same; for lack of a publication its Slot had no finalizer of
    // Berth's to wait for it. Once a publication has begun the Slot waits for it, also where the status is not written.
    const unknown = slots().filter(isUnknown);
    await Promise.all(unknown.map((object) => removeAndNote(object, client, isUnknown)));
  };
  const timer = setInterval(() => void check().catch(onError), pollMs);
  timer.unref();
  return {
    async add(object) {
      begun.set(object.meta.name, object.meta.uid);
      if (isEnding || object.meta.isDeleted || object.meta.finalizers.includes(finalizer)) return;
      note(await add(client, object));
    },
    forget: (name) => void begun.delete(name),
    remove: (object) => removeAndNote(object, client),
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
