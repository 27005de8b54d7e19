import type { FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Config, ConfigOrigin } from "../../api/config.ts";
import { ApiError } from "../../api/errors.ts";
import type { RouteShape } from "../../api/management/shape.ts";
import { slotNameSchema } from "../../api/names.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { isGranted } from "../../api/scopes.ts";
import type { PublishedOperator } from "../../api/status.ts";
import type { HardwareStore } from "../../store/hardware.ts";
import type { OpenUpstreams } from "../../store/open-upstreams.ts";
import type { RequestStore } from "../../store/store.ts";
import type { TokenStore } from "../../store/tokens.ts";
import type { ManifestThread } from "../../store/thread/manifest-thread.ts";
import type { AsyncManifestWriter } from "../../store/writer.ts";
import type { Admission } from "../admission/admission.ts";
import { isOperatorLost } from "../admission/availability.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import type { Drawings } from "../images/drawings.ts";
import type { ImageCache } from "../images/cache.ts";
import type { KnownSlot, ResolutionIndex } from "../index.ts";
import type { GatewayMetrics } from "../metrics.ts";
import type { ResourceBook } from "../resource-book.ts";
import type { Traffic } from "../traffic.ts";
import type { Upstreams } from "../upstreams/upstreams.ts";
import type { ViewContext } from "./views.ts";

/** Everything that management routes act on. */
export interface ManagementContext {
  readonly index: () => ResolutionIndex;
  readonly operator: () => PublishedOperator | undefined;
  readonly traffic: Traffic;
  readonly admission: Admission;
  readonly metrics: GatewayMetrics;
  readonly images: ImageCache;
  readonly drawings: Pick<Drawings, "of">;
  readonly upstreams: Upstreams;
  readonly openUpstreams: OpenUpstreams;
  readonly resources: ResourceBook;
  readonly requests: RequestStore;
  readonly hardware: Pick<HardwareStore, "found" | "pending" | "ask" | "watch">;
  readonly writer: AsyncManifestWriter;
  /** Reads what clients send, however long that takes. */
  readonly manifests: Pick<ManifestThread, "validateFiles" | "validateDirectory">;
  readonly authenticator: Authenticator;
  readonly tokens: Pick<TokenStore, "list" | "create" | "revoke">;
  readonly log: Logger;
  readonly config: Config;
  readonly configOrigins: Readonly<Record<string, ConfigOrigin>>;
  readonly version: string;
  /** The routes that ask an engine, as the OpenAPI document shows them. */
  readonly v1: readonly RouteShape[];
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly isReady: () => boolean;
  /** Aborted when this gateway has no more time: whoever waits or follows is let go. */
  readonly stopping: AbortSignal;
  /** Called when something published has changed. */
  readonly watch: (onChange: () => void) => Disposable;
}

/** What views are made from, as it is now. */
export function viewOf(context: ManagementContext): ViewContext {
  return {
    index: context.index(),
    traffic: context.traffic,
    admission: context.admission,
    isOperatorLost: isOperatorLost(context.operator()),
  };
}

/** Whether the caller may see what a manifest says in plain text. */
export function mayAdminister({ identity }: FastifyRequest): boolean {
  return identity !== undefined && isGranted(identity.scope, "admin");
}

/** Throws ApiError `slot.not_found`, and `slot.not_ready` while an operator that has just started looks for it. */
export function slotNamed(context: ManagementContext, name: string): KnownSlot {
  const slot = context.index().slots.get(name);
  const operator = context.operator();
  const isLooking = operator?.isSettled === false && !isOperatorLost(operator);
  if (slot === undefined && isLooking && slotNameSchema.safeParse(name).success) {
    throw new ApiError("slot.not_ready", {
      message: "the operator has not told of every slot yet",
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
