import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import pino from "pino";
import type { KeptContext } from "../../../src/api/kept-context.ts";
import type { ModelRecord } from "../../../src/api/model.ts";
import { completeSlot, slotSpecSchema, type SlotSpec, type SlotSpecInput } from "../../../src/api/slot.ts";
import type { Observed, Workload } from "../../../src/api/workload.ts";
import { EngineContexts } from "../../../src/operator/contexts/contexts.ts";
import type { FileOwner } from "../../../src/store/state/context-directory.ts";
import { ContextFiles } from "../../../src/store/state/context-files.ts";
import { LlamaPlaces, type Fault } from "../../doubles/llama-places.ts";
import { model } from "../../engines/fixture.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { observed, workload } from "../fixture.ts";
import { SlotMemories } from "../../../src/operator/slot-memory.ts";

interface EngineOptions extends Partial<Workload> {
  readonly spec?: SlotSpec;
  /** How the engine answers instead. */
  readonly fault?: Fault;
  readonly ref?: string;
}

/** An operator's part of it, over real files, with a llama-server double for each process. */
export class Desk implements AsyncDisposable {
  now = new Date("2026-01-01T00:00:00Z");
  boot = "boot-1";
  reserveBytes = 0;
  /** The image of containers, and the output of engines. */
  image: string | undefined;
  said = "";
  owner: FileOwner | undefined;
  readonly log: string[] = [];
  readonly models = new Map<string, ModelRecord>([
    ["tiny", model({ fingerprint: "1:1" })],
    ["big", model({ ref: "big", fingerprint: "2:2" })],
  ]);
  readonly #stack = new AsyncDisposableStack();
  contexts: EngineContexts;
  readonly stateDir: string;

  private constructor(stateDir: string) {
    this.stateDir = stateDir;
    this.contexts = this.successor();
  }

  static async open(): Promise<Desk> {
    const directory = await tempDir();
    const desk = new Desk(directory.path);
    desk.#stack.use(directory);
    return desk;
  }

  /** What the next operator makes of the same files. */
  successor(): EngineContexts {
    const log = pino({ level: "info" }, { write: (line) => void this.log.push(line) });
    return (this.contexts = new EngineContexts({
      files: new ContextFiles(this.stateDir, this.boot, async () => this.owner),
      memories: new SlotMemories(),
      clock: { now: () => this.now, elapsedMs: () => performance.now() },
      log,
      reserveBytes: this.reserveBytes,
      models: () => this.models,
      runtime: {
        preparation: async () => ({ state: "ready", ...(this.image === undefined ? {} : { program: this.image }) }),
      },
      outputOf: async () => this.said,
    }));
  }

  /** Starts an engine, which has read `tokens` at each place since. */
  async start(
    tokens: number[],
    { ref = "tiny", ...more }: Omit<EngineOptions, "spec" | "fault"> = {},
  ): Promise<{ engine: LlamaPlaces; process: Observed; started: Workload }> {
    const directory = this.directory(more.ordinal);
    const given = workload({
      command: ["/bin/sh", "--port", "8081", "--slot-save-path", directory, "--model", `/${ref}`],
      hash: ref,
      contextPlace: { source: directory, target: directory },
      ...more,
    });
    const started = await this.contexts.prepared(given, ref);
    const engine = this.#stack.use(await LlamaPlaces.start(directory, tokens));
    const { hash, ordinal } = given;
    return { engine, started, process: observed({ port: engine.port, hash, ordinal, bearer: "secret" }) };
  }

  /** An engine with these tokens at its places saves them. */
  async save(tokens: number[], { spec = keeping(), fault, ...more }: EngineOptions = {}): Promise<LlamaPlaces> {
    const { engine, process } = await this.start(tokens, more);
    engine.saveFault = fault;
    await this.contexts.save(process, spec, 10_000);
    return engine;
  }

  /** A new engine with empty places reads what was saved. */
  async restore({ spec = keeping(), fault, ...more }: EngineOptions = {}): Promise<LlamaPlaces> {
    const { engine, process } = await this.start([0, 0, 0, 0], more);
    engine.restoreFault = fault;
    await this.contexts.restore(process, spec, never);
    return engine;
  }

  get latest(): KeptContext | undefined {
    return this.contexts.latest("primary");
  }

  pass(seconds: number): void {
    this.now = new Date(this.now.getTime() + seconds * 1000);
  }

  /** The access mode of paths in the directory of the state. */
  async modes(...paths: readonly string[]): Promise<readonly string[]> {
    const found = await Promise.all(paths.map(async (path) => await stat(join(this.stateDir, path))));
    return found.map(({ mode }) => (mode & 0o777).toString(8));
  }

  directory(ordinal = 0): string {
    return join(this.stateDir, "contexts/primary", ordinal === 0 ? "main" : `main-${ordinal}`);
  }

  async files(ordinal = 0): Promise<readonly string[]> {
    const names: readonly string[] = await readdir(this.directory(ordinal)).catch(() => []);
    return names.toSorted();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** A slot that keeps its context. */
export function keeping(
  keepContext: Partial<{ maxBytes: number; maxAgeSeconds: number }> = {},
  more: SlotSpecInput = {},
): SlotSpec {
  return completeSlot("primary", slotSpecSchema.parse({ model: { default: "tiny", keepContext }, ...more }));
}

export const never = new AbortController().signal;
