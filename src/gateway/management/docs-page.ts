import type { openApiDocument } from "../../api/management/openapi.ts";
import { isRecord } from "../../lib/record.ts";

type Json = Readonly<Record<string, unknown>>;

/** The API for people, schemas included: one page without scripts or foreign resources. */
export function docsPage(document: ReturnType<typeof openApiDocument>): string {
  const operations = Object.entries(recordAt(document, "paths")).flatMap(([path, methods]) =>
    Object.entries(isRecord(methods) ? methods : {}).map(([method, operation]) =>
      operationOf(`${method.toUpperCase()} ${path}`, isRecord(operation) ? operation : {}),
    ),
  );
  const schemas = Object.entries(recordAt(recordAt(document, "components"), "schemas")).map(
    ([name, schema]) => `<h3 id="schema-${escaped(name)}">${escaped(name)}</h3>\n${shapeOf(schema)}`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Berth API</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}details{border-bottom:1px solid #8884;padding:.3rem 0}summary{cursor:pointer}summary i{float:right}h4{margin:.6rem 0 0}ul{margin:.1rem 0;padding-left:1.3rem}code{font-size:.95em}</style></head>
<body><h1>Berth API</h1>
<p>The same for programs: <a href="openapi.json">/api/openapi.json</a> (OpenAPI 3.1). Programs send
<code>Authorization: Bearer svc_…</code> where authentication is on; beside each route stands the least scope that may call it.
Errors are <code>{"error":{"code","message","type","details"}}</code>. * is a field that must be there.</p>
${operations.join("\n")}
<h2>Schemas</h2>
${schemas.join("\n")}
</body></html>
`;
}

function operationOf(title: string, operation: Json): string {
  const { summary, parameters, requestBody, responses } = operation;
  const fields = (Array.isArray(parameters) ? parameters : []).filter(isRecord);
  const named = fields.map(({ name, required, schema, description, in: place }) =>
    field(`${text(name)} (${text(place)})`, { description, ...(isRecord(schema) ? schema : {}) }, required === true),
  );
  const answers = Object.entries(isRecord(responses) ? responses : {}).filter(([status]) => /^\d+$/.test(status));
  return `<details><summary><code>${escaped(title)}</code> ${escaped(text(summary))} <i>${escaped(text(operation["x-berth-scope"]))}</i></summary>
${named.length === 0 ? "" : `<h4>Parameters</h4><ul>${named.join("")}</ul>\n`}${bodyOf("Body", requestBody)}${answers
    .map(([status, answer]) => bodyOf(`Answer ${status}`, answer))
    .join("")}</details>`;
}

function bodyOf(title: string, body: unknown): string {
  if (!isRecord(body)) return "";
  const contents = Object.entries(recordAt(body, "content"));
  if (contents.length === 0) return `<h4>${escaped(title)}</h4>without a body\n`;
  return contents
    .map(
      ([type, content]) =>
        `<h4>${escaped(title)}: ${escaped(type)}</h4>${shapeOf(recordAt({ content }, "content")["schema"])}\n`,
    )
    .join("");
}

/** The form of a value: the fields of a map, else its type. */
function shapeOf(schema: unknown): string {
  const fields = fieldsOf(schema);
  return fields === "" ? `<code>${typeOf(schema)}</code>` : fields;
}

function fieldsOf(schema: unknown): string {
  if (!isRecord(schema)) return "";
  const { properties, items, required, anyOf } = schema;
  if (Array.isArray(anyOf)) return anyOf.map(fieldsOf).join("");
  if (isRecord(items)) return fieldsOf(items);
  if (!isRecord(properties)) return "";
  const needed: readonly unknown[] = Array.isArray(required) ? required : [];
  return `<ul>${Object.entries(properties)
    .map(([name, inner]) => field(name, isRecord(inner) ? inner : {}, needed.includes(name)))
    .join("")}</ul>`;
}

function field(name: string, schema: Json, isNeeded: boolean): string {
  const fallback =
    schema["default"] === undefined ? "" : `, else <code>${escaped(JSON.stringify(schema["default"]))}</code>`;
  const about = text(schema["description"]);
  return `<li><code>${escaped(name)}</code>${isNeeded ? "*" : ""} ${typeOf(schema)}${fallback}${about === "" ? "" : `: ${escaped(about)}`}${fieldsOf(schema)}</li>`;
}

/** As text of the page. */
function typeOf(schema: unknown): string {
  if (!isRecord(schema)) return "anything";
  const { $ref, enum: words, const: word, anyOf, type, items, additionalProperties } = schema;
  if (typeof $ref === "string") {
    const name = escaped($ref.slice($ref.lastIndexOf("/") + 1));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (Array.isArray(words)) return escaped(words.map((each) => JSON.stringify(each)).join(" | "));
  if (word !== undefined) return escaped(JSON.stringify(word));
  if (Array.isArray(anyOf)) return anyOf.map(typeOf).join(" | ");
  if (type === "array") return `list of ${typeOf(items)}`;
  if (type === "object" && isRecord(additionalProperties)) return `map of ${typeOf(additionalProperties)}`;
  if (type === "object") return "map";
  if (Array.isArray(type)) return escaped(type.join(" | "));
  return typeof type === "string" ? escaped(type) : "anything";
}

function recordAt(value: Json, key: string): Json {
  const inner = value[key];
  return isRecord(inner) ? inner : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function escaped(value: string): string {
  return value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
