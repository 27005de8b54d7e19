import { batch, computed, signal, type Signal } from "@preact/signals";
import type { MachineReading } from "../../src/api/machine-reading.ts";
import type { GroupView } from "../../src/api/management/group-routes.ts";
import type { PullView } from "../../src/api/management/pull-views.ts";
import type { SlotView } from "../../src/api/management/views.ts";
import type { ResourceStatus } from "../../src/api/resource-status.ts";
import { ApiFailure, messageOf, request } from "../shared/api.ts";
import { events, type ServerEvent } from "../shared/sse.ts";
import { addStep, endHistory, readHistory } from "./history.ts";
import { keepReading } from "./keep-reading.ts";
import { withEvent } from "./memory.ts";
import { withDefaults } from "./slot-defaults.ts";

/** A problem of a manifest, as the operator publishes it. */
export interface Problem {
  readonly file?: string;
  readonly message: string;
}

type Removed = { readonly removed: true };

interface Snapshot {
  readonly slots: readonly SlotView[];
  readonly pulls: readonly PullView[];
  readonly groups: readonly GroupView[];
  readonly conditions: readonly ResourceStatus[];
}

/** The state of the page's server, kept by its events. */
export const slots = signal<ReadonlyMap<string, SlotView>>(new Map());
export const pulls = signal<ReadonlyMap<string, PullView>>(new Map());
export const resources = signal<ReadonlyMap<string, ResourceStatus>>(new Map());
export const groups = signal<ReadonlyMap<string, GroupView>>(new Map());
/** Each grows with the events of its kind: a page that shows more than the events say reads it anew then. */
export const modelChanges = signal(0);
export const trafficChanges = signal(0);
export const upstreamChanges = signal(0);
const counted = { model: modelChanges, traffic: trafficChanges, upstream: upstreamChanges };
const isCounted = (event: string): event is keyof typeof counted => Object.hasOwn(counted, event);
export const problems = signal<readonly Problem[]>([]);
/** How busy the machine was, each five seconds of the last 15 minutes that the page was open: the server keeps none. */
export const readings = signal<readonly MachineReading[]>([]);
/** How busy it is; null: it cannot be read, or not yet. */
export const reading = computed(() => readings.value.at(-1) ?? null);
const mostReadings = 180;
/** `refused`: the server knows the token, and does not let it see the slots. */
export const connection = signal<"connecting" | "live" | "lost" | "refused">("connecting");
/** Why the connection is lost or refused, for a person. */
export const lostBecause = signal("");

/** The server sends a comment every 15 s. */
const silenceMs = 40_000;

/** How often the page was live again after it was not: whatever it has read may have changed meanwhile. */
export const comebacks = signal(0);
/** The page has neither been live nor refused yet. */
let isNew = true;

let isOpen = false;

/**
 * Follows the server until the signal aborts, as long as the page is shown, and comes back by itself. Each stream begins
 * with a snapshot, since none asks to go on after an event: before it an open stream says nothing of the slots, not even
 * that there are none.
 */
export async function follow(stop: AbortSignal): Promise<void> {
  connection.value = "connecting";
  const ended = (error: unknown): boolean => {
    isNew = false;
    lostBecause.value = error instanceof ApiFailure ? messageOf(error) : "The connection to Berth is lost.";
    const status = error instanceof ApiFailure ? error.status : 0;
    // With another token it begins anew.
    connection.value = status === 401 ? "connecting" : status === 403 ? "refused" : "lost";
    return status !== 401 && status !== 403;
  };
  const hidden = (): void => void (connection.value = "connecting");
  await keepReading({ stop, read: readEvents, ended, hidden, screen: document });
}

async function readEvents(signal: AbortSignal, opened: () => void): Promise<void> {
  const watchdog = new AbortController();
  let timer = setTimeout(() => watchdog.abort(), silenceMs);
  try {
    const response = await request("/api/events", { signal: AbortSignal.any([signal, watchdog.signal]) });
    if (response.body === null) throw new Error("the stream of events is empty");
    isOpen = true;
    opened();
    // Without it the charts begin with the events, and the rest of the page works.
    void readHistory(signal).catch(() => undefined);
    for await (const event of events(response.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => watchdog.abort(), silenceMs);
      queue(event);
    }
  } finally {
    isOpen = false;
    endHistory();
    clearTimeout(timer);
  }
}

