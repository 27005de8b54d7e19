import assert from "node:assert/strict";
import pino from "pino";
import type { ModelRecord } from "../../src/api/model.ts";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { PublishedSlot, RequestKind, SlotRequest } from "../../src/api/status.ts";
import { noDevices } from "../../src/engines/placement.ts";
import { engines } from "../../src/engines/registry.ts";
import { ComputeBook } from "../../src/operator/compute.ts";
import { ConflictIndex } from "../../src/operator/conflicts.ts";
import { Controller } from "../../src/operator/controller.ts";
import { FreedMemory } from "../../src/operator/freed-memory.ts";
import { HealthBook } from "../../src/operator/health.ts";
import { MemoryBook, type GpuHoldings } from "../../src/operator/memory.ts";
import { OperatorMetrics } from "../../src/operator/metrics.ts";
import { Written } from "../../src/operator/written.ts";
import type { World } from "../../src/operator/world.ts";
import { ManualClock } from "../doubles/clock.ts";
import { RuntimeDouble } from "../doubles/runtime.ts";
import { DemandDouble, PortsDouble, PublisherDouble, RequestsDouble, SourceDouble } from "../doubles/state.ts";
import { model } from "../engines/fixture.ts";
import { epoch } from "./fixture.ts";

export const portRange = { first: 8081, last: 8088 };

/** The shortest spec that runs: a program of one's own. */
export function custom(more: SlotSpecInput = {}): SlotSpecInput {
  return { engine: "custom", command: ["serve", "$(PORT)"], model: { default: "m" }, ...more };
}

export const noContainers: World["containers"] = {
  images: {},
  devicesFor: () => noDevices,
  lock: () => ({}),
  remember: async () => undefined,
  isAnswering: () => false,
  watch: () => ({ [Symbol.dispose]: () => undefined }),
};

/**
 * A whole operator (controller, queue, reconcile) over doubles of everything outside it. The machine, the files and
 * the clock outlive operators, as they do in life: `start` makes a successor, `failAt` makes an effect of this one
 * fail, or its process end there.
 */
export class Site implements AsyncDisposable {
  readonly clock = new ManualClock(epoch.getTime());
  readonly runtime = new RuntimeDouble(this.clock);
  readonly source = new SourceDouble(() => this.clock.now());
  readonly publisher = new PublisherDouble();
  readonly demand = new DemandDouble(this.publisher, this.clock);
  readonly requests = new RequestsDouble();
  readonly models = new Map<string, ModelRecord>();
  readonly log: string[] = [];
  /** Unless a test gives another, no container engine answers. */
  containers: World["containers"] = noContainers;
  /** What processes hold on GPUs. */
  holdings: Awaited<ReturnType<GpuHoldings>> = [];
  /** What engines have said since they were started, by slot. */
  readonly said = new Map<string, string>();
  #controller: Controller | undefined;
  #onModels: () => void = () => undefined;
  #fault: { left: number; isDeath: boolean } | undefined;
  #isDead = false;
  #asking = 0;
  #token = 0;

  constructor() {
    for (const ref of ["m", "tiny", "big", "ranker"]) this.setModel(ref);
  }

