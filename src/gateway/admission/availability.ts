import { findCondition, type Condition } from "../../api/conditions.ts";
import { ApiError } from "../../api/errors.ts";
import type { ProcessRole, SlotCapability } from "../../api/names.ts";
import { heartbeatTtlMs, type PublishedOperator, type SlotStatus } from "../../api/status.ts";
import { isAvailable } from "../../api/states.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { KnownSlot } from "../index.ts";
import { failureWords } from "./failure-words.ts";

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  /** Which start of an engine this is: another one may have the port later. */
  readonly process: string;
  /** What the engine wants of whoever asks it; it never reaches a client. */
  readonly bearer?: string;
}

/** The header line by which an engine knows the gateway; empty for an engine that asks for nothing. */
export function bearerLine({ bearer }: Pick<Endpoint, "bearer">): string {
  return bearer === undefined ? "" : `authorization: Bearer ${bearer}\r\n`;
}

/** What a request for a slot meets: an engine, a reason to wait, or a reason to give up. */
export type Availability =
  | { readonly kind: "open"; readonly endpoint: Endpoint }
  /** `failure` is what a caller learns whose time ends before the slot is there. */
  | { readonly kind: "shut"; readonly reopensInMs?: number; readonly failure: ApiError }
  | { readonly kind: "closed"; readonly failure: ApiError };

