import { ApiError, ApiUnreachable } from "../../kubernetes/api-error.ts";
import type { ApiClient, Call, Method } from "../../kubernetes/client.ts";
import { ListWatch } from "../../kubernetes/list-watch.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import { isRecord } from "../../lib/record.ts";
import { instanceLabel, slotLabel } from "./pod-label.ts";
import { readPod, type Pod } from "./pod-object.ts";

/** Without a watch for this long, nothing is known; a watch is opened again within 2 s. */
const unreachableAfterMs = 5000;
const checkMs = 500;

export interface PodViewOptions {
  readonly client: ApiClient;
  readonly instance: string;
  readonly onSlot: (slot: string) => void;
  /** The API server started or stopped to answer. */
  readonly onAnswering: () => void;
}

/** Our Pods in one namespace, as the API server's watch tells them. */
export class PodView {
  readonly #options: PodViewOptions;
  readonly #list: ListWatch;
  readonly #read = new WeakMap<KubeObject["value"], Pod>();
  /** The slot of each Pod, by the Pod's name, and the names of each slot's Pods. */
  readonly #slots = new Map<string, string>();
  readonly #names = new Map<string, Set<string>>();
  readonly #changes = new Map<string, Set<() => void>>();
  readonly #timer: NodeJS.Timeout;
  #connectedMs = steadyNow();
  #wasUp = false;
  #trouble = "it has not been asked yet";

  constructor(options: PodViewOptions) {
    this.#options = options;
    const { client, instance } = options;
    this.#list = ListWatch.start({
      client,
      path: `/api/v1/namespaces/${client.namespace}/pods`,
      labelSelector: `${instanceLabel}=${instance}`,
      // A whole Pod has many times as much as is read of it.
      keep: (value) => {
        const kept = {};
        const pod = readPod(value, instance);
        if (pod !== undefined) this.#read.set(kept, pod);
        return kept;
      },
      onChange: (names) => this.#changed(names),
      onError: (error) => {
        this.#trouble = errorMessage(error);
        this.#check();
      },
    });
    this.#timer = setInterval(() => this.#check(), checkMs).unref();
    void this.#list.synced().then(() => this.#check());
  }

  get isUp(): boolean {
    return this.#list.isSynced && steadyNow() - this.#lastConnectedMs() < unreachableAfterMs;
  }

  /** Resolves once the first list is there. */
  async synced(signal: AbortSignal): Promise<void> {
    await this.#list.synced(signal);
  }

  /** Throws RuntimeUnavailable while the API server does not answer. */
  of(slot: string): readonly Pod[] {
    if (!this.isUp) throw this.unavailable();
    return this.lastKnownOf(slot);
  }

  /** At the last answer. Without reading every Pod: each reconcile of each slot needs this. */
  lastKnownOf(slot: string): readonly Pod[] {
    return [...(this.#names.get(slot) ?? [])].flatMap((name) => this.get(name) ?? []);
  }

  /** At the last answer; empty before the first. */
  lastKnown(): readonly Pod[] {
    return this.#list.values().flatMap(({ value }) => this.#read.get(value) ?? []);
  }

  get(name: string): Pod | undefined {
    const object = this.#list.get(name);
    return object === undefined ? undefined : this.#read.get(object.value);
  }

  /** Lists again unless the watch tells of every change anyway. */
  async refresh(): Promise<void> {
    await this.answered(this.#list.refresh());
  }

  /** Lists the Pods of one slot: a late event must leave none of them behind. */
  async relist(slot: string): Promise<void> {
    const query = { labelSelector: `${instanceLabel}=${this.#options.instance},${slotLabel}=${slot}` };
    const page = await this.request("GET", "pods", "", { query });
    const items: readonly unknown[] = isRecord(page) && Array.isArray(page["items"]) ? page["items"] : [];
    for (const item of items) this.note(item);
  }

  /** Objects that this process has written. */
  note(object: unknown): void {
    this.#list.note(object);
  }

  /** Calls back after each change of the Pod of that name. */
  onChange(name: string, call: () => void): Disposable {
    const calls = this.#changes.get(name) ?? new Set();
    calls.add(call);
    this.#changes.set(name, calls);
    return {
      [Symbol.dispose]: () => {
        calls.delete(call);
        if (calls.size === 0) this.#changes.delete(name);
      },
    };
  }

  /** A request about this namespace. Rejects with RuntimeUnavailable where there is no answer, with ApiError for a refusal. */
  async request(method: Method, plural: "pods" | "secrets", name = "", call: Call = {}): Promise<unknown> {
    const { client } = this.#options;
    const path = `/api/v1/namespaces/${client.namespace}/${plural}${name === "" ? "" : `/${name}`}`;
    return await this.answered(client.request(method, path, call));
  }

  async answered<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof ApiUnreachable) throw new RuntimeUnavailable(error.message, { cause: error });
      // Overloaded, or in the middle of a restart: another attempt gets an answer.
      if (error instanceof ApiError && (error.status === 429 || error.status >= 500))
        throw new RuntimeUnavailable(`the API server at ${this.#options.client.server}: ${error.message}`, {
          cause: error,
        });
      throw error;
    }
  }

  unavailable(): RuntimeUnavailable {
    return new RuntimeUnavailable(`the API server at ${this.#options.client.server} cannot be asked: ${this.#trouble}`);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#list[Symbol.asyncDispose]();
  }

  #lastConnectedMs(): number {
    if (this.#list.isConnected) this.#connectedMs = steadyNow();
    return this.#connectedMs;
  }

  #check(): void {
    const { isUp } = this;
    if (isUp === this.#wasUp) return;
    this.#wasUp = isUp;
    for (const slot of new Set(this.#slots.values())) this.#options.onSlot(slot);
    this.#options.onAnswering();
  }

  #changed(names: readonly string[]): void {
    const slots = new Set<string>();
    for (const name of names) {
      const pod = this.get(name);
      const slot = pod?.label.slot ?? this.#slots.get(name);
      if (slot !== undefined) slots.add(slot);
      this.#place(name, pod?.label.slot);
      for (const call of this.#changes.get(name) ?? []) call();
    }
    for (const slot of slots) this.#options.onSlot(slot);
  }

  /** `slot` undefined: the Pod is gone. */
  #place(name: string, slot: string | undefined): void {
    const before = this.#slots.get(name);
    if (before === slot) return;
    const others = before === undefined ? undefined : this.#names.get(before);
    if (others?.delete(name) === true && others.size === 0 && before !== undefined) this.#names.delete(before);
    if (slot === undefined) {
      this.#slots.delete(name);
      return;
    }
    this.#slots.set(name, slot);
    this.#names.set(slot, (this.#names.get(slot) ?? new Set()).add(name));
  }
}