  get controller(): Controller {
    assert.ok(this.#controller !== undefined, "no operator runs");
    return this.#controller;
  }

  /** Starts an operator, as the one after whatever ran before. */
  async start(options: { isPaused?: boolean } = {}): Promise<void> {
    await this.#controller?.[Symbol.asyncDispose]();
    this.#isDead = false;
    this.#fault = undefined;
    const ports = new PortsDouble(portRange.first, portRange.last, this.runtime.strangers);
    for (const slot of await this.runtime.list()) {
      for (const { role, port } of await this.runtime.observe(slot)) ports.reserve(slot, role, port);
    }
    const published = new Map([...this.publisher.slots].map(([name, slot]) => [name, structuredClone(slot)]));
    const records: { current: ReadonlyMap<string, ModelRecord> } = { current: new Map() };
    const publisher = this.#guarded(this.publisher, ["writeSlot", "deleteSlot"]);
    const log = pino({ level: "info" }, { write: (line) => void this.log.push(line) });
    const world: World = {
      source: this.source,
      publisher,
      written: new Written(publisher, log),
      demand: this.demand,
      requests: this.#guarded(this.requests, ["remove"]),
      runtime: this.#guarded(this.runtime, ["ensure", "remove"]),
      ports,
      engines,
      host: { llamaServer: "/opt/llama-server", embedded: undefined },
      health: new HealthBook(
        async (probe) => {
          this.#asking += 1;
          try {
            return await this.runtime.probe(probe);
          } finally {
            this.#asking -= 1;
          }
        },
        () => this.clock.elapsedMs(),
      ),
      memory: new MemoryBook(async () => this.holdings, published),
      compute: new ComputeBook(async ({ slot }) => this.said.get(slot) ?? ""),
      conflicts: new ConflictIndex(),
      clock: this.clock,
      backoff: { firstMs: 1000, limitMs: 300_000, random: () => 0.5 },
      cores: 4,
      defaultRuntime: "auto",
      freed: new FreedMemory(published.values()),
      models: () => records.current,
      published,
      containers: this.containers,
    };
    this.#controller = new Controller({
      world,
      models: records,
      registry: {
        records: async () => [...this.models.values()],
        watch: (onChange) => {
          this.#onModels = onChange;
          return { [Symbol.dispose]: () => undefined };
        },
        [Symbol.asyncDispose]: async () => undefined,
      },
      log,
      metrics: (queue) => new OperatorMetrics(queue),
      isPaused: options.isPaused ?? false,
    });
    await this.#controller.start();
    await this.settle();
  }

  /** The effect after `effects` more fails; with `isDeath` the operator does nothing from there on. */
  failAt(effects: number, isDeath: boolean): void {
    this.#fault = { left: effects, isDeath };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Lets everything happen that needs no time. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 2; quiet = this.#asking === 0 ? quiet + 1 : 0) {
      await this.controller.queue.settled();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Some turns of the event loop, whatever is still under way. */
  async turn(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async advance(seconds: number): Promise<void> {
    const end = this.clock.now().getTime() + Math.round(seconds * 1000);
    do await this.settle();
    while (this.clock.step(end));
    await this.settle();
  }

  setModel(ref: string, more: Partial<ModelRecord> = {}): void {
    const path = `/models/${ref}.gguf`;
    const record = model({ ref, path, files: [path], source: `file://${path}`, fingerprint: "1:1", ...more });
    this.models.set(ref, record);
    this.#onModels();
  }

  async request(slot: string, kind: RequestKind, more: Partial<SlotRequest> = {}): Promise<string> {
    const token = `t${++this.#token}`;
    const specHash = this.source.get("Slot", slot)?.specHash ?? "";
    const requestedAt = this.clock.now().toISOString();
    await this.requests.put({ schema: 1, slot, kind, token, specHash, requestedAt, ...more });
    return token;
  }

  slot(name: string): PublishedSlot {
    const found = this.publisher.slots.get(name);
    assert.ok(found !== undefined, `${name} is not published`);
    return found;
  }

  state(name: string): string {
    return this.slot(name).status.state;
  }

  condition(name: string, type: string): string | undefined {
    const found = this.publisher.slots.get(name)?.status.conditions.find((condition) => condition.type === type);
    return found === undefined ? undefined : `${found.status}/${found.reason}`;
  }

  /** What was done to engines, in words. */
  deeds(slot: string): string[] {
    return this.runtime.deeds.filter((deed) => deed.slot === slot).map(({ did, role }) => `${did} ${role}`);
  }

  states(slot: string): string[] {
    return this.slot(slot).status.transitions.map(({ to }) => to);
  }

  /** Everything that no sequence of events may bring about. */
  problems(): readonly string[] {
    const errors = this.log.filter((line) => line.includes('"level":50') && !line.includes("told to fail"));
    return [...this.publisher.problems, ...this.runtime.violations, ...errors];
  }

  async end(): Promise<void> {
    await this.#controller?.[Symbol.asyncDispose]();
  }

  /** Ends the operator; throws when a rule was broken. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    assert.deepEqual(this.problems(), []);
  }

  #effect(): void {
    if (this.#isDead) throw new Error("told to fail: this operator is dead");
    if (this.#fault === undefined || this.#fault.left-- > 0) return;
    this.#isDead = this.#fault.isDeath;
    this.#fault = undefined;
    throw new Error("told to fail");
  }

  /** The same thing, of which some methods are effects that may be told to fail before they do anything. */
  #guarded<T extends object>(target: T, effects: readonly string[]): T {
    const effect = (): void => this.#effect();
    return new Proxy(target, {
      get(of, key) {
        const value: unknown = Reflect.get(of, key, of);
        if (typeof value !== "function") return value;
        const isEffect = typeof key === "string" && effects.includes(key);
        return (...args: readonly unknown[]): unknown => {
          if (isEffect) effect();
          const done: unknown = Reflect.apply(value, of, args);
          return done;
        };
      },
    });
  }
}
