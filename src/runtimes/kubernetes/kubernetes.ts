import { compareProcesses, isSameProcess, processKey, processName, type ProcessRef } from "../../api/process-ref.ts";
import type { Container, Observed, Workload } from "../../api/workload.ts";
import { apiVersion } from "../../api/names.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import type { SecretPlaces } from "../../lib/secret-file.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import type { RemoveOptions, Runtime, StartOptions } from "../runtime.ts";
import { adoptedRestarts, observedOf } from "./observed.ts";
import { endPod } from "./pod-end.ts";
import { refuseOutsideLinks } from "./model-links.ts";
import { podName } from "./pod-label.ts";
import { firstPodLines } from "./pod-logs.ts";
import { PodMemory } from "./pod-memory.ts";
import { readPod, type Pod } from "./pod-object.ts";
import { createStrictly, PodSecrets } from "./pod-secrets.ts";
import { podOf, type OwnerReference, type PodSite } from "./pod.ts";
import { PodView } from "./pod-view.ts";
import { refusedStart, startRefusal, type RefusedStart } from "./start-refusal.ts";
import { kubernetesTraits } from "./traits.ts";

/** More than the output of any engine while it loads. */
const firstOutputBytes = 1024 ** 2;
/** An admission webhook may take 30 s, and one that is given up begins anew with the next attempt. */
const admissionMs = 35_000;
/** How long the first list is waited for; reads throw RuntimeUnavailable until it is there. */
const firstListMs = 5000;

export interface KubernetesRuntimeOptions {
  /** Closed with the runtime. */
  readonly client: ApiClient;
  readonly site: Omit<PodSite, "namespace">;
  /** The files that `valueFrom.file` may name; absent: any but a service account's. */
  readonly secrets?: SecretPlaces;
  readonly signal?: AbortSignal;
}

/** Runs engines as Pods of one namespace. */
export async function openKubernetesRuntime(options: KubernetesRuntimeOptions): Promise<Runtime> {
  const runtime = new KubernetesRuntime(options);
  await runtime.tried(options.signal);
  return runtime;
}

class KubernetesRuntime implements Runtime {
  readonly traits = kubernetesTraits;
  readonly #client: ApiClient;
  readonly #site: PodSite;
  readonly #view: PodView;
  readonly #secrets: PodSecrets;
  readonly #subscribers = new Subscribers<[slot: string]>();
  readonly #answering = new Subscribers<[]>();
  readonly #refused = new Map<string, RefusedStart>();
  /** Pods that this operator deletes. */
  readonly #removed = new Set<string>();
  /** The first end of each Pod that was seen: the kubelet starts its container again and again. */
  readonly #firstEnds = new PodMemory<NonNullable<Observed["exit"]>>();
  /** The restarts of each Pod that are taken over. */
  readonly #adopted = new PodMemory<number>();
  readonly #closing = new AbortController();

