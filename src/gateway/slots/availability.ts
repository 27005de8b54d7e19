import { findCondition, type Condition } from "../../api/conditions.ts";
import { nameOfStart, outlivesBoot, publishedId } from "../../api/engine-identity.ts";
import { ApiError } from "../../api/errors.ts";
import type { ProcessRole } from "../../api/names.ts";
import { bearerFor } from "../../api/published-slot.ts";
import type { OnRequest } from "../../api/on-request.ts";
import type { SlotStatus } from "../../api/status.ts";
import { isAvailable } from "../../api/states.ts";
import type { OperatorLiveness } from "../../store/store.ts";
import type { KnownSlot } from "../routing/index.ts";
import { failureMessage } from "./failure-messages.ts";

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  /** The replica of its role. */
  readonly ordinal: number;
  /** Identifies the start of an engine: another one may have the port later. */
  readonly process: string;
  /** The bearer that the engine requires; it never reaches a client. */
  readonly bearer?: string;
}

/** The state of a slot for a request: an engine, a reason to wait, or a reason to fail. */
export type Availability =
  | { readonly kind: "open"; readonly endpoints: readonly Endpoint[] }
  /**
   * `failure` is the error for a request whose time ends before the slot is ready. `since`: when its last engine was first
   * found lost; the slot may have been open for a new try since then. `state`: reported to waiting clients instead of the slot's,
   * which is out of date.
   */
  | {
      readonly kind: "shut";
      readonly state?: "offline";
      readonly reopensInMs?: number;
      readonly since?: number;
      readonly failure: ApiError;
    }
  | { readonly kind: "closed"; readonly failure: ApiError };

/** The facts beside the slot's own status. */
export interface AvailabilityContext {
  readonly operator: OperatorLiveness;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The model that must answer; absent: whatever the slot holds. */
  readonly ref?: string | undefined;
  /** The engines that this gateway could not reach and whose end no operator has reported: since when, by their start. */
  readonly lost?: ReadonlyMap<string, number>;
}

/** Seconds after which a client may retry while the slot loads. */
const retrySeconds = 2;
/** Requests wait through an `error` whose next attempt is no later than this (DECISIONS 9). */
const nearRetryMs = 10_000;
/** The third failure in a row is an outage (DECISIONS 9). */
const closedAfterFailures = 3;

/** The backends for that process of the slot now, whether a request waits, or why it fails. */
export function availabilityOf(slot: KnownSlot, role: ProcessRole, around: AvailabilityContext): Availability {
  const { spec, status, name } = slot;
  if (status === undefined) return { kind: "shut", failure: notReady(name, "offline", "NotPublished") };
  // A manifest that was never valid has no spec with `enabled`.
  if (isNeverValid(slot)) return failed(name, status, around.now);
  if (!spec.enabled) return { kind: "closed", failure: disabled(name, status) };
  const isUnproven = around.operator === "unproven";
  const known = status.state === "unloading" ? [] : readyEndpoints(slot, role, isUnproven);
  const ready = known.filter(({ process }) => around.lost?.has(process) !== true);
  if ((isUnproven || known.length > 0) && ready.length === 0) {
    const failure = notReady(name, "offline", "OperatorLost");
    return { kind: "shut", state: "offline", ...lostSince(known, around.lost), failure };
  }
  if (around.ref !== undefined && around.ref !== status.model.ref) return ofOtherModel(slot, around.ref, around.now);
  if (ready.length > 0) return { kind: "open", endpoints: ready };
  const lentMs = status.lentUntil === undefined ? 0 : Date.parse(status.lentUntil) - around.now;
  if (lentMs > 0) return { kind: "closed", failure: lent(name, status.state, lentMs) };
  if (status.state === "error") return failed(name, status, around.now);
  if (role !== "main" && isAvailable(status.state) && isFailing(status)) return failed(name, status, around.now, role);
  const reason = findCondition(status.conditions, "Available")?.reason ?? status.state;
  if (reason === "Unloaded") return { kind: "closed", failure: unloaded(name, status.state) };
  return { kind: "shut", failure: notReady(name, status.state, reason, role) };
}

function lostSince(known: readonly Endpoint[], lost: AvailabilityContext["lost"]): { readonly since?: number } {
  const times = known.flatMap(({ process }) => lost?.get(process) ?? []);
  return times.length === 0 ? {} : { since: Math.max(...times) };
}

/** Whether the slot answers now, or would load for a request: it is enabled, and needs no person. */
export function willAnswer(slot: KnownSlot): boolean {
  return availabilityOf(slot, "main", { operator: "absent", now: Date.now() }).kind !== "closed";
}

/** The operator waits until gateways have no requests at the slot, or at one of its processes. */
export function isSlotDraining(slot: KnownSlot | undefined): boolean {
  if (slot?.status === undefined) return false;
  const { state, processes } = slot.status;
  return state === "unloading" || processes.some(({ drainingSince }) => drainingSince !== undefined);
}

/** The endpoints of replicas that accept new requests. A status from before a reboot (`isUnproven`) names engines that are gone. */
function readyEndpoints({ published, status }: KnownSlot, role: ProcessRole, isUnproven: boolean): readonly Endpoint[] {
  const endpoints: Endpoint[] = [];
  for (const process of status?.processes ?? []) {
    if (process.role !== role || !process.isReady || process.drainingSince !== undefined) continue;
    if (isUnproven && !outlivesBoot(process)) continue;
    const { host, port, ordinal, startedAt } = process;
    const start = nameOfStart(publishedId(process), startedAt);
    endpoints.push({ host, port, ordinal, process: start, ...bearerFor(published, process) });
  }
  return endpoints;
}

