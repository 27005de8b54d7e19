/**
 * Every error code the service answers with. One table: code → HTTP status → default message.
 * CONTRACT "Errors" is the source; clients may rely on code and status, never on the message.
 */
export const errorTable = {
  "auth.required": [401, "Credentials are required for this route"],
  "auth.invalid": [401, "The token is unknown, wrong or revoked"],
  "auth.forbidden": [403, "The caller may not do this"],
  "auth.throttled": [429, "Too many failed attempts; try again later"],
  "slot.not_found": [404, "No slot has this name"],
  "slot.not_ready": [503, "The slot is not ready"],
  "slot.failed": [503, "The slot has failed"],
  "slot.disabled": [503, "The slot is disabled"],
  "slot.overloaded": [429, "The slot and its queue are full"],
  "slot.illegal_transition": [409, "The slot is being deleted and can only end"],
  "slot.already_exists": [409, "A slot with this name exists"],
  "slot.builtin": [409, "A built-in slot cannot be deleted"],
  "model.not_found": [404, "The model matches no slot, registry ref or upstream"],
  "model.not_loaded": [404, "The model is known, but no slot holds it"],
  "model.in_use": [409, "The model is assigned to a slot"],
  "model.insufficient_disk": [507, "The model does not fit on the disk"],
  "model.checksum_mismatch": [502, "The fetched model does not match its checksum"],
  "model.pull_failed": [502, "The model could not be fetched"],
  "model.unsupported_format": [422, "The model file has a format no engine here can read"],
  "dispatch.invalid_request": [400, "The request has the wrong shape"],
  "dispatch.missing_model": [400, "The request names no model"],
  "dispatch.capability_mismatch": [400, "The slot's engine does not serve this route"],
  "dispatch.payload_too_large": [413, "The request body is too large"],
  "dispatch.unsupported_media_type": [415, "The content type is not supported here"],
  "dispatch.rejected": [400, "The engine refused the request"],
  "dispatch.upstream_failed": [502, "The engine or provider failed"],
  "dispatch.upstream_unavailable": [502, "The engine or provider could not be reached"],
  "dispatch.upstream_timeout": [504, "The engine or provider was too slow"],
  "config.invalid": [422, "The configuration is invalid"],
  "config.read_only": [409, "The configuration belongs to Git or to the cluster and may not be written here"],
  "config.changed": [409, "The file was changed meanwhile"],
  "config.fit": [409, "The model cannot fit"],
  "system.not_found": [404, "There is nothing at this address"],
  "system.method_not_allowed": [405, "This route does not take this method"],
  "system.overloaded": [503, "The service is draining or out of memory budget"],
  "system.not_implemented": [501, "This is not implemented"],
  "system.internal": [500, "Something failed inside the service"],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type ErrorCode = keyof typeof errorTable;
export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "rate_limit_error"
  | "server_error"
  /** llama.cpp's, for a prompt that is longer than the context. */
  | "exceed_context_size_error";

/** Fields beside the envelope's own, for clients that were written for other services. */
export interface FamiliarFields {
  /** OpenAI's code for the same error, where clients act on it; `code` is always ours. */
  readonly openai_code?: "model_not_found" | "context_length_exceeded";
  /** OpenAI's field for the faulty field of the request. */
  readonly param?: string;
  /** llama.cpp's counts: tokens of the prompt, and tokens that fit in the context. */
  readonly n_prompt_tokens?: number;
  readonly n_ctx?: number;
}

const noSuchModel = { openai_code: "model_not_found", param: "model" } as const;
const familiarOf: Readonly<Partial<Record<ErrorCode, FamiliarFields>>> = {
  "model.not_found": noSuchModel,
  "model.not_loaded": noSuchModel,
};

/** Headers of every error with the code. SDKs repeat a request after each 5xx that does not forbid it. */
const headersOf: Readonly<Partial<Record<ErrorCode, Readonly<Record<string, string>>>>> = {
  "slot.disabled": { "x-should-retry": "false" },
  "system.not_implemented": { "x-should-retry": "false" },
};

export interface ErrorEnvelope {
  readonly error: FamiliarFields & {
    readonly code: ErrorCode;
    readonly message: string;
    readonly type: ErrorType;
    readonly details?: Readonly<Record<string, unknown>>;
  };
}

/** OpenAI SDKs classify an error by this field. */
export function errorType(status: number): ErrorType {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

export interface ApiErrorOptions {
  readonly message?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  /**
   * Overrides the table's status: `dispatch.rejected` keeps the engine's own, and `dispatch.invalid_request` says 408, 409, 422
   * or 431 where HTTP has a closer one.
   */
  readonly status?: number;
  /** Response headers, e.g. `retry-after`, beside those of the code. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
  /** Absent: the type that belongs to the status. */
  readonly type?: ErrorType;
  /** Absent: the fields that belong to the code. */
  readonly familiar?: FamiliarFields | undefined;
}

/**
 * A failure that a client may see unchanged. Any other error becomes `system.internal` without its message. Only
 * `system.internal` has a stack: the others are answers, and capturing a stack costs a third of refusing a wrong token.
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly type: ErrorType;
  readonly familiar: FamiliarFields;
  /** The engine's own text, for administrators alone: no part of the envelope. */
  engineText: string | undefined;

  constructor(code: ErrorCode, options: ApiErrorOptions = {}) {
    const { stackTraceLimit } = Error;
    if (code !== "system.internal") Error.stackTraceLimit = 0;
    super(options.message ?? errorTable[code][1], { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.status = options.status ?? errorTable[code][0];
    this.details = options.details;
    this.headers = { ...headersOf[code], ...options.headers };
    this.type = options.type ?? errorType(this.status);
    this.familiar = options.familiar ?? familiarOf[code] ?? {};
  }

  envelope(): ErrorEnvelope {
    return {
      error: {
        code: this.code,
        message: this.message,
        type: this.type,
        ...this.familiar,
        ...(this.details === undefined ? {} : { details: this.details }),
      },
    };
  }
}
