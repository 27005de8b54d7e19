import { apiRoutes } from "../../src/api/management/routes.ts";
import type { RouteShape } from "../../src/api/management/shape.ts";
import { BufferBudget } from "../../src/gateway/slots/budget.ts";
import { Drawings } from "../../src/gateway/media/images/drawings.ts";
import { ImageCache } from "../../src/gateway/media/images/cache.ts";
import { KeptItems } from "../../src/gateway/protocols/kept-items.ts";
import { v1Routes, v1Shapes } from "../../src/gateway/v1/routes.ts";

const head = `<!-- Written by hack/generate.ts from the route tables; change them there and run \`make generate\`. -->

# API

Every route, as the gateway has it. \`/api/openapi.json\` (OpenAPI 3.1) adds the schema of every query, body and answer.
[Security](security.md) has the scopes, [the path of a request](requests.md) what happens to a request of \`/v1\`, the
[reference](reference.md#errors) the errors. These routes need no credentials and are not listed
below: \`/livez\`, \`/readyz\` (\`?verbose\`), \`/health\` (as \`llama-server\` has it) and \`/metrics\`. \`/\` is the dashboard.

Lists are \`{"object": "list", "data": […]}\`. JSON is snake_case; specs, manifests and conditions are camelCase. Creating
answers 201. Other changes answer 202 with the resource at once; with \`?wait=ready&timeout=180\` they answer once the slot has
settled, or once no operator has run for 30 s.
\`{ref}\` may hold slashes and colons. A body is JSON and says so by its content type.

A query or body with an unknown field, a wrong type or a missing field is 400 \`dispatch.invalid_request\` with \`details.path\`.
So is a body where a route takes none, and a body nested more than 64 deep. A route that takes no query ignores one. A
manifest that breaks its schema is 422 \`config.invalid\` with \`file\`, \`line\`, \`column\` and \`path\` as far as they are known.

\`/api/events\` begins with \`snapshot\` (\`slots\`, \`pulls\`, \`groups\`, \`conditions\`). Then come \`slot\`, \`pull\`, \`group\`,
\`model\` (its \`ref\` and \`state\`) and \`condition\`, each with the resource or with \`removed: true\`. Admins also get
\`config\`, \`upstream\` (a provider's circuit, its number of models and requests) and the conditions of providers;
where the configuration has problems, \`config\` comes right after the snapshot, too. \`Last-Event-ID\` goes on where a reader
left off; with an unknown id the reader gets a snapshot. While somebody follows, \`traffic\` has the last step of
\`GET /api/traffic\`, and \`machine\` how busy the machine is, each five seconds. A comment every 15 s keeps the connection open. A reader that is
1 MiB behind gets \`resync\` and is cut. Readers that connect together get the same snapshot: its uptimes and memory are up
to half a second old.
`;

const titles: Readonly<Record<string, string>> = {
  v1: "/v1",
  slots: "Slots",
  events: "Events",
  models: "Models",
  router: "llama-server's router",
  groups: "Groups",
  images: "Images",
  chat: "Conversations of the chat page",
  upstreams: "Providers",
  config: "Configuration",
  auth: "Authentication",
  system: "The service",
};

/** `docs/api.md`: one table per subject. Throws when a subject has no title. */
export function apiPage(): string {
  using kept = new KeptItems({ budget: { add: () => true, give: () => undefined }, limitBytes: 0, lifeMs: 1000 });
  const shapes: RouteShape[] = [
    ...v1Shapes(
      v1Routes({
        stateDir: "",
        spooled: new BufferBudget(0),
        images: new ImageCache(""),
        basePath: "",
        drawings: new Drawings(() => undefined),
        kept,
      }),
    ),
    ...Object.values<RouteShape>(apiRoutes),
  ];
  const missing = shapes.find(({ tag }) => titles[tag] === undefined);
  if (missing !== undefined) throw new Error(`${missing.path}: ${missing.tag} has no title in hack/generate/api.ts`);
  const parts = Object.entries(titles).map(([tag, title]) => {
    const lines = shapes.filter((shape) => shape.tag === tag).map(line);
    return `## ${title}\n\n| method | path | class | what it does | answers |\n|---|---|---|---|---|\n${lines.join("\n")}\n`;
  });
  return `${head}\n${parts.join("\n")}`;
}

function line({ method, path, scope, summary, answers, query }: RouteShape): string {
  const parameters = query === undefined ? "" : `?${Object.keys(query.shape).join("&")}`;
  const types = Object.entries(answers).map(([status, answer]) =>
    answer === "nothing" || "safeParse" in answer ? status : `${status} ${[answer.type].flat().join(" or ")}`,
  );
  return `| ${method} | \`${path}${parameters}\` | ${scope} | ${summary} | ${types.join(", ")} |`;
}
