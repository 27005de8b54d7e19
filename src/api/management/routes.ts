import { adminRoutes } from "./admin-routes.ts";
import { groupRoutes } from "./group-routes.ts";
import { chatRoutes } from "./chat-routes.ts";
import { modelRoutes } from "./model-routes.ts";
import { requestRoutes } from "./request-routes.ts";
import { routerRoutes } from "./router-routes.ts";
import type { RouteShape } from "./shape.ts";
import { slotRoutes } from "./slot-routes.ts";
import { systemRoutes } from "./system-routes.ts";

/** Every management route: path, scope class, request and response (CONTRACT "/api"). */
export const apiRoutes = {
  ...slotRoutes,
  ...modelRoutes,
  ...groupRoutes,
  ...adminRoutes,
  ...systemRoutes,
  ...requestRoutes,
  ...routerRoutes,
  ...chatRoutes,
} as const satisfies Record<string, RouteShape>;
export type ApiRoutes = typeof apiRoutes;
