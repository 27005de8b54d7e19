import type { RemoteShapes } from "../../models/fetch/remote-shapes.ts";
import { engineEstimate } from "../../models/fit/engine-figures.ts";
import type { FitFigureFile } from "../../store/state/fit-figures.ts";
import { FailureMemory } from "./failure-memory.ts";
import type { SlotInput } from "../plan/input.ts";
import type { DeviceFacts, Learned, PrintedLaunch } from "../plan/learning.ts";

/**
 * The output of an engine's own allocator for a launch line, without loading anything; undefined: there is no such
 * program.
 */
export type EnginePrint = (
  server: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) => Promise<string | undefined>;

export interface LearningOptions {
  readonly figures: Pick<FitFigureFile, "put">;
  /** The devices as of now, above all the free memory of GPUs. */
  readonly probeNow: () => Promise<DeviceFacts>;
  readonly print: EnginePrint;
  readonly remote: Pick<RemoteShapes, "read">;
  /** Begins to measure the memory of processes. */
  readonly measureProcesses: () => void;
  readonly onError: (error: unknown) => void;
}

/** Carries out the steps that change nothing but what is known of the memory that slots need. */
export class Learning {
  readonly #options: LearningOptions;
  readonly #failures = new FailureMemory();

  constructor(options: LearningOptions) {
    this.#options = options;
  }

  /** Learns what the input lacks, beside what was learned before. Never rejects: without a figure nothing is refused. */
  async learn(
    { name, now, unlearned = [] }: Pick<SlotInput, "name" | "now" | "unlearned">,
    before: Learned,
  ): Promise<Learned> {
    const { figures, remote, measureProcesses } = this.#options;
    let learned = before;
    for (const fact of unlearned) {
      switch (fact.do) {
        case "measure":
          if (fact.of === "processes") measureProcesses();
          else learned = { ...learned, devices: await this.#devices() };
          break;
        case "readHeader":
          remote.read(fact.model, name);
          break;
        case "estimate": {
          const { key, program, launches } = fact;
          const engine = await this.#failures.unlessFailed(key, now, () => this.#print(program, launches));
          if (engine !== undefined) figures.put(key, { engine }, now);
          // The devices were measured before the program ran, which takes seconds: another slot may have taken memory since.
          learned = { estimates: new Map([...learned.estimates, [key, engine]]) };
          break;
        }
        case "record":
          figures.put(fact.key, { measured: fact.measured }, now);
          break;
        default:
          fact satisfies never;
      }
    }
    return learned;
  }

  async #devices(): Promise<NonNullable<Learned["devices"]>> {
    try {
      return await this.#options.probeNow();
    } catch (error) {
      this.#options.onError(error);
      return "unknown";
    }
  }

  /** Undefined where a figure is missing for one of the processes: together they are then unknown. */
  async #print(program: string, launches: readonly PrintedLaunch[]): Promise<string[] | undefined> {
    try {
      const texts: string[] = [];
      for (const { args, env, shape, settings } of launches) {
        const text = await this.#options.print(program, args, env);
        if (text === undefined || engineEstimate(text, shape, settings) === undefined) return undefined;
        texts.push(text);
      }
      return texts;
    } catch (error) {
      this.#options.onError(error);
      return undefined;
    }
  }
}
