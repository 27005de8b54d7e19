import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { resourceKey } from "../../api/resource-status.ts";
import { isRecord } from "../../lib/record.ts";
import { slotsInOrder } from "../index.ts";
import type { Resource } from "../resource-book.ts";
import type { Handlers } from "./api-server.ts";
import { ChangeFeed, type FeedEvent } from "./change-feed.ts";
import { mayAdminister, viewOf, type ManagementContext } from "./context.ts";
import { openEvents } from "./event-response.ts";
import { slotView } from "./views.ts";

/** Serving and idle are this gateway's own: looked at this often while somebody follows. */
const lookMs = 500;
const heartbeatMs = 15_000;
/** A reader that is further behind loses what it missed, and is told to begin anew. */
const behindLimitBytes = 1024 * 1024;
/** How long it may take to read what it was sent before it was dropped. */
const resyncPatienceMs = 5000;

/** `GET /api/events`: a snapshot, then every change, for as long as the client stays. */
export function eventHandlers(context: ManagementContext): Pick<Handlers, "events"> & Disposable {
  const feed = new ChangeFeed(randomBytes(4).toString("hex"));
  let known: readonly string[] = [];
  const look = (): void => {
    const view = viewOf(context);
    for (const slot of view.index.slots.values()) {
      // What moves all the time is no change.
      const { uptime_seconds: _up, memory_bytes: _memory, ...data } = slotView(slot, view);
      feed.tell("slot", slot.name, data);
    }
    for (const name of known) if (!view.index.slots.has(name)) feed.forget("slot", name, { name, removed: true });
    known = [...view.index.slots.keys()];
    lookAtResources();
    feed.tell("config", ":config", { problems: context.operator()?.problems ?? [] });
  };
  let told: ReadonlyMap<string, Resource> = new Map();
  function lookAtResources(): void {
    const now = new Map([...context.resources.others()].map((resource) => [resourceKey(resource), resource]));
    for (const [key, resource] of now) feed.tell("condition", key, resource);
    for (const [key, { kind, name }] of told)
      if (!now.has(key)) feed.forget("condition", key, { kind, name, removed: true });
    told = now;
  }
  const lookIfFollowed = (): void => {
    if (feed.readers > 0) look();
  };
  const watching = context.watch(lookIfFollowed);
  let looking: NodeJS.Timeout | undefined;
  /** A gateway that nobody follows is not woken for nothing. */
  const lookWhileFollowed = (): Disposable => {
    looking ??= setInterval(look, lookMs).unref();
    return {
      [Symbol.dispose]() {
        if (feed.readers > 0) return;
        clearInterval(looking);
        looking = undefined;
      },
    };
  };
  return {
    [Symbol.dispose]() {
      watching[Symbol.dispose]();
      clearInterval(looking);
    },
    async events({ request, reply }) {
      const isAdmin = mayAdminister(request);
      const { response, left } = openEvents(reply, context);
      const send = ({ id, event, data }: FeedEvent): void => {
        if (response.writableEnded || !(isAdmin || isForReaders(event, data))) return;
        if (response.writableLength <= behindLimitBytes) {
          response.write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
          return;
        }
        response.end("event: resync\ndata: {}\n\n");
        const patience = setTimeout(() => response.destroy(), resyncPatienceMs);
        response.once("close", () => clearTimeout(patience));
      };
      look();
      const lastSeen = request.headers["last-event-id"];
      const missed = typeof lastSeen === "string" ? feed.since(lastSeen) : undefined;
      if (missed === undefined) {
        const view = viewOf(context);
        const slots = slotsInOrder(view.index).map((slot) => slotView(slot, view));
        const conditions = [...told.values()].filter((resource) => isAdmin || isForReaders("condition", resource));
        send({ id: feed.lastId, event: "snapshot", data: { slots, pulls: [], conditions } });
      } else for (const event of missed) send(event);
      // Ends after `follow` does, and so knows whether others are left.
      using _looking = lookWhileFollowed();
      using _following = feed.follow(send);
      const heartbeat = setInterval(() => {
        if (!response.writableEnded) response.write(": still here\n\n");
      }, heartbeatMs);
      if (!left.aborted) await once(left, "abort");
      clearInterval(heartbeat);
      if (!response.writableEnded) response.end();
      return reply;
    },
  };
}

/** Providers and what the configuration says are for admins, as their routes are. */
function isForReaders(event: string, data: unknown): boolean {
  if (event === "config") return false;
  return event !== "condition" || (isRecord(data) && data["kind"] !== "Upstream");
}
