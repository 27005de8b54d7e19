import type { ApiError } from "../../api/errors.ts";
import type { KeptBody } from "./body-ring.ts";

/** Where an engine listens. */
export interface EngineEndpoint {
  readonly host: string;
  readonly port: number;
}

/** The figures of an engine's work; undefined: it did not count. */
export interface EngineFigures {
  /** By the steady clock. */
  readonly startedAt: number;
  readonly ms: number;
  readonly model: string;
  /** Undefined: a provider, whose address may be a secret. */
  readonly endpoint?: EngineEndpoint | undefined;
  readonly tokensIn: number | undefined;
  readonly tokensOut: number | undefined;
}

/** The model that one request names, and the outcome of the request. */
export class RequestRecord {
  /** `model` as the client wrote it, cut: records outlive requests, and a name may be as long as a body. */
  requestedModel = "";
  isStream = false;
  /** Types of the client's tools and items that the backend did not get, as in the answer's header. */
  leftOut = "";
  /** Undefined: bodies are not kept. */
  body: KeptBody | undefined;
  /** Milliseconds that it waited for its slot to load, and in the slot's queue. */
  heldMs = 0;
  queuedMs = 0;
  /** The end of that wait, by the steady clock. */
  waitEndedAt = 0;
  /** After its header; 0: no token of a stream has arrived. */
  firstTokenMs = 0;
  /** Undefined: no engine answered. */
  engine: EngineFigures | undefined;
}

/** A request whose answer was sent or has failed, or whose client has disconnected (499). */
export interface EndedRequest {
  /** Milliseconds of the wall clock. */
  readonly endedAt: number;
  /** As `requestIdOf` gives it. */
  readonly requestId: string;
  readonly path: string;
  readonly slot: string;
  readonly code: number;
  readonly seconds: number;
  readonly failure: ApiError | undefined;
  readonly record: RequestRecord;
}

const nameChars = 200;
let lastName = "";

/**
 * A copy: a part of a text keeps the whole text alive. The same text for the same name in a row, where it was not cut: texts that
 * are the same are compared at no cost.
 */
export function shortName(name: string): string {
  if (name !== lastName) lastName = name.length <= nameChars ? name : Buffer.from(name.slice(0, nameChars)).toString();
  return lastName;
}
