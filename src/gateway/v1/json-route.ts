import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";
import type { EngineProtocol, SlotCapability } from "../../api/names.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { ExchangeEvents, Exchange } from "../../lib/http1/client.ts";
import { isRecord } from "../../lib/record.ts";
import { mostDepth, mostMembers, scanBody, type ScannedBody } from "../../lib/json-scan.ts";
import { bearerLine } from "../admission/availability.ts";
import type { Charge } from "../admission/charge.ts";
import { readRequestBody } from "../body.ts";
import { decodeBody } from "../content-encoding.ts";
import type { KnownSlot } from "../index.ts";
import type { Translation } from "../protocols/translation.ts";
import { invalidJson } from "../relay/engine-failure.ts";
import { plainErrors, type ErrorForm } from "../relay/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import { quotedName } from "../relay/rename.ts";
import { applyRules } from "../request-rules.ts";
import { checkShapes } from "../shape/check.ts";
import type { UpstreamModel } from "../upstreams/catalog.ts";
import { checkKinds, type Asks } from "./body-kinds.ts";
import type { Destination, Leg, ProviderLeg, V1Request, V1Route } from "./route.ts";

/** How the engine of a slot, or a provider, is asked on a JSON route. */
export interface JsonTarget extends AnswerFormat {
  readonly capability: SlotCapability;
  readonly enginePath: string;
  /** Absent: a stream's or JSON's. */
  readonly accept?: string;
  /** For a protocol that the engine does not speak. */
  readonly translation?: Translation;
}

export interface JsonRouteOptions {
  readonly path: string;
  readonly summary: string;
  readonly spellings?: readonly string[];
  readonly errors?: ErrorForm;
  /** False: `stream` means nothing there. */
  readonly hasStreams?: boolean;
  /** The field that holds what is asked, what it may be, and whether it must be there. */
  readonly asks?: Asks;
  /** True: what is answered is kept for who asked, so that its streams are shared with nobody else. */
  readonly isKept?: boolean;
  /** Of a body without a model; absent or undefined: that is a fault. */
  readonly usualModel?: (body: Buffer) => string | undefined;
  /** Type of a usual answer, for people; JSON unless told otherwise. */
  readonly gives?: string | readonly string[];
  /** A function is called once per request. Throws ApiError where there is no way. */
  readonly target: JsonTarget | ((server: JsonServer) => JsonTarget);
}

/** Who is about to be asked. */
export interface JsonServer {
  /** For messages: `slot primary` or `upstream acme`. */
  readonly label: string;
  readonly isProvider: boolean;
  /** Who asks. */
  readonly principal: string;
  /** What the client sent. */
  readonly body: Buffer;
  speaks(protocol: EngineProtocol): boolean;
}

/** A route whose request is one JSON object with `model`, relayed as it came wherever possible. */
export function jsonRoute({
  path,
  summary,
  spellings = [],
  errors = plainErrors,
  hasStreams = true,
  asks,
  isKept = false,
  usualModel = noModel,
  gives = hasStreams ? ["application/json", "text/event-stream"] : "application/json",
  target,
}: JsonRouteOptions): V1Route {
  return {
    method: "POST",
    path,
    about: {
      summary,
      takes: "application/json",
      gives,
      ...(errors.form === undefined ? {} : { errors: errors.form }),
      asks,
    },
    spellings,
    errors,
    async read(request, limits, principal) {
      checkJsonType(request);
      let body = await readRequestBody(request, limits);
      if (request.headers["content-encoding"] !== undefined) body = await decodeBody(request, body, limits);
      return new JsonRequest(body, limits.charge, { hasStreams, asks, isKept, usualModel, target, principal });
    },
  };
}

interface JsonRequestOptions {
  readonly hasStreams: boolean;
  readonly asks: Asks | undefined;
  readonly isKept: boolean;
  readonly usualModel: (body: Buffer) => string | undefined;
  readonly target: JsonRouteOptions["target"];
  readonly principal: string;
}

class JsonRequest implements V1Request {
  readonly body: Buffer;
  readonly model: string;
  readonly isStream: boolean;
  readonly #scanned: ScannedBody;
  /** What shapes the answer is none that an engine would not survive. */
  #isChecked = false;
  readonly #target: JsonRouteOptions["target"];
  readonly #charge: Charge;
  /** What is charged beside the body. */
  #copyBytes = 0;
  readonly #principal: string;
  readonly owner: string | undefined;

  constructor(body: Buffer, charge: Charge, options: JsonRequestOptions) {
    const { hasStreams, isKept, target, principal } = options;
    const { scanned, model } = readModel(body, options.usualModel);
    // Before a model is loaded for what its engine refuses.
    checkKinds(scanned, options);
    this.body = body;
    this.#charge = charge;
    this.owner = isKept ? principal : undefined;
    this.#principal = principal;
    this.model = model;
    this.isStream = hasStreams && scanned.isStream;
    this.#scanned = scanned;
    this.#target = target;
  }

