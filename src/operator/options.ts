import type { Logger } from "pino";
import type { CatalogEntry } from "../api/catalog.ts";
import type { EngineImages } from "../api/engine-images.ts";
import type { EngineHost } from "../engines/engine.ts";
import type { EnginePrint } from "./act/learning.ts";
import type { ProbeHardware } from "./observe/hardware.ts";
import type { GpuHoldings } from "./observe/memory.ts";

/** The parts that an operator gets beside its configuration. */
export interface OperatorOptions {
  readonly log: Logger;
  readonly version: string;
  readonly host: EngineHost;
  readonly probe: ProbeHardware;
  readonly holdings: GpuHoldings;
  readonly print: EnginePrint;
  readonly images: EngineImages;
  /** The curated models: some licences must be accepted before a model is fetched. */
  readonly catalog: () => Promise<readonly CatalogEntry[]>;
  /** The addresses of hubs, and their tokens. */
  readonly env: NodeJS.ProcessEnv;
  readonly isPaused: boolean;
  /** Waits while another operator leads; else that is an error. */
  readonly isStandby?: boolean;
  /** Aborting ends the wait for the first reconcile of every slot. */
  readonly signal: AbortSignal;
  /** Called once, before the first engine may be started: from then on there may be engines to end. */
  readonly onActing: () => void;
  /**
   * Another operator may use the same state directory by now, or a part of it was deleted (`deleted`: its path). This
   * operator must end, and leaves its engines to the next, which writes the state again.
   */
  readonly onLost: (deleted?: string) => void;
}
