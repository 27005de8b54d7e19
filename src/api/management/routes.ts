import { adminRoutes } from "./admin-routes.ts";
import { modelRoutes } from "./model-routes.ts";
import type { RouteShape } from "./shape.ts";
import { slotRoutes } from "./slot-routes.ts";
import { systemRoutes } from "./system-routes.ts";

/** Every management route: paths, who may call them, what goes in and out (CONTRACT "/api"). */
export const apiRoutes = {
  ...slotRoutes,
  ...modelRoutes,
  ...adminRoutes,
  ...systemRoutes,
} as const satisfies Record<string, RouteShape>;
export type ApiRoutes = typeof apiRoutes;
