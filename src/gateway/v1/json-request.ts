import type { EngineProtocol, SlotCapability } from "../../api/names.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { scanBody, type ScannedBody } from "../../lib/json-scan.ts";
import { mostParsedBytes } from "../../lib/json.ts";
import type { Charge } from "../slots/budget.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import { hasFlatTools, withNestedTools } from "../protocols/responses-tools.ts";
import type { KnownSlot } from "../routing/index.ts";
import { checkConstraints, toolsIn, withFitTools, type BodyTools } from "../body-checks/constraints.ts";
import { checkRemoteMedia } from "../body-checks/remote-media.ts";
import type { UpstreamModel } from "../providers/catalog.ts";
import type { JsonTarget, JsonTargetOf } from "./json-target.ts";
import {
  applyRules,
  checkKinds,
  checkBeforeLoad,
  excessiveBody,
  readModel,
  withModel,
  type InputRule,
} from "./body-fields.ts";
import type { BackendRequest, V1Request } from "./route.ts";

export interface OtherInput {
  readonly inputRule: InputRule;
  readonly target: JsonTargetOf;
}

/** The rules of a route for each of its requests. */
interface JsonRules {
  readonly hasStreams: boolean;
  readonly inputRule: InputRule | undefined;
  readonly isKept: boolean;
  readonly defaultModel: (body: Buffer) => string | undefined;
  readonly target: JsonTarget | JsonTargetOf;
  readonly otherInput: OtherInput | undefined;
}

/** A request whose body is one JSON object, scanned once. */
export class JsonRequest implements V1Request {
  body: Buffer;
  readonly model: string;
  readonly isStream: boolean;
  readonly #scanned: ScannedBody;
  /** The fields that constrain the answer were checked for the engine's safety. */
  #isChecked = false;
  readonly #inputRule: InputRule | undefined;
  readonly #target: JsonTarget | JsonTargetOf;
  readonly #charge: Charge;
  /** The charge of a copy beside the body. */
  #copyBytes = 0;
  readonly #ownerOfKept: string;
  readonly owner: string | undefined;

  constructor(body: Buffer, { charge, owner }: { readonly charge: Charge; readonly owner: string }, rules: JsonRules) {
    const { hasStreams, isKept, otherInput } = rules;
    const { scanned, model } = readModel(body, rules.defaultModel);
    const { first } = scanned;
    const isOther =
      otherInput !== undefined &&
      first[rules.inputRule?.field ?? "messages"] === 0 &&
      first[otherInput.inputRule.field] !== 0;
    const { inputRule, target } = isOther ? otherInput : rules;
    // Before a model is loaded for a request that its engine would refuse.
    checkKinds(scanned, { inputRule, hasStreams });
    this.body = body;
    this.#charge = charge;
    this.owner = isKept ? owner : undefined;
    this.#ownerOfKept = owner;
    this.model = model;
    this.isStream = hasStreams && scanned.isStream;
    this.#scanned = scanned;
    this.#inputRule = inputRule;
    this.#target = target;
  }

  drop(): void {
    this.body = nothing;
  }

