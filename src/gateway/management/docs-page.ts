import type { openApiDocument } from "../../api/management/openapi.ts";
import { isRecord } from "../../lib/record.ts";

/** The management API for people: one page without scripts or anything from elsewhere. */
export function docsPage(document: ReturnType<typeof openApiDocument>): string {
  const rows: string[] = [];
  const paths = isRecord(document["paths"]) ? document["paths"] : {};
  for (const [path, methods] of Object.entries(paths)) {
    if (!isRecord(methods)) continue;
    for (const [method, operation] of Object.entries(methods)) {
      if (!isRecord(operation)) continue;
      const scope = text(operation["x-berth-scope"]);
      rows.push(
        `<tr><td><code>${method.toUpperCase()}</code></td><td><code>${escaped(path)}</code></td><td>${escaped(scope)}</td><td>${escaped(text(operation["summary"]))}</td></tr>`,
      );
    }
  }
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Berth API</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884;vertical-align:top}code{font-size:.95em}</style></head>
<body><h1>Berth API</h1>
<p>The whole of it, with the schema of every body, is <a href="/api/openapi.json">/api/openapi.json</a> (OpenAPI 3.1).
Programs send <code>Authorization: Bearer svc_…</code> where authentication is on. Errors are
<code>{"error":{"code","message","type","details"}}</code>.</p>
<table><thead><tr><th>method</th><th>path</th><th>scope</th><th>what it does</th></tr></thead><tbody>
${rows.join("\n")}
</tbody></table></body></html>
`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function escaped(value: string): string {
  return value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
