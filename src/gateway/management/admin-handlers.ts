import type { FastifyRequest } from "fastify";
import { ApiError } from "../../api/errors.ts";
import { jsonValue, type Setting } from "../../api/management/views.ts";
import { shownSettings } from "../../api/shown-settings.ts";
import { tokenOwner } from "../../api/token.ts";
import type { Handlers } from "./api-server.ts";
import { configProblems } from "./config-problems.ts";
import type { ManagementContext } from "./context.ts";
import { guardAddress, guardKeySource, writeJudged } from "./exec-fields.ts";
import { checkName, readManifest } from "./manifest-body.ts";
import { upstreamViews } from "./upstream-views.ts";
import { checkProvider } from "../providers/check.ts";

type AdminHandlers = Pick<
  Handlers,
  | "listUpstreams"
  | "putUpstream"
  | "checkUpstream"
  | "deleteUpstream"
  | "getConfig"
  | "validateConfig"
  | "listTokens"
  | "createToken"
  | "revokeToken"
  | "authStatus"
  | "login"
  | "me"
>;

/** Handlers of upstreams, configuration, tokens and the service as a whole. */
export function adminHandlers(context: ManagementContext): AdminHandlers {
  const { upstreams, openUpstreams, writer, tokens, conversations, gate, config, log } = context;
  return {
    listUpstreams: () => ({ object: "list", data: upstreamViews(context) }),
    putUpstream: async ({ params: { name = "" }, body, reply }) => {
      checkName(name);
      const { spec, labels } = readManifest("Upstream", body, name);
      const isAllowed = config.apiExec || config.authEnabled;
      const baseUrl = String(spec["baseUrl"]);
      const { outcome } = await writeJudged(writer, "Upstream", name, { spec, labels }, async (before, file) => {
        guardKeySource(spec, before, { isAllowed, file });
        guardAddress(spec, before, { isAllowed, file });
        if (isAllowed) await openUpstreams.remove(name, baseUrl);
        else if (baseUrl !== before["baseUrl"]) await openUpstreams.add(name, baseUrl);
      });
      void reply.code(outcome === "created" ? 201 : 202);
      return { name };
    },
    checkUpstream: async ({ params: { name = "" } }) => {
      const provider = upstreams.get(name);
      if (provider === undefined) throw noUpstream(name);
      const check = await checkProvider(provider);
      if (check.ok) upstreams.answered(name);
      return { name, ...check };
    },
    deleteUpstream: async ({ params: { name = "" } }) => {
      const isKnown = upstreams.get(name) !== undefined;
      if (!(await writer.remove("Upstream", name, { isKnown })) && !isKnown) throw noUpstream(name);
      return { name };
    },
    getConfig: async () => ({
      config_dir: config.configDir,
      read_only: (await writer.readOnlyReason()) !== undefined,
      settings: settingsOf(context),
    }),
    validateConfig: async ({ body }) => {
      const diagnostics = await configProblems(context, body?.files);
      return { valid: diagnostics.length === 0, diagnostics };
    },
    listTokens: async () => {
      const views = await tokens.list();
      const counts = await Promise.all(views.map(({ id }) => conversations.count(tokenOwner(id))));
      return { object: "list", data: views.map((view, at) => ({ ...view, conversations: counts[at] })) };
    },
    createToken: async ({ body, request }) => {
      if (!gate.isEnabled) throw openToEverybody();
      const created = await tokens.create(body);
      log.info(`${callerOf(request)} created token ${created.id} of scope ${created.scope}`);
      return created;
    },
    revokeToken: async ({ params: { id = "" }, request, reply }) => {
      if (!(await tokens.revoke(id)))
        throw new ApiError("system.not_found", { message: `no token has the id "${id.slice(0, 64)}"` });
      log.info(`${callerOf(request)} revoked token ${id}`);
      return await reply.code(204).send();
    },
    authStatus: ({ request }) => ({
      enabled: gate.isEnabled,
      modes: gate.isEnabled ? ["token", "proxy"] : ["none"],
      proxy_trusted: gate.isEnabled && gate.isTrusted(request.raw),
    }),
    login: () => ({
      message: gate.isEnabled
        ? "There is no login here: browsers log in at the edge proxy in front of this service, programs send a token as Authorization: Bearer."
        : "Authentication is off: nobody needs to log in.",
    }),
    me: ({ request }) => {
      const { identity, scope, source } = request.identity ?? { identity: "anonymous", scope: "admin", source: "none" };
      return { identity, scope, source };
    },
  };
}

/** Everybody may call the API: a token created here would make its holder an admin once authentication is on. */
function openToEverybody(): ApiError {
  return new ApiError("auth.forbidden", {
    message:
      "authentication is off, so no token is made over HTTP: use `berth token create` on the service's machine, or switch authentication on",
  });
}

/** Labels and names are a person's own text: shown in lists of tokens, not in the log. */
function callerOf({ identity }: FastifyRequest): string {
  if (identity === undefined || identity.source === "none") return "somebody, authentication being off,";
  return identity.source === "proxy" ? "the proxy's user" : `token ${identity.tokenId ?? ""}`;
}

function settingsOf({ config, configOrigins }: ManagementContext): Record<string, Setting> {
  const shown = Object.entries(shownSettings(config, configOrigins));
  return Object.fromEntries(shown.map(([name, setting]) => [name, { ...setting, value: jsonValue(setting.value) }]));
}

function noUpstream(name: string): ApiError {
  return new ApiError("system.not_found", { message: `no upstream is called "${name.slice(0, 64)}"` });
}