  checkBeforeLoad(): void {
    if (this.#inputRule !== undefined) checkBeforeLoad(this.body, this.#inputRule);
  }

  forSlot(slot: KnownSlot): BackendRequest {
    const { shaping } = this.#scanned;
    // Not kept: a request may wait for long.
    const own = this.#isChecked ? toolsIn(this.body, shaping) : checkConstraints(this.body, shaping);
    this.#isChecked = true;
    const target =
      typeof this.#target !== "function"
        ? this.#target
        : this.#target({
            label: `slot ${slot.name}`,
            isProvider: false,
            owner: this.#ownerOfKept,
            body: this.body,
            speaks: (protocol) => slot.status?.protocols.includes(protocol) === true,
          });
    const served = slot.status?.model.served ?? this.model;
    const sent = this.#sent(target, own, slot.spec.request);
    const { body, scanned } = sent;
    const isChanged = body !== this.body && scanned !== undefined;
    // A slot's rules may be written by whoever may send requests.
    const tools = isChanged ? checkConstraints(body, scanned.shaping) : own;
    if (slot.spec.engine !== "llama" || scanned === undefined) return this.#request(target, served, sent);
    checkRemoteMedia(body, scanned);
    const fit = tools === undefined ? undefined : withFitTools(body, tools);
    if (fit === undefined) return this.#request(target, served, sent);
    this.#chargeCopy(fit.body.length);
    const leftOut = [...(sent.leftOut ?? []), ...fit.leftOut];
    return this.#request(target, served, { body: fit.body, scanned: this.#scannedOf(fit.body), leftOut });
  }

  forProvider({ upstream, providerModel, spec }: UpstreamModel): BackendRequest {
    const target =
      typeof this.#target !== "function"
        ? this.#target
        : this.#target({
            label: `upstream ${upstream}`,
            isProvider: true,
            owner: this.#ownerOfKept,
            body: this.body,
            speaks: (protocol) => providerSpeaks(spec.capabilities, protocol),
          });
    const tools = target.isChat === true ? toolsIn(this.body, this.#scanned.shaping) : undefined;
    return this.#request(target, providerModel, this.#sent(target, tools, undefined));
  }

  /** The scan of a body that rules or a translation may have changed. Throws ApiError where it has become too large. */
  #scannedOf(body: Buffer): ScannedBody | undefined {
    if (body === this.body) return this.#scanned;
    const scanned = scanBody(body);
    if (scanned?.isExcessive === true) throw excessiveBody();
    return scanned;
  }

  #request(target: JsonTarget, served: string, sent: SentBody): BackendRequest {
    return new JsonBackendRequest(target, served, sent, this.isStream);
  }

  /** The client's own buffer, unless it must be changed. `tools`: the client's. */
  #sent(target: JsonTarget, tools: BodyTools | undefined, rules: SlotSpec["request"] | undefined): SentBody {
    const translation = target.requestTranslation ?? target.translation;
    let { body } = this;
    if (translation !== undefined) body = translation.request(body);
    else if (target.isChat === true && tools !== undefined && hasFlatTools(tools.value)) body = withNestedTools(body);
    // Its translation may keep parts of the request for the answer.
    const keptBytes = body === this.body ? 0 : Math.min(body.length, mostParsedBytes);
    if (rules !== undefined) body = applyRules(body, rules);
    if (body !== this.body) this.#chargeCopy(body.length + keptBytes);
    return { body, scanned: this.#scannedOf(body), leftOut: translation?.leftOut };
  }

  #chargeCopy(bytes: number): void {
    const more = bytes - this.#copyBytes;
    if (more <= 0) return;
    this.#charge.takeWhole(more);
    this.#copyBytes = bytes;
  }
}

/** A provider declares its protocols as capabilities; counting is part of Messages, and of Responses. */
function providerSpeaks(capabilities: readonly SlotCapability[], protocol: EngineProtocol): boolean {
  const isOfResponses = protocol === "responses" || protocol === "input_tokens";
  return capabilities.includes(isOfResponses ? "responses" : "messages");
}

/** The body for the backend, and what it has lost. */
interface SentBody {
  readonly body: Buffer;
  readonly scanned: ScannedBody | undefined;
  readonly leftOut: readonly string[] | undefined;
}

const nothing = Buffer.alloc(0);

class JsonBackendRequest implements BackendRequest {
  readonly method = "POST";
  readonly format: JsonTarget;
  readonly served: string;
  readonly accept: string;
  /** Parts of the client's own buffer, where it can be sent. */
  body: readonly Buffer[];
  readonly leftOut: readonly string[] | undefined;
  #whole: Buffer;
  readonly #scanned: ScannedBody | undefined;

  constructor(target: JsonTarget, served: string, { body, scanned, leftOut }: SentBody, isStream: boolean) {
    this.format = target;
    this.served = served;
    this.accept = target.accept ?? (isStream ? "text/event-stream" : "application/json");
    this.body = withModel(body, scanned, served);
    this.leftOut = leftOut;
    this.#whole = body;
    this.#scanned = scanned;
  }

  drop(): void {
    this.body = [];
    this.#whole = nothing;
  }

  get path(): string {
    return this.format.enginePath;
  }

  get capability(): SlotCapability {
    return this.format.capability;
  }

  get prompt(): Prompt | undefined {
    const start = this.#scanned?.inputStart ?? -1;
    // An engine caches nothing of embeddings, ranking or speech.
    const isContinued = this.capability === "chat" || this.capability === "completions";
    return isContinued && start >= 0 ? { body: this.#whole, start } : undefined;
  }
}
