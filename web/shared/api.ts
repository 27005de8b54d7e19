import { signal } from "@preact/signals";
import {
  requestOf,
  type AnswerTo,
  type AnyCall,
  type CallArgument,
  type ItemOf,
  type ListName,
  type RouteName,
} from "../../src/api/management/call.ts";

/**
 * The address of the page's own server, which ends in a slash: of the chat page its directory, of the dashboard the address
 * of Berth, which may be below a path of a proxy.
 */
export const base = new URL(document.baseURI);

const storageKey = "berth-token";

/** What the browser keeps as long as this tab; undefined where it keeps nothing for this site. */
export function storage(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
}

/** The token that a person entered, kept as long as this tab. */
export const token = signal<string | undefined>(storage()?.getItem(storageKey) ?? undefined);
/** The server has refused the request without a token, or with the present one. */
export const needsToken = signal(false);

export function useToken(value: string | undefined): void {
  token.value = value;
  needsToken.value = false;
  if (value === undefined) storage()?.removeItem(storageKey);
  else storage()?.setItem(storageKey, value);
}

/** An answer that is no success, in the words of the server. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: unknown;
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, code: string, message: string, details?: unknown, retryAfterSeconds?: number) {
    super(message);
    this.name = "ApiFailure";
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export interface CallOptions {
  readonly method?: string;
  readonly body?: unknown;
  /** Instead of `body`: sent as they are. */
  readonly raw?: { readonly content: BodyInit; readonly type?: string };
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Throws ApiFailure for an answer that is no success, and where no server answers (`status` 0). */
export async function request(path: string, options: CallOptions = {}): Promise<Response> {
  const used = token.value;
  const response = await exchange(new URL(path.replace(/^\//, ""), base), options);
  if (response.ok) return response;
  const failure = await failureOf(response);
  // A late refusal of an earlier token says nothing about the present one.
  if (failure.status === 401 && token.value === used) needsToken.value = true;
  throw failure;
}

/** Any answer, with the token of this tab. Throws ApiFailure where no server answers (`status` 0). */
export async function exchange(url: URL, options: CallOptions = {}): Promise<Response> {
  const { method = "GET", body, raw, signal: abort } = options;
  const headers = new Headers(options.headers);
  if (token.value !== undefined) headers.set("authorization", `Bearer ${token.value}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  if (raw?.type !== undefined) headers.set("content-type", raw.type);
  const content = raw?.content ?? (body === undefined ? undefined : JSON.stringify(body));
  try {
    return await fetch(url, {
      method,
      headers,
      ...(content === undefined ? {} : { body: content }),
      ...(abort === undefined ? {} : { signal: abort }),
    });
  } catch (error) {
    // A time-out, too, says that no server answers; with any other reason the page or a person has ended the request.
    const isTimeOut = abort?.reason instanceof DOMException && abort.reason.name === "TimeoutError";
    if (abort?.aborted === true && !isTimeOut) throw error;
    throw new ApiFailure(0, "unreachable", "Berth does not answer. See on its machine whether it runs: berth status.");
  }
}

interface Abortable {
  readonly signal?: AbortSignal;
}

/** The answer of a route of the management API, as its schema has it. Throws ApiFailure. */
export async function call<N extends RouteName>(route: N, ...call: CallArgument<N, Abortable>): Promise<AnswerTo<N>>;
export async function call(route: RouteName, given: AnyCall & Abortable = {}): Promise<unknown> {
  const { method, path } = requestOf(route, given);
  const { body, signal: abort } = given;
  return await answerOf(path, { method, body, ...(abort === undefined ? {} : { signal: abort }) });
}

/** The items of a list of the management API. Throws ApiFailure. */
export async function list<N extends ListName>(
  route: N,
  ...call: CallArgument<N, Abortable>
): Promise<readonly ItemOf<N>[]>;
export async function list(route: ListName, given?: AnyCall & Abortable): Promise<unknown> {
  const { data } = await call(route, given);
  return data;
}

/** The JSON of any answer; null for an answer without a body (204). Throws ApiFailure, also where it is no JSON. */
export async function answerOf<T>(path: string, options: CallOptions = {}): Promise<T> {
  const response = await request(path, options);
  if (response.status === 204) return JSON.parse("null");
  try {
    return await response.json();
  } catch {
    throw new ApiFailure(response.status, "no_json", "What answered is no Berth: its answer is no JSON.");
  }
}

async function failureOf(response: Response): Promise<ApiFailure> {
  const text = await response.text().catch(() => "");
  const after = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retry = Number.isFinite(after) ? after : undefined;
  try {
    const parsed: { error?: { code?: unknown; message?: string; details?: unknown } } = JSON.parse(text);
    const { code = "unknown", message = response.statusText, details } = parsed.error ?? {};
    // An engine's own codes are numbers, or null.
    return new ApiFailure(response.status, typeof code === "string" ? code : "engine", message, details, retry);
  } catch {
    return new ApiFailure(response.status, "unknown", `the server answered ${response.status}`, undefined, retry);
  }
}

/**
 * A failure as sentences for a person: what is wrong, and what to do about it where the server does not say so. `stepHere`:
 * what to do on this page, which goes before what every page says.
 */
export function messageOf(error: unknown, stepHere?: (failure: ApiFailure) => string | undefined): string {
  if (!(error instanceof ApiFailure)) return error instanceof Error ? error.message : String(error);
  const next = stepHere?.(error) ?? nextStep(error);
  return next === undefined ? error.message : `${error.message.replace(/\.$/, "")}. ${next}`;
}

/** The slot that answers once a person has done something, and whether that is to load it; undefined: there is none. */
export function stuckSlot(failure: ApiFailure): { readonly slot: string; readonly isUnloaded: boolean } | undefined {
  const { status, code, details, retryAfterSeconds } = failure;
  const isStuck =
    code === "slot.failed" || (code.startsWith("slot.") && status === 503 && retryAfterSeconds === undefined);
  if (!isStuck || typeof details !== "object" || details === null) return undefined;
  const { slot, reason }: { readonly slot?: unknown; readonly reason?: unknown } = details;
  return typeof slot === "string" ? { slot, isUnloaded: reason === "Unloaded" } : undefined;
}

function nextStep(failure: ApiFailure): string | undefined {
  const { status, code, details, retryAfterSeconds } = failure;
  const stuck = stuckSlot(failure);
  if (stuck !== undefined) return stuck.isUnloaded ? undefined : "The slot's page says more.";
  const again = retryAfterSeconds === undefined ? "Try again." : `Try again in ${retryAfterSeconds} s.`;
  if (status === 429 || status === 503) return again;
  // Another refusal, such as one of a server without authentication, says itself what to do.
  const lacksScope = code === "auth.forbidden" && typeof details === "object" && details !== null && "scope" in details;
  if (lacksScope)
    return token.value === undefined
      ? "An administrator of this Berth may do it."
      : "Use a token with more rights: “Forget the token” on the page Settings.";
  if (code === "slot.not_found") return "It may have been removed: see the page Overview.";
  if (code === "config.read_only") return "Change it where it comes from.";
  if (code === "unknown" || code === "no_json")
    return "Reload the page; if that does not help, the log of Berth says more: berth doctor.";
  // An engine has failed, or nobody expected it: the log of either says more. A refusal says all of it itself.
  if (code !== "dispatch.rejected" && (code === "engine" || (code.startsWith("dispatch.") && status >= 500)))
    return "The log of the slot says more.";
  if (status >= 500) return "The log of Berth says more: berth doctor.";
  return undefined;
}