  constructor({ client, site, secrets }: KubernetesRuntimeOptions) {
    this.#client = client;
    this.#site = { ...site, namespace: client.namespace };
    this.#view = new PodView({
      client,
      instance: site.instance,
      onSlot: (slot) => this.#subscribers.notify(slot),
      onAnswering: () => this.#answering.notify(),
    });
    this.#secrets = new PodSecrets(this.#view, secrets);
  }

  async tried(signal: AbortSignal | undefined): Promise<void> {
    const limit = AbortSignal.timeout(firstListMs);
    await this.#view.synced(signal === undefined ? limit : AbortSignal.any([limit, signal])).catch(() => undefined);
  }

  isAnswering(): boolean {
    return this.#view.isUp;
  }

  watchAnswering(onChange: () => void): Disposable {
    return this.#answering.add(onChange);
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const found: Observed[] = [];
    for (const pod of this.#view.of(slot)) found.push(await this.#observed(pod));
    for (const refused of this.#refused.values())
      if (refused.slot === slot && !found.some((seen) => isSameProcess(seen, refused))) found.push(refused);
    return found.toSorted(compareProcesses);
  }

  async list(): Promise<readonly string[]> {
    await this.#view.refresh();
    const pods = this.#view.lastKnown();
    this.#firstEnds.keepOnly(pods);
    this.#adopted.keepOnly(pods);
    this.#secrets.keepOnly(pods);
    const refused = [...this.#refused.values()].map(({ slot }) => slot);
    return [...new Set([...pods.map(({ label }) => label.slot), ...refused])];
  }

  async ensure(workload: Workload, { ownerUid }: StartOptions = {}): Promise<void> {
    const { slot, container } = workload;
    if (container === undefined) throw new Error(`the workload of ${slot} is no container`);
    const owner = ownerUid === undefined ? undefined : { apiVersion, kind: "Slot", name: slot, uid: ownerUid };
    // Nothing is asked first where the watch knows of no such Pod: a Pod is made, and never changed.
    const isUnknown = this.#view.isUp && this.#view.get(podName(workload)) === undefined;
    if (isUnknown && (await this.#startOrRefuse(workload, container, { owner, isNew: true })) === undefined) return;
    const known = await this.#find(podName(workload));
    if (known !== undefined) {
      const seen = await this.#observed(known);
      if (seen.phase === "running" && known.metadata.deletionTimestamp == null) {
        if (seen.hash === workload.hash && seen.port === workload.port) return;
        throw new Error(
          `another version of ${slot} (${processName(workload)}) still runs as Pod ${known.metadata.name}`,
        );
      }
      await this.#end(known, { stopSeconds: 0 });
    }
    const taken = await this.#startOrRefuse(workload, container, { owner, isNew: false });
    if (taken !== undefined) throw new RuntimeUnavailable(`the Pod of ${slot}: ${taken.message}`, { cause: taken });
  }

  /** The error of the API server where another Pod has the name. A refusal that lasts is shown as an end. */
  async #startOrRefuse(
    workload: Workload,
    container: Container,
    options: { readonly owner: OwnerReference | undefined; readonly isNew: boolean },
  ): Promise<Error | undefined> {
    const { slot } = workload;
    this.#refused.delete(processKey(workload));
    try {
      await this.#start(workload, container, options);
    } catch (error) {
      if (error instanceof Error && isStatus(error, 409)) return error;
      const refusal = startRefusal(error, this.#site.namespace);
      if (refusal === undefined) throw error;
      this.#refused.set(processKey(workload), refusedStart(workload, refusal));
      this.#subscribers.notify(slot);
    }
    return undefined;
  }

  async remove(slot: string, process: ProcessRef | undefined, options: RemoveOptions): Promise<void> {
    for (const [key, refused] of this.#refused) {
      if (refused.slot !== slot || (process !== undefined && !isSameProcess(refused, process))) continue;
      this.#refused.delete(key);
      this.#subscribers.notify(slot);
    }
    await this.#view.relist(slot);
    const concerned = this.#view
      .lastKnownOf(slot)
      .filter(({ label }) => process === undefined || isSameProcess(label, process));
    await Promise.all(concerned.map((pod) => this.#end(pod, options)));
  }

  async firstOutput({ id }: Observed): Promise<string> {
    return "podName" in id ? await firstPodLines(this.#client, id.podName, firstOutputBytes) : "";
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    return this.#subscribers.add(onSlot);
  }

  /** Pods keep running; those that are being ended are left to the next operator. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the operator is being stopped"));
    this.#subscribers.clear();
    this.#answering.clear();
    await this.#view.close();
    this.#client[Symbol.dispose]();
  }

  async #observed(pod: Pod): Promise<Observed> {
    const { uid } = pod.metadata;
    const exit = this.#firstEnds.get(pod);
    const bearer = exit === undefined ? await this.#secrets.bearerOf(pod) : undefined;
    const adopted = adoptedRestarts(pod, this.#adopted.get(pod));
    this.#adopted.set(pod, adopted);
    const seen = observedOf(pod, {
      isBeingRemoved: this.#removed.has(uid),
      adopted,
      ...(bearer === undefined ? {} : { bearer }),
      ...(exit === undefined ? {} : { exit }),
    });
    if (exit === undefined && seen.exit !== undefined) this.#firstEnds.set(pod, seen.exit);
    return seen;
  }

  /** As the API server has it now. Throws where the Pod of that name is not ours. */
  async #find(name: string): Promise<Pod | undefined> {
    let object: unknown;
    try {
      object = await this.#view.request("GET", "pods", name);
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      throw error;
    }
    const pod = readPod(object, this.#site.instance);
    if (pod !== undefined) {
      this.#view.note(object);
      return pod;
    }
    throw new Error(
      `the Pod ${name} in namespace ${this.#site.namespace} belongs to another installation of Berth, or to somebody ` +
        "else: give each installation a namespace of its own, or delete that Pod",
    );
  }

  /** Makes the Pod, which a Pod of that name prevents (409). `isNew`: so does a Secret, which is else replaced. */
  async #start(
    workload: Workload,
    container: Container,
    { owner, isNew }: { readonly owner: OwnerReference | undefined; readonly isNew: boolean },
  ): Promise<void> {
    await refuseOutsideLinks(container, this.#site.models);
    const given = await this.#secrets.givenTo(workload);
    const start = { given, startedAt: new Date(), ...(owner === undefined ? {} : { owner }) };
    const { pod, secret } = podOf(workload, container, this.#site, start);
    const name = podName(workload);
    let secretUid: string | undefined;
    if (secret !== undefined)
      secretUid = isNew ? await this.#secrets.create(secret) : await this.#secrets.replace(secret, this.#site.instance);
    let made: unknown;
    try {
      made = await this.#view.request("POST", "pods", "", { query: createStrictly, body: pod, timeoutMs: admissionMs });
    } catch (error) {
      // Without a Pod nothing reads it, and nothing would remove it with the Pod.
      const isUnread = isStatus(error, 400, 403, 422) || (isNew && isStatus(error, 409));
      if (secret !== undefined && isUnread) await this.#secrets.remove(name, secretUid).catch(() => undefined);
      throw error;
    }
    const read = readPod(made, this.#site.instance);
    if (read !== undefined && given.bearer !== undefined) this.#secrets.remember(read, given.bearer);
    this.#view.note(made);
    this.#subscribers.notify(workload.slot);
    // A failure only leaves it to this operator to remove the Secret.
    if (read !== undefined && secretUid !== undefined && owner === undefined)
      await this.#secrets.giveTo(read, secretUid).catch(() => undefined);
  }

  /** Its Secret goes after it: a container that the kubelet starts again still reads it. */
  async #end(pod: Pod, options: RemoveOptions): Promise<void> {
    const { uid, name } = pod.metadata;
    this.#removed.add(uid);
    try {
      const secretUid = await this.#secrets.uidOf(name);
      await endPod(this.#view, pod, options, this.#closing.signal);
      if (secretUid !== undefined) await this.#secrets.remove(name, secretUid);
      this.#firstEnds.forget(pod);
      this.#adopted.forget(pod);
      this.#secrets.forget(pod);
    } finally {
      this.#removed.delete(uid);
    }
    this.#subscribers.notify(pod.label.slot);
  }
}
