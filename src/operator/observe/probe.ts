import type { WarmUp } from "../../engines/engine.ts";
import { errorIn, requestMistake } from "../../engines/error-body.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { ExchangeError } from "../../lib/exchange.ts";
import { EnginePool } from "../../engine-client/client.ts";
import { parseJson } from "../../lib/json.ts";
import { wholeAnswer } from "../../lib/whole-answer.ts";

export type ProbeResult =
  | { readonly outcome: "healthy" }
  /** The engine answers that it still loads. */
  | { readonly outcome: "loading"; readonly message: string }
  /** `status`: of the answer, if any. `isRefused`: the request itself is at fault, so that another try is refused too. */
  | { readonly outcome: "failed"; readonly message: string; readonly status?: number; readonly isRefused?: true };

export interface ProbeRequest {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly timeoutMs: number;
  /** A POST of this JSON instead of a GET. */
  readonly body?: unknown;
  /** A POST of a form with one file. */
  readonly form?: Pick<Extract<WarmUp, { file: unknown }>, "fields" | "file">;
  /** The bearer that the engine requires. */
  readonly bearer?: string | undefined;
  /** Aborts the request; the result is then a failure. */
  readonly signal?: AbortSignal;
}

/** Sends one request to an engine. Never throws: every failure is a result. */
export type Probe = (probe: ProbeRequest) => Promise<ProbeResult>;

/** The rest of a longer answer says nothing about health. */
const answerLimitBytes = 65_536;
/** Refusals that another time may end: a time-out, too early, too many requests. */
const passing: ReadonlySet<number> = new Set([408, 425, 429]);
/** The path comes from a manifest: a space or a line end would begin another part of the request. */
const validPath = /^\/[\x21-\x7e]*$/;

export const httpProbe: Probe = async (probe) => {
  const { path, timeoutMs } = probe;
  try {
    return await send(probe);
  } catch (error) {
    const isLate = error instanceof ExchangeError && error.phase === "timeout";
    const place = shown(path);
    const message = isLate ? `${place} did not answer within ${timeoutMs} ms` : `${place}: ${errorMessage(error)}`;
    return { outcome: "failed", message };
  }
};

async function send({ host, port, path, timeoutMs, body, form, bearer, signal }: ProbeRequest): Promise<ProbeResult> {
  if (!validPath.test(path)) throw new Error("a request cannot have this path");
  const { payload, type } = await encoded(body, form);
  const pool = new EnginePool({ host, port, ...(bearer === undefined ? {} : { bearer }) });
  // A kept connection would be waited for by an engine that stops.
  using stack = new DisposableStack();
  stack.defer(() => pool.close());
  const post = payload === undefined ? {} : { contentType: type, body: [payload] };
  const { status, body: text } = await wholeAnswer(
    pool,
    { method: payload === undefined ? "GET" : "POST", path, accept: "*/*", ...post },
    { timeoutMs, signal, limitBytes: answerLimitBytes, isCut: true },
  );
  if (status >= 200 && status < 300) return { outcome: "healthy" };
  const error = errorIn(parseJson(text));
  const mistake = status === 500 ? requestMistake(error) : undefined;
  const message = `${shown(path)} answered ${status}: ${oneLine(mistake ?? error.message ?? text.toString())}`;
  if (status === 503) return { outcome: "loading", message };
  // Only a request with a body can be at fault.
  const isRefused =
    payload !== undefined && (mistake !== undefined || (status >= 400 && status < 500 && !passing.has(status)));
  return { outcome: "failed", message, status, ...(isRefused ? { isRefused } : {}) };
}

async function encoded(
  body: unknown,
  form: ProbeRequest["form"],
): Promise<{ readonly payload: Buffer | undefined; readonly type: string }> {
  if (form !== undefined) {
    const data = new FormData();
    for (const [name, value] of Object.entries(form.fields)) data.set(name, value);
    const { field, name, type, base64 } = form.file;
    data.set(field, new Blob([Buffer.from(base64, "base64")], { type }), name);
    const request = new Response(data);
    return {
      payload: Buffer.from(await request.arrayBuffer()),
      type: request.headers.get("content-type") ?? "multipart/form-data",
    };
  }
  return { payload: body === undefined ? undefined : Buffer.from(JSON.stringify(body)), type: "application/json" };
}

/** Messages are published: a query may hold a variable of the manifest, such as a key. */
function shown(path: string): string {
  return path.replace(/\?.*$/s, "");
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim().slice(0, 200);
}
