import assert from "node:assert/strict";
import pino from "pino";
import type { ModelRecord } from "../../src/api/model.ts";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { PublishedSlot, RequestKind, SlotRequest } from "../../src/api/status.ts";
import { noDevices } from "../../src/engines/placement.ts";
import { engines } from "../../src/engines/registry.ts";
import { Learning } from "../../src/operator/act/learning.ts";
import { ComputeRecords } from "../../src/operator/observe/compute.ts";
import { ConflictIndex } from "../../src/operator/observe/conflicts.ts";
import { Controller } from "../../src/operator/controller.ts";
import { FreedMemory } from "../../src/operator/observe/freed-memory.ts";
import { StartingMemory } from "../../src/operator/observe/starting-memory.ts";
import { GroupLedger } from "../../src/operator/groups/ledger.ts";
import { HealthRecords } from "../../src/operator/observe/health.ts";
import { MemoryRecords, type GpuHoldings } from "../../src/operator/observe/memory.ts";
import { OperatorMetrics } from "../../src/operator/report/metrics.ts";
import { SlotMemories } from "../../src/operator/slot-memory.ts";
import { PublishedWriter } from "../../src/operator/report/written.ts";
import type { Dependencies } from "../../src/operator/dependencies.ts";
import type { Probe } from "../../src/operator/observe/probe.ts";
import type { DeviceFacts } from "../../src/operator/plan/learning.ts";
import type { Runtimes } from "../../src/runtimes/runtime.ts";
import { sets } from "../../src/store/sets.ts";
import { groupStore } from "../../src/store/state/groups.ts";
import { requestStore } from "../../src/store/state/requests.ts";
import { ManualClock } from "../doubles/clock.ts";
import { RuntimeDouble } from "../doubles/runtime.ts";
import { DemandDouble, PortsDouble, PublisherDouble, SetDouble, SourceDouble } from "../doubles/state.ts";
import { model } from "../engines/fixture.ts";
import { pcFacts } from "../hardware/tree.ts";
import { epoch } from "./fixture.ts";

export const portRange = { first: 8081, last: 8088 };

/** The shortest spec that runs: a program of one's own. */
export function custom(more: SlotSpecInput = {}): SlotSpecInput {
  return { engine: "custom", command: ["serve", "$(PORT)"], model: { default: "m" }, ...more };
}

