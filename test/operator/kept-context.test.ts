import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { KeptContext } from "../../src/api/kept-context.ts";
import { errorMessage } from "../../src/lib/error-code.ts";
import { NoContextPlace } from "../../src/runtimes/start-failure.ts";
import { epoch } from "./fixture.ts";
import { Site } from "./site.ts";

const keeping: SlotSpecInput = { model: { default: "m", keepContext: {} } };

/** What is done to contexts and engines, in one list. */
class Keeping extends Site {
  readonly order: string[] = [];
  saveMs = 0;
  latestContext: KeptContext | undefined;

  constructor() {
    super();
    this.contexts = {
      ...this.contexts,
      latest: () => this.latestContext,
      save: async ({ hash }) => (this.order.push(`save ${hash}`), this.saveMs),
      restore: async ({ slot }) => void this.order.push(`restore, ${this.state(slot)}`),
      left: async () => void this.order.push("left"),
      forget: async (slot) => void this.order.push(`forget ${slot}`),
      sweep: async () => undefined,
    };
  }

  override deeds(slot: string): string[] {
    return this.runtime.deeds.filter((deed) => deed.slot === slot).map(({ did }) => did);
  }
}

test("an engine saves its context before it is stopped, and the next engine reads it before it is ready", async () => {
  await using site = new Keeping();
  await site.run({ primary: keeping }, 2);
  assert.equal(site.state("primary"), "ready");
  assert.deepEqual(site.order, ["restore, warming"]);
  const { hash } = site.runtime.deeds.at(-1) ?? {};
  await site.request("primary", "swap-model", { model: "big", specModel: "m" });
  await site.advance(5);
  assert.equal(site.slot("primary").status.model.ref, "big");
  assert.deepEqual(site.order, ["restore, warming", `save ${hash}`, "left", "restore, warming"]);
  assert.deepEqual(site.deeds("primary"), ["start", "stop", "start"]);
});

test("an engine starts without its place for contexts where the container engine cannot mount that", async () => {
  await using site = new Keeping();
  const started: string[] = [];
  const start = site.runtime.ensure.bind(site.runtime);
  site.runtime.ensure = async (workload) => {
    started.push(workload.command.join(" "));
    if (workload.command.includes("--place")) throw new NoContextPlace("no such directory");
    await start(workload);
  };
  site.contexts = {
    ...site.contexts,
    prepared: async (workload) => ({ ...workload, command: ["/bin/engine", "--place"] }),
    refused: async (workload, error) => {
      site.order.push(`refused: ${errorMessage(error)}`);
      return { ...workload, command: ["/bin/engine"] };
    },
  };
  await site.run({ primary: keeping }, 2);
  assert.equal(site.state("primary"), "ready");
  assert.deepEqual(started, ["/bin/engine --place", "/bin/engine"]);
  assert.equal(site.order[0], "refused: no such directory");
  assert.equal(site.slot("primary").status.restarts, 0);
});

test("an engine that ended by itself is asked for its reasons before the next one starts", async () => {
  await using site = new Keeping();
  site.contexts = {
    ...site.contexts,
    prepared: async (workload) => (site.order.push("prepared"), workload),
    ended: async ({ phase }) => void site.order.push(`ended: ${phase}`),
  };
  site.runtime.manner("primary").crashAfterMs = 1;
  await site.run({ primary: keeping }, 20);
  assert.deepEqual(site.order.slice(0, 3), ["prepared", "ended: exited", "prepared"]);
});

test("nothing is saved of a slot that is deleted, that keeps no context, or whose engine is not well", async () => {
  await using site = new Keeping();
  await site.run({ gone: keeping, plain: { model: { default: "m" } }, ill: keeping }, 2);
  site.order.length = 0;
  site.source.delete("gone");
  await site.request("plain", "unload");
  site.runtime.manner("ill").probe = "failing";
  await site.advance(30);
  assert.equal(site.publisher.slots.get("gone"), undefined);
  assert.deepEqual(
    site.order.filter((done) => done.startsWith("save")),
    [],
  );
  assert.ok(site.order.includes("forget gone"));
});

test("saved contexts are deleted with the setting, and with the manifest of a built-in slot", async () => {
  await using site = new Keeping();
  await site.run({ primary: keeping }, 2);
  site.latestContext = { at: epoch.toISOString(), result: "saved", message: "500 tokens", tokens: 500, bytes: 5 };
  await site.request("primary", "unload");
  await site.advance(2);
  assert.deepEqual(site.slot("primary").status.context, site.latestContext);
  assert.ok(!site.order.includes("forget primary"));
  site.source.delete("primary");
  await site.advance(5);
  assert.ok(site.order.includes("forget primary"), site.order.join());
  assert.equal(site.slot("primary").status.context, undefined);
});