/** Whether the slot's manifest has been invalid since the operator first read it: there is no spec to act on. */
function isNeverValid({ status }: KnownSlot): boolean {
  return status?.state === "error" && invalidSpec(status) !== undefined;
}

/** The condition of an invalid manifest, with any spec in force. */
export function invalidSpec({ conditions }: SlotStatus): Condition | undefined {
  const stalled = findCondition(conditions, "Stalled");
  return stalled?.status === "True" && stalled.reason === "InvalidSpec" ? stalled : undefined;
}

/** A slot's conditions, corrected for a lost operator. */
export function slotConditions(conditions: readonly Condition[], isOperatorLost: boolean): readonly Condition[] {
  if (!isOperatorLost) return conditions;
  // Without an operator, conditions of engines are out of date.
  return conditions.map((condition) =>
    condition.type === "Ready"
      ? {
          ...condition,
          status: "Unknown",
          reason: "OperatorLost",
          message: "no heartbeat of the operator for 5 s",
        }
      : condition,
  );
}

/** While the main process serves, failures in the status are the other process's. */
function isFailing(status: SlotStatus): boolean {
  if (status.failures === 0) return false;
  return status.nextRetryAt !== undefined || status.failures >= closedAfterFailures || needsPerson(status);
}

/** A serving slot may be stalled by an invalid edit too: that says nothing about its processes. */
function needsPerson({ conditions, lastError, state }: SlotStatus): boolean {
  const stalled = findCondition(conditions, "Stalled");
  return stalled?.status === "True" && (state === "error" || stalled.reason === lastError?.reason);
}

/** By DECISIONS 9. `role` is the role of a process that fails beside a serving one. */
function failed(slot: string, status: SlotStatus, now: number, role?: ProcessRole): Availability {
  const isStalled = needsPerson(status);
  const stalled = isStalled ? findCondition(status.conditions, "Stalled") : undefined;
  const reopensAt = status.nextRetryAt === undefined ? undefined : Date.parse(status.nextRetryAt);
  const reopensInMs = reopensAt === undefined ? undefined : reopensAt - now;
  const isNear = reopensInMs !== undefined && reopensInMs <= nearRetryMs;
  const reason = stalled?.reason ?? status.lastError?.reason ?? "Failed";
  const message = failureMessage(reason);
  const details = { slot, state: status.state, reason, message, next_retry_at: status.nextRetryAt ?? null };
  // Beside a serving process, a failure without a next attempt is being retried now.
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
  if (isStalled || !isNear || status.failures >= closedAfterFailures) return { kind: "closed", failure };
  return { kind: "shut", reopensInMs, failure };
}

/** For a request that names a model which the slot does not hold now. */
function ofOtherModel({ name, status }: KnownSlot, ref: string, now: number): Availability {
  const choice = status?.onRequest;
  const state = status?.state ?? "offline";
  if (choice === undefined || !choice.refs.includes(ref))
    return { kind: "closed", failure: notReady(name, state, "Changed") };
  const reason = findCondition(status?.conditions ?? [], "Available")?.reason;
  if (reason === "Unloaded") return { kind: "closed", failure: unloaded(name, state) };
  const failed = failureOfRef(name, choice, ref, now);
  if (failed === undefined) return { kind: "shut", failure: notReady(name, state, "Swapping") };
  const isNear = !failed.isStalled && failed.reopensInMs <= nearRetryMs && failed.failures < closedAfterFailures;
  return isNear
    ? { kind: "shut", reopensInMs: failed.reopensInMs, failure: failed.failure }
    : { kind: "closed", failure: failed.failure };
}

/** The failure of a model that could not be loaded and is not tried again yet. */
function failureOfRef(
  slot: string,
  choice: OnRequest,
  ref: string,
  now: number,
):
  | { readonly failure: ApiError; readonly reopensInMs: number; readonly failures: number; readonly isStalled: boolean }
  | undefined {
  const failed = choice.failed.find((each) => each.ref === ref);
  if (failed === undefined) return undefined;
  const reopensInMs = Date.parse(failed.retryAt) - now;
  if (reopensInMs <= 0) return undefined;
  const { reason, failures, isStalled, retryAt } = failed;
  const message = failureMessage(reason);
  const failure = new ApiError("slot.failed", {
    message: `slot ${slot} could not load ${ref}: ${message}`,
    details: { slot, ref, state: "error", reason, message, next_retry_at: retryAt },
    headers: isStalled ? { "x-should-retry": "false" } : { "retry-after": String(Math.ceil(reopensInMs / 1000)) },
  });
  return { failure, reopensInMs, failures, isStalled };
}

function disabled(name: string, status: SlotStatus): ApiError {
  const reason = findCondition(status.conditions, "Ready")?.reason ?? "Disabled";
  return new ApiError("slot.disabled", {
    message: `slot ${name} is disabled${reason === "NotConfigured" ? ": no manifest configures it" : ""}`,
    details: { slot: name, state: "offline", reason },
  });
}

function unloaded(slot: string, state: string): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${slot} was unloaded by hand, and answers once somebody loads it`,
    details: { slot, state, reason: "Unloaded" },
    headers: { "x-should-retry": "false" },
  });
}

/** The refusal of a request for a slot whose group is lent: no request would be answered before that time. */
function lent(slot: string, state: string, leftMs: number): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${slot} is not loaded while its group is lent`,
    details: { slot, state, reason: "Lent" },
    headers: { "retry-after": String(Math.max(1, Math.ceil(leftMs / 1000))) },
  });
}

function notReady(slot: string, state: string, reason: string, role?: ProcessRole): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${slot} is not ready: ${state}`,
    details: { slot, state, reason, ...(role === "rerank" ? { role } : {}) },
    headers: { "retry-after": String(retrySeconds) },
  });
}
