import type { IncomingMessage } from "node:http";
import type { ApiError } from "../../api/errors.ts";
import type { V1About } from "../../api/management/v1-shape.ts";
import type { SlotCapability } from "../../api/names.ts";
import type { EnginePool, Exchange, ExchangeError, ExchangeEvents, Timeouts } from "../../lib/http1/client.ts";
import type { Endpoint } from "../admission/availability.ts";
import type { BodyLimits } from "../body.ts";
import type { KnownSlot } from "../index.ts";
import type { ErrorForm } from "../relay/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import type { Wanted } from "../resolve.ts";
import type { UpstreamModel } from "../upstreams/catalog.ts";
import type { ProviderBody } from "../upstreams/provider-body.ts";

/** A `/v1` route describes itself; waiting, sending and relaying are the same for all (`../dispatch.ts`). */
export interface V1Route {
  readonly method: "GET" | "POST";
  /** Its path and its label in metrics. */
  readonly path: string;
  /** For people. */
  readonly about: V1About;
  /** Other paths for the same. */
  readonly spellings: readonly string[];
  readonly errors: ErrorForm;
  /**
   * Reads a request as far as it takes to know whom it is for; `principal` is who asks. Rejects with ApiError of the
   * `dispatch.*` family.
   */
  read(request: IncomingMessage, limits: BodyLimits, principal: string): Promise<V1Request>;
}

/** A request that knows which model it is for. */
export interface V1Request extends Wanted {
  readonly isStream: boolean;
  /** The client's body, where it is kept: what makes streams identical, and tells whose fault a refusal is. */
  readonly body: Buffer | undefined;
  /** To whom alone the answer belongs; absent: it is anybody's who asks the same with the same rights. */
  readonly owner?: string | undefined;
  /** How a slot's engine is asked. Throws ApiError. */
  forSlot(slot: KnownSlot): Leg;
  /** How a provider is asked; absent: providers do not serve this route. Throws ApiError. */
  forProvider?(model: UpstreamModel): ProviderLeg;
  /** Its body may still break while it waits or is sent; absent: all of it is here. */
  onBroken?(listener: (failure: ApiError) => void): void;
  /** It is over. */
  discard?(): void;
}

/** The way to an engine and back. */
export interface Leg {
  readonly capability: SlotCapability;
  readonly format: AnswerFormat;
  /** The engine's name for the model. */
  readonly served: string;
  /** What it keeps in memory while it waits, beside what is charged already. */
  readonly bytes: number;
  /** Again, too, when no byte of it reached the engine. */
  send(to: Destination, events: LegEvents): Exchange;
}

/** What is more than one HTTP exchange has failures of its own. */
export interface LegEvents extends Omit<ExchangeEvents, "onError"> {
  onError(error: ExchangeError | ApiError): void;
}

export interface Destination {
  readonly endpoint: Endpoint;
  readonly pool: EnginePool;
  readonly requestId: string;
  readonly timeouts: Timeouts;
}

/** What a provider is sent; how is the upstream's business. */
export interface ProviderLeg {
  readonly capability: SlotCapability;
  /** As an engine has it, e.g. `/v1/chat/completions`. */
  readonly path: string;
  readonly accept: string;
  /** Absent: it is a GET. */
  readonly body?: ProviderBody;
  readonly format: AnswerFormat;
}
