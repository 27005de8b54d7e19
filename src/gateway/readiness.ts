import { ApiError } from "../api/errors.ts";
import type { ProcessRole, SlotCapability } from "../api/names.ts";
import { heartbeatTtlMs, type PublishedOperator } from "../api/status.ts";
import { findCondition } from "../api/conditions.ts";
import type { KnownSlot } from "./index.ts";

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Seconds after which a caller may try a slot that is coming up. */
const retrySeconds = 2;

/**
 * Where a request for that capability goes, or why it cannot go now. Throws ApiError of the `slot.*` and
 * `dispatch.*` families.
 */
export function endpointFor(
  slot: KnownSlot,
  capability: SlotCapability,
  bootIdNow: string,
  operator: PublishedOperator | undefined,
): Endpoint {
  const { spec, status, name } = slot;
  if (!spec.enabled) {
    const reason =
      status === undefined ? "NotConfigured" : (findCondition(status.conditions, "Ready")?.reason ?? "Disabled");
    throw new ApiError("slot.disabled", {
      message: `slot ${name} is disabled`,
      details: { slot: name, state: "offline", reason },
      headers: { "x-should-retry": "false" },
    });
  }
  if (status === undefined) throw notReady(name, "offline", "NotPublished", retrySeconds);
  if (status.capabilities.length > 0 && !status.capabilities.includes(capability)) {
    throw new ApiError("dispatch.capability_mismatch", {
      message: `slot ${name} does not serve ${capability}`,
      details: { slot: name, capability, capabilities: status.capabilities },
    });
  }
  // After a reboot what was published before speaks of engines that are gone.
  if (operator !== undefined && operator.bootId !== bootIdNow)
    throw notReady(name, "offline", "OperatorLost", retrySeconds);
  const role = roleFor(slot, capability);
  const process = status.processes.find((candidate) => candidate.role === role);
  if (process?.isReady === true && status.state !== "unloading") return { host: "127.0.0.1", port: process.port };
  const stalled = findCondition(status.conditions, "Stalled");
  if (status.state === "error") {
    const next = status.nextRetryAt;
    const left = next === undefined ? undefined : Math.max(1, Math.ceil((Date.parse(next) - Date.now()) / 1000));
    throw new ApiError("slot.failed", {
      message: `slot ${name} has failed: ${status.lastError?.message ?? "unknown cause"}`.slice(0, 500),
      details: {
        slot: name,
        state: "error",
        reason: stalled?.reason ?? status.lastError?.reason ?? "Failed",
        message: (stalled?.message ?? status.lastError?.message ?? "").slice(0, 500),
        next_retry_at: next ?? null,
      },
      headers: left === undefined ? { "x-should-retry": "false" } : { "retry-after": String(left) },
    });
  }
  const reason = findCondition(status.conditions, "Available")?.reason ?? status.state;
  if (reason === "Unloaded") {
    throw new ApiError("slot.not_ready", {
      message: `slot ${name} is unloaded until somebody loads it`,
      details: { slot: name, state: status.state, reason },
      headers: { "x-should-retry": "false" },
    });
  }
  throw notReady(name, status.state, reason, retrySeconds, role);
}

function notReady(slot: string, state: string, reason: string, seconds: number, role?: ProcessRole): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${slot} is not ready: ${state}`,
    details: { slot, state, reason, ...(role === "rerank" ? { role } : {}) },
    headers: { "retry-after": String(seconds) },
  });
}

function roleFor({ status, spec }: KnownSlot, capability: SlotCapability): ProcessRole {
  const hasSecond = spec.model.rerank !== undefined || status?.processes.some(({ role }) => role === "rerank") === true;
  return capability === "rerank" && hasSecond ? "rerank" : "main";
}

/** The operator has not been heard of lately: what it published may be old. */
export function isOperatorLost(operator: PublishedOperator | undefined, now = Date.now()): boolean {
  return operator === undefined || now - Date.parse(operator.heartbeat) > heartbeatTtlMs;
}