  forSlot(slot: KnownSlot): Leg {
    if (!this.#isChecked) checkShapes(this.body, this.#scanned.shaping);
    this.#isChecked = true;
    const target =
      typeof this.#target !== "function"
        ? this.#target
        : this.#target({
            label: `slot ${slot.name}`,
            isProvider: false,
            principal: this.#principal,
            body: this.body,
            speaks: (protocol) => slot.status?.protocols.includes(protocol) === true,
          });
    const served = slot.status?.model.served ?? this.model;
    const parts = this.#parts(target.translation, served, slot.spec.request);
    return new JsonLeg(target, served, parts, { charge: this.#charge, isStream: this.isStream });
  }

  forProvider({ upstream, providerModel, spec }: UpstreamModel): ProviderLeg {
    const target =
      typeof this.#target !== "function"
        ? this.#target
        : this.#target({
            label: `upstream ${upstream}`,
            isProvider: true,
            principal: this.#principal,
            body: this.body,
            speaks: (protocol) => providerSpeaks(spec.capabilities, protocol),
          });
    return {
      capability: target.capability,
      path: target.enginePath,
      accept: acceptOf(target, this.isStream),
      body: this.#parts(target.translation, providerModel, undefined),
      format: target,
    };
  }

  /** The body with the engine's name for the model: parts of the client's own buffer where that can be. */
  #parts(
    translation: Translation | undefined,
    served: string,
    rules: SlotSpec["request"] | undefined,
  ): readonly Buffer[] {
    let body = translation === undefined ? this.body : translation.request(this.body);
    if (rules !== undefined) body = applyRules(body, rules);
    if (body !== this.body) this.#chargeCopy(body.length);
    return withModel(body, body === this.body ? this.#scanned : scanBody(body), served);
  }

  /** Small ones are counted while they wait, as their bodies are. */
  #chargeCopy(bytes: number): void {
    const more = bytes - this.#copyBytes;
    if (more <= 0 || this.#charge.uncounted(bytes) > 0) return;
    this.#charge.take(more);
    this.#copyBytes = bytes;
  }
}

/** A provider says what it speaks as a capability; counting is part of Messages, and of Responses. */
function providerSpeaks(capabilities: readonly SlotCapability[], protocol: EngineProtocol): boolean {
  const isOfResponses = protocol === "responses" || protocol === "input_tokens";
  return capabilities.includes(isOfResponses ? "responses" : "messages");
}

/** A body with another name for the model, as parts of it; it was scanned. */
export function withModel(body: Buffer, at: ScannedBody | undefined, name: string): readonly Buffer[] {
  if (at === undefined || at.model === name || at.modelStart < 0) return [body];
  return [body.subarray(0, at.modelStart), quotedName(name), body.subarray(at.modelEnd)];
}

function acceptOf({ accept }: JsonTarget, isStream: boolean): string {
  return accept ?? (isStream ? "text/event-stream" : "application/json");
}

class JsonLeg implements Leg {
  readonly format: JsonTarget;
  readonly #parts: readonly Buffer[];
  readonly #accept: string;
  readonly served: string;
  readonly bytes: number;
  readonly #length: number;

  constructor(
    target: JsonTarget,
    served: string,
    parts: readonly Buffer[],
    { charge, isStream }: { charge: Charge; isStream: boolean },
  ) {
    this.format = target;
    this.#parts = parts;
    this.#accept = acceptOf(target, isStream);
    this.served = served;
    let length = 0;
    for (const part of parts) length += part.length;
    this.#length = length;
    this.bytes = charge.uncounted(length);
  }

  get capability(): SlotCapability {
    return this.format.capability;
  }

  send({ endpoint, pool, requestId, timeouts }: Destination, events: ExchangeEvents): Exchange {
    // Only what an engine needs: credentials, cookies and forwarding headers stay here.
    const head =
      `POST ${this.format.enginePath} HTTP/1.1\r\nhost: ${endpoint.host}:${endpoint.port}\r\ncontent-type: application/json\r\n` +
      `content-length: ${this.#length}\r\nx-request-id: ${requestId}\r\naccept: ${this.#accept}\r\n${bearerLine(endpoint)}\r\n`;
    return pool.request(head, this.#parts, timeouts, events);
  }
}

/** Throws ApiError `dispatch.invalid_request` or `dispatch.missing_model`. */
export function readModel(
  body: Buffer,
  usualModel: (body: Buffer) => string | undefined = noModel,
): { scanned: ScannedBody; model: string } {
  if (!isUtf8(body)) throw new ApiError("dispatch.invalid_request", { message: "the body is not UTF-8" });
  const scanned = scanBody(body);
  if (scanned === undefined) throw invalidJson(body);
  if (scanned.isExcessive) {
    const message = `is nested deeper than ${mostDepth} levels, or has an object of more than ${mostMembers} fields`;
    throw invalidRequest([{ path: [], message: `the body ${message}` }]);
  }
  const { model, ambiguous } = scanned;
  if (ambiguous !== undefined)
    throw invalidRequest([{ path: [ambiguous], message: "must stand there once, spelled so" }]);
  if (model === undefined || model === "") {
    const isNone = model === undefined && !hasModel(body);
    const usual = isNone ? usualModel(body) : undefined;
    if (usual !== undefined) return { scanned, model: usual };
    const message = model === undefined && !isNone ? "must be a text" : "is required";
    throw new ApiError("dispatch.missing_model", {
      ...(message === "is required" ? {} : { message: `model ${message}` }),
      details: { path: ["model"], message },
    });
  }
  return { scanned, model };
}

function noModel(): undefined {
  return undefined;
}

function hasModel(body: Buffer): boolean {
  try {
    const parsed: unknown = JSON.parse(body.toString());
    return isRecord(parsed) && "model" in parsed;
  } catch {
    return false;
  }
}

/** Throws ApiError `dispatch.unsupported_media_type`. */
export function checkJsonType(request: IncomingMessage): void {
  const type = request.headers["content-type"];
  // curl -d sends a form's type for what is JSON; OpenAI's own API takes it too.
  if (type === undefined || /^application\/(json|x-www-form-urlencoded)\b/i.test(type)) return;
  throw new ApiError("dispatch.unsupported_media_type", { message: "the body must be application/json" });
}
