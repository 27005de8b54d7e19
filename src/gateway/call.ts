import type { ServerResponse } from "node:http";
import type { Answer } from "./relay/answer.ts";
import type { StreamHold } from "./stream-hold.ts";
import type { V1Route } from "./v1/route.ts";

/** Who asks, as far as queues and shared streams care. */
export interface Asker {
  /** Requests of one client stand in line behind each other. */
  readonly client: string;
  /** Streams are shared only among those with the same rights. */
  readonly scope: string;
}

export const nobody: Asker = { client: "", scope: "" };

/** One client's request, from its header to the end of its answer. */
export interface Call {
  readonly route: V1Route;
  readonly response: ServerResponse;
  readonly requestId: string;
  asker: Asker;
  readonly answer: Answer;
  readonly began: number;
  slot: string;
  hold: StreamHold | undefined;
  /**
   * Ends what is done for this client alone. An object, made at once: whatever hangs on a function that is assigned
   * to a field outlives V8's young collections (docs/performance.md), here every request with its body.
   */
  work: Work | undefined;
}

/** What is done for a client, and can be given up. */
interface Work {
  abandon(): void;
}
