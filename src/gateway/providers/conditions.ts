import { findCondition, nextConditions, type Condition, type ConditionClaim } from "../../api/conditions.ts";
import type { ResourceStatus } from "../../api/resource-status.ts";
import type { UpstreamView } from "./upstreams.ts";

/** A ref in a provider's manifest that belongs to another resource. */
export interface LostRef {
  readonly ref: string;
  readonly holder: string;
}

/**
 * The conditions of a provider: those of its manifest from the operator, and those of its requests from this gateway.
 * Pure. `view`: absent where the manifest was never valid; `published`: absent where the operator is older than this
 * gateway.
 */
export function upstreamConditions(options: {
  readonly view: UpstreamView | undefined;
  readonly published: ResourceStatus | undefined;
  readonly lost: readonly LostRef[];
  readonly before: readonly Condition[];
  readonly now: Date;
}): readonly Condition[] {
  const { view, published, lost, before, now } = options;
  if (view === undefined) return published?.conditions ?? [];
  const manifest = published?.conditions ?? [];
  const halt = terminalFault(view);
  const failing = failingOf(view, halt !== undefined);
  const stalled = claimOf(manifest, "Stalled") ?? (halt === undefined ? undefined : claim("Stalled", "True", halt));
  const ready = findCondition(manifest, "Ready");
  const isDown = view.circuit !== "closed";
  const claims: readonly (ConditionClaim | undefined)[] = [
    ready?.status === "False"
      ? claim("Ready", "False", ready)
      : halt !== undefined
        ? claim("Ready", "False", halt)
        : isDown && failing !== undefined
          ? claim("Ready", "False", failing)
          : claim("Ready", "True", serving),
    halt !== undefined
      ? claim("Available", "False", halt)
      : isDown && failing !== undefined
        ? claim("Available", "False", failing)
        : claim("Available", "True", serving),
    stalled,
    conflictOf(lost),
    failing === undefined ? undefined : claim("Degraded", "True", failing),
  ];
  const next = nextConditions(
    before,
    claims.filter((each) => each !== undefined),
    published?.generation ?? 0,
    now,
  );
  // The operator knows when a manifest broke: possibly long before this gateway started.
  return next.map((each) => manifest.find((condition) => isSame(condition, each)) ?? each);
}

function isSame(a: Condition, b: Condition): boolean {
  return a.type === b.type && a.status === b.status && a.reason === b.reason && a.message === b.message;
}

interface Cause {
  readonly reason: string;
  readonly message: string;
}

const serving: Cause = { reason: "Serving", message: "requests are sent to it" };

/** A fault that a person must mend before any request can succeed. */
function terminalFault({ problems: { key, refused, address } }: UpstreamView): Cause | undefined {
  if (key !== undefined) return { reason: "NoKey", message: key };
  if (address !== undefined) return { reason: "AddressRefused", message: address };
  return refused === undefined ? undefined : { reason: "KeyRefused", message: refused };
}

function failingOf({ circuit, pausedModels, problems }: UpstreamView, isHalted: boolean): Cause | undefined {
  if (circuit !== "closed") {
    const message = "it keeps failing: it is tried again after a pause, by one request, or by `berth upstream check`";
    return { reason: "CircuitOpen", message };
  }
  // A fault that a person must mend also prevents the list, and is reported already.
  if (problems.discovery !== undefined && !isHalted) {
    const message = `its models cannot be listed: ${problems.discovery}; those known from before are served`;
    return { reason: "ModelsNotListed", message };
  }
  if (pausedModels === 0) return undefined;
  const many = pausedModels === 1 ? "one of its models keeps" : `${pausedModels} of its models keep`;
  return { reason: "ModelsPaused", message: `${many} failing, and tried again after a pause` };
}

function conflictOf(lost: readonly LostRef[]): ConditionClaim | undefined {
  if (lost.length === 0) return undefined;
  const named = lost.slice(0, 20).map(({ ref, holder }) => `${ref} belongs to ${holder}`);
  const more = lost.length > named.length ? [`and ${lost.length - named.length} more`] : [];
  return claim("NameConflict", "True", { reason: "NameConflict", message: [...named, ...more].join("; ") });
}

function claimOf(conditions: readonly Condition[], type: ConditionClaim["type"]): ConditionClaim | undefined {
  const found = findCondition(conditions, type);
  return found === undefined ? undefined : claim(type, found.status, found);
}

function claim(
  type: ConditionClaim["type"],
  status: ConditionClaim["status"],
  { reason, message }: Cause,
): ConditionClaim {
  return { type, status, reason, message };
}
