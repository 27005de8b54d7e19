import { abnormalConditions } from "../../api/conditions.ts";
import type { UpstreamRow } from "../../api/management/views.ts";
import type { ManagementContext } from "./context.ts";

/** Every declared provider; those whose manifest was never valid serve nothing. */
export function upstreamViews({
  upstreams,
  resources,
}: Pick<ManagementContext, "upstreams" | "resources">): UpstreamRow[] {
  const views = new Map(upstreams.views().map((view) => [view.name, view]));
  return [...resources.upstreams()].map(([name, { file, conditions }]) => {
    const view = views.get(name);
    const [trouble] = abnormalConditions(conditions);
    return {
      name,
      spec: view?.spec ?? null,
      circuit: view?.circuit ?? "closed",
      in_flight: view?.inFlight ?? 0,
      queued: view?.queued ?? 0,
      models: view?.refs ?? 0,
      problem: trouble?.message ?? null,
      file,
      conditions: [...conditions],
    };
  });
}
