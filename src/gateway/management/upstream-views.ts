import { abnormalConditions } from "../../api/conditions.ts";
import { upstreamViewSchema, type UpstreamRow } from "../../api/management/views.ts";
import type { ManagementContext } from "./context.ts";
import { viewFrom } from "./view-from.ts";

const rowOf = viewFrom(upstreamViewSchema);

/** Every declared provider; those whose manifest was never valid serve nothing. */
export function upstreamViews({
  upstreams,
  resources,
}: Pick<ManagementContext, "upstreams" | "resources">): UpstreamRow[] {
  const views = new Map(upstreams.views().map((view) => [view.name, view]));
  return [...resources.upstreams()].map(([name, { file, conditions }]) => {
    const view = views.get(name);
    const [trouble] = abnormalConditions(conditions);
    const idle = { circuit: "closed", inFlight: 0, queued: 0 } as const;
    return rowOf({
      ...idle,
      ...view,
      name,
      models: view?.refs ?? 0,
      problem: trouble?.message,
      file,
      conditions,
    });
  });
}
