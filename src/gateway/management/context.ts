import type { FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { CatalogEntry } from "../../api/catalog.ts";
import type { Config, ConfigOrigin } from "../../api/config.ts";
import { ApiError } from "../../api/errors.ts";
import type { RouteShape } from "../../api/management/shape.ts";
import { slotNameSchema } from "../../api/names.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { isGranted } from "../../api/scopes.ts";
import type { PublishedOperator } from "../../api/status.ts";
import type { SharedSets } from "../../store/shared-sets.ts";
import type { OpenUpstreams } from "../../store/state/open-upstreams.ts";
import type { OperatorLiveness, RequestStore } from "../../store/store.ts";
import type { TokenStore } from "../../store/auth/tokens.ts";
import type { ManifestWriter } from "../../store/files/writer.ts";
import type { Admission } from "../slots/admission.ts";
import type { Gate } from "../auth/gate.ts";
import type { ConversationThread } from "../conversations/thread.ts";
import type { Drawings } from "../media/images/drawings.ts";
import type { ImageCache } from "../media/images/cache.ts";
import type { KnownSlot, ResolutionIndex } from "../routing/index.ts";
import type { RecentRequests } from "../telemetry/recent-requests.ts";
import type { TrafficHistory } from "../telemetry/traffic-history.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { MachineReadings } from "./machine-readings.ts";
import type { ResourceIndex } from "./resource-index.ts";
import type { Traffic } from "../slots/traffic.ts";
import type { Upstreams } from "../providers/upstreams.ts";
import type { ViewContext } from "./views.ts";

/** Everything that management routes act on. */
export interface ManagementContext extends SharedSets {
  readonly index: () => ResolutionIndex;
  /** Brings the models of the index up to date: a pull that another gateway shows as completed may be news here. */
  readonly refreshModels: () => Promise<void>;
  readonly operator: () => PublishedOperator | undefined;
  readonly operatorLiveness: () => OperatorLiveness;
  readonly traffic: Traffic;
  readonly admission: Admission;
  readonly metrics: GatewayMetrics;
  readonly recent: RecentRequests;
  readonly history: TrafficHistory;
  readonly images: ImageCache;
  readonly drawings: Pick<Drawings, "of">;
  readonly upstreams: Upstreams;
  readonly openUpstreams: OpenUpstreams;
  readonly resources: ResourceIndex;
  readonly requests: RequestStore;
  readonly readings: Pick<MachineReadings, "latest" | "now"> | undefined;
  readonly catalog: () => Promise<readonly CatalogEntry[]>;
  readonly writer: ManifestWriter;
  readonly conversations: ConversationThread;
  readonly gate: Gate;
  readonly tokens: Pick<TokenStore, "list" | "create" | "revoke">;
  readonly log: Logger;
  readonly config: Config;
  readonly configOrigins: Readonly<Record<string, ConfigOrigin>>;
  readonly version: string;
  /** The routes that reach an engine, as the OpenAPI document shows them. */
  readonly v1: readonly RouteShape[];
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly isReady: () => boolean;
  /** Aborted when this gateway stops: waits and streams end. */
  readonly stopping: AbortSignal;
  /** Called when something published has changed. */
  readonly watch: (onChange: () => void) => Disposable;
}

/** The present inputs of views. */
export function viewOf(context: ManagementContext): ViewContext {
  return {
    index: context.index(),
    traffic: context.traffic,
    admission: context.admission,
    isOperatorLost: context.operatorLiveness() !== "live",
  };
}

/** Whether the caller may see a manifest's values in plain text. */
export function mayAdminister({ identity }: FastifyRequest): boolean {
  return identity !== undefined && isGranted(identity.scope, "admin");
}

/**
 * Throws ApiError `slot.not_found`, and `slot.not_ready` before the first operator has published anything, and while one that
 * has just started reads the manifests.
 */
export function slotNamed(context: ManagementContext, name: string): KnownSlot {
  const slot = context.index().slots.get(name);
  const operator = context.operator();
  const isSyncing = operator === undefined || (!operator.isSettled && context.operatorLiveness() === "live");
  if (slot === undefined && isSyncing && slotNameSchema.safeParse(name).success) {
    throw new ApiError("slot.not_ready", {
      message: `${operator === undefined ? "no operator has published its slots" : "the operator has not published every slot"} yet`,
      details: { slot: name, state: "offline", reason: "NotPublished" },
      headers: { "retry-after": "2" },
    });
  }
  if (slot === undefined) {
    const close = nearest(name.slice(0, 64), context.index().slots.keys());
    throw new ApiError("slot.not_found", {
      message: `no slot is called "${name.slice(0, 64)}"${didYouMean(close)}`,
      details: { suggestions: close === undefined ? [] : [close] },
    });
  }
  return slot;
}
