import type { EngineProtocol, SlotCapability } from "../../api/names.ts";
import type { ProcessRef } from "../../api/process-ref.ts";
import type { SlotInput } from "../plan/input.ts";

/** The result of acting, beyond the input of the decision. */
export interface Outcome {
  /** A new observation when a process was started or stopped; else that of the input. */
  readonly observed: SlotInput["observed"];
  readonly health: SlotInput["health"];
  /** Names of processes that are being stopped, or get no further requests. */
  readonly stopping: readonly string[];
  /** The stopping processes that gateways must drain first. */
  readonly draining: readonly string[];
  /** Processes started now. */
  readonly started: readonly ProcessRef[];
  readonly capabilities: readonly SlotCapability[];
  readonly protocols: readonly EngineProtocol[];
  readonly served: string | undefined;
  readonly handledRequests: Readonly<Record<string, string>>;
}