/** What is known beside the slot's own status. */
export interface Surroundings {
  readonly bootId: string;
  readonly operator: PublishedOperator | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Seconds after which a caller may try a slot that is coming up. */
const retrySeconds = 2;
/** An `error` is waited through when its next try is no further away (DECISIONS 9). */
const nearRetryMs = 10_000;
/** The third failure in a row is an outage (DECISIONS 9). */
const outageFailures = 3;

/** Throws ApiError `dispatch.capability_mismatch`. */
export function checkCapability({ name, status }: KnownSlot, capability: SlotCapability): void {
  if (status === undefined || status.capabilities.length === 0 || status.capabilities.includes(capability)) return;
  throw new ApiError("dispatch.capability_mismatch", {
    message: `slot ${name} does not serve ${capability}`,
    details: { slot: name, capability, capabilities: status.capabilities },
  });
}

/** Which process of a slot with two answers that capability. */
export function roleFor({ status, spec }: KnownSlot, capability: SlotCapability): ProcessRole {
  const hasSecond = spec.model.rerank !== undefined || status?.processes.some(({ role }) => role === "rerank") === true;
  return capability === "rerank" && hasSecond ? "rerank" : "main";
}

/** Where a request for that process of the slot goes now, whether it waits, or why it need not wait. */
export function availabilityOf(slot: KnownSlot, role: ProcessRole, around: Surroundings): Availability {
  const { spec, status, name } = slot;
  if (status === undefined) return { kind: "shut", failure: notReady(name, "offline", "NotPublished") };
  // What was never valid has no spec that could say whether it is enabled.
  if (isNeverValid(slot)) return failed(name, status, around.now);
  if (!spec.enabled) return { kind: "closed", failure: disabled(name, status) };
  // After a reboot what was published before speaks of engines that are gone.
  if (around.operator !== undefined && around.operator.bootId !== around.bootId)
    return { kind: "shut", failure: notReady(name, "offline", "OperatorLost") };
  const process = status.processes.find((candidate) => candidate.role === role);
  if (process?.isReady === true && status.state !== "unloading")
    return { kind: "open", endpoint: endpointOf(slot, process) };
  if (status.state === "error") return failed(name, status, around.now);
  if (role !== "main" && isAvailable(status.state) && isFailing(status)) return failed(name, status, around.now, role);
  const reason = findCondition(status.conditions, "Available")?.reason ?? status.state;
  if (reason === "Unloaded") return { kind: "closed", failure: unloaded(name, status.state) };
  return { kind: "shut", failure: notReady(name, status.state, reason, role) };
}

/** Whether the slot answers now, or will when it is asked: it is enabled, and waits for no person. */
export function willAnswer(slot: KnownSlot): boolean {
  return availabilityOf(slot, "main", { operator: undefined, bootId: "", now: Date.now() }).kind !== "closed";
}

function identityOf({ pid, containerId, startedAt }: SlotStatus["processes"][number]): string {
  return `${pid ?? containerId ?? ""} ${startedAt ?? ""}`;
}

function endpointOf({ published }: KnownSlot, process: SlotStatus["processes"][number]): Endpoint {
  const { role, port } = process;
  const bearer = published?.bearers?.[role];
  const endpoint = { host: "127.0.0.1", port, process: identityOf(process) };
  return bearer === undefined ? endpoint : { ...endpoint, bearer };
}

/** Its manifest has been invalid since the operator first saw it: there is no spec to act on. */
export function isNeverValid({ status }: KnownSlot): boolean {
  return status?.state === "error" && invalidSpec(status) !== undefined;
}

/** The condition that says that its manifest is invalid now, whatever spec is in force. */
export function invalidSpec({ conditions }: SlotStatus): Condition | undefined {
  const stalled = findCondition(conditions, "Stalled");
  return stalled?.status === "True" && stalled.reason === "InvalidSpec" ? stalled : undefined;
}

/** While the main process serves, what the status tells of failures is the other's. */
function isFailing(status: SlotStatus): boolean {
  if (status.failures === 0) return false;
  return status.nextRetryAt !== undefined || status.failures >= outageFailures || needsPerson(status);
}

/** A slot that serves may be stalled by a bad edit too: that says nothing of its processes. */
function needsPerson({ conditions, lastError, state }: SlotStatus): boolean {
  const stalled = findCondition(conditions, "Stalled");
  return stalled?.status === "True" && (state === "error" || stalled.reason === lastError?.reason);
}

/** By DECISIONS 9. `role` is that of a process that fails beside one that serves. */
function failed(slot: string, status: SlotStatus, now: number, role?: ProcessRole): Availability {
  const isStalled = needsPerson(status);
  const stalled = isStalled ? findCondition(status.conditions, "Stalled") : undefined;
  const reopensAt = status.nextRetryAt === undefined ? undefined : Date.parse(status.nextRetryAt);
  const reopensInMs = reopensAt === undefined ? undefined : reopensAt - now;
  const isNear = reopensInMs !== undefined && reopensInMs <= nearRetryMs;
  const reason = stalled?.reason ?? status.lastError?.reason ?? "Failed";
  const message = failureWords(reason);
  const details = { slot, state: status.state, reason, message, next_retry_at: status.nextRetryAt ?? null };
  // Beside a process that serves, what has no next try is being tried now.
  const waitSeconds = role === undefined ? undefined : retrySeconds;
  const seconds = reopensInMs === undefined ? waitSeconds : Math.max(1, Math.ceil(reopensInMs / 1000));
  const headers =
    seconds === undefined || isStalled ? { "x-should-retry": "false" } : { "retry-after": String(seconds) };
  const failure =
    role === undefined
      ? new ApiError("slot.failed", { message: `slot ${slot} has failed: ${message}`, details, headers })
      : new ApiError("slot.not_ready", {
          message: `the ${role} process of slot ${slot} has failed: ${message}`,
          details: { ...details, role },
          headers,
        });
  if (isStalled || !isNear || status.failures >= outageFailures) return { kind: "closed", failure };
  return { kind: "shut", reopensInMs, failure };
}

function disabled(name: string, status: SlotStatus): ApiError {
  const reason = findCondition(status.conditions, "Ready")?.reason ?? "Disabled";
  return new ApiError("slot.disabled", {
    message: `slot ${name} is disabled${reason === "NotConfigured" ? ": no manifest configures it" : ""}`,
    details: { slot: name, state: "offline", reason },
    headers: { "x-should-retry": "false" },
  });
}

function unloaded(slot: string, state: string): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${slot} is unloaded until somebody loads it`,
    details: { slot, state, reason: "Unloaded" },
    headers: { "x-should-retry": "false" },
  });
}

function notReady(slot: string, state: string, reason: string, role?: ProcessRole): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${slot} is not ready: ${state}`,
    details: { slot, state, reason, ...(role === "rerank" ? { role } : {}) },
    headers: { "retry-after": String(retrySeconds) },
  });
}

/** When each heartbeat was heard that came after another of the same operator. */
const beats = new WeakMap<PublishedOperator, number>();

/**
 * An operator has published `current` where it had published `before`: the operator lives, whatever the wall clock says. The
 * first thing heard of an operator proves nothing: the operator may have ended since.
 */
export function noteBeat(before: PublishedOperator | undefined, current: PublishedOperator | undefined): void {
  if (before === undefined || current === undefined || before.pid !== current.pid) return;
  if (before.startedAt === current.startedAt && before.heartbeat !== current.heartbeat) beats.set(current, steadyNow());
}

/** The operator has not been heard of lately: what it published may be old. */
export function isOperatorLost(operator: PublishedOperator | undefined, now = Date.now()): boolean {
  if (operator === undefined) return true;
  const heardAt = beats.get(operator);
  if (heardAt !== undefined) return steadyNow() - heardAt > heartbeatTtlMs;
  return now - Date.parse(operator.heartbeat) > heartbeatTtlMs;
}
