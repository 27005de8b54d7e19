import { request } from "node:http";
import { ApiError } from "../../api/errors.ts";
import { errorCode } from "../../lib/error-code.ts";
import type { Endpoint } from "../admission/availability.ts";
import { parseJson } from "../../lib/json.ts";

export type EngineEndpoint = Pick<Endpoint, "host" | "port" | "bearer">;

interface EngineCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  readonly timeoutMs: number;
  /** A longer answer is an error. */
  readonly limitBytes: number;
}

export interface EngineAnswer {
  readonly status: number;
  readonly body: Buffer;
}

/**
 * One request to an engine and its whole answer, whatever the status. A connection of its own each time: these calls
 * are few, and a kept-alive one may be dead after the engine restarted. Rejects with ApiError
 * `dispatch.upstream_unavailable`, `_timeout` or `_failed`, and with the signal's reason once it is aborted.
 */
export async function callEngine({ host, port, bearer }: EngineEndpoint, call: EngineCall): Promise<EngineAnswer> {
  const { method, path, signal, timeoutMs, limitBytes } = call;
  signal?.throwIfAborted();
  const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
  const headers = {
    ...(body === undefined ? {} : { "content-type": "application/json", "content-length": body.length }),
    ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
  };
  return await new Promise<EngineAnswer>((resolve, reject) => {
    const sent = request({ host, port, method, path, headers, agent: false, ...(signal && { signal }) });
    const fail = (error: Error): void => {
      clearTimeout(timer);
      sent.destroy();
      reject(signal?.aborted === true ? signal.reason : failure(error));
    };
    const timer = setTimeout(() => fail(new ApiError("dispatch.upstream_timeout", { message: slow })), timeoutMs);
    // `on`, not `once`: destroying it gives another error, which nobody else takes.
    sent.on("error", fail);
    sent.once("response", (response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > limitBytes)
          fail(new ApiError("dispatch.upstream_failed", { message: "the engine's answer is too large" }));
        else chunks.push(chunk);
      });
      response.on("error", fail);
      response.once("end", () => {
        clearTimeout(timer);
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) });
      });
    });
    sent.end(body);
  });
}

const slow = "the image engine did not answer in time";

function failure(error: Error): ApiError {
  if (error instanceof ApiError) return error;
  if (errorCode(error) === "ECONNREFUSED")
    return new ApiError("dispatch.upstream_unavailable", {
      message: "the image engine does not accept connections",
      cause: error,
    });
  return new ApiError("dispatch.upstream_failed", {
    message: "the image engine closed the connection without a whole answer",
    cause: error,
  });
}

/** The JSON of an answer; undefined where it is none. */
export function jsonOf({ body }: EngineAnswer): unknown {
  return parseJson(body);
}
