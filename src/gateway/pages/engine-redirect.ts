import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Config } from "../../api/config.ts";
import { ApiError } from "../../api/errors.ts";
import { pagePath } from "./engine-headers.ts";

/** `/upstream/SLOT/` of the API leads to the port of engines' pages, where SVC_ENGINE_PAGES names slots. */
export function leadToEnginePages(
  app: FastifyInstance,
  { enginePages, enginePagesPort }: Pick<Config, "enginePages" | "enginePagesPort">,
): void {
  if (enginePages.length === 0) return;
  for (const url of ["/upstream/:slot", "/upstream/:slot/*"])
    app.get<{ Params: { slot: string } }>(url, { config: { scope: "public" } }, async (request, reply) => {
      const { slot } = request.params;
      const host = hostOf(request);
      if (!enginePages.includes(slot) || host === undefined)
        throw new ApiError("system.not_found", { message: "SVC_ENGINE_PAGES does not name this slot" });
      const rest = request.url.replace(/^\/upstream\/[^/?]+\/?/, "");
      return await reply.redirect(`http://${host}:${enginePagesPort}${pagePath(slot)}${rest}`, 307);
    });
}

/** The name by which the browser knows this machine, without the port. */
function hostOf({ headers }: FastifyRequest): string | undefined {
  return URL.parse(`http://${headers.host ?? ""}`)?.hostname;
}
