import { apiRoutes } from "../../src/api/management/routes.ts";
import type { RouteShape } from "../../src/api/management/shape.ts";
import { BufferBudget } from "../../src/gateway/admission/budget.ts";
import { Drawings } from "../../src/gateway/images/drawings.ts";
import { ImageCache } from "../../src/gateway/images/cache.ts";
import { KeptItems } from "../../src/gateway/protocols/kept-items.ts";
import { v1Routes, v1Shapes } from "../../src/gateway/v1/routes.ts";

const head = `<!-- Written by hack/generate.ts from the route tables; change them there and run \`make generate\`. -->

# API

Every route, as the gateway has it. \`/api/openapi.json\` (OpenAPI 3.1) adds the schema of every query, body and answer;
\`/api/docs\` shows the same in a browser, fields and all. Scopes are told in [security](security.md), what requests of \`/v1\` go through in
[the way of a request](requests.md), errors in the [reference](reference.md#errors). Beside these, without credentials:
\`/livez\`, \`/readyz\` (\`?verbose\`) and \`/metrics\`; \`/\` is a page with the state of things.

Lists are \`{"object": "list", "data": […]}\`. JSON is snake_case; specs, manifests and conditions are camelCase. Creating
answers 201, other changes 202 with the resource at once; \`?wait=ready&timeout=180\` answers once the slot has settled, or once
no operator has run for 30 s.
\`{ref}\` may hold slashes and colons. A body is JSON and says so by its content type. A query or body with an unknown field,
a wrong type or a missing field is 400 \`dispatch.invalid_request\` with \`details.path\`, and so is a body where a route takes
none or one nested more than 64 deep; a route that takes no query ignores one. A manifest that breaks its schema is
422 \`config.invalid\` with \`file\`, \`line\`, \`column\` and \`path\` as far as they are known.

\`/api/events\` begins with \`snapshot\` (\`slots\`, \`pulls\`), then tells \`slot\` (the slot, or \`{"name", "removed": true}\`),
\`pull\` (the pull, or \`{"id", "removed": true}\`) and, to admins, \`config\`: also after the snapshot where there are problems. \`Last-Event-ID\` goes on where a reader left off; an id that is not known begins with a snapshot. A
comment every 15 s keeps the connection open. A reader that is 1 MiB behind gets \`resync\` and is cut.
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