/** Events since the last drawn frame: a burst of them is one change of the page. */
let queued: ServerEvent[] = [];
/** A page that is hidden before its next frame draws none: with so many events it does not wait for the frame. */
const mostQueued = 1000;

function queue(event: ServerEvent): void {
  if (event.data === "") return;
  queued.push(event);
  if (queued.length >= mostQueued) apply();
  if (queued.length !== 1) return;
  // A page in the background draws no frames, and must not collect events for hours.
  if (document.hidden) setTimeout(apply, 1000);
  else requestAnimationFrame(apply);
}

function apply(): void {
  const all = queued;
  queued = [];
  // Of what no event has named nothing is drawn or read anew.
  const [nextSlots, nextPulls, nextResources] = [new Changing(slots), new Changing(pulls), new Changing(resources)];
  const nextGroups = new Changing(groups);
  let nextProblems = problems.value;
  const changed = new Set<keyof typeof counted>();
  for (const { event, data } of all) {
    if (isCounted(event)) changed.add(event);
    switch (event) {
      case "snapshot": {
        const all: Partial<Snapshot> = JSON.parse(data);
        refill(nextSlots.map, all.slots?.map(withDefaults), ({ name }) => name);
        refill(nextPulls.map, all.pulls, ({ id }) => id);
        refill(nextGroups.map, all.groups, ({ name }) => name);
        refill(nextResources.map, all.conditions, ({ kind, name }) => `${kind}/${name}`);
        // An event of its own follows where there are problems.
        nextProblems = [];
        break;
      }
      case "slot": {
        const slot: SlotView | (Removed & { name: string }) = JSON.parse(data);
        if ("removed" in slot) nextSlots.map.delete(slot.name);
        else nextSlots.map.set(slot.name, withDefaults(withEvent(nextSlots.map.get(slot.name), slot)));
        break;
      }
      case "pull": {
        const pull: PullView | (Removed & { id: string }) = JSON.parse(data);
        if ("removed" in pull) nextPulls.map.delete(pull.id);
        else nextPulls.map.set(pull.id, pull);
        break;
      }
      case "group": {
        const group: GroupView | (Removed & { name: string }) = JSON.parse(data);
        if ("removed" in group) nextGroups.map.delete(group.name);
        else nextGroups.map.set(group.name, group);
        break;
      }
      case "condition": {
        const resource: ResourceStatus | (Removed & { kind: string; name: string }) = JSON.parse(data);
        if (resource.kind === "Upstream") changed.add("upstream");
        const key = `${resource.kind}/${resource.name}`;
        if ("removed" in resource) nextResources.map.delete(key);
        else nextResources.map.set(key, resource);
        break;
      }
      case "traffic":
        addStep(JSON.parse(data));
        break;
      case "machine":
        readings.value = [...readings.value, JSON.parse(data)].slice(-mostReadings);
        break;
      case "config": {
        const config: { problems?: Problem[] } = JSON.parse(data);
        nextProblems = config.problems ?? [];
        break;
      }
      default:
    }
  }
  batch(() => {
    nextSlots.publish();
    nextPulls.publish();
    nextGroups.publish();
    nextResources.publish();
    problems.value = nextProblems;
    for (const event of changed) counted[event].value += 1;
    if (!isOpen || connection.value === "live" || !all.some(({ event }) => event === "snapshot")) return;
    connection.value = "live";
    if (!isNew) comebacks.value += 1;
    isNew = false;
  });
}

/** A signal's map, copied once it is asked for. */
class Changing<T> {
  readonly #signal: Signal<ReadonlyMap<string, T>>;
  #map: Map<string, T> | undefined;

  constructor(signal: Signal<ReadonlyMap<string, T>>) {
    this.#signal = signal;
  }

  get map(): Map<string, T> {
    return (this.#map ??= new Map(this.#signal.peek()));
  }

  publish(): void {
    if (this.#map !== undefined) this.#signal.value = this.#map;
  }
}

function refill<T>(map: Map<string, T>, items: readonly T[] | undefined, keyOf: (item: T) => string): void {
  map.clear();
  for (const item of items ?? []) map.set(keyOf(item), item);
}
