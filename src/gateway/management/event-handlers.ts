import { randomBytes } from "node:crypto";
import { isRecord } from "../../lib/record.ts";
import { slotsInOrder } from "../routing/index.ts";
import type { Resource } from "./resource-index.ts";
import type { Handlers } from "./api-server.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { ChangeFeed, eventText, type FeedEvent } from "./change-feed.ts";
import { mayAdminister, viewOf, type ManagementContext } from "./context.ts";
import { openEvents, stayOpen } from "./event-response.ts";
import { groupViews } from "./group-handlers.ts";
import { pullViews } from "./pull-handlers.ts";
import { upstreamViews } from "./upstream-views.ts";
import { slotView, steadyView } from "./views.ts";

/** Serving and idle are found by the gateways: they are checked at this interval while a client follows. */
const pollMs = 500;
/** A reader that is further behind loses events, and gets a new snapshot. */
const behindLimitBytes = 1024 * 1024;
/** How long it may take to read its buffer before it is disconnected. */
const resyncTimeoutMs = 5000;

/** A slot, model, provider or group whose changes are events. */
interface Item {
  /** The fields that distinguish the item from others, and that the event of its removal has. */
  readonly id: Readonly<Record<string, string>>;
  readonly data: object;
}

interface Snapshot {
  /** The last change that the snapshot has. */
  readonly id: string;
  readonly madeAtMs: number;
  readonly bytes: Buffer;
}

/** `GET /api/events`: a snapshot, then every change, as long as the client stays. */
export function eventHandlers(context: ManagementContext): Pick<Handlers, "events"> & Disposable {
  const feed = new ChangeFeed(randomBytes(4).toString("hex"));
  const problems = (): readonly unknown[] => context.operator()?.problems ?? [];
  let resources: readonly Resource[] = [];
  /** The published items of each event, by key. */
  const known = new Map<string, ReadonlyMap<string, Item>>();
  const publishAll = (event: string, items: readonly Item[]): void => {
    const now = new Map(items.map((item) => [`${event} ${Object.values(item.id).join(" ")}`, item]));
    for (const [key, { data }] of now) feed.publish(event, key, data);
    for (const [key, { id }] of known.get(event) ?? [])
      if (!now.has(key)) feed.forget(event, key, { ...id, removed: true });
    known.set(event, now);
  };
  let [toldStep, wasQuiet] = [context.history.count, true];
  /** The last step of the traffic; of several quiet ones the first alone, which ends what is drawn. */
  const publishTraffic = (): void => {
    if (context.history.count === toldStep) return;
    toldStep = context.history.count;
    const last = context.history.last();
    const isQuiet = last.series.length === 0;
    if (!(isQuiet && wasQuiet)) feed.publish("traffic", ":traffic", last);
    wasQuiet = isQuiet;
  };
  let polledAtMs = -Infinity;
  const poll = (): void => {
    polledAtMs = steadyNow();
    const view = viewOf(context);
    // Values that change continuously are no event.
    const slots = [...view.index.slots.values()].map((slot) => ({
      id: { name: slot.name },
      data: steadyView(slot, view),
    }));
    resources = [...context.resources.others()];
    publishAll("slot", slots);
    publishAll(
      "condition",
      resources.map((data) => ({ id: { kind: data.kind, name: data.name }, data })),
    );
    publishAll(
      "pull",
      pullViews(context).map((data) => ({ id: { id: data.id }, data })),
    );
    publishAll(
      "group",
      groupViews(context).map((data) => ({ id: { name: data.name }, data })),
    );
    publishAll(
      "model",
      [...view.index.models.values()].map(({ ref, state }) => ({ id: { ref }, data: { ref, state } })),
    );
    publishAll(
      "upstream",
      upstreamViews(context).map(({ name, circuit, models, in_flight, queued }) => ({
        id: { name },
        data: { name, circuit, models, in_flight, queued },
      })),
    );
    feed.publish("config", ":config", { problems: problems() });
    publishTraffic();
    const reading = context.readings?.latest();
    if (reading !== undefined) feed.publish("machine", ":machine", reading);
  };
  const watching = context.watch(() => {
    if (feed.readers > 0) poll();
    else polledAtMs = -Infinity;
  });
  const snapshots = new Map<"admin" | "reader", Snapshot>();
  /** One snapshot serves all readers that connect before the next change, or within `pollMs`: its figures move. */
  const snapshotFor = (reader: "admin" | "reader"): Snapshot => {
    const known = snapshots.get(reader);
    if (known?.id === feed.lastId && steadyNow() - known.madeAtMs < pollMs) return known;
    const view = viewOf(context);
    const slots = slotsInOrder(view.index).map((slot) => slotView(slot, view));
    const conditions = resources.filter((each) => reader === "admin" || isForReaders("condition", each));
    const data = { slots, pulls: pullViews(context), groups: groupViews(context), conditions };
    const bytes = Buffer.from(eventText(feed.lastId, "snapshot", JSON.stringify(data)));
    const made = { id: feed.lastId, madeAtMs: steadyNow(), bytes };
    snapshots.set(reader, made);
    return made;
  };
  let timer: NodeJS.Timeout | undefined;
  /** A gateway without followers needs no timer. */
  const pollWhileFollowed = (): void => {
    timer ??= setInterval(() => {
      if (feed.readers > 0) {
        poll();
        return;
      }
      clearInterval(timer);
      timer = undefined;
      snapshots.clear();
    }, pollMs).unref();
  };
  return {
    [Symbol.dispose]() {
      watching[Symbol.dispose]();
      clearInterval(timer);
    },
    async events({ request, reply }) {
      const isAdmin = mayAdminister(request);
      const stream = openEvents(reply, context);
      const { response, left } = stream;
      if (left.aborted) return reply;
      const send = ({ event, data, text }: FeedEvent): void => {
        if (response.writableEnded || !(isAdmin || isForReaders(event, data))) return;
        if (response.writableLength <= behindLimitBytes) {
          response.write(text);
          return;
        }
        response.end("event: resync\ndata: {}\n\n");
        const timeout = setTimeout(() => response.destroy(), resyncTimeoutMs);
        response.once("close", () => clearTimeout(timeout));
      };
      if (steadyNow() - polledAtMs >= pollMs) poll();
      const lastSeen = request.headers["last-event-id"];
      const missed = typeof lastSeen === "string" ? feed.since(lastSeen) : undefined;
      if (missed === undefined) {
        response.write(snapshotFor(isAdmin ? "admin" : "reader").bytes);
        // The snapshot has none of them, since it goes to readers too.
        if (isAdmin && problems().length > 0)
          response.write(eventText(feed.lastId, "config", JSON.stringify({ problems: problems() })));
      } else for (const event of missed) send(event);
      pollWhileFollowed();
      using _following = feed.follow(send);
      await stayOpen(stream);
      return reply;
    },
  };
}

/** Providers and configuration are for admins, as their routes are. */
function isForReaders(event: string, data: unknown): boolean {
  if (event === "config" || event === "upstream") return false;
  return event !== "condition" || (isRecord(data) && data["kind"] !== "Upstream");
}
