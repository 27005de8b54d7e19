import { randomBytes } from "node:crypto";
import { resourceKey } from "../../api/resource-status.ts";
import { isRecord } from "../../lib/record.ts";
import { slotsInOrder } from "../routing/index.ts";
import type { Resource } from "./resource-index.ts";
import type { Handlers } from "./api-server.ts";
import { ChangeFeed, type FeedEvent } from "./change-feed.ts";
import { mayAdminister, viewOf, type ManagementContext } from "./context.ts";
import { openEvents, stayOpen } from "./event-response.ts";
import { groupViews } from "./group-handlers.ts";
import { pullViews } from "./pull-handlers.ts";
import { slotView } from "./views.ts";

/** Serving and idle are found by the gateways: they are checked at this interval while a client follows. */
const pollMs = 500;
/** A reader that is further behind loses events, and gets a new snapshot. */
const behindLimitBytes = 1024 * 1024;
/** How long it may take to read its buffer before it is disconnected. */
const resyncPatienceMs = 5000;

/** `GET /api/events`: a snapshot, then every change, as long as the client stays. */
export function eventHandlers(context: ManagementContext): Pick<Handlers, "events"> & Disposable {
  const feed = new ChangeFeed(randomBytes(4).toString("hex"));
  let known: readonly string[] = [];
  let knownGroups: readonly string[] = [];
  let knownPulls: readonly string[] = [];
  const problems = (): readonly unknown[] => context.operator()?.problems ?? [];
  const poll = (): void => {
    const view = viewOf(context);
    for (const slot of view.index.slots.values()) {
      // Values that change continuously are no event.
      const { uptime_seconds: _up, memory_bytes: _memory, ...data } = slotView(slot, view);
      feed.publish("slot", slot.name, data);
    }
    for (const name of known) if (!view.index.slots.has(name)) feed.forget("slot", name, { name, removed: true });
    known = [...view.index.slots.keys()];
    publishResources();
    const pulls = pullViews(context);
    for (const pull of pulls) feed.publish("pull", `:pull ${pull.id}`, pull);
    for (const id of knownPulls) {
      if (!pulls.some((pull) => pull.id === id)) feed.forget("pull", `:pull ${id}`, { id, removed: true });
    }
    knownPulls = pulls.map(({ id }) => id);
    const groups = groupViews(context);
    for (const group of groups) feed.publish("group", `:group ${group.name}`, group);
    for (const name of knownGroups) {
      if (!groups.some((group) => group.name === name)) feed.forget("group", `:group ${name}`, { name, removed: true });
    }
    knownGroups = groups.map(({ name }) => name);
    feed.publish("config", ":config", { problems: problems() });
  };
  let published: ReadonlyMap<string, Resource> = new Map();
  function publishResources(): void {
    const now = new Map([...context.resources.others()].map((resource) => [resourceKey(resource), resource]));
    for (const [key, resource] of now) feed.publish("condition", key, resource);
    for (const [key, { kind, name }] of published)
      if (!now.has(key)) feed.forget("condition", key, { kind, name, removed: true });
    published = now;
  }
  const pollIfFollowed = (): void => {
    if (feed.readers > 0) poll();
  };
  const watching = context.watch(pollIfFollowed);
  let timer: NodeJS.Timeout | undefined;
  /** A gateway without followers needs no timer. */
  const pollWhileFollowed = (): Disposable => {
    timer ??= setInterval(poll, pollMs).unref();
    return {
      [Symbol.dispose]() {
        if (feed.readers > 0) return;
        clearInterval(timer);
        timer = undefined;
      },
    };
  };
  return {
    [Symbol.dispose]() {
      watching[Symbol.dispose]();
      clearInterval(timer);
    },
    async events({ request, reply }) {
      const isAdmin = mayAdminister(request);
      const stream = openEvents(reply, context);
      const { response } = stream;
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
      poll();
      const lastSeen = request.headers["last-event-id"];
      const missed = typeof lastSeen === "string" ? feed.since(lastSeen) : undefined;
      if (missed === undefined) {
        const view = viewOf(context);
        const slots = slotsInOrder(view.index).map((slot) => slotView(slot, view));
        const conditions = [...published.values()].filter((resource) => isAdmin || isForReaders("condition", resource));
        send({
          id: feed.lastId,
          event: "snapshot",
          data: { slots, pulls: pullViews(context), groups: groupViews(context), conditions },
        });
        // The snapshot has none of them, since it goes to readers too.
        if (problems().length > 0) send({ id: feed.lastId, event: "config", data: { problems: problems() } });
      } else for (const event of missed) send(event);
      // Disposed after the follower's own end, and so knows whether others are left.
      using _polling = pollWhileFollowed();
      using _following = feed.follow(send);
      await stayOpen(stream);
      return reply;
    },
  };
}

/** Providers and configuration are for admins, as their routes are. */
function isForReaders(event: string, data: unknown): boolean {
  if (event === "config") return false;
  return event !== "condition" || (isRecord(data) && data["kind"] !== "Upstream");
}
