import { Agent, request as httpsRequest } from "node:https";
import type { IncomingMessage } from "node:http";
import { StringDecoder } from "node:string_decoder";
import { parseJson } from "../lib/json.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { ApiError, apiErrorOf, ApiUnreachable, retryAfterOf } from "./api-error.ts";
import type { Connection } from "./connection.ts";
import { Pause } from "./pause.ts";

export interface Call {
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /** Longest time until the answer begins: pauses that the API server asks for and a second attempt are part of it. */
  readonly timeoutMs?: number;
  /**
   * Sent also while the API server wants to hear nothing, as few and small as it is: what says that this process lives. A
   * 429 is its answer.
   */
  readonly isHeartbeat?: boolean;
  /** Called right before each sending, after every wait: nothing is sent where it throws. */
  readonly check?: () => void;
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** The content types of a patch. */
export const patchTypes = {
  apply: "application/apply-patch+yaml",
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
} as const;

export interface ApiClient extends Disposable {
  /** The namespace that this installation works in. */
  readonly namespace: string;
  readonly server: string;
  /** The parsed answer. Rejects with ApiError or ApiUnreachable. */
  request(method: Method, path: string, call?: Call): Promise<unknown>;
  /**
   * The lines of an answer that goes on: a watch, a log. Rejects as `request` does; the iteration rejects with the
   * connection's error.
   */
  lines(path: string, call?: Pick<Call, "query" | "signal">): Promise<AsyncIterable<string>>;
}

const limitMs = 15_000;
/** A list is paged: more in one answer is another server's. */
const answerLimitBytes = 64 * 1024 * 1024;
/** Many times an object's limit in etcd. */
const lineLimit = 16 * 1024 * 1024;
/** A peer that is gone without a word is found by the system. */
const keepAliveMs = 15_000;

/**
 * HTTPS to an API server, with connections that are kept. A 429 that says when to come again is not an error before this
 * request's time is over: until then nothing but heartbeats is sent to that server, whoever asks.
 */
export function openApiClient(connection: Connection): ApiClient {
  const agent = new Agent({ keepAlive: true, keepAliveMsecs: keepAliveMs, maxSockets: 64, ...connection.tls });
  const send = async (
    method: Method,
    path: string,
    call: Call,
    limit: { readonly endMs: number; readonly isRefused?: boolean },
  ): Promise<IncomingMessage> => {
    const { query = {}, body, contentType = "application/json", signal } = call;
    const authorization = await connection.authorization(limit.isRefused ?? false);
    const url = `${connection.server}${path}${queryText(query)}`;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const noAnswer = new Error(`no answer in ${call.timeoutMs ?? limitMs} ms`);
    const restMs = limit.endMs - steadyNow();
    if (restMs <= 0) throw new ApiUnreachable(connection.server, { cause: noAnswer });
    call.check?.();
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = httpsRequest(url, {
        agent,
        method,
        headers: {
          accept: "application/json",
          "user-agent": "berth",
          ...(authorization === undefined ? {} : { authorization }),
          ...(text === undefined ? {} : { "content-type": contentType, "content-length": Buffer.byteLength(text) }),
        },
        ...(signal === undefined ? {} : { signal }),
      });
      // Until the answer begins; a watch then says nothing for as long as nothing happens.
      const late = setTimeout(() => sent.destroy(noAnswer), restMs);
      sent.once("response", (response) => {
        clearTimeout(late);
        // Whoever reads it hears of its errors; nobody may read it yet.
        response.on("error", () => undefined);
        resolve(response);
      });
      sent.on("error", (error) => {
        clearTimeout(late);
        reject(signal?.aborted === true ? error : new ApiUnreachable(connection.server, { cause: error }));
      });
      sent.end(text);
    });
    if (answer.statusCode !== 401 || limit.isRefused === true) return answer;
    answer.resume();
    return await send(method, path, call, { ...limit, isRefused: true });
  };
  const pause = new Pause();
  const sendInTime = async (method: Method, path: string, call: Call): Promise<IncomingMessage> => {
    const endMs = steadyNow() + (call.timeoutMs ?? limitMs);
    for (;;) {
      if (call.isHeartbeat !== true) await pause.over(endMs, call.signal);
      const answer = await send(method, path, call, { endMs });
      const seconds = answer.statusCode === 429 ? retryAfterOf(answer.headers["retry-after"]) : undefined;
      if (seconds === undefined || seconds <= 0) return answer;
      pause.begin(seconds);
      if (call.isHeartbeat === true || steadyNow() + seconds * 1000 > endMs) return answer;
      answer.resume();
    }
  };
  const refuse = async (answer: IncomingMessage): Promise<never> => {
    const { statusCode = 500, headers } = answer;
    // The status is an answer, also where the rest of it does not come.
    throw apiErrorOf(statusCode, await textOf(answer).catch(() => ""), headers["retry-after"]);
  };
  return {
    namespace: connection.namespace,
    server: connection.server,
    async request(method, path, call = {}) {
      const answer = await sendInTime(method, path, call);
      if (!isSuccess(answer)) return await refuse(answer);
      const text = await textOf(answer).catch((error: unknown) => {
        throw call.signal?.aborted === true ? error : new ApiUnreachable(connection.server, { cause: error });
      });
      const parsed = parseJson(text);
      if (parsed === undefined) throw new ApiError(502, "", `${method} ${path}: the answer is no JSON`);
      return parsed;
    },
    async lines(path, call = {}) {
      const answer = await sendInTime("GET", path, call);
      if (!isSuccess(answer)) return await refuse(answer);
      return linesOf(answer);
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

const isSuccess = ({ statusCode = 500 }: IncomingMessage): boolean => statusCode >= 200 && statusCode < 300;

async function textOf(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  // A server that stops in the middle: node's own time-outs do not cover an answer.
  const late = setTimeout(() => answer.destroy(new Error(`the answer stopped for ${limitMs} ms`)), limitMs);
  try {
    for await (const part of answer) {
      late.refresh();
      if (!Buffer.isBuffer(part)) continue;
      bytes += part.length;
      if (bytes > answerLimitBytes) throw new Error(`an answer of more than ${answerLimitBytes} bytes`);
      parts.push(part);
    }
  } finally {
    clearTimeout(late);
  }
  return Buffer.concat(parts).toString();
}

async function* linesOf(answer: IncomingMessage): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  try {
    for await (const part of answer) {
      rest += Buffer.isBuffer(part) ? decoder.write(part) : String(part);
      if (rest.length > lineLimit) throw new Error(`a line of more than ${lineLimit} characters`);
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
    if (rest !== "") yield rest;
  } finally {
    answer.destroy();
  }
}

function queryText(query: NonNullable<Call["query"]>): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(String(value))}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
