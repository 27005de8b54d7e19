import { batch, signal } from "@preact/signals";
import type { PullView } from "../../src/api/management/pull-views.ts";
import type { SlotView } from "../../src/api/management/views.ts";
import type { ResourceStatus } from "../../src/api/resource-status.ts";
import { ApiFailure, messageOf, request } from "../shared/api.ts";
import { events, type ServerEvent } from "../shared/sse.ts";
import { withEvent } from "./memory.ts";
import { withDefaults } from "./slot-defaults.ts";

/** A problem of a manifest, as the operator publishes it. */
export interface Problem {
  readonly file?: string;
  readonly message: string;
}

type Removed = { readonly removed: true };

/** The state of the page's server, kept by its events. */
export const slots = signal<ReadonlyMap<string, SlotView>>(new Map());
export const pulls = signal<ReadonlyMap<string, PullView>>(new Map());
export const resources = signal<ReadonlyMap<string, ResourceStatus>>(new Map());
export const problems = signal<readonly Problem[]>([]);
/** `refused`: the server knows the token, and does not let it see the slots. */
export const connection = signal<"connecting" | "live" | "lost" | "refused">("connecting");
/** Why the connection is lost or refused, for a person. */
export const lostBecause = signal("");

const shortestPauseMs = 500;
const longestPauseMs = 10_000;
/** The server sends a comment every 15 s. */
const silenceMs = 40_000;

let isOpen = false;

/**
 * Follows the server until the signal aborts, and comes back by itself. Each stream begins with a snapshot, since none asks
 * to go on after an event: before it an open stream says nothing of the slots, not even that there are none.
 */
export async function follow(stop: AbortSignal): Promise<void> {
  connection.value = "connecting";
  let pauseMs = shortestPauseMs;
  while (!stop.aborted) {
    const watchdog = new AbortController();
    let timer = setTimeout(() => watchdog.abort(), silenceMs);
    try {
      const abort = AbortSignal.any([stop, watchdog.signal]);
      const response = await request("/api/events", { signal: abort });
      if (response.body === null) throw new Error("the stream of events is empty");
      isOpen = true;
      for await (const event of events(response.body)) {
        clearTimeout(timer);
        timer = setTimeout(() => watchdog.abort(), silenceMs);
        pauseMs = shortestPauseMs;
        queue(event);
      }
    } catch (error) {
      if (stop.aborted) return;
      lostBecause.value = error instanceof ApiFailure ? messageOf(error) : "The connection to Berth is lost.";
      if (error instanceof ApiFailure && (error.status === 401 || error.status === 403)) {
        connection.value = "refused";
        return;
      }
    } finally {
      isOpen = false;
      clearTimeout(timer);
    }
    connection.value = "lost";
    await pause(pauseMs, stop);
    pauseMs = Math.min(longestPauseMs, pauseMs * 2);
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
  const nextSlots = new Map(slots.value);
  const nextPulls = new Map(pulls.value);
  const nextResources = new Map(resources.value);
  let nextProblems = problems.value;
  for (const { event, data } of all) {
    switch (event) {
      case "snapshot": {
        const all: { slots?: SlotView[]; pulls?: PullView[]; conditions?: ResourceStatus[] } = JSON.parse(data);
        refill(nextSlots, all.slots?.map(withDefaults), ({ name }) => name);
        refill(nextPulls, all.pulls, ({ id }) => id);
        refill(nextResources, all.conditions, ({ kind, name }) => `${kind}/${name}`);
        // An event of its own follows where there are problems.
        nextProblems = [];
        break;
      }
      case "slot": {
        const slot: SlotView | (Removed & { name: string }) = JSON.parse(data);
        if ("removed" in slot) nextSlots.delete(slot.name);
        else nextSlots.set(slot.name, withDefaults(withEvent(nextSlots.get(slot.name), slot)));
        break;
      }
      case "pull": {
        const pull: PullView | (Removed & { id: string }) = JSON.parse(data);
        if ("removed" in pull) nextPulls.delete(pull.id);
        else nextPulls.set(pull.id, pull);
        break;
      }
      case "condition": {
        const resource: ResourceStatus | (Removed & { kind: string; name: string }) = JSON.parse(data);
        const key = `${resource.kind}/${resource.name}`;
        if ("removed" in resource) nextResources.delete(key);
        else nextResources.set(key, resource);
        break;
      }
      case "config": {
        const config: { problems?: Problem[] } = JSON.parse(data);
        nextProblems = config.problems ?? [];
        break;
      }
      default:
    }
  }
  batch(() => {
    slots.value = nextSlots;
    pulls.value = nextPulls;
    resources.value = nextResources;
    problems.value = nextProblems;
    if (isOpen && all.some(({ event }) => event === "snapshot")) connection.value = "live";
  });
}

function refill<T>(map: Map<string, T>, items: readonly T[] | undefined, keyOf: (item: T) => string): void {
  map.clear();
  for (const item of items ?? []) map.set(keyOf(item), item);
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      stop.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    stop.addEventListener("abort", end);
  });
}
