import type { EngineProtocol, SlotCapability } from "../../api/names.ts";
import type { RequestTranslation, Translation } from "../protocols/translation.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";

/** How a JSON route uses the engine of a slot, or a provider. */
export interface JsonTarget extends AnswerFormat {
  readonly capability: SlotCapability;
  readonly enginePath: string;
  /** Absent: that of a stream or of JSON. */
  readonly accept?: string;
  /** For a protocol that the engine lacks. */
  readonly translation?: Translation;
  /** For a body of another protocol whose client reads the answers of this one. */
  readonly requestTranslation?: RequestTranslation;
}

/** The backend of the request. */
export interface JsonServer {
  /** For messages: `slot primary` or `upstream acme`. */
  readonly label: string;
  readonly isProvider: boolean;
  /** The client. */
  readonly owner: string;
  /** The client's body. */
  readonly body: Buffer;
  speaks(protocol: EngineProtocol): boolean;
}

/** Throws ApiError where the backend lacks the route. */
export type JsonTargetOf = (server: JsonServer) => JsonTarget;
