import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import type { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { ContainerView } from "../../../src/runtimes/docker/view.ts";
import { say } from "../../doubles/docker-daemon.ts";
import { until } from "../../support/until.ts";
import { daemonOf } from "./fixture.ts";

describe("the view of containers", () => {
  it("leaves no stream of events open when the list that follows it fails", async () => {
    const open = new Set<ServerResponse>();
    let tries = 0;
    await using at = await daemonOf((asked, response) => {
      if (asked !== "GET /events") return say(response, 500, { message: "no list today" });
      tries += 1;
      open.add(response);
      response.once("close", () => open.delete(response));
      response.writeHead(200).flushHeaders();
    });
    const view = viewOf(at.daemon);
    await until("several tries", () => tries >= 4);
    await until("the earlier ones are closed", () => open.size <= 1);
    assert.equal(view.isUp, false);
    await view.close();
    await until("the last one too", () => open.size === 0);
  });

  it("lists the other containers where the daemon cannot inspect one", async () => {
    await using site = await containersOf();
    const { view, known, broken } = site;
    broken.add("c1");
    for (const id of ["c1", "c2"]) known.add(id);
    await view.relist();
    assert.deepEqual(site.ids(), ["c2"]);
    await assert.rejects(view.refresh("c1"), { name: "DaemonRefusal" });
    assert.equal(view.isUp, true);
  });

  it("is unavailable, and no more, where the daemon refuses to list", async () => {
    await using site = await containersOf();
    site.isRefusing = true;
    await assert.rejects(site.view.relist(), { name: "RuntimeUnavailable", message: /no list today/ });
  });

  it("drops a container that is removed while it is inspected", async () => {
    await using site = await containersOf();
    const { view, held, known } = site;
    known.add("c1");
    site.tell("create", "c1");
    await until("it is seen", () => view.all().length === 1);
    site.isHolding = true;
    site.tell("start", "c1");
    const look = await until("it is looked at", () => held.shift());
    known.delete("c1");
    site.tell("destroy", "c1");
    await until("its end is told", () => view.all().length === 0);
    site.isHolding = false;
    // The daemon's answer from before its end comes last.
    look();
    await until("a later look has been asked for", () => site.looks >= 3);
    await until("it is gone for good", () => view.all().length === 0);
  });

  it("misses no event that arrives at the moment in which a listing ends", async () => {
    await using site = await containersOf();
    const { view, known } = site;
    known.add("c1");
    let again: Promise<void> | undefined;
    site.onSlot = () => queueMicrotask(() => void (again ??= view.refresh("c1")));
    await view.refresh("c1");
    await again;
    assert.equal(site.looks, 2);
  });

  it("closes although every inspection fails", async () => {
    await using site = await containersOf();
    const { view, held, known } = site;
    site.isHolding = true;
    known.add("c1");
    site.tell("create", "c1");
    await until("it is looked at", () => held.length > 0);
    const closed = view.close();
    await until("its events are not followed any more", () => !site.isFollowed());
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    await site.endDaemon();
    await closed;
  });

  it("reports each time that the daemon starts or stops answering", async () => {
    await using site = await containersOf();
    assert.deepEqual(site.changes, [true]);
    site.cutEvents();
    await until("it is back", () => site.changes.length === 3);
    assert.deepEqual(site.changes, [true, false, true]);
  });

  it("lists again after a list without an answer, although events arrive", async () => {
    await using site = await containersOf();
    const { view, known } = site;
    known.add("c1");
    site.isCutting = true;
    site.tell("create", "c1");
    await until("it was looked at in vain", () => site.looks > 0);
    site.isCutting = false;
    await until("it is seen", () => view.all().length === 1);
    assert.deepEqual(site.changes, [true]);
  });

  it("lists anew where an event cannot be read", async () => {
    await using site = await containersOf();
    site.known.add("c1");
    site.tell("create".padEnd(70_000), "c1");
    await until("it is seen", () => site.view.all().length === 1);
  });

  it("does not lose a container that came while a list was on its way", async () => {
    await using site = await containersOf();
    const { view, held, known } = site;
    site.isHolding = true;
    const listing = view.relist();
    const list = await until("it is listed", () => held.shift());
    site.isHolding = false;
    known.add("c1");
    site.tell("create", "c1");
    await until("it is seen", () => view.all().length === 1);
    list();
    await listing;
    assert.deepEqual(site.ids(), ["c1"]);
  });
});

/** A view of a DOUBLE of a daemon. While it holds, it has made up its answers and does not send them. */
async function containersOf() {
  await using stack = new AsyncDisposableStack();
  const site = {
    known: new Set<string>(),
    held: new Array<() => void>(),
    isHolding: false,
    isRefusing: false,
    /** Looks at single containers get no answer. */
    isCutting: false,
    /** How often a container was inspected. */
    looks: 0,
    /** The action of the subscriber at a change of a slot. */
    onSlot: (): void => undefined,
    /** Those that the daemon cannot inspect. */
    broken: new Set<string>(),
    /** Whether the view was up, each time that changed. */
    changes: new Array<boolean>(),
  };
  let events: ServerResponse | undefined;
  const { daemon, double } = stack.use(
    await daemonOf((asked, response) => {
      if (asked === "GET /events") {
        events = response.writeHead(200);
        events.flushHeaders();
        return;
      }
      if (asked === "GET /version") return say(response, 200, {});
      const id = /^GET \/containers\/(c\d+)\/json$/.exec(asked)?.[1];
      if (id === undefined && site.isRefusing) return say(response, 500, { message: "no list today" });
      if (id !== undefined) {
        site.looks += 1;
        if (site.isCutting) return void response.destroy();
        if (site.broken.has(id)) return say(response, 500, { message: "its layer is broken" });
      }
      const Labels = {
        "dev.berth.instance": "i",
        "dev.berth.slot": "primary",
        "dev.berth.role": "main",
        "dev.berth.ordinal": "0",
      };
      const list = Array.from(site.known, (Id) => ({ Id }));
      const isKnown = id === undefined || site.known.has(id);
      const send = (): void =>
        say(response, isKnown ? 200 : 404, id === undefined ? list : { Id: id, Config: { Labels } });
      if (site.isHolding) site.held.push(send);
      else send();
    }),
  );
  const onAnswering = (): void => void site.changes.push(view.isUp);
  const view: ContainerView = viewOf(daemon, { onSlot: () => site.onSlot(), onAnswering });
  stack.defer(() => view.close());
  await until("it is up", () => view.isUp);
  const owned = stack.move();
  return Object.assign(site, {
    view,
    ids: () => view.all().map(({ id }) => id),
    isFollowed: () => events?.destroyed === false,
    endDaemon: () => double[Symbol.asyncDispose](),
    cutEvents: () => void events?.destroy(),
    tell: (Action: string, ID: string) => void events?.write(`${JSON.stringify({ Action, Actor: { ID } })}\n`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  });
}

function viewOf(daemon: Daemon, how: object = {}): ContainerView {
  return new ContainerView({ daemon, instance: "i", onSlot: () => undefined, onAnswering: () => undefined, ...how });
}