export const noDevicesHere: Dependencies["machine"] = {
  devicesFor: () => noDevices,
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
  readonly requests = requestStore(new SetDouble(sets.slotRequests));
  readonly groupStore = groupStore(new SetDouble(sets.loans), new SetDouble(sets.groups));
  readonly models = new Map<string, ModelRecord>();
  readonly log: string[] = [];
  machine: Dependencies["machine"] = noDevicesHere;
  fit: Dependencies["fit"] = { estimate: async () => ({}), beforeFetch: (_input, unprepared) => unprepared };
  /** What was done to learn what decisions depend on, in order. */
  readonly learned: string[] = [];
  /** The files of models have been read. */
  reading: Promise<void> = Promise.resolve();
  /** What is asked of whoever fetches models; by default nothing can be fetched. */
  pulls: Dependencies["pulls"] = {
    preparation: async ({ ref }) => ({ state: "absent", message: `${ref} is absent` }),
    join: async () => "there",
    keepOnly: async () => undefined,
    list: () => [],
  };
  shippedImages: Dependencies["images"]["shipped"] = {};
  /** Digests that were noted, by image. */
  readonly lock: Record<string, string> = {};
  /** Unless a test gives others, the double alone. */
  runtimes: Runtimes = this.runtime;
  /** What engines save and read of their contexts; by default nothing. */
  contexts: Dependencies["contexts"] = {
    latest: () => undefined,
    prepared: async (workload) => workload,
    refused: async (workload) => workload,
    ended: async () => undefined,
    save: async () => 0,
    restore: async () => undefined,
    left: async () => undefined,
    forget: async () => undefined,
    sweep: async () => undefined,
  };
  /** Who answers probes. */
  probes: Probe = (probe) => this.runtime.probe(probe);
  /** What a probe finds of devices. */
  devices: DeviceFacts = pcFacts;
  probeDevices: () => Promise<DeviceFacts> = async () => this.devices;
  /** What processes hold on GPUs. */
  holdings: Awaited<ReturnType<GpuHoldings>> = [];
  /** What engines have said since they were started, by slot. */
  readonly said = new Map<string, string>();
  /** Leases of the operator that runs. */
  ports = new PortsDouble(portRange.first, portRange.last, this.runtime.strangers);
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
  async start({ isPaused = false } = {}): Promise<void> {
    await this.#controller?.[Symbol.asyncDispose]();
    this.#isDead = false;
    this.#fault = undefined;
    this.ports = new PortsDouble(portRange.first, portRange.last, this.runtime.strangers);
    const { ports } = this;
    for (const slot of await this.runtime.list()) {
      for (const process of await this.runtime.observe(slot)) ports.reserve(process, process.port);
    }
    const published = new Map([...this.publisher.slots].map(([name, slot]) => [name, structuredClone(slot)]));
    const records: { current: ReadonlyMap<string, ModelRecord> } = { current: new Map() };
    const publisher = this.#guarded(this.publisher, ["writeSlot", "deleteSlot"]);
    const log = pino({ level: "info" }, { write: (line) => void this.log.push(line) });
    const memories = new SlotMemories();
    const memory = new MemoryRecords(
      async () => this.holdings,
      published,
      ({ pid }, other) => pid === other,
      memories,
    );
    const dependencies: Dependencies = {
      source: this.source,
      publisher,
      written: new PublishedWriter(publisher, log),
      demand: this.demand,
      requests: this.#guarded(this.requests, ["remove"]),
      runtime: this.#guarded(this.runtimes, ["ensure", "remove"]),
      ports,
      engines,
      host: { llamaServer: "/opt/llama-server", embedded: undefined },
      health: new HealthRecords(
        async (probe) => {
          this.#asking += 1;
          try {
            return await this.probes(probe);
          } finally {
            this.#asking -= 1;
          }
        },
        memories,
        this.clock,
      ),
      memory,
      fit: this.fit,
      learning: new Learning({
        figures: { put: (key, more) => this.learned.push(`put ${key}: ${Object.keys(more).join()}`) },
        probeNow: async () => {
          this.learned.push("probe");
          return await this.probeDevices();
        },
        print: async (program) => void this.learned.push(`print ${program}`),
        remote: { read: ({ ref }) => this.learned.push(`read ${ref}`) },
        measureProcesses: () => {
          this.learned.push("measure");
          void memory.measure();
        },
        onError: (error) => this.learned.push(String(error)),
      }),
      contexts: this.contexts,
      compute: new ComputeRecords(async ({ slot }) => this.said.get(slot) ?? "", memories),
      conflicts: new ConflictIndex(),
      clock: this.clock,
      backoff: { firstMs: 1000, limitMs: 300_000, random: () => 0.5 },
      cores: 4,
      defaultRuntime: "auto",
      freed: new FreedMemory(published.values()),
      starting: new StartingMemory(published, memories, () => this.machine.facts?.()),
      pulls: this.pulls,
      models: () => records.current,
      published,
      memories,
      groups: new GroupLedger(memories, this.groupStore.published(), this.clock.now(), this.clock.elapsedMs()),
      groupStore: this.groupStore,
      machine: this.machine,
      images: {
        shipped: this.shippedImages,
        lock: () => this.lock,
        record: async (image, digest) => void (this.lock[image] = digest),
      },
    };
    this.#controller = new Controller({
      dependencies,
      models: records,
      registry: {
        records: async () => {
          await this.reading;
          return [...this.models.values()];
        },
        watch: (onChange) => {
          this.#onModels = onChange;
          return { [Symbol.dispose]: () => undefined };
        },
        [Symbol.asyncDispose]: async () => undefined,
      },
      beat: async () => undefined,
      log,
      metrics: (queue) => new OperatorMetrics(queue),
      isPaused,
    });
    await this.#controller.start();
    await this.settle();
  }

  /** Declares those slots, starts an operator, and lets it run for `seconds`. */
  async run(slots: Readonly<Record<string, SlotSpecInput>>, seconds = 5): Promise<this> {
    for (const [name, spec] of Object.entries(slots)) this.source.save(name, spec);
    await this.start();
    await this.advance(seconds);
    return this;
  }

  /** Clients ask for that slot now. */
  ask(slot: string, demand: Parameters<DemandDouble["set"]>[1] = {}): void {
    this.demand.set(slot, { ...demand, lastRequestAt: this.clock.now().toISOString() });
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

  /** Lets that time go by. Then the slot must be in that state, and all that was done to its engines is `deeds`. */
  async after(seconds: number, slot: string, state: string, deeds?: readonly string[]): Promise<void> {
    await this.advance(seconds);
    assert.equal(this.state(slot), state, `${slot} after ${seconds} s`);
    if (deeds !== undefined) assert.deepEqual(this.deeds(slot), deeds, `${slot} after ${seconds} s`);
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
    return this.runtime.deeds.filter((deed) => deed.slot === slot).map(({ did, process }) => `${did} ${process}`);
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
