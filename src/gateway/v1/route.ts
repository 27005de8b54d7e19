import type { IncomingMessage } from "node:http";
import type { V1About } from "../../api/management/v1-shape.ts";
import type { SlotCapability } from "../../api/names.ts";
import type { Exchange, ExchangeEvents, ExchangeRequest, SendOptions, Transport } from "../../lib/exchange.ts";
import type { Endpoint } from "../slots/availability.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import type { BodyLimits } from "../http/body.ts";
import type { KnownSlot } from "../routing/index.ts";
import type { ErrorForm } from "../http/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import type { ModelRequest } from "../routing/resolve.ts";
import type { UpstreamModel } from "../providers/catalog.ts";

/** A `/v1` route as data; waiting, sending and relaying are the same for all (`../proxy/handle.ts`). */
export interface V1Route {
  readonly method: "GET" | "POST";
  /** The path of the route, which is its label in metrics too. */
  readonly path: string;
  /** For people. */
  readonly about: V1About;
  /** Further paths of the route. */
  readonly aliasPaths: readonly string[];
  readonly errors: ErrorForm;
  /**
   * Reads a whole request; `owner` is that of stored answers. Rejects with ApiError of the `dispatch.*`
   * family.
   */
  read(request: IncomingMessage, limits: BodyLimits, owner: string): Promise<V1Request>;
}

/** A request whose model is known. */
export interface V1Request extends ModelRequest {
  readonly isStream: boolean;
  /** The client's body, where it is kept: it decides whether streams are identical, and whose fault a refusal is. */
  readonly body: Buffer | undefined;
  /** The only owner of the answer; absent: any client with the same request and rights may share it. */
  readonly owner?: string | undefined;
  /** The request for a slot's engine. Throws ApiError. */
  forSlot(slot: KnownSlot): BackendRequest;
  /** The request for a provider; absent: providers do not serve this route. Throws ApiError. */
  forProvider?(model: UpstreamModel): BackendRequest;
  /**
   * Called before the request waits for a slot that may have to load a model for it; absent: `forSlot` has checked all of
   * it. Throws ApiError.
   */
  checkBeforeLoad?(): void;
  /** The backend has the request: its body is not needed any more. */
  drop?(): void;
  /** The request has ended. */
  discard?(): void;
}

/** The request for a backend, an engine or a provider. Made again where the slot has changed while it waited. */
export interface BackendRequest extends ExchangeRequest {
  readonly capability: SlotCapability;
  readonly format: AnswerFormat;
  /** The backend's name for the model. */
  readonly served: string;
  /** The prompt that the engine continues; absent: nothing that a replica could have in its cache. */
  readonly prompt?: Prompt | undefined;
  /** Parts of the request that the backend does not get: types of tools and items, keywords of tools; absent: none. */
  readonly leftOut?: readonly string[] | undefined;
  /** The backend has the request: its body is not needed any more. */
  drop?(): void;
  /** For an engine that needs more than one exchange; absent: the request is sent unchanged. */
  exchange?(to: Destination, events: ExchangeEvents): Exchange;
}

/** An engine, with the options of sending. */
export interface Destination extends SendOptions {
  readonly transport: Transport;
  readonly endpoint: Endpoint;
  readonly requestId: string;
}
